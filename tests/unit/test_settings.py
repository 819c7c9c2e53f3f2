"""Where a setting's value comes from, and what happens to one that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.places import home
from harness.settings import environment_names, load_settings, settings_fields


def test_a_flag_wins_over_the_environment_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "drydock.env").write_text("MODEL=from-file\nENGINE=vllm\nPORT=9001\n")
    settings = load_settings({"model": "from-flag"}, environ={"MODEL": "from-env", "ENGINE": "external"})
    assert (settings.model, settings.engine, settings.port) == ("from-flag", "external", 9001)
    assert [settings.origin(f) for f in ("model", "engine", "port", "workers")] == [
        "flag",
        "environment",
        "drydock.env",
        "default",
    ]


def test_a_variable_of_make_is_told_from_an_exported_one() -> None:
    settings = load_settings(environ={"MODEL": "a", "ENGINE": "vllm", "DRYDOCK_MAKE_VARS": "MODEL"})
    assert settings.origin("model") == "make"
    assert settings.origin("engine") == "environment"


@pytest.mark.parametrize("name", ["PIDS", "CONTAINERS", "PID", "HOSTS"])
def test_a_search_that_found_nobody_does_not_mean_everybody(name: str) -> None:
    with pytest.raises(BadSetting, match=f"{name}= is empty"):
        load_settings({}, environ={name: "", "DRYDOCK_MAKE_VARS": name})
    with pytest.raises(BadSetting, match=f"{name}= is empty"):
        load_settings({name.lower(): ""}, environ={})
    load_settings({}, environ={name: ""})  # exported for something else


def test_an_empty_value_means_the_default() -> None:
    assert load_settings(environ={"MODEL": ""}).model == "smollm2-135m"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ENGINE", "tensorrt", "llamacpp"),
        ("PORT", "http", "a whole number"),
        ("PORT", "70000", "65535"),
        ("WORKERS", "-1", "0<=x<=64"),
        ("PROJECT", "My Project", "small letters"),
        ("PROJECT", "_mine", "a letter or a digit"),
        ("NAMESPACE", "-x", "a letter or a digit"),
        ("PROJECT", "x" * 41, "40 characters"),
        ("JSON", "perhaps", "boolean"),
        ("GAP", "soon", "isn't a number"),
        ("GAP", "nan", "not a number"),
        ("GAP", "601", "0<=x<=600"),
        ("TIMEOUT", "0", "x>0"),
        ("MEMORY_FRACTION", "1", "0<=x<1"),
    ],
)
def test_a_bad_value_names_the_setting_its_origin_and_the_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load_settings(environ={name: value})
    assert caught.value.what.startswith(f"{name}={value} (from environment)")
    assert reason in caught.value.what
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"MODEL\n", "line 1: not NAME=value"),
        (b"=5\n", "line 1: not NAME=value"),
        (b"# x\nMODLE=a\n", "line 2: MODLE is no setting"),
        (b"MODEL=a\nDATA=\xff\xfe\n", "line 2: not UTF-8"),
    ],
)
def test_a_bad_line_of_the_file_is_named(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "drydock.env").write_bytes(text)
    with pytest.raises(BadSetting, match=reason):
        load_settings(environ={})


def test_the_file_takes_quotes_and_export(tmp_path: Path) -> None:
    (tmp_path / "drydock.env").write_text("export MODEL=\"a b\"\nCMD='echo $5'\n")
    settings = load_settings(environ={})
    assert (settings.model, settings.cmd) == ("a b", "echo $5")


def test_secrets_are_starred_wherever_settings_are_shown() -> None:
    settings = load_settings(environ={"HF_TOKEN": "hf_canary", "OPENAI_API_KEY": "sk-canary"})
    assert settings.hf_token is not None
    assert settings.hf_token.get_secret_value() == "hf_canary"
    shown = repr(settings) + str(settings.changed()) + settings.shown("hf_token")
    assert "canary" not in shown


def test_a_relative_path_is_taken_from_the_clone(tmp_path: Path) -> None:
    assert load_settings(environ={"WORKSPACE": "my agent"}).workspace == tmp_path / "my agent"
    assert load_settings(environ={"WORKSPACE": "~/x"}).workspace == Path.home() / "x"


def test_every_setting_says_what_it_is() -> None:
    assert all(settings_fields()[field].metadata["description"] for field in environment_names())


@pytest.mark.parametrize("name", ["RECORD", "REPLAY"])
def test_a_recording_among_the_runs_is_there_wherever_these_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNS", str(tmp_path))

    def place(value: str) -> Path | None:
        settings = load_settings(environ={name: value})
        return settings.record if name == "RECORD" else settings.replay

    assert place("runs/tape") == tmp_path / "tape"
    assert place("/runs/tape") == Path("/runs/tape")
    assert place("tapes/one") == home() / "tapes/one"
    assert place("") is None
