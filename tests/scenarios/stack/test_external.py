"""ENGINE=external: a server that already runs on this machine's own loopback is used under its own address."""

from __future__ import annotations

import json
from typing import Any

import psutil
import pytest

from tests.scenarios.stack.own import in_dev_and_in_a_task
from tests.support.harness import Ended, Stack, docker
from tests.support.model_process import ModelProcess

pytestmark = pytest.mark.docker

ASK = """
import os
from openai import OpenAI
client = OpenAI(max_retries=0)
def answer():
    return client.chat.completions.create(model="fake-135m", messages=[{"role": "user", "content": "Where?"}])
"""
ANSWER = "[os.environ['OPENAI_BASE_URL'], answer().choices[0].message.content]"


def check(stack: Stack, **settings: str) -> tuple[Ended, Any]:
    """Stages 1 and 2 on the user's own agent: how it ended, and its report."""
    ended = stack.run("check", "--json", AGENT="my_agent.py:MyAgent", DATA="my_data.jsonl", **settings)  # type: ignore[arg-type]
    return ended, ended.json()


def test_no_server_of_ours_is_started(own_stack: Stack) -> None:
    assert set(own_stack.ids()) == {"ray-head", "ray-worker", "dev", "host-relay"}
    ended = own_stack.run("up").ok()
    assert "everything is up already" in ended.stdout + ended.stderr
    assert own_stack.settings["OPENAI_BASE_URL"] in ended.stdout


def test_it_answers_in_dev_and_in_a_task_under_the_very_same_address(
    own_stack: Stack, own_server: ModelProcess
) -> None:
    expected = [own_server.url, own_server.text]
    assert in_dev_and_in_a_task(own_stack, ANSWER, before=ASK) == (expected, expected)


def test_an_agent_is_checked_against_it(own_stack: Stack) -> None:
    ended, report = check(own_stack)
    assert ended.code == 0, ended
    assert [stage["stage"] for stage in report["stages"]] == [1, 2]
    assert report["asked"]["base_url"] == own_stack.settings["OPENAI_BASE_URL"]
    # Nobody said which model; it is the one that the server has.
    assert report["asked"]["model"] == "fake-135m"


def test_its_key_is_kept_as_ours_are(own_stack: Stack, own_server: ModelProcess) -> None:
    assert own_stack.key() == own_server.key
    for service in own_stack.ids():
        container = own_stack.container(service)
        assert own_server.key not in docker("inspect", container) + docker("logs", container), service
    for ended in own_stack.history:
        assert own_server.key not in ended.stdout + ended.stderr
    written = [
        p for p in own_stack.folder.rglob("*") if p.is_file() and own_server.key in p.read_text(errors="replace")
    ]
    assert not written


def test_the_relay_has_no_more_rights_than_it_needs(own_stack: Stack) -> None:
    container = own_stack.container("host-relay")
    facts = json.loads(docker("inspect", container))[0]
    host = facts["HostConfig"]
    assert facts["Config"]["User"].split(":")[0] not in ("", "0", "root")
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert host["ReadonlyRootfs"] is True
    assert host["Init"] is True
    assert host["RestartPolicy"]["Name"] in ("", "no")
    # Of this machine it sees the network and nothing else: no file, no key.
    assert [mount["Destination"] for mount in facts["Mounts"]] == ["/run/drydock-relay"]
    pids = [int(row.split()[0]) for row in docker("top", container, "-eo", "pid").splitlines()[1:]]
    assert pids
    # Through a socket only: nobody on this machine or beyond reaches the server by it.
    listening = [c for c in psutil.net_connections("inet") if c.pid in pids and c.status == psutil.CONN_LISTEN]
    assert not listening


def test_a_server_that_went_and_came_again_is_reached_again(own_stack: Stack, own_server: ModelProcess) -> None:
    before = own_stack.ids()
    own_server.kill()
    try:
        gone, report = check(own_stack, STAGE="1")
        assert gone.code == 1
        assert own_server.url.removesuffix("/v1") in json.dumps(report)
        assert "Traceback" not in gone.stderr
    finally:
        own_server.start()
    back, _ = check(own_stack, STAGE="1")
    assert back.code == 0, back
    assert own_stack.ids() == before


def test_another_address_another_key_a_server_of_ours_and_back(own_stack: Stack, own_server: ModelProcess) -> None:
    by_name = f"http://localhost:{own_server.port}/v1"
    own_stack.run("up", OPENAI_BASE_URL=by_name, WORKERS="0").ok()
    expected = [by_name, own_server.text]
    assert in_dev_and_in_a_task(own_stack, ANSWER, before=ASK) == (expected, expected)

    first = own_server.restart(key="sk-another-key-9876543210")
    try:
        own_stack.run("up", OPENAI_BASE_URL=by_name, OPENAI_API_KEY=own_server.key, WORKERS="0").ok()
        assert in_dev_and_in_a_task(own_stack, ANSWER, before=ASK) == (expected, expected)
    finally:
        own_server.restart(key=first)

    ours = own_stack.run("up", "--json", ENGINE="llamacpp", OPENAI_BASE_URL="", OPENAI_API_KEY="", WORKERS="0").ok()
    assert "inference" in ours.json()["changed"]
    assert set(own_stack.ids()) == {"ray-head", "dev", "inference"}
    assert own_stack.key() != own_server.key
    body = {"model": "smollm2-135m", "max_tokens": 4, "messages": [{"role": "user", "content": "Say hello."}]}
    assert own_stack.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"]

    own_stack.run("up").ok()
    assert set(own_stack.ids()) == {"ray-head", "ray-worker", "dev", "host-relay"}
    assert own_stack.run("status").code == 0
