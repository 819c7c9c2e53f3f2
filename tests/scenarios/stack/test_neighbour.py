"""A neighbour that routes to this machine gets nothing out of any published service without its key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.harness import Stack, docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="makes a network namespace: needs root and ip"
    ),
]

NAME = "drydock-nb"
OURS, THEIRS = "10.213.7.1", "10.213.7.2"

# Every path that either service is known to have, and one that it hasn't.
SERVER_PATHS = [
    *("/", "/health", "/metrics", "/props", "/slots", "/tokenize", "/completion", "/infill", "/apply-template"),
    *("/v1/models", "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"),
    *("/lora-adapters", "/invocations", "/drydock/state", "/nothing"),
]
DASHBOARD_PATHS = [
    *("/", "/index.html", "/favicon.ico", "/nodes", "/logs", "/metrics", "/api/version", "/api/gcs_healthz"),
    *("/api/jobs/", "/api/v0/nodes", "/api/authentication_mode", "/worker/traceback", "/static/js/main.js", "/nothing"),
]
# Ray's own ports and the engine's, none of which is published.
UNPUBLISHED = {"inference": [8000], "ray-head": [6379, 8266, 10001, 52365], "dev": [52365]}

ASK = """
import json, sys, urllib.error, urllib.request
answers = {}
for url in json.load(sys.stdin):
    for method in ("GET", "POST"):
        try:
            request = urllib.request.Request(url, method=method, data=b"{}" if method == "POST" else None)
            answers[method + " " + url] = urllib.request.urlopen(request, timeout=3).status
        except urllib.error.HTTPError as error:
            answers[method + " " + url] = error.code
        except OSError as error:
            answers[method + " " + url] = "refused" if "refused" in str(error) else "no answer"
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def neighbour(stack: Stack) -> Iterator[list[str]]:
    """The command with which to run something on a neighbouring machine that routes to the containers through us."""

    def ip(*arguments: str, check: bool = True) -> None:
        subprocess.run(["ip", *arguments], check=check, capture_output=not check)

    ip("netns", "delete", NAME, check=False)
    ip("netns", "add", NAME)
    try:
        ip("link", "add", f"{NAME}0", "type", "veth", "peer", "name", f"{NAME}1", "netns", NAME)
        ip("addr", "add", f"{OURS}/24", "dev", f"{NAME}0")
        ip("link", "set", f"{NAME}0", "up")
        ip("-n", NAME, "addr", "add", f"{THEIRS}/24", "dev", f"{NAME}1")
        ip("-n", NAME, "link", "set", f"{NAME}1", "up")
        ip("-n", NAME, "route", "add", "default", "via", OURS)
        yield ["ip", "netns", "exec", NAME]
    finally:
        ip("netns", "delete", NAME, check=False)
        ip("link", "delete", f"{NAME}0", check=False)


def test_every_published_service_refuses_or_answers_401(neighbour: list[str], up: Stack) -> None:
    port, dashboard = up.settings["PORT"], up.settings["DASHBOARD_PORT"]
    urls = []
    for host_port, service, container_port, paths in (
        (port, "inference", 8080, SERVER_PATHS),
        (dashboard, "ray-head", 8265, DASHBOARD_PATHS),
    ):
        # By this machine's own address, and past it straight to the container.
        for base in (f"http://{OURS}:{host_port}", f"http://{address(up, service)}:{container_port}"):
            urls += [base + path for path in paths]
    answers = ask(neighbour, urls)
    let_in = {url: answer for url, answer in answers.items() if answer not in (401, "refused", "no answer")}
    assert not let_in
    # The test itself must be able to fail: over the route to the container the services do answer.
    assert answers[f"GET http://{address(up, 'inference')}:8080/v1/models"] == 401
    assert answers[f"GET http://{address(up, 'ray-head')}:8265/"] == 401


def test_ports_that_are_not_published_cannot_be_reached(neighbour: list[str], up: Stack) -> None:
    urls = [f"http://{address(up, service)}:{port}/" for service, ports in UNPUBLISHED.items() for port in ports]
    answers = ask(neighbour, urls)
    assert set(answers.values()) <= {"refused", "no answer"}, answers


def ask(neighbour: list[str], urls: list[str]) -> dict[str, int | str]:
    done = subprocess.run(
        [*neighbour, "python3", "-c", ASK], input=json.dumps(urls), capture_output=True, text=True, check=True
    )
    answers: dict[str, int | str] = json.loads(done.stdout)
    return answers


def address(stack: Stack, service: str) -> str:
    networks = json.loads(docker("inspect", stack.container(service)))[0]["NetworkSettings"]["Networks"]
    return str(next(iter(networks.values()))["IPAddress"])
