"""What of the user's runs in a stack: nothing of ours, and nothing of theirs is overlooked."""

from __future__ import annotations

import pytest

from harness.stack.occupied import theirs

# As the engine lists them, with nobody in there.
DEV = [
    (1, 900, "/sbin/docker-init -- /opt/drydock/entrypoint.sh dev"),
    (2, 1, "/bin/bash /opt/drydock/entrypoint.sh dev"),
    (3, 2, "/opt/venv/bin/python /opt/drydock/dashboard_gate.py relay 8265 http://ray-head:8265"),
    (4, 2, "/opt/venv/bin/python /opt/venv/bin/ray start --address ray-head:6379 --block"),
    (5, 4, "/opt/venv/bin/python -u /opt/venv/lib/python3.11/site-packages/ray/_private/log_monitor.py --x"),
    (6, 4, "/opt/venv/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet --c=x/ray/_private/workers/y.py"),
    (7, 6, "ray::DashboardAgent"),
    (8, 6, "ray::RuntimeEnvAgent"),
    (9, 6, "ray::IDLE"),
    (10, 6, "/opt/venv/bin/python /opt/venv/lib/python3.11/site-packages/ray/_private/workers/default_worker.py"),
]
HEAD = [
    (1, 900, "/sbin/docker-init -- /opt/drydock/entrypoint.sh head"),
    (2, 1, "/opt/venv/bin/python /opt/venv/bin/ray start --head --port 6379"),
    (3, 2, "/opt/venv/bin/python /opt/drydock/dashboard_gate.py gate 8265 http://127.0.0.1:8266"),
    (4, 2, "/opt/venv/lib/python3.11/site-packages/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp"),
    (5, 2, "/opt/venv/bin/python -m ray.util.client.server --address=172.21.0.4:6379 --mode=proxy --x"),
    (6, 2, "/opt/venv/bin/python /opt/venv/lib/python3.11/site-packages/ray/dashboard/dashboard.py --host=0.0.0.0"),
    (7, 6, "/opt/venv/bin/python -c from multiprocessing.forkserver import main; main(25, 27)"),
    (8, 7, "ray-dashboard-JobHead-0 (/opt/venv/bin/python -c x)"),
    (9, 2, "/opt/venv/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet --x"),
]


def rows(*lines: tuple[int, int, str]) -> list[tuple[str, str, str]]:
    return [(str(pid), str(parent), args) for pid, parent, args in lines]


@pytest.mark.parametrize("nodes", [DEV, HEAD])
def test_a_node_without_anybody(nodes: list[tuple[int, int, str]]) -> None:
    assert theirs(rows(*nodes)) == []


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([(20, 0, "bash")], []),
        ([(20, 0, "-bash"), (21, 20, "python train.py")], ["python train.py"]),
        ([(20, 0, "bash -c cd /workspace; python train.py"), (21, 20, "python train.py")], ["python train.py"]),
        ([(20, 0, "/usr/bin/vim notes.txt")], ["vim notes.txt"]),
        ([(20, 0, "bash -c sleep 9; echo"), (21, 20, "sleep 9")], []),
        ([(20, 0, "/bin/bash run.sh"), (21, 20, "python -c x")], ["bash run.sh"]),
        ([(20, 1, "python /opt/venv/bin/harness supervise"), (21, 20, "python -c x"), (22, 21, "y")], ["python -c x"]),
        (
            [
                (20, 0, "/home/dev/.vscode-server/bin/abc/node server.js"),
                (21, 20, "/bin/bash --init-file x"),
                (22, 20, "/bin/bash"),
                (23, 22, "python agent.py --api-key abcdefgh"),
            ],
            ["python agent.py --api-key [redacted]"],
        ),
        ([(20, 9, "python nothing_of_ours.py")], []),  # below an idle worker of Ray
        ([(20, 6, "ray::Trainer.fit"), (21, 20, "python child.py")], ["ray::Trainer.fit"]),
        ([(20, 6, "ray::JobSupervisor"), (21, 20, "sh -c python j"), (22, 21, "python j")], ["python j"]),
        ([(20, 1, "python detached.py"), (21, 1, "python x/debugpy/adapter --for-server 1")], ["python detached.py"]),
        ([(20, 0, "python " + "x" * 200)], ["python " + "x" * 92 + "…"]),
    ],
)  # fmt: skip
def test_what_is_the_users(more: list[tuple[int, int, str]], found: list[str]) -> None:
    assert [command for _, command in theirs(rows(*DEV, *more))] == found


def test_a_driver_that_came_through_rays_client() -> None:
    line = "/opt/venv/bin/python -m ray.util.client.server --mode=specific-server"
    assert [pid for pid, _ in theirs(rows(*HEAD, (20, 5, line)))] == [20]
