"""Docker's engine is killed in the middle of each verb, and started again: the verb says so, `up` brings all back.

An engine of the test's own. Everybody else's stays as it is; `make chaos` shuts a socket in front of that one instead.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import docker_engine
from harness.settings import load_settings
from harness.stack.images import all_images, ensure_images
from harness.stack.images.catalogue import load_catalogue
from tests.support.engines import Engine, own_engine, still
from tests.support.harness import CLONE, HARNESS, Ended, Stack, own_project

pytestmark = [pytest.mark.docker, pytest.mark.slow]

AGENT = """
import asyncio, pathlib

class Waits:
    async def run(self, data, **more):
        pathlib.Path("/workspace/at-work").touch()
        await asyncio.sleep(3600)
        return 0.0
"""
# Beyond any time limit of a verb's own.
ENDS_SECONDS = 400.0


@dataclass
class OnItsOwn:
    """A stack on an engine that may be killed."""

    engine: Engine
    stack: Stack

    def begin(self, verb: str, **settings: str) -> subprocess.Popen[str]:
        """Start a verb."""
        return self.engine.run([str(HARNESS), verb, "--json"], self.stack.environment(**settings), cwd=CLONE)

    def ended(self, verb: str, process: subprocess.Popen[str]) -> Ended:
        """A verb that was started, at its end."""
        out, err = process.communicate(timeout=ENDS_SECONDS)
        ended = Ended((verb,), process.returncode, out, err, 0)
        self.stack.history.append(ended)
        return ended

    def run(self, verb: str, **settings: str) -> Ended:
        """A verb to its end."""
        return self.ended(verb, self.begin(verb, **settings))

    def containers(self, *more: str) -> list[str]:
        """Ids of the stack's containers."""
        ours = f"label=com.docker.compose.project={self.stack.project}"
        return self.engine.docker("ps", "--quiet", "--filter", ours, *more).split()

    def at_work(self, verb: str) -> bool:
        """Whether a verb has come to where it asks the engine for something that takes its time."""
        if verb == "up":
            return bool(self.containers("--all"))
        if verb == "down":
            return len(self.containers("--filter", "status=running")) < 3
        if verb == "hang-dump":
            return bool(self.engine.docker("ps", "--quiet", "--filter", "label=dev.drydock.role=probe").split())
        return Path(self.stack.settings["WORKSPACE"], "at-work").exists()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnItsOwn]:
    folder = tmp_path_factory.mktemp("engine")
    client, settings = docker_engine.connect(), load_settings()
    ensure_images(client, settings, on_gpu=False)
    images = all_images(client, settings, load_catalogue(), on_gpu=False)
    with own_engine(folder) as engine:
        engine.bring(list(images))
        workspace = folder / "workspace"
        shutil.copytree(CLONE / "examples" / "data", workspace / "data")
        workspace.chmod(0o777)
        (workspace / "waits.py").write_text(AGENT)
        stack = Stack(own_project("engine"), folder, {"WORKSPACE": str(workspace), "THREADS": "1", "WAIT": "300"})
        made = OnItsOwn(engine, stack)
        yield made
        assert made.run("down").code == 0
        assert made.containers("--all") == []


@pytest.mark.parametrize("verb", ["up", "check", "hang-dump", "down"])
def test_the_engine_is_killed_while_a_verb_is_at_work(own: OnItsOwn, verb: str) -> None:
    if not own.engine.answers():
        own.engine.start()  # what failed before this one left it dead
    own.run("down" if verb == "up" else "up").ok()
    asked = {"STAGE": "2", "SERVER": "simulated", "AGENT": "waits.py:Waits", "TIMEOUT": "600"}
    process = own.begin(verb, GAP="60", **(asked if verb == "check" else {}))
    still(f"`{verb}` was at work", process, lambda: own.at_work(verb))
    own.engine.kill()
    ended = own.ended(verb, process)
    # In its own words, with an exit code of its own.
    assert ended.code in (1, 3), ended
    assert "Traceback" not in ended.stdout + ended.stderr, ended
    assert ended.json(), ended
    # As long as it is away, that is what is said.
    for other in ("up", "status", "down"):
        away = own.run(other)
        assert (away.code, away.json()["error"]) == (3, "DockerUnreachable"), away

    own.engine.start()
    own.run("up").ok()
    status = own.run("status").ok()
    assert status.json()["fine"] is True
    for file in (own.stack.folder / "runs").rglob("*"):
        assert not file.name.endswith((".tmp", ".part")), file
