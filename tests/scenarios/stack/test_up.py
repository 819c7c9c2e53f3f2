"""`up` brings the stack up, changes nothing that is right, and heals what is broken."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import CLONE, HARNESS, Stack, docker, wait_for

pytestmark = pytest.mark.docker


def test_up_ends_with_where_everything_is_and_what_to_type_next(up: Stack) -> None:
    ended = up.run("up").ok()
    for text in (f"127.0.0.1:{up.settings['PORT']}/v1", "smollm2-135m", "api_key", "ray_token", "make check"):
        assert text in ended.stdout
    assert up.key() not in ended.stdout + ended.stderr


def test_up_again_changes_nothing(up: Stack) -> None:
    before = up.ids()
    ended = up.run("up", "--json").ok().json()
    assert ended["changed"] == []
    assert up.ids() == before
    assert {s["service"]: s["condition"] for s in ended["services"]} == {
        "inference": "ok",
        "ray-head": "ok",
        "dev": "ok",
    }


def test_the_server_answers_to_every_name_in_any_letter_case_and_to_no_other(up: Stack) -> None:
    for name in ("smollm2-135m", "SmolLM2-135M", "huggingfacetb/smollm2-135m-instruct"):
        assert chat(up, name)["choices"][0]["message"]["content"], name
    assert chat(up, "gpt-4o")["error"]["code"] == "model_not_found"


def chat(stack: Stack, model: str) -> Any:
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Say hello."}]}
    return stack.ask("/v1/chat/completions", body)


def test_containers_have_no_more_rights_than_they_need(up: Stack) -> None:
    for service in ("inference", "ray-head", "dev"):
        facts = json.loads(docker("inspect", up.container(service)))[0]
        host = facts["HostConfig"]
        assert facts["Config"]["User"].split(":")[0] not in ("", "0", "root"), service
        assert host["CapDrop"] == ["ALL"], service
        assert not host["CapAdd"], service
        assert not host["Privileged"], service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
        assert host["Init"] is True, service
        assert host["RestartPolicy"]["Name"] in ("", "no"), service
        assert not any("docker.sock" in json.dumps(mount) for mount in facts["Mounts"]), service
        for bindings in (facts["NetworkSettings"]["Ports"] or {}).values():
            assert all(binding["HostIp"] == "127.0.0.1" for binding in bindings or []), service
        # What runs in it has no rights either: the effective set of its first process is empty.
        status = up.execute(service, "grep", "CapEff", "/proc/1/status")
        assert int(status.split()[1], 16) == 0, service


def test_keys_are_files_for_the_containers_user_alone(up: Stack) -> None:
    folder = CLONE / ".drydock" / up.project / "secrets"
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path.name
    secrets = [up.key("api_key"), up.key("ray_token")]
    for service in ("inference", "ray-head", "dev"):
        container = up.container(service)
        seen = docker("inspect", container) + docker("logs", container)
        image = json.loads(docker("inspect", container))[0]["Image"]
        seen += docker("history", "--no-trunc", image) + docker("inspect", image)
        assert not [secret for secret in secrets if secret in seen], service
    written = "".join(p.read_text() for p in folder.parent.glob("*") if p.is_file())
    assert not [secret for secret in secrets if secret in written]


def test_the_workspace_is_the_same_folder_in_every_ray_node(up: Stack, workspace: Path) -> None:
    (workspace / "note.txt").write_text("seen by all")
    for service in ("ray-head", "dev"):
        assert up.execute(service, "cat", "/workspace/note.txt") == "seen by all"


@pytest.mark.parametrize(
    ("break_it", "condition", "said"),
    [
        (["kill"], "exited", "SIGKILL"),
        (["kill", "--signal", "STOP"], "stopped", "SIGSTOP"),
        (["pause"], "paused", "docker pause"),
        (["rm", "--force"], "missing", "not created"),
    ],
    ids=["killed", "stopped by a signal", "paused", "removed"],
)
def test_a_broken_server_is_told_and_healed(up: Stack, break_it: list[str], condition: str, said: str) -> None:
    before = up.ids()
    docker(*break_it, up.container("inference"))
    told = up.run("status", "--json")
    assert told.code == 1
    service = next(s for s in told.json()["services"] if s["service"] == "inference")
    assert service["condition"] == condition
    assert said in service["detail"]
    healed = up.run("up", "--json").ok().json()
    assert healed["changed"] == ["inference"]
    assert chat(up, "smollm2-135m")["choices"]
    after = up.ids()
    assert {s: v for s, v in after.items() if s != "inference"} == {s: v for s, v in before.items() if s != "inference"}


def test_a_stopped_engine_behind_a_living_gateway_is_told_and_healed(up: Stack) -> None:
    container = up.container("inference")
    listing = json.loads(json.dumps(docker("top", container, "-eo", "pid,args"))).splitlines()
    engine = next(int(row.split()[0]) for row in listing if "llamacpp_server" in row)
    subprocess.run(["kill", "-STOP", str(engine)], check=True)
    service = next(s for s in up.run("status", "--json").json()["services"] if s["service"] == "inference")
    assert service["condition"] == "stopped"
    assert up.run("up", "--json").ok().json()["changed"] == ["inference"]


def test_a_container_that_lost_its_network_is_told_and_healed(up: Stack) -> None:
    docker("network", "disconnect", "--force", f"{up.project}_default", up.container("inference"))
    service = next(s for s in up.run("status", "--json").json()["services"] if s["service"] == "inference")
    assert "network" in service["detail"]
    assert up.run("up", "--json").ok().json()["changed"] == ["inference"]
    assert chat(up, "smollm2-135m")["choices"]


def test_a_network_that_was_cleaned_away_is_made_anew(up: Stack) -> None:
    docker("stop", "--time", "1", *(up.container(service) for service in ("dev", "ray-head", "inference")))
    docker("network", "rm", f"{up.project}_default")
    up.run("up").ok()
    assert up.run("status").code == 0
    assert chat(up, "smollm2-135m")["choices"]


def test_what_a_healed_server_left_is_kept(up: Stack) -> None:
    docker("kill", up.container("inference"))
    up.run("up").ok()
    newest = max((up.folder / "runs").glob("*-heal*"), key=lambda path: path.stat().st_mtime)
    assert "ready" in (newest / f"{up.project}-inference-1.log").read_text()
    assert json.loads((newest / "services.json").read_text())[0]["condition"] == "exited"


def test_two_at_once_do_not_undo_each_other(up: Stack) -> None:
    docker("kill", up.container("inference"))
    both = [
        subprocess.Popen(
            [str(HARNESS), "up"],
            env=up.environment(),
            cwd=CLONE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=600) for process in both]
    codes = sorted(process.returncode for process in both)
    # The second was refused, or came so late that everything was up again.
    assert codes in ([0, 3], [0, 0]), outputs
    if codes == [0, 3]:
        refused = next(out for out, process in zip(outputs, both, strict=True) if process.returncode == 3)
        assert "Another command is changing the stack" in refused[1]
    assert up.run("status").code == 0


def test_ctrl_c_leaves_a_state_from_which_up_works(up: Stack) -> None:
    docker("rm", "--force", up.container("inference"), up.container("ray-head"))
    process = subprocess.Popen(
        [str(HARNESS), "up"], env=up.environment(), cwd=CLONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    listed = ["ps", "-aq", "--filter", f"label=com.docker.compose.project={up.project}"]
    wait_for("the first container to be made anew", lambda: len(docker(*listed).split()) > 1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    up.run("up").ok()
    assert up.run("status").code == 0


def test_down_keeps_keys_and_up_brings_the_same_stack_back(up: Stack) -> None:
    key = up.key()
    up.run("down").ok()
    assert up.ids() == {}
    down = up.run("status")
    assert down.code == 1
    assert "make up" in down.stdout
    refused = up.run("shell")
    assert refused.code == 1
    assert "isn't up" in refused.stderr
    up.run("up").ok()
    assert up.key() == key
