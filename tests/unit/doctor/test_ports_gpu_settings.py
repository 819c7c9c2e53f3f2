"""Ports, GPUs and settings."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.doctor.context import Context
from harness.doctor.findings import Finding
from harness.doctor.model import Model
from harness.doctor.probing import Answer
from harness.doctor.topics import settings
from harness.doctor.topics.gpu import Gpus
from harness.doctor.topics.gpu import decide as decide_gpus
from harness.doctor.topics.ports import CHECKS, Port, bound_by_dev, decide, gather
from harness.doctor.topics.settings import decide_model, decide_origins
from harness.errors import UnknownModel
from harness.places import write_whole
from harness.settings import load_settings
from harness.stack.machines import worker


def test_free_ours_and_taken_ports() -> None:
    taken = Port("PORT", 8080, "taken", "PORT=8080 is taken by x.", "make up PORT=8081")
    findings = decide([taken, Port("DASHBOARD_PORT", 8265, "ours")], engine_answers=True)
    assert [f.sign for f in findings] == ["bad", "ok"]
    assert findings[0].mend == "make up PORT=8081"
    same = [Port("PORT", 1, "free"), Port("DASHBOARD_PORT", 1, "free")]
    assert decide(same, engine_answers=True)[0].sign == "bad"
    # Without the engine nobody knows the stack's own ports.
    assert [f.sign for f in decide([taken], engine_answers=False)] == ["warn"]


def test_whose_a_published_port_is() -> None:
    published = {8080: ("drydock-inference-1", "drydock"), 8265: ("other-1", "other"), 9000: ("lonely", "")}
    assert gather("PORT", 8080, "drydock", published).state == "ours"
    assert "container other-1 of the Compose project other" in gather("PORT", 8265, "drydock", published).text
    assert "docker stop lonely" in gather("PORT", 9000, "drydock", published).mend


def test_what_dev_binds_itself_where_machines_may_join_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").mkdir(exist_ok=True)
    dev = SimpleNamespace(name="drydock-dev-1", service="dev", running=True, published_ports=())
    monkeypatch.setattr("harness.docker_engine.containers", lambda *_: [dev])
    settings = load_settings(environ={"SHARE": "10.0.0.1", "DASHBOARD_PORT": "8266"})
    held = bound_by_dev(settings, None)
    assert held == {8266: ("drydock-dev-1", settings.project)}
    assert gather("DASHBOARD_PORT", 8266, settings.project, held).state == "ours"
    assert bound_by_dev(load_settings(environ={}), None) == {}


def test_a_node_of_another_s_cluster_publishes_nothing(tmp_path: Path) -> None:
    """So it is all the same who has the ports of a stack there."""
    settings = load_settings(environ={})
    write_whole(settings.state_dir / worker.RECORD, '{"head": "10.0.0.1:6379"}')
    (tmp_path / "compose.yaml").touch()
    [finding] = CHECKS[0].look(Context(settings=settings, clone=tmp_path))
    assert finding.sign == "note"
    assert "10.0.0.1:6379" in finding.text


def test_a_listening_program_has_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]
        assert gather("PORT", number, "drydock", {}).state == "taken"
    assert gather("PORT", number, "drydock", {}).state == "free"


NO_GPU = Gpus(cards=0, listing=Answer(None), amd=False, in_docker=None)
H100 = Answer(0, "NVIDIA H100 80GB HBM3, 81559 MiB, 570.124.06\n")


def test_no_gpu_is_nothing_to_mend() -> None:
    findings = decide_gpus(NO_GPU)
    assert [f.sign for f in findings] == ["note"]
    assert "engines for the CPU are used" in findings[0].text
    assert "AMD" in decide_gpus(replace(NO_GPU, amd=True))[0].text


@pytest.mark.parametrize(("in_docker", "warned"), [(True, False), (False, True), (None, False)])
def test_a_gpu_and_whether_docker_can_hand_it_on(in_docker: bool | None, warned: bool) -> None:
    findings = decide_gpus(replace(NO_GPU, cards=1, listing=H100, in_docker=in_docker))
    assert findings[0].text == "NVIDIA H100 80GB HBM3, 81559 MiB, driver 570.124.06"
    assert any(f.sign == "warn" for f in findings) is warned


@pytest.mark.parametrize(
    ("listing", "text"),
    [
        (Answer(9, "Failed to initialize NVML: Driver/library version mismatch\n"), "version mismatch"),
        (Answer(None, late=True), "doesn't answer"),
        (Answer(None), "without a driver"),
    ],
)
def test_a_driver_that_fails(listing: Answer, text: str) -> None:
    finding = decide_gpus(replace(NO_GPU, cards=1, listing=listing))[0]
    assert finding.sign == "warn"
    assert text in finding.text


def test_exported_variables_are_named() -> None:
    environ = {"MODEL": "qwen3-0.6b", "HF_TOKEN": "hf_abc", "PORT": "9000", "DRYDOCK_MAKE_VARS": "PORT"}
    findings = decide_origins(load_settings(environ=environ))
    assert [f.sign for f in findings] == ["note", "note"]  # PORT was typed, so it takes nobody by surprise
    assert "MODEL=qwen3-0.6b" in findings[0].text
    assert findings[0].mend.startswith("unset MODEL")
    assert "hf_abc" not in str(findings)
    assert [f.sign for f in decide_origins(load_settings(environ={}))] == ["ok"]


def test_a_provider_s_key_is_no_news_without_a_provider() -> None:
    environ = {"OPENAI_API_KEY": "sk-1"}
    assert [f.sign for f in decide_origins(load_settings(environ=environ))] == ["ok"]
    external = load_settings(environ={**environ, "ENGINE": "external"})
    assert any("OPENAI_API_KEY" in f.text for f in decide_origins(external))


def test_models() -> None:
    assert decide_model(Model("x", problem=UnknownModel("MODEL=x is no model.")), "vllm")[0].sign == "bad"
    assert "to be downloaded" in decide_model(Model("a", "hub", 100), "vllm")[0].text
    assert "here" in decide_model(Model("a", "hub", 100, here=True), "vllm")[0].text


def test_a_workspace_that_is_not_there(tmp_path: Path) -> None:
    (check,) = [check for check in settings.CHECKS if check.id == "settings.plan"]
    (tmp_path / "compose.yaml").write_text("")

    def look(workspace: Path) -> list[Finding]:
        return check.look(Context(load_settings(environ={"WORKSPACE": str(workspace)}), clone=tmp_path))

    tmp_path.chmod(0o777)
    assert [finding.sign for finding in look(tmp_path)] == ["ok"]
    (finding,) = look(tmp_path / "gone")
    assert finding.sign == "bad"
    assert "gone" in finding.text
