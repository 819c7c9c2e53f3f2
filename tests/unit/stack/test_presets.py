"""What DEBUG= means, and what of it reaches the containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness import hooks
from harness.errors import BadSetting
from harness.settings import load_settings, settings_fields
from harness.stack.plan import make_plan
from harness.stack.presets import chosen, environment, presets, write_environment
from harness.stack.rendering import compose_for
from harness.stack.summary import describe, rows
from tests.unit.stack.test_rendering import render

CLONE = Path(__file__).parents[3]


def test_every_preset_says_what_it_costs_and_sets_something() -> None:
    for preset in presets().values():
        assert preset.shows, preset.name
        assert preset.costs, preset.name
        assert preset.since, preset.name
        assert preset.variables, preset.name
        # So that Compose reads each value as it stands.
        assert all(value.isascii() and " " not in value for value in preset.variables.values())
        assert preset.hook in {"", *hooks._PARTS}


def test_the_setting_names_every_preset() -> None:
    assert settings_fields()["debug"].metadata["description"].endswith(": " + ", ".join(presets()))


def test_names_are_taken_once_in_the_tables_order() -> None:
    assert [preset.name for preset in chosen(" recorder,nccl,,nccl ")] == ["nccl", "recorder"]
    assert chosen("") == ()


@pytest.mark.parametrize("debug", ["recordr", "1", "nccl,true", "NCCL"])
def test_an_unknown_name_is_refused_with_the_list(debug: str, tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    with pytest.raises(BadSetting, match="nccl, detail, recorder, sync, asyncio, faulthandler, patient") as caught:
        make_plan(load_settings(environ={"DEBUG": debug}))
    assert f"DEBUG={debug}" in caught.value.what
    assert "make up DEBUG=" in caught.value.mend


def test_hooks_of_several_presets_come_together() -> None:
    variables = environment(chosen("faulthandler,recorder"))
    assert variables["DRYDOCK_HOOKS"] == "recorder,faulthandler"
    assert variables["PYTHONFAULTHANDLER"] == "1"
    assert "DRYDOCK_HOOKS" not in environment(chosen("nccl"))


def test_no_preset_sets_what_does_nothing() -> None:
    assert not any("NCCL_TIMEOUT" in preset.variables for preset in presets().values())


def test_without_debug_nothing_of_it_is_rendered(tmp_path: Path) -> None:
    assert not [name for name in render(tmp_path) if "DEBUG" in name]


def test_a_changed_preset_changes_what_compose_is_given_and_no_more(tmp_path: Path) -> None:
    plain, debugged = render(tmp_path), render(tmp_path, DEBUG="nccl")
    assert set(debugged) - set(plain) == {"DRYDOCK_DEBUG", "DRYDOCK_DEBUG_ENV"}
    assert {name: debugged[name] for name in plain} == plain
    assert json.loads(debugged["DRYDOCK_DEBUG"]) == {"NCCL_DEBUG": "INFO"}
    assert debugged != render(tmp_path, DEBUG="detail")


def test_every_container_for_training_gets_them_and_the_server_does_not(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    compose = compose_for(make_plan(load_settings(environ={"DEBUG": "sync"})))
    assert compose.files[-1].name == "debug.yaml"
    services = yaml.safe_load((CLONE / "docker/compose/debug.yaml").read_text())["services"]
    trained_in = {
        name
        for name, service in yaml.safe_load((CLONE / "compose.yaml").read_text())["services"].items()
        if "DRYDOCK_DEV_IMAGE" in service["image"]
    }
    assert set(services) == trained_in
    assert all(service["env_file"] == ["${DRYDOCK_DEBUG_ENV:?run make up}"] for service in services.values())


def test_up_and_status_name_them_with_their_costs(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    plan = make_plan(load_settings(environ={"DEBUG": "asyncio"}))
    assert [name for name, text in rows(plan, ()) if "Costs: " in text] == ["DEBUG asyncio"]
    assert describe(plan, ())["debug"] == {"asyncio": {"PYTHONASYNCIODEBUG": "1"}}


def test_the_file_holds_a_line_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "debug.env"
    write_environment(path, environment(chosen("sync,asyncio")))
    assert path.read_text() == "CUDA_LAUNCH_BLOCKING=1\nPYTHONASYNCIODEBUG=1\n"


def test_the_documentation_tells_the_same() -> None:
    text = (CLONE / "docs/hang-dump.md").read_text()
    for preset in presets().values():
        assert f"| `{preset.name}` | {preset.shows} | {preset.costs} | {preset.since} |" in text
