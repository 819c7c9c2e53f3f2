"""``harness check`` as a user calls it, against a scripted model on a port of 127.0.0.1."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from tests.support.fake_model import FakeModel
from tests.support.harness import CLONE, HARNESS

HERE = Path(__file__).parent
SAMPLE = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "answer": "Paris"}


@dataclass
class Checked:
    """A check that has ended."""

    code: int
    stdout: str
    stderr: str
    runs: Path

    @property
    def report(self) -> dict[str, Any]:
        """What ``result.json`` of the newest run holds."""
        report: dict[str, Any] = json.loads((self.runs / "latest" / "result.json").read_text())
        return report

    @property
    def findings(self) -> dict[str, dict[str, Any]]:
        """All findings by their id."""
        return {finding["id"]: finding for stage in self.report["stages"] for finding in stage["findings"]}

    @property
    def folder(self) -> Path:
        """The newest run's folder."""
        return self.runs / "latest"

    def written(self) -> str:
        """Everything that the run left, in one text."""
        files = [path for path in self.folder.resolve().rglob("*") if path.is_file()]
        return "\n".join(path.read_text(errors="replace") for path in files)

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


@dataclass
class Checker:
    """Calls the command, in a folder of its own."""

    folder: Path
    model: FakeModel
    base_url: str

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("JSON", "AGENT", "DATA", "STAGE")}
        return {
            **kept,
            "NO_COLOR": "1",
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": self.model.key,
            "RUNS": str(self.folder / "runs"),
            "DRYDOCK_HOME": str(self.folder),
            # Each run imports an SDK in a new process. Where Python may not write bytecode beside the sources, it would
            # compile two thousand files for each of them.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(CLONE / ".drydock" / "tests" / "bytecode"),
            **more,
        }

    def command(self, *arguments: str) -> list[str]:
        return [str(HARNESS), "check", "--here", "--data", "data.jsonl", *arguments]

    def __call__(self, *arguments: str, **environment: str) -> Checked:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Checked(done.returncode, done.stdout, done.stderr, self.folder / "runs")

    def agent(self, name: str, *arguments: str) -> Checked:
        """One run of an agent of ``agents.py``."""
        return self.command_here("--stage", "2", "--agent", f"{HERE / 'agents.py'}:{name}", *arguments)

    def command_here(self, *arguments: str, **environment: str) -> Checked:
        """The command in this process, for its start costs a second."""
        command = self.command(*arguments)
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            for variable, value in self.environment(**environment).items():
                patch.setenv(variable, value)
            code = main.run(command[1:])
        return Checked(code, out.getvalue(), err.getvalue(), self.folder / "runs")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command and leave it running."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Python restores the default handler only where SIGINT isn't ignored, as it is in background jobs.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Checker]:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    (folder / "data.jsonl").write_text(json.dumps(SAMPLE) + "\n")
    model = FakeModel(text="The capital of France is Paris.")
    with model.serving() as base_url:
        yield Checker(folder, model, base_url)
