"""A process that stands in debugpy until a client comes is found, held at one of its next lines, and sent on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.breakpoints import attach, decide, started
from harness.dap.model import Breakpoint
from tests.support.harness import free_port, wait_for


@pytest.mark.parametrize("by_itself", [False, True], ids=["started under debugpy", "its own code waits"])
def test_it_is_found_and_stands_at_one_of_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_itself: bool
) -> None:
    (tmp_path / "my_agent.py").write_text("def run():\n    return 0.5\n")
    port = free_port()
    loop = "import time\nimport my_agent\nwhile my_agent.run():\n    time.sleep(0.01)\n"
    calls = f"import debugpy\ndebugpy.listen(('127.0.0.1', {port}))\ndebugpy.wait_for_client()\n"
    (tmp_path / "start.py").write_text(calls + loop if by_itself else loop)
    monkeypatch.chdir(tmp_path)
    under = ["-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--wait-for-client"]
    process = subprocess.Popen(
        [sys.executable, "-Xfrozen_modules=off", *([] if by_itself else under), "start.py"],
    )
    try:
        wait_for("the process to wait", lambda: process.pid in {one.pid for one in started.processes()})
        (worker,) = [one for one in started.processes() if one.pid == process.pid]
        (line,) = decide.paused([worker], {})
        assert (line.file, line.line) == ((str(tmp_path / "start.py"), 3) if by_itself else ("", 0))
        held = attach.held(line)
        assert held.stopped
        held.look()
        held.add(Breakpoint(held.file_for("my_agent.py"), 2))
        held.go("continue")
        stop = held.session.wait_for_stop(timeout=60)
        assert (held.session.stack(stop.thread)[0].file, stop.reason) == (str(tmp_path / "my_agent.py"), "breakpoint")
        assert process.pid not in {one.pid for one in started.processes()}
        held.session.detach()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
