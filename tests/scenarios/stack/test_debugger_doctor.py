"""The doctor finds what keeps people from debugging: each fault is planted in a process of a stack that runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import Stack, docker, wait_for

pytestmark = pytest.mark.docker
PROGRAM = Path(__file__).with_name("faulty_workers.py")
# Joins no cluster, but makes one of its own.
STRANGER = """
import ray, sys
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def faulty(own_stack: Stack, tmp_path: Path) -> Iterator[Stack]:
    """The stack, with a worker for each fault, and with a driver that has joined another cluster."""
    there = Path(own_stack.settings["WORKSPACE"]) / "faulty_workers.py"
    shutil.copy(PROGRAM, there)
    dev, running = own_stack.container("dev"), []
    commands = {"workers": ["/workspace/faulty_workers.py"], "stranger": ["-c", STRANGER]}
    for name, arguments in commands.items():
        with (tmp_path / name).open("w") as log:
            # Both end when their standard input does.
            command = ["docker", "exec", "-i", dev, "/opt/drydock/with-env", "python", *arguments]
            running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT))
    wait_for("both programs", lambda: all("ready" in (tmp_path / name).read_text() for name in commands), 180)
    yield own_stack
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
    there.unlink()


def findings(text: str) -> list[tuple[str, str]]:
    """Sign and text of each."""
    return [(found["sign"], found["text"]) for found in json.loads(text)["findings"]]


def asked(stack: Stack, *environment: str) -> list[tuple[str, str]]:
    """What the doctor in `dev` says, with other variables."""
    options = [part for variable in environment for part in ("--env", variable)]
    command = ("/opt/drydock/with-env", "harness", "doctor", "--topic", "debugger", "--json")
    return findings(docker("exec", *options, stack.container("dev"), *command, check=False))


EXPECTED: list[tuple[str, str, str]] = [
    ("copied", "bad", r"reward_of_mine.py: .* has loaded a copy that Ray made of it"),
    ("outside", "bad", r"outside_the_mount.py: .* has loaded it, and it isn't here"),
    ("missing", "bad", r"debugpy can't be imported in"),
    ("shadowed", "bad", r"debugpy is something else than the installed one \(/\S+/debugpy.py\) in"),
    ("old", "bad", r"debugpy is 1.6.0 in .*, and 1\.\d+\.\d+ here"),
    ("old", "bad", r"debugpy 1.6.0 is older than 1.8.0 in"),
    ("hook", "bad", r"breakpoint\(\) belongs to builtins.print in"),
    ("loopback", "bad", r"debugpy listens on 127.0.0.1:\d+ only in .*, as /workspace/faulty_workers.py:\d+ asked"),
    ("twice", "bad", r"debugpy.listen\(\) was called twice in"),
    ("gone", "bad", r"The debugger's port \d+ of .* is gone"),
    ("switches", "bad", r"RAY_DEBUG=yes in"),
    ("switches", "bad", r"RAY_DEBUG_POST_MORTEM=true in"),
    ("switches", "bad", r"RAY_DEBUG_POSTMORTEM is set in"),
    ("switches", "warn", r"CUDA_LAUNCH_BLOCKING=1 in"),
    ("switches", "warn", r"debugpy runs without its compiled parts in"),
    ("", "bad", r"PID \d+ here has joined another cluster \(session_"),
]


@pytest.mark.slow
def test_each_fault_is_found_and_nobody_else_is_blamed(faulty: Stack) -> None:
    done = faulty.run("doctor", "--topic", "debugger", "--json")
    assert done.code == 1, str(done)
    document: dict[str, Any] = done.json()
    for fault, sign, pattern in EXPECTED:
        fitting = [f for f in document["findings"] if re.search(pattern, f["text"]) and f["sign"] == sign]
        assert fitting, f"{fault}: {pattern} in\n{done}"
        assert all(f["consequence"] and f["mend"] for f in fitting)
        assert not fault or all(re.search(rf"\([\w-]*\b{fault}\b[\w-]*\)", f["text"]) for f in fitting), str(done)
    texts = " ".join(f["text"] for f in document["findings"])
    assert "(fine)" not in texts
    assert "a small program was stopped at a breakpoint" in texts
    assert "127.0.0.1:8265 in dev gives it" in texts


def test_what_keeps_everybody_out_is_found(own_stack: Stack) -> None:
    dev = own_stack.container("dev")
    relay = docker("exec", dev, "pgrep", "-f", "dashboard_gate.py relay").split()[0]
    docker("exec", dev, "kill", "-STOP", relay)
    try:
        # A debugpy of one's own that comes first, another cluster's token, and a relay that hangs.
        docker("exec", dev, "sh", "-c", "mkdir -p /tmp/first && echo 'raise ImportError()' > /tmp/first/debugpy.py")
        said = asked(own_stack, "PYTHONPATH=/tmp/first", f"RAY_AUTH_TOKEN={'0' * 64}")
    finally:
        docker("exec", dev, "kill", "-CONT", relay)
        docker("exec", dev, "rm", "-r", "/tmp/first")
    bad = " ".join(text for sign, text in said if sign == "bad")
    assert "wants another token" in bad
    assert "The relay to it in dev is of no use" in bad
    assert "A debugger doesn't work in this Python: debugpy can't be started" in bad
    nobody = asked(own_stack, "RAY_API_SERVER_ADDRESS=http://127.0.0.1:9")
    assert any(sign == "bad" and "doesn't answer" in text for sign, text in nobody)
