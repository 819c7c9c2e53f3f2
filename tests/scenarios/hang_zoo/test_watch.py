"""The watch on real programs: it tells once of one that hangs, leaves the others alone, and ends nobody."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.hang.zoo.program import read
from harness.hang.zoo.run import running
from tests.bench.hang_accuracy import ZOO
from tests.support.hanging import harness
from tests.support.harness import CLONE, HARNESS, wait_for


def test_a_hang_is_dumped_and_told_and_goes_on_hanging(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    hook = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    with running(read(ZOO / "server_blocked_loop.py"), sys.executable) as program:
        ended = harness(
            tmp_path / "runs", "hang-watch", "--once", "--after", "2s", "--pids", ",".join(map(str, program.pids)),
            "--notify", f'echo "$HANG_CAUSE" > {tmp_path}/told', "--webhook", f"http://127.0.0.1:{hook.server_port}/",
        )  # fmt: skip
        assert ended.code == 1, ended
        assert (tmp_path / "told").read_text() == "server-blocked\n"
        assert str(told[0]["text"]).startswith("Hung: a server doesn't answer")
        assert (Path(str(told[0]["folder"])) / "report.html").is_file()
        assert all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" for pid in program.pids)
    hook.shutdown()


def test_a_service_that_nobody_asks_is_left_alone(tmp_path: Path) -> None:
    with running(read(ZOO / "ok_idle_server.py"), sys.executable) as program:
        watch = subprocess.Popen(
            [str(HARNESS), "hang-watch", "--once", "--after", "1s", "--pids", str(program.pids[0])],
            env={**os.environ, "RUNS": str(tmp_path / "runs"), "GAP": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watch.stderr is not None
        # It was looked at, twice, and nothing was found.
        wait_for(
            "a look that found no hang", lambda: "no sure hang: idle" in (watch.stderr or sys.stdin).readline(), 90
        )
        watch.terminate()
        # What nobody need be told is no result.
        assert watch.communicate(timeout=30)[0] == ""
        assert watch.returncode == 0


@pytest.mark.slow
def test_pytest_sessions_are_watched(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import threading\ndef test_hangs():\n    threading.Event().wait(45)\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "harness.pytest_plugin", "--hang-watch", "2s", str(tmp_path)],
        env={**os.environ, "RUNS": str(tmp_path / "runs"), "PYTHONPATH": str(CLONE)}, capture_output=True, text=True,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "test_hangs (test_it.py:3)" in done.stdout + done.stderr
