"""The commands that a verb prints as what to run next, as this person has to type them here.

A step that drops what was typed is about something else: another agent, or strangers' processes. So every one of them
goes through ``command_line``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence

import click

from harness.errors import BadSetting
from harness.places import TYPED, home, in_container
from harness.settings import Settings, environment_name, environment_names, settings_fields

_STEP = re.compile(r"^make ([a-z-]+)((?: [A-Z_]+=\S+)*)(.*)$", re.DOTALL)
# Flags that aren't called as their setting is.
_FLAGS = {"openai_base_url": "base_url", "json_output": "json"}
# Set in our containers by whoever made them; nobody typed these.
_OF_THE_CONTAINER = ("openai_base_url", "ray_address")


def through_make() -> bool:
    """Whether the person who typed this stands in a clone; a container's command may have been handed on from one."""
    return TYPED in os.environ or (not in_container() and (home() / "Makefile").is_file())


def command_line(verb: str, values: Mapping[str, object], *, by_make: bool | None = None) -> str:
    """A command with values by field name; by default through make in a clone, and with flags elsewhere."""
    given = {field: str(value) for field, value in values.items() if value is not None}
    if through_make() if by_make is None else by_make:
        return " ".join(
            ["make", verb, *(f"{environment_name(field)}={_quoted(value)}" for field, value in given.items())]
        )
    parts = [_program(), verb]
    for field, value in given.items():
        own = settings_fields().get(field)
        flag = f"--{_FLAGS.get(field, field).replace('_', '-')}"
        if own is not None and own.type is bool:
            parts += [flag] * (value not in ("0", "", "False"))
        else:
            parts.append(f"{flag} {_quoted(value)}")
    return " ".join(parts)


def _program() -> str:
    """The command, where no shell would find it by the way that leads there from the clone."""
    if shutil.which("harness") or not (home() / ".venv/bin/harness").is_file():
        return "harness"
    return ".venv/bin/harness"


def typed(settings: Settings, fields: Sequence[str]) -> dict[str, str]:
    """What this person typed of these fields."""
    given = settings.typed()
    if in_container() and TYPED not in os.environ:
        for field in _OF_THE_CONTAINER:
            if settings.origin(field) != "flag":
                given.pop(field, None)
    return {field: given[field] for field in fields if given.get(field)}


def not_pid(settings: Settings) -> None:
    """``PID`` is another verb's setting: left alone, it would have the whole machine dumped.

    Raises:
        BadSetting: it was typed.
    """
    if settings.origin("pid") == "make":
        raise BadSetting(
            f"PID={settings.pid} is for `attach` and `trace`; did you mean PIDS={settings.pid}?",
            consequence="Nothing was sampled.",
            mend=f"make hang-dump PIDS={settings.pid}",
        )


def as_typed_here(step: str, repeated: Mapping[str, str] | None = None) -> str:
    """A step that is a command of make's, with what is to be repeated, as it is typed here; any other as it is."""
    found = _STEP.match(step)
    if found is None or (takes := _takes(found[1])) is None:
        return step
    kept = {field: value for field, value in (repeated or {}).items() if field in takes}
    values = {**kept, **_assigned(found[2])}
    return command_line(found[1], values) + found[3]


def _takes(verb: str) -> set[str] | None:
    """What a verb can be told, by field; None for what is no verb: a sentence may begin with “make the client once”."""
    from harness.cli.main import VERBS, cli

    if verb not in VERBS:
        return None
    try:
        command = cli.get_command(click.Context(cli), verb)
    except ModuleNotFoundError:
        return set()  # in a container, which can't run it: nothing of what was typed here is known to fit
    return {str(parameter.name) for parameter in command.params} if command is not None else None


def assigned(step: str) -> dict[str, str]:
    """What a step sets, by field."""
    found = _STEP.match(step)
    return _assigned(found[2]) if found else {}


def _assigned(text: str) -> dict[str, str]:
    fields = {name: field for field, name in environment_names().items()}
    pairs = (part.partition("=") for part in text.split())
    return {fields.get(name, name.lower()): value for name, _, value in pairs}


def _quoted(value: str) -> str:
    """A value for a shell; the dots that stand for one's own stay readable."""
    return value if value in ("…",) or re.fullmatch(r"[\w@%+=:,./~…-]+", value) else shlex.quote(value)
