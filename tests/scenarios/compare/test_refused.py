"""What can't be compared as it was typed ends with a sentence and the exit code of its kind."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.compare.checkpoint import Lines, Store
from harness.errors import Busy, DrydockError, RunsNotWritable
from tests.support.comparing import begin, compare, wait_for_lines
from tests.support.two_sides import Sides, fake_python, serving


def _a_file(folder: Path) -> str:
    (folder / "occupied").write_text("somebody's")
    return str(folder / "occupied")


@pytest.mark.parametrize("place", ["/proc/nobody", _a_file], ids=["no folder can be made", "a file is there"])
def test_runs_that_cannot_be_kept(place: str | Callable[[Path], str], tmp_path: Path) -> None:
    runs = place if isinstance(place, str) else place(tmp_path)
    with serving(Sides()) as url:
        done = compare(url, tmp_path, runs=Path(runs))
    assert (done.code, f"results can't be written into {runs}" in done.stderr) == (3, True), str(done)
    assert "set RUNS= to a folder of your own" in done.stderr


def test_a_disk_that_is_full_in_the_middle_keeps_what_is_whole(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "samples.jsonl")
    lines.add({"id": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(DrydockError) as raised:
            lines.add({"id": 2, "text": "x" * 200})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(raised.value, RunsNotWritable)
    assert 2 not in lines
    assert list(Lines(tmp_path / "samples.jsonl").ids()) == [1]


def test_the_same_comparison_twice_at_once(tmp_path: Path) -> None:
    """The second leaves the first alone; once that is through there is nothing in the way any more."""
    sides = Sides(stands_after=20)
    more = ("--hits", "60", "--in-flight", "2")
    with serving(sides) as url:
        first = begin(url, tmp_path, *more)
        wait_for_lines(tmp_path / "runs", 10)
        second = compare(url, tmp_path, *more)
        assert (second.code, "the same comparison is going on already" in second.stderr) == (3, True), str(second)
        first.kill()
        first.communicate()
        sides.stands_after = 0
        answer = compare(url, tmp_path, *more).ok().json()
    assert answer["continued"] >= 10
    store = Store(tmp_path / "store")
    with pytest.raises(Busy):
        Store(tmp_path / "store")
    store.close()
    Store(tmp_path / "store").close()


@pytest.mark.parametrize("program", ["ls", "echo", "true"])
def test_an_interpreter_that_is_none(program: str, tmp_path: Path) -> None:
    found = shutil.which(program)
    assert found is not None
    with serving(Sides()) as url:
        done = compare(url, tmp_path, python=Path(found))
    assert (done.code, found in done.stderr) == (3, True), str(done)
    assert "COMPARE_PYTHON=" in done.stderr


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        done = compare(url, tmp_path, python=fake_python(tmp_path, error=["device", "this torch (2) sees no GPU"]))
    assert (done.code, "DEVICE=cpu" in done.stderr) == (3, True), str(done)


def test_nothing_that_can_be_compared_with(tmp_path: Path) -> None:
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--against", "nobody")
    assert (done.code, "AGAINST=nobody is neither a way, nor a server" in done.stderr) == (2, True), str(done)
    assert "AGAINST=batch, cache, http://HOST:PORT/v1" in done.stderr


@pytest.mark.parametrize("body", [
    "<html>not found, but politely</html>", "", "null", "[]", "[1]", "5", '{"data": 5}', '{"data": [{"id": {}}]}',
    '{"data": [{"id": "m", "max_model_len": "many"}], "choices": [{"text": 5, "logprobs": {"content": [1]}}]}',
    '{"choices": [{"text": "a", "logprobs": {"tokens": ["token_id:-1"], "token_logprobs": [-1]}}], "usage": [1]}',
])  # fmt: skip
def test_a_server_that_is_something_else(body: str, tmp_path: Path) -> None:
    """Whatever it answers, to every question and with a status that says that all is well."""

    class Same(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Not on the tests' output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Same) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            done = compare(f"http://127.0.0.1:{server.server_port}/v1", tmp_path)
        finally:
            server.shutdown()
    assert (done.code, "gives no log-probs for token ids" in done.stderr) == (3, True), str(done)


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "a call without a function": (
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [{"name": "f"}]},
                      {"role": "tool", "content": "5"}]},
        "tool_calls is no list of objects, each with a function",
    ),
    "calls that are none": (
        {"messages": [{"role": "user", "content": "hi", "tool_calls": 5}]}, "tool_calls is no list of objects",
    ),
    "tools that are none": ({"messages": [{"role": "user", "content": "hi"}], "tools": 5}, "tools is no list"),
    "log-probs that are none": (
        {"prompt_ids": [5], "output_ids": [6], "logprobs": ["-1"]}, "logprobs has something else than numbers",
    ),
    "token ids that are none": (
        {"prompt_ids": [5], "output_ids": [-6], "logprobs": [-1]}, "output_ids has something else than token ids",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_one_bad_row_among_good_ones(name: str, tmp_path: Path) -> None:
    row, words = BAD_ROWS[name]
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"prompt": "good"}) + "\n" + json.dumps(row) + "\n")
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--data", str(data))
    assert (done.code, f"line 2: {words}" in done.stderr) == (2, True), str(done)


@pytest.mark.parametrize("more", [(), ("--against", "batch")], ids=["transformers", "AGAINST=batch"])
def test_a_conversation_that_the_template_refuses_is_named_by_its_line(more: tuple[str, ...], tmp_path: Path) -> None:
    """Far behind those that are rendered first, and so while others are sampled already."""
    data = tmp_path / "data.jsonl"
    rows = [{"messages": [{"role": "user", "content": "odd" if line == 150 else "even"}]} for line in range(1, 201)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--data", str(data), "--hits", "200", "--in-flight", "4", *more,
                       python=fake_python(tmp_path, refuses="odd"))  # fmt: skip
    assert (done.code, "line 150: the chat template refuses it: roles must alternate" in done.stderr) == (2, True), done


def test_token_ids_that_the_reference_lacks_cost_their_sample_alone(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"prompt_ids": [5], "output_ids": [6], "logprobs": [-1]}, {"prompt_ids": [10**9], "output_ids": [6],
            "logprobs": [None]}]  # fmt: skip
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(Sides(dialect="llamacpp")) as url:
        done = compare(url, tmp_path, "--data", str(data), "--hits", "2")
    assert done.json()["samples"] == 1
    assert any("isn't in the reference's vocabulary" in problem for problem in done.json()["problems"]), str(done)


def test_data_of_another_encoding(tmp_path: Path) -> None:
    data = tmp_path / "it's.jsonl"
    data.write_bytes('{"prompt": "Grüße"}\n'.encode("latin-1"))
    with serving(Sides()) as url:
        done = compare(url, tmp_path, "--data", str(data))
        assert (done.code, "isn't UTF-8" in done.stderr) == (3, True), str(done)
        said = next(line for line in done.stderr.splitlines() if "iconv" in line)
        command = said.partition("→ ")[2].replace("ENCODING", "LATIN1").replace("OTHER", "mended")
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        assert compare(url, tmp_path, "--data", str(tmp_path / "mended.jsonl")).ok().json()["samples"] == 10
