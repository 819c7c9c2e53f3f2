"""The variables that Compose reads."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from harness.models import ModelFiles
from harness.settings import load_settings
from harness.stack.limits import Limits
from harness.stack.plan import make_plan
from harness.stack.rendering import compose_for as compose_for_plan
from harness.stack.rendering import stamp, variables, write_env_file

SERVED = ModelFiles(
    host_path=Path("/m/x.gguf"),
    mount_target="/models/x.gguf",
    container_path="/models/x.gguf",
    names=("smollm2-135m", "HuggingFaceTB/SmolLM2"),
    format="gguf",
    revision=None,
    origin="this machine",
    size=1,
    context=8192,
)


def render(tmp_path: Path, served: ModelFiles | None = SERVED, **environ: str) -> dict[str, str]:
    (tmp_path / "examples").mkdir(exist_ok=True)
    plan = make_plan(load_settings(environ=environ))
    return variables(
        plan, dev_image="drydock/dev:1", inference_image="drydock/llamacpp:2", served=served, keys=tmp_path
    )


def test_no_secret_is_among_the_variables(tmp_path: Path) -> None:
    values = render(tmp_path, HF_TOKEN="hf_canary", OPENAI_API_KEY="sk-canary")
    assert "canary" not in str(values)


def test_a_key_that_is_written_anew_is_seen(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("the old one")
    before = render(tmp_path)
    assert render(tmp_path) == before
    os.utime(tmp_path / "api_key", ns=(1, 2_000_000_000_000_000_000))
    assert render(tmp_path) != before
    assert "the old one" not in str(before)


def test_an_external_server_brings_no_inference(tmp_path: Path) -> None:
    values = render(tmp_path, None, ENGINE="external", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert values["COMPOSE_PROFILES"] == ""
    assert "DRYDOCK_INFERENCE_IMAGE" not in values
    assert (values["DRYDOCK_RELAY_PORT"], values["DRYDOCK_RELAY_TARGET"]) == ("9", "127.0.0.1:9")


def test_an_external_servers_own_list_decides_unless_a_model_is_named(tmp_path: Path) -> None:
    external = {"ENGINE": "external", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert render(tmp_path, None, **external)["DRYDOCK_MODEL_NAME"] == ""
    assert render(tmp_path, None, **external, MODEL="gpt-4o")["DRYDOCK_MODEL_NAME"] == "gpt-4o"


def test_profiles_follow_the_services(tmp_path: Path) -> None:
    assert render(tmp_path, WORKERS="2")["COMPOSE_PROFILES"] == "inference,workers"


def test_the_stamp_changes_with_a_value_and_with_a_compose_file(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "compose.yaml").write_text("a: 1")
    compose = compose_for_plan(make_plan(load_settings(environ={})))
    first = stamp(compose, {"A": "1"})
    assert first == stamp(compose, {"A": "1"})
    assert first != stamp(compose, {"A": "2"})
    (tmp_path / "compose.yaml").write_text("a: 2")
    assert first != stamp(compose, {"A": "1"})


def test_the_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "compose.env"
    write_env_file(path, {"A": 'b"$c'})
    assert path.read_text().splitlines()[1] == 'A="b\\"\\$c"'
    assert [p.name for p in path.parent.iterdir()] == ["compose.env"]


def test_limits_are_rendered_and_no_limit_is_too(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    plan = make_plan(load_settings(environ={}))
    images = {"dev_image": "drydock/dev:1", "inference_image": "", "served": None, "keys": tmp_path}
    names = ("DRYDOCK_MEMORY", "DRYDOCK_PIDS", "DRYDOCK_CPUS")
    values = variables(replace(plan, limits=Limits(memory=2**31, pids=9000, cpus=1.5)), **images)  # type: ignore[arg-type]
    assert [values[name] for name in names] == ["2147483648", "9000", "1.5"]
    values = variables(plan, **images)  # type: ignore[arg-type]
    assert [values[name] for name in names] == ["0", "-1", "0"]
