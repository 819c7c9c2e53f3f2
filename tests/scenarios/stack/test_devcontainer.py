"""An editor that reopens the clone in a container joins the stack that `make up` started, and finds all it needs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import CLONE, Stack, docker, wait_for
from tests.support.npm import installed

pytestmark = pytest.mark.docker
HERE = Path(__file__).parent / "devcontainer"


@pytest.fixture(scope="module")
def command_line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Dev Containers command line, which shares its code with VS Code's extension."""
    return installed(HERE, tmp_path_factory.mktemp("devcontainer")) / ".bin" / "devcontainer"


@pytest.fixture
def opened(up: Stack, command_line: Path) -> tuple[Stack, Path, dict[str, Any]]:
    """The clone, reopened in its container: the stack, the command line, and what that said."""
    before = up.ids()
    done = subprocess.run(
        [command_line, "up", "--workspace-folder", str(CLONE)],
        env=up.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert up.ids() == before, "a container was made or started anew"
    return up, command_line, json.loads(done.stdout.splitlines()[-1])


def inside(opened: tuple[Stack, Path, dict[str, Any]], command: str) -> str:
    """Run a line as in the editor's terminal; returns what it prints."""
    stack, command_line, _ = opened
    # By the folder's label as the editor does; by the project's too, for the clone may have another stack as well.
    labels = [
        part
        for label in (f"devcontainer.local_folder={CLONE}", f"com.docker.compose.project={stack.project}")
        for part in ("--id-label", label)
    ]
    done = subprocess.run(
        [command_line, "exec", "--workspace-folder", str(CLONE), *labels, "bash", "-c", command],
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_running_stack_is_the_one_that_is_joined(opened: tuple[Stack, Path, dict[str, Any]]) -> None:
    stack, _, said = opened
    assert said["outcome"] == "success"
    assert said["containerId"] == stack.container("dev")
    assert said["composeProjectName"] == stack.project
    assert said["remoteWorkspaceFolder"] == "/workspace"


def test_a_terminal_has_the_tools_the_keys_and_the_cluster(opened: tuple[Stack, Path, dict[str, Any]]) -> None:
    stack, _, _ = opened
    said = inside(
        opened,
        "python -c 'import debugpy'; py-spy --version; harness --version; ray status; echo $OPENAI_API_KEY; id -u; pwd",
    )
    assert "py-spy 0." in said
    assert "harness, version" in said
    assert said.count(" node_") == 2, said
    assert stack.key() in said
    assert said.splitlines()[-1] == "/workspace"
    assert said.splitlines()[-2] != "0"


def test_make_check_works_there_and_a_verb_of_the_host_says_so(opened: tuple[Stack, Path, dict[str, Any]]) -> None:
    assert "the model's answer" in inside(opened, "STAGE=1 make check STAGE=2")
    assert "not in dev" in inside(opened, "make up 2>&1 || true")


def test_a_folder_with_a_makefile_keeps_its_make(opened: tuple[Stack, Path, dict[str, Any]]) -> None:
    # The image has none of its own, and says how the verbs are called then.
    said = inside(opened, "cd $(mktemp -d) && touch Makefile && make check 2>&1 || true")
    assert "There is no make in this container" in said


def test_values_reach_the_harness_as_they_were_typed(opened: tuple[Stack, Path, dict[str, Any]]) -> None:
    said = inside(opened, r"""make settings 'AGENT=$5 {x} `id`' JSON=1""")
    assert "$5 {x} `id`" in [setting["value"] for setting in json.loads(said)]


def test_a_project_of_ones_own_is_opened_in_the_same_stack(up: Stack, command_line: Path, workspace: Path) -> None:
    made = up.run("init", "--json", DIR=str(workspace)).ok().json()
    names = {Path(file["path"]).relative_to(workspace).as_posix() for file in made["files"]}
    assert names == {".devcontainer/devcontainer.json", ".vscode/launch.json", ".vscode/tasks.json"}
    before = up.ids()
    done = subprocess.run(
        [command_line, "up", "--workspace-folder", str(workspace)],
        env=up.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert up.ids() == before
    assert json.loads(done.stdout.splitlines()[-1])["containerId"] == up.container("dev")
    shutil.rmtree(workspace / ".devcontainer")


PROGRAM = """
import time
def work(step):
    total = step * 2
    return total
step = 0
while True:
    step = work(step) // 2 + 1
    open('/tmp/attached_to', 'w').write(str(step))
    time.sleep(0.05)
"""
# An editor: it goes to the port that its entry names.
CLIENT = """
import sys
from harness.dap.model import Breakpoint
from harness.dap.session import Session
with Session.connect('127.0.0.1', 20999) as session:
    session.attach(breakpoints=(Breakpoint('/tmp/attached_to.py', 4, condition='step > 20'),), timeout=60)
    stop = session.wait_for_stop(timeout=60)
    frame = session.stack(stop.thread)[0]
    print('stopped in', frame.name, frame.line, session.evaluate('step > 20', frame.id))
"""


def test_a_process_of_the_container_is_attached_to_as_the_entry_does_it(up: Stack) -> None:
    """A program that nobody prepared; neither gdb nor a right to trace is there."""
    dev = up.container("dev")

    def inside_dev(command: str, *more: str) -> str:
        return docker("exec", *more, dev, "sh", "-c", command)

    tasks = json.loads((CLONE / "devcontainer" / "vscode" / "tasks.json").read_text())["tasks"]
    task = next(task for task in tasks if task["label"] == "Drydock: let the editor into a process of this container")
    inside_dev('printf %s "$CODE" > /tmp/attached_to.py', "--env", f"CODE={PROGRAM}")
    inside_dev("echo $$ > /tmp/attached_to.pid; exec python /tmp/attached_to.py", "--detach")
    pid = wait_for("the program", lambda: inside_dev("test -s /tmp/attached_to && cat /tmp/attached_to.pid || true"))
    try:
        said = inside_dev(" ".join([task["command"], *task["args"]]), "--env", f"PID={pid.strip()}")
        assert "lets the editor in" in said
        assert "stopped in work 4 True" in inside_dev('python -c "$CODE"', "--env", f"CODE={CLIENT}")
        steps = int(inside_dev("cat /tmp/attached_to") or 0)
        wait_for("the program to go on", lambda: int(inside_dev("cat /tmp/attached_to") or 0) > steps + 2)
    finally:
        inside_dev(f"kill {pid.strip()}")


def test_another_folder_is_not_opened_over_what_runs(up: Stack, tmp_path: Path) -> None:
    dev = up.container("dev")
    tmp_path.chmod(0o755)  # the containers' user may enter it
    docker("exec", "--detach", dev, "python", "-c", "import time; time.sleep(600)  # a training")
    wait_for("the program", lambda: "a training" in docker("top", dev, "-eo", "pid,args"))
    said = up.run("dev-container", WORKSPACE=str(tmp_path))
    assert said.code == 3
    assert "dev: python -c import time; time.sleep(600) # a training" in said.stderr
    assert "DRYDOCK_YES=1" in said.stderr
    assert up.container("dev") == dev


def test_another_folder_that_is_opened_becomes_the_workspace(
    up: Stack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What VS Code runs before it opens it; the editor would show the old folder otherwise."""
    other = tmp_path_factory.mktemp("another") / "agent"
    other.mkdir()

    def shown() -> str:
        mounts = json.loads(docker("inspect", "--format", "{{json .Mounts}}", up.container("dev")))
        return str(next(mount["Source"] for mount in mounts if mount["Destination"] == "/workspace"))

    before, server = shown(), up.container("inference")
    said = up.run("dev-container", WORKSPACE=str(other), DRYDOCK_YES="1").ok().stdout
    assert shown() == str(other)
    assert f"its workspace is {other}" in said
    assert "nothing was changed" not in said
    assert up.container("inference") == server
    up.run("dev-container", WORKSPACE=before, DRYDOCK_YES="1").ok()
    assert shown() == before
