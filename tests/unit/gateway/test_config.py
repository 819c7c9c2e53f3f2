"""Settings come from the environment, and wrong ones are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.config import ConfigError, load_config
from gateway.engine_process import EngineProcess
from gateway.engines import command_of, environment_of
from tests.unit.gateway.support import make_config


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    key = tmp_path / "api_key"
    key.write_text("secret\n")
    return {
        "ENGINE": "llamacpp",
        "ENGINE_START": '{"command": ["{python}", "serve", "{model}"], "counters": ["a:b"]}',
        "MODEL_PATH": "/models/m.gguf",
        "MODEL_NAMES": '["smol", "Org/Smol", "smol"]',
        "API_KEY_FILE": str(key),
        # As Compose passes on what is not set.
        "CONTEXT": "",
        "THREADS": "",
        "ENGINE_ARGS": "",
    }


def test_a_plain_start(environment: dict[str, str]) -> None:
    config = load_config(environment)
    assert config.model_names == ("smol", "Org/Smol")
    assert config.served_name == "smol"
    assert config.api_key == "secret"
    assert config.context is None
    assert config.threads is None
    assert config.port == 8080


def test_engine_args_are_words(environment: dict[str, str]) -> None:
    environment["ENGINE_ARGS"] = """--set 'verbosity=3' --slots 4"""
    assert load_config(environment).engine_args == ("--set", "verbosity=3", "--slots", "4")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINE", ""),
        ("ENGINE_START", ""),
        ("ENGINE_START", "[]"),
        ("ENGINE_START", "{}"),
        ("ENGINE_START", '{"command": "serve"}'),
        ("ENGINE_START", '{"command": [1]}'),
        ("ENGINE_START", '{"command": ["serve"], "environment": {"A": 1}}'),
        ("ENGINE_START", '{"command": ["serve"], "counters": {}}'),
        ("MODEL_PATH", ""),
        ("MODEL_NAMES", ""),
        ("MODEL_NAMES", "smol"),
        ("MODEL_NAMES", "[]"),
        ("MODEL_NAMES", "[1]"),
        ("CONTEXT", "many"),
        ("CONTEXT", "3"),
        ("THREADS", "0"),
        ("THREADS", "-1"),
        ("ENGINE_ARGS", "--set 'a"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], name: str, value: str) -> None:
    environment[name] = value
    with pytest.raises(ConfigError, match=name):
        load_config(environment)


def test_without_a_key_nothing_starts(environment: dict[str, str], tmp_path: Path) -> None:
    environment["API_KEY_FILE"] = str(tmp_path / "none")
    with pytest.raises(ConfigError, match="Without a key nothing is served"):
        load_config(environment)
    (tmp_path / "none").write_text(" \n")
    with pytest.raises(ConfigError, match="empty"):
        load_config(environment)


@pytest.mark.parametrize("word", ["{key}", "{", "{0}", "{model.x}", "{model[a]}"])
def test_a_placeholder_that_there_is_not(environment: dict[str, str], word: str) -> None:
    environment["ENGINE_START"] = json.dumps({"command": ["serve", word]})
    with pytest.raises(ConfigError, match="ENGINE_START"):
        command_of(load_config(environment))


@pytest.mark.parametrize("engine", ["llamacpp", "sglang", "vllm"])
def test_the_launch_line(engine: str) -> None:
    config = make_config(engine, context=512, image_args=("--from-image",), engine_args=("--from-user", "x"))
    command = command_of(config)
    assert "/models/m" in command
    assert "smollm2-135m" in command
    assert "512" in command
    # The user's own come last: the last one wins in both engines' parsers.
    assert command[-3:] == ["--from-image", "--from-user", "x"]
    assert not any("the-key" in word for word in command)


def test_threads_asked_for_reach_either_engine() -> None:
    llamacpp, vllm = make_config("llamacpp", threads=3), make_config("vllm", threads=3)
    command = command_of(llamacpp)
    assert command[command.index("--threads") + 1] == "3"
    assert environment_of(vllm)["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in environment_of(make_config("vllm"))


def test_a_stopped_process_of_the_engines_session_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid, session, state in ((42, 42, "S"), (50, 42, "T"), (60, 60, "T")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(
            f"{pid} (py (x) thon) {state} 1 {session} {session} 0 -1 0 0 0 0 0 150 50\n"
        )
    (tmp_path / "meminfo").write_text("")
    monkeypatch.setattr("gateway.engine_process.PROC", tmp_path)
    monkeypatch.setattr(EngineProcess, "pid", 42)
    process = EngineProcess(make_config())
    assert process.stopped_process() == 50
    monkeypatch.setattr("gateway.engine_process.TICKS_PER_SECOND", 100)
    assert process.cpu_seconds() == 4.0
    (tmp_path / "50" / "stat").write_text("50 (python) S 1 42 42 0 -1 0 0 0 0 0 150 50\n")
    assert process.stopped_process() is None
