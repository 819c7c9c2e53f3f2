"""Where settings come from: a command's flags, make's command line, the environment, the file ``drydock.env``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import BadSetting, nearest
from harness.places import TYPED, home
from harness.settings.reading import BadValue
from harness.settings.values import Origin, Settings, environment_name, environment_names

# Whom a command is about. A search that found nothing must not become the whole machine.
_WHOM = frozenset({"pids", "containers", "pid", "hosts"})


def for_delegated(settings: Settings) -> dict[str, str]:
    """What tells a command that is run for this one, in a container, how this one was typed: for its environment."""
    names = environment_names()
    return {TYPED: json.dumps({names[field]: text for field, text in settings.typed().items()})}


def load_settings(flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read all settings.

    Args:
        flags: values given as flags of the command, by field name; None values are as good as absent.
        environ: the environment, by default the process's own.

    Raises:
        BadSetting: a value can't be used; the message names the setting, the value's origin and the reason.
    """
    environment = os.environ if environ is None else environ
    from_make = set(environment.get("DRYDOCK_MAKE_VARS", "").split())
    file_values = _read_env_file(home() / "drydock.env")
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for field, name in environment_names().items():
        given = (flags or {}).get(field)
        if field in _WHOM and (given == "" or (name in from_make and environment.get(name) == "")):
            raise BadSetting(f"{name}= is empty: nobody is named. Leave it out where everybody is meant.")
        if given is not None:
            values[field], origins[field] = given, "flag"
        # An empty value is as good as none: `make up MODEL=` means the default.
        elif environment.get(name):
            values[field], origins[field] = environment[name], "make" if name in from_make else "environment"
        elif file_values.get(name):
            values[field], origins[field] = file_values[name], "drydock.env"
    try:
        texts = _as_typed(values, environment)
        return Settings(**values, given=frozenset(values), origins=origins, texts=texts)
    except BadValue as error:
        raise BadSetting(
            f"{environment_name(error.field)}={values.get(error.field)!s} (from {origins.get(error.field, 'default')}) "
            f"can't be used: {error.reason}"
        ) from None


def _as_typed(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Values as text; where another command handed them on, only what was typed there, with the paths of there."""
    texts = {
        field: ("1" if value else "0") if isinstance(value, bool) else str(value) for field, value in values.items()
    }
    try:
        there = json.loads(environment[TYPED])
        return {field: str(there[name]) for field, name in environment_names().items() if name in there}
    except (KeyError, ValueError, TypeError):
        return texts


def _read_env_file(path: Path) -> dict[str, str]:
    """``NAME=value`` lines; ``#`` opens a comment line; one pair of quotes around a value is taken off."""
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadSetting(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise BadSetting(f"{path.name}, line {number}: not UTF-8") from None
    known = set(environment_names().values())
    values: dict[str, str] = {}
    for number, text in enumerate(lines, start=1):
        stripped = text.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not equals or name not in known:
            near = nearest(name.upper(), sorted(known)) if equals else ""
            reason = (
                f"{name} is no setting{f'; did you mean {near}=?' if near else ''}"
                if equals and name
                else "not NAME=value"
            )
            raise BadSetting(f"{path.name}, line {number}: {reason}")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[name] = value
    return values
