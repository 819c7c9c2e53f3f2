"""In the stack: who is paused on which node, from the host and from a client of the protocol; the three situations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dap.model import Breakpoint
from harness.dap.session import Session
from tests.support.harness import CLONE, HARNESS, Stack, docker, free_port, own_project, wait_for
from tests.support.model_process import ModelProcess

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ACTORS = """
import sys, time
import ray

@ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
class Scorer:
    def __init__(self, rank):
        self.rank = rank
    def score(self, step):
        reward = self.rank * 10.0 + step % 3
        return reward

@ray.remote(num_cpus=0.1)
class Async:
    async def go(self, x):
        breakpoint()
        return x + 1

ray.init(log_to_driver=False)
scorers = [Scorer.remote(rank) for rank in range(4)]
ray.get([scorer.score.remote(0) for scorer in scorers])
answer = Async.remote().go.remote(41)
print("ready", flush=True)
step = 0
while not ray.wait([answer], timeout=0.05)[0]:
    step += 1
    ray.get([scorer.score.remote(step) for scorer in scorers])
print("answer", ray.get(answer), flush=True)
breakpoint()
print("end", flush=True)
"""


THREADS = """
import sys
from pathlib import Path
import ray

@ray.remote(num_cpus=0.1, max_concurrency=2)
class Threaded:
    def go(self, x):
        breakpoint()
        return x + 1

@ray.remote(num_cpus=0.1)
def twice(y):
    breakpoint()
    z = y * 2
    breakpoint()
    return z

@ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")
class Outside:
    def score(self):
        Path("/tmp/outside_the_mount.py").write_text("def score(secret):\\n    breakpoint()\\n    return secret\\n")
        sys.path.insert(0, "/tmp")
        import outside_the_mount
        return outside_the_mount.score(43)

ray.init(log_to_driver=False)
threaded = Threaded.remote()
print("ready", flush=True)
waiting = [threaded.go.remote(1), threaded.go.remote(2), twice.remote(5)]
print("answers", *ray.get(waiting), flush=True)
print("outside", ray.get(Outside.remote().score.remote()), flush=True)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a second Ray node and without an inference server."""
    workspace = tmp_path_factory.mktemp("breakpoints") / "workspace"
    shutil.copytree(CLONE / "examples", workspace)
    (workspace / "threads.py").write_text(THREADS)
    (workspace / "actors.py").write_text(ACTORS.lstrip())  # so that line 10 is the tenth one here
    server = ModelProcess(text="Paris.")
    server.start()
    settings = {
        "ENGINE": "external", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key, "WORKERS": "1",
        "WORKSPACE": str(workspace), "PORT": str(free_port()), "DASHBOARD_PORT": str(free_port()),
    }  # fmt: skip
    made = Stack(own_project("breakpoints"), tmp_path_factory.mktemp("stack"), settings)
    try:
        made.run("up").ok()
        yield made
        made.run("down").ok()
    finally:
        server.kill()


@pytest.fixture
def program(stack: Stack, tmp_path: Path) -> Iterator[Callable[[str], Callable[[], str]]]:
    """Starts a program in `dev`; gives what reads its output."""
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> Callable[[], str]:
        log = tmp_path / "output"
        with log.open("w") as file:
            command = ["docker", "exec", stack.container("dev"), "/opt/drydock/with-env", "timeout", "600", "python"]
            running.append(subprocess.Popen([*command, f"/workspace/{name}"], stdout=file, stderr=subprocess.STDOUT))
        wait_for(f"{name} to begin", lambda: "ready" in log.read_text(), 180)
        return log.read_text

    yield start
    for process in running:
        process.kill()
        process.wait()
    for pid in docker("exec", stack.container("dev"), "pgrep", "-f", "^timeout 600 python", check=False).split():
        docker("exec", stack.container("dev"), "kill", pid, check=False)


def paused(stack: Stack) -> list[dict[str, Any]]:
    """What `make breakpoints` says from the host."""
    found: list[dict[str, Any]] = stack.run("breakpoints", "--json").ok().json()["paused"]
    return found


def waiting(stack: Stack, what: str) -> dict[str, Any]:
    """The paused one whose name has this in it."""
    found: dict[str, Any] = wait_for(
        f"{what} to be paused", lambda: next((line for line in paused(stack) if what in line["name"]), None), 180
    )
    return found


def without_comments(text: str) -> str:
    """JSON as editors keep it: whole lines may be comments, and `attach` leaves them."""
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def attached(line: dict[str, Any], *points: Breakpoint) -> Session:
    """A client of the protocol, from the host."""
    session = Session.connect(line["debugger"]["host"], line["debugger"]["port"])
    session.attach(breakpoints=points, timeout=60)
    return session


CLIENT = """
import sys
from harness.dap.model import Breakpoint
from harness.dap.session import Session

host, port, file, line, condition = sys.argv[1:]
with Session.connect(host, int(port)) as session:
    session.attach(breakpoints=[Breakpoint(file, int(line), condition=condition)], timeout=60)
    frame = session.stack(session.wait_for_stop(timeout=60).thread)[0]
    print(frame.name)
    print(any(variable.name == "reward" for variable in session.variables(frame.id)))
    print(session.evaluate(condition, frame.id))
"""


def from_dev(stack: Stack, line: dict[str, Any], at: str, condition: str) -> str:
    """What a client of the protocol says that runs in `dev`."""
    where = (line["debugger"]["host"], str(line["debugger"]["port"]))
    file = "/workspace/debugging/reward_prompt.py"
    return stack.execute("dev", "python", "-c", CLIENT, *where, file, at, condition)


def test_actors_on_other_nodes_async_ones_and_the_driver(
    stack: Stack, program: Callable[[str], Callable[[], str]]
) -> None:
    output = program("actors.py")
    line = waiting(stack, "Async.go")
    assert line["file"] == "/workspace/actors.py"
    assert any("event loop" in text for text in line["delays"])

    # Log points in four actors say what the program knows to be true.
    settings = {"AT": "actors.py:10", "IF": "reward % 10 == 2", "LOG": "{reward:.1f} {self.rank}", "ACTOR": "Scorer"}
    traced = subprocess.run(
        [str(HARNESS), "trace"], cwd=CLONE, env={**stack.environment(), **settings, "N": "24"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert traced.returncode == 0, traced.stderr
    texts = {json.loads(hit)["text"] for hit in traced.stdout.splitlines()}
    assert texts == {"2.0 0", "12.0 1", "22.0 2", "32.0 3"}

    with attached(line) as session:
        stop = session.wait_for_stop(timeout=60)
        frame = next(frame for frame in session.stack(stop.thread) if frame.name == "go")
        assert session.evaluate("x", frame.id) == "41"
    wait_for("the answer", lambda: "answer 42" in output(), 60)

    driver = waiting(stack, "driver")
    with attached(driver) as session:
        session.wait_for_stop(timeout=60)
    wait_for("the driver's end", lambda: "end" in output(), 60)


def test_rewards_that_are_wrong_because_of_the_prompt(
    stack: Stack, program: Callable[[str], Callable[[], str]]
) -> None:
    program("debugging/reward_prompt.py")
    source = (CLONE / "examples/debugging/reward_prompt.py").read_text().splitlines()
    at = 1 + next(number for number, text in enumerate(source) if "return reward" in text)
    settings = {"AT": f"reward_prompt.py:{at}", "IF": "reward < -0.5", "LOG": "{prompt[-30:]!r}", "N": "3"}
    traced = subprocess.run(
        [str(HARNESS), "trace"], cwd=CLONE, env={**stack.environment(), **settings, "ACTOR": "RewardModel"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert traced.returncode == 0, traced.stderr
    hits = [json.loads(hit) for hit in traced.stdout.splitlines()]
    assert all(hit["text"].endswith("<|endoftext|>'") for hit in hits)
    # The documentation names the line.
    assert f"AT=reward_prompt.py:{at}" in (CLONE / "docs/breakpoints.md").read_text()

    # A breakpoint with the same condition, in a worker that has none of its own.
    entry = stack.run("attach", "--json", PID=str(hits[0]["pid"])).ok().json()
    with attached(entry, Breakpoint("/workspace/debugging/reward_prompt.py", at, condition="reward < -0.5")) as session:
        stop = session.wait_for_stop(timeout=60)
        frame = session.stack(stop.thread)[0]
        assert session.evaluate("prompt.endswith('<|endoftext|>')", frame.id) == "True"
    # The same from a terminal in `dev`, which reaches a node's workers as well.
    assert from_dev(stack, entry, str(at), "reward < -0.5").split() == ["compute", "True", "True"]
    launch = Path(stack.settings["WORKSPACE"]) / ".vscode" / "launch.json"
    assert entry["entries"][0] in json.loads(without_comments(launch.read_text()))["configurations"]


def test_an_empty_rollout(stack: Stack, program: Callable[[str], Callable[[], str]]) -> None:
    output = program("debugging/empty_rollout.py")
    with attached(waiting(stack, "RolloutWorker.generate")) as session:
        stop = session.wait_for_stop(timeout=60)
        frame = next(frame for frame in session.stack(stop.thread) if frame.name == "generate")
        assert int(session.evaluate("room", frame.id)) < 0
        assert int(session.evaluate("longest", frame.id)) > int(session.evaluate("self.context", frame.id))
    wait_for("its end", lambda: "longest prompt 70: 0 new tokens" in output(), 60)


def test_values_of_a_critic_after_the_exception(stack: Stack, program: Callable[[str], Callable[[], str]]) -> None:
    output = program("debugging/critic_values.py")
    line = waiting(stack, "train")
    assert line["exception"].startswith("FloatingPointError")
    typed = "p step\nstats values\np learning_rate\nquit\n"
    done = subprocess.run(
        [str(HARNESS), "attach"], input=typed, cwd=CLONE, capture_output=True, text=True, timeout=120, check=False,
        env={**stack.environment(), "SESSION": str(line["session"]), "TUI": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "none of them finite" in done.stdout
    assert "5.0" in done.stdout
    wait_for("its end", lambda: "the task failed" in output(), 60)


def test_a_threaded_actor_and_a_task_at_one_prompt(stack: Stack, program: Callable[[str], Callable[[], str]]) -> None:
    output = program("threads.py")
    task, actor = waiting(stack, "twice"), waiting(stack, "Threaded.go")
    # Each of its threads that stands is a line.
    wait_for("both threads", lambda: sum("Threaded.go" in line["name"] for line in paused(stack)) == 2, 60)
    typed = [f"attach {task['session']}", "p y", "continue", "p z", f"session {actor['session']}", "threads", "p x"]
    done = terminal(stack, actor, *typed)
    assert done.count("stands") == 2, done
    assert f"session {task['session']}, twice: breakpoint" in done
    assert re.search(r"^\(\d+\) 10$", done, re.MULTILINE), done
    wait_for("all of them to go on", lambda: "answers 2 3 10" in output(), 60)

    # A file that is nowhere in the workspace: its source comes from the process.
    line = waiting(stack, "Outside.score")
    assert line["file"] == "/tmp/outside_the_mount.py"
    said = stack.run("attach", SESSION=str(line["session"])).ok()
    assert "outside the workspace" in said.stdout + said.stderr, str(said)
    assert "return secret" in terminal(stack, line, "list", "p secret")
    wait_for("its end", lambda: "outside 43" in output(), 60)


def terminal(stack: Stack, line: dict[str, Any], *typed: str) -> str:
    """What the terminal debugger says to these lines."""
    done = subprocess.run(
        [str(HARNESS), "attach"], input="\n".join([*typed, "quit\n"]), cwd=CLONE, capture_output=True, text=True,
        timeout=180, check=False, env={**stack.environment(), "SESSION": str(line["session"]), "TUI": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
