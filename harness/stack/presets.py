"""What ``DEBUG=`` means: names of ``presets.yaml``, and the environment that they give to training containers."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

import yaml

from harness.errors import BadSetting


@dataclass(frozen=True)
class Preset:
    """One name that ``DEBUG=`` takes.

    Attributes:
        shows, costs, since: for people.
        hook: the part of ``harness.hooks`` that it switches on, or "".
    """

    name: str
    shows: str
    costs: str
    since: str
    hook: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@lru_cache
def presets() -> dict[str, Preset]:
    """All presets by name, in the table's order."""
    text = resources.files("harness.stack").joinpath("presets.yaml").read_text(encoding="utf-8")
    return {name: Preset(name=name, **row) for name, row in yaml.safe_load(text).items()}


def chosen(debug: str) -> tuple[Preset, ...]:
    """The presets of a value of ``DEBUG``, each once, in the table's order.

    Raises:
        BadSetting: a name isn't in the table.
    """
    names = [name.strip() for name in debug.split(",") if name.strip()]
    known = presets()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise BadSetting(
                f"DEBUG={debug}: there is no preset `{name}`; there are {', '.join(known)}.",
                mend=f"make up DEBUG={near[0] if near else 'recorder,faulthandler'}   # or without DEBUG=; "
                "make settings says where the value came from",
            )
    return tuple(preset for preset in known.values() if preset.name in names)


def environment(chosen_presets: tuple[Preset, ...]) -> dict[str, str]:
    """The variables that these presets set in a container."""
    variables = {name: value for preset in chosen_presets for name, value in preset.variables.items()}
    hooks = [preset.hook for preset in chosen_presets if preset.hook]
    return variables | ({"DRYDOCK_HOOKS": ",".join(hooks)} if hooks else {})


def write_environment(path: Path, variables: dict[str, str]) -> None:
    """Write what Compose reads as an ``env_file``; no value of ours needs quotes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in variables.items()), encoding="utf-8")
