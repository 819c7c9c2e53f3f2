"""What belongs to somebody else and must be as it was, whatever happens to the stack beside it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.processes.stat import read_stat
from tests.support.harness import docker

TEXT = "belongs to somebody else\n"


@dataclass
class Strangers:
    """A container on a network of its own with a volume, a process, and files in the folders that we write to."""

    name: str
    files: tuple[Path, ...]
    _before: dict[str, Any] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def plant(self, image: str) -> None:
        """Put them there.

        Args:
            image: any that has a shell.
        """
        self.remove()
        docker("network", "create", self.name)
        docker("volume", "create", self.name)
        script = f"echo '{TEXT.strip()}' > /theirs/note; exec sleep infinity"
        with_its_own = ("--name", self.name, "--network", self.name, "--volume", f"{self.name}:/theirs")
        docker("run", "--detach", "--init", *with_its_own, "--user", "0:0", "--entrypoint", "sh", image, "-c", script)
        self._process = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        for path in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TEXT)
        self._before = self._look()

    def touched(self) -> list[str]:
        """What isn't as it was; empty where all is, or where nothing was put there."""
        if not self._before:
            return []
        now = self._look()
        changed = [what for what, was in self._before.items() if now.get(what) != was]
        return [f"somebody's {what}: {self._before[what]!r} before, {now.get(what)!r} now" for what in changed]

    def remove(self) -> None:
        """Take them away again."""
        docker("rm", "--force", "--volumes", self.name, check=False)
        docker("volume", "rm", self.name, check=False)
        docker("network", "rm", self.name, check=False)
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _look(self) -> dict[str, Any]:
        [container] = json.loads(docker("inspect", self.name, check=False) or "[]") or [{}]
        state = container.get("State", {})
        found: dict[str, Any] = {
            "container": [container.get("Id"), *(state.get(key) for key in ("Status", "Pid", "StartedAt"))],
            "network": docker("network", "inspect", "--format", "{{.Id}} {{len .Containers}}", self.name, check=False),
            "note in a volume": docker("exec", self.name, "cat", "/theirs/note", check=False),
        }
        assert self._process is not None
        stat = read_stat(self._process.pid)
        found["process"] = stat and [stat.state, stat.start_ticks]
        for path in self.files:
            found[f"file {path.name} in {path.parent.name}"] = path.read_text() if path.is_file() else None
        return found


def processes_with(mark: str) -> list[str]:
    """Processes of this machine whose environment has a mark, as ``PID COMMAND``: what a verb has left behind."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if command:  # a zombie has none, and is somebody else's to fetch
                    found.append(f"{folder.name} {command[:120]}")
        except OSError:
            continue
    return found
