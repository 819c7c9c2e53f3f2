"""Output is shown as it comes and kept byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.supervised import PYTHON, Gate, Start


def test_both_outputs_are_shown_and_kept_apart(supervised: Start) -> None:
    run = supervised("echo to out; echo to err >&2")
    code, out, err = run.end()
    assert (code, out) == (0, b"to out\n")
    assert "to err\n" in err
    assert (run.folder / "stdout.log").read_bytes() == b"to out\n"
    assert (run.folder / "stderr.log").read_bytes() == b"to err\n"


def test_a_line_without_its_end_is_shown_at_once(supervised: Start, gate: Gate) -> None:
    run = supervised(f"printf '50%%'; read x < {gate}; printf '\\r100%%\\n'")
    assert run.out.read(3) == b"50%"
    gate.open()
    assert run.end()[:2] == (0, b"\r100%\n")


def test_python_does_not_hold_its_lines_back(supervised: Start, gate: Gate) -> None:
    run = supervised(f'{PYTHON} -c \'print("step 1"); open("{gate}").readline()\'')
    assert run.line() == "step 1"
    gate.open()
    assert run.end()[0] == 0


def test_a_hundred_megabytes_of_bytes_arrive_whole(supervised: Start, tmp_path: Path) -> None:
    block = os.urandom(1_000_000)
    source = tmp_path / "source"
    with source.open("wb") as file:
        for _ in range(100):
            file.write(block)
    expected = hashlib.sha256(block * 100).hexdigest()
    # Twice at the same time, to both outputs: who reads one after the other is stuck here.
    run = supervised(f"cat {source} & cat {source} >&2; wait")
    code, out, _ = run.end()
    assert code == 0
    assert hashlib.sha256(out).hexdigest() == expected
    record = run.result()
    assert (record.stdout.bytes, record.stderr.bytes) == (100_000_000, 100_000_000)
    for name in ("stdout.log", "stderr.log"):
        assert hashlib.sha256((run.folder / name).read_bytes()).hexdigest() == expected


def test_a_reader_that_has_seen_enough_does_not_end_the_command(supervised: Start, gate: Gate) -> None:
    run = supervised(f"echo first; read x < {gate}; echo second; exit 4")
    assert run.line() == "first"
    run.out.close()
    gate.open()
    assert run.process.wait(timeout=60) == 4
    assert (run.folder / "stdout.log").read_bytes() == b"first\nsecond\n"
    assert run.result().stdout.problem == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")
def test_a_full_disk_loses_the_file_not_the_command(supervised: Start, tmp_path: Path) -> None:
    small = tmp_path / "runs"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        run = supervised("head -c 200000 /dev/zero; head -c 200000 /dev/zero; head -c 200000 /dev/zero")
        code, out, err = run.end()
        assert (code, len(out)) == (0, 600_000)
        assert "stdout.log is incomplete: No space left on device." in err
        assert 0 < run.result().stdout.bytes < 600_000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_as_json_only_the_answer_is_on_standard_output(supervised: Start) -> None:
    code, out, err = supervised("echo hello; exit 3", "--json").end()
    record = json.loads(out)
    assert (code, record["exit_code"], record["status"]) == (3, 3, 3)
    assert "hello\n" in err


def test_the_command_reads_our_input(supervised: Start) -> None:
    run = supervised("read name; echo hello $name", stdin=subprocess.PIPE)
    out, _ = run.process.communicate(b"world\n", timeout=60)
    assert out == b"hello world\n"


def test_secrets_are_not_kept(supervised: Start) -> None:
    environment = {"WANDB_API_KEY": "canary-in-environment"}
    run = supervised(
        "sh -c 'exit 0' x $WANDB_API_KEY --hub-token canary-on-command-line; sleep 0.1", environment=environment
    )
    assert run.end()[0] == 0
    assert "WANDB_API_KEY" in run.result().environment
    for path in run.folder.iterdir():
        assert b"canary" not in path.read_bytes(), path
