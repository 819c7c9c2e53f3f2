"""The Ray cluster: tasks run on the workers, a restart touches no other cluster, and nobody joins without the token."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stack.own import in_dev_and_in_a_task
from tests.support.harness import Stack, docker, own_project, wait_for

pytestmark = pytest.mark.docker

NODES = """
import json, urllib.request
token = open("/run/secrets/ray_token").read().strip()
request = urllib.request.Request(
    "http://127.0.0.1:8265/nodes?view=summary", headers={"Authorization": f"Bearer {token}"}
)
with urllib.request.urlopen(request, timeout=20) as answer:
    nodes = json.load(answer)["data"]["summary"]
print(json.dumps({n["raylet"]["nodeId"]: n["hostname"] for n in nodes if n["raylet"]["state"] == "ALIVE"}))
"""


def nodes_of(head: str) -> dict[str, str]:
    """Id and host name of each node that is alive, as a head's container tells."""
    found: dict[str, str] = json.loads(docker("exec", head, "python", "-c", NODES))
    return found


def session_of(head: str) -> str:
    """Name of the session that runs in a head's container."""
    return docker("exec", head, "readlink", "/tmp/ray/session_latest").strip()


@pytest.fixture
def other_cluster(own_stack: Stack, tmp_path: Path) -> Iterator[str]:
    """Somebody else's Ray cluster on this machine, with a token of its own; gives its container."""
    image = json.loads(docker("inspect", own_stack.container("ray-head")))[0]["Config"]["Image"]
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o644)
    mount = f"type=bind,source={token},target=/run/secrets/ray_token,readonly"
    name = own_project("other-ray")
    docker("rm", "--force", name, check=False)
    container = docker(
        "run", "--detach", "--init", "--shm-size", "256m", "--name", name, "--mount", mount, image, "head"
    )
    health = ("exec", name, "/opt/drydock/ray-health")
    wait_for("the other cluster", lambda: "1 of 1 nodes" in docker(*health, check=False), 180)
    yield container.strip()
    docker("rm", "--force", name)


ON_EACH_NODE = """
import json, socket, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init()
@ray.remote
def where():
    return socket.gethostname()
nodes = {node["NodeManagerHostname"]: node for node in ray.nodes() if node["Alive"]}
cpus = {name: node["Resources"].get("CPU", 0) for name, node in nodes.items()}
sent = {
    name: where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
    for name, node in nodes.items()
    if cpus[name]
}
anywhere = [where.options(scheduling_strategy="SPREAD").remote() for _ in range(8)]
print(json.dumps([cpus, {name: ray.get(task) for name, task in sent.items()}, ray.get(anywhere)]))
"""


def test_tasks_run_on_the_worker_and_the_head_and_never_in_dev(own_stack: Stack) -> None:
    said = own_stack.execute("dev", "/opt/drydock/with-env", "python", "-c", ON_EACH_NODE).splitlines()[-1]
    cpus, sent, anywhere = json.loads(said)
    head, worker, dev = (own_stack.container(service)[:12] for service in ("ray-head", "ray-worker", "dev"))
    assert set(cpus) == {head, worker, dev}
    assert cpus[dev] == 0
    assert sent == {head: head, worker: worker}
    assert dev not in anywhere


def test_no_driver_joins_without_the_token(own_stack: Stack) -> None:
    refused = in_dev(own_stack, "import ray; ray.init(); print('joined')", "--env", "RAY_AUTH_MODE=disabled")
    assert refused.returncode != 0
    assert "joined" not in refused.stdout
    assert "authentication" in refused.stderr.lower(), refused.stderr


# What Ray Client's server says of a client that it couldn't serve.
CLIENT_LOGS = "cd /tmp/ray/session_latest/logs; tail -n 40 ray_client_server*"


def test_no_ray_client_joins_with_another_token(own_stack: Stack) -> None:
    script = "import ray.util; ray.util.connect('ray-head:10001', connection_retries={}); print('joined')"
    refused = in_dev(own_stack, script.format(1), "--env", f"RAY_AUTH_TOKEN={'0' * 64}")
    assert refused.returncode != 0
    assert "joined" not in refused.stdout
    # Ray Client doesn't say why. It is the token, for with it the same goes well. Now and then Ray's proxy, which forks
    # while it speaks gRPC, loses the server that it starts for a client ("SpecificServer startup failed"; one in ten or
    # twenty on a busy machine): then a person tries again.
    for _ in range(4):
        joined = in_dev(own_stack, script.format(8))
        if joined.returncode == 0:
            break
    assert joined.stdout == "joined\n", joined.stderr + own_stack.execute("ray-head", "sh", "-c", CLIENT_LOGS)


def test_in_dev_the_dashboard_needs_no_token_and_nobody_else_gets_there(own_stack: Stack) -> None:
    assert "ray_version" in own_stack.execute("dev", "curl", "-sf", "http://127.0.0.1:8265/api/version")
    status = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: localhost")
    assert own_stack.execute("dev", *status, "-H", "Origin: http://evil.example", "http://127.0.0.1:8265/") == "403"
    # Its own loopback only: a neighbour on the stack's network finds nobody there.
    head = own_stack.container("ray-head")
    assert docker("exec", head, *status, "http://dev:8265/", check=False) == "000"
    assert docker("exec", head, *status, "http://ray-head:8265/") == "401"


@pytest.mark.slow
def test_a_cluster_that_asks_nobody_for_a_token_says_so(own_stack: Stack) -> None:
    said = own_stack.run("up", RAY_AUTH="off").ok().stdout
    assert "every user of this machine" in said
    assert "every user of this machine" in own_stack.run("status").ok().stdout
    address = f"http://127.0.0.1:{own_stack.settings['DASHBOARD_PORT']}/api/version"
    asked = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", address]
    assert subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "200"
    caused = [*asked, "-H", "Origin: http://evil.example"]
    assert subprocess.run(caused, capture_output=True, text=True, check=False).stdout == "403"
    in_dev(own_stack, "import ray; ray.init()", "--env", "RAY_AUTH_MODE=disabled").check_returncode()


def in_dev(stack: Stack, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script in `dev` to whatever end it comes to."""
    return subprocess.run(
        ["docker", "exec", *options, stack.container("dev"), "python", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_restart_ray_makes_our_cluster_anew_and_leaves_another_alone(own_stack: Stack, other_cluster: str) -> None:
    head, dev = own_stack.container("ray-head"), own_stack.ids()["dev"]
    before, session, server = nodes_of(head), session_of(head), own_stack.ids()["host-relay"]
    other_before, other_started = nodes_of(other_cluster), started_at(other_cluster)

    ended = own_stack.run("restart-ray").ok()

    assert "Ray restarted" in ended.stdout + ended.stderr
    after = nodes_of(head)
    assert session_of(head) != session
    assert not set(after) & set(before)
    assert set(after.values()) == set(before.values())
    assert len(after) == 3
    # The container that people work in went on, and so did what is no part of Ray.
    assert (own_stack.ids()["dev"], own_stack.ids()["host-relay"]) == (dev, server)
    assert in_dev_and_in_a_task(own_stack, "6 * 7") == (42, 42)
    assert (nodes_of(other_cluster), started_at(other_cluster)) == (other_before, other_started)
    assert own_stack.run("status").code == 0


def started_at(container: str) -> str:
    """When a container was started last."""
    return docker("inspect", "--format", "{{.State.StartedAt}}", container).strip()
