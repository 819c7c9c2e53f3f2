"""Other machines by a command template: what is taken for a host, and what for an answer."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.hang.ways import Unreachable
from harness.hang.ways.via import LARGEST_ANSWER, Via, answer_in, find, host_names
from harness.processes.sampling.model import NodeAnswer, pack

ANSWER = pack(NodeAnswer(host="node1", notes=["hello"]))


def command_of(way: object) -> list[str]:
    assert isinstance(way, Via)
    return way._command


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("a, b\nc  a", ["a", "b", "c"]),
        ("me@node-1.example.com", ["me@node-1.example.com"]),
        ("node[01-03,7],login", ["node01", "node02", "node03", "node7", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("[::1],10.0.0.1", ["[::1]", "10.0.0.1"]),
        ("pod/trainer-0", ["pod/trainer-0"]),
        ("", []),
    ],
)
def test_hosts_are_read_as_people_and_slurm_write_them(text: str, names: list[str]) -> None:
    assert host_names(text) == names


def test_hosts_come_from_a_hostfile(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# cluster\nnode1 slots=8\n\nnode2 slots=8\n")
    assert host_names(f"@{tmp_path}/hosts") == ["node1", "node2"]


@pytest.mark.parametrize(
    "text",
    [
        "-oProxyCommand=x",
        "a;reboot",
        "$(id)",
        "`id`",
        "a|b",
        "a&b",
        "a'b",
        'a"b',
        "{host}",
        "@/no/such/file",
        "a%b",
        "ä",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        host_names(text)


@pytest.mark.parametrize("text", ["n[2-", "n[a-b]", "n[1-99999999]", "n[-3]"])
def test_a_broken_range_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        host_names(text)


def test_words_of_the_command_stay_words_and_ssh_gets_one_text_for_its_shell() -> None:
    [way] = find("kubectl exec -i 'pod {host}' --", "a", "env 'A=1 2' harness sample")
    assert command_of(way) == ["kubectl", "exec", "-i", "pod a", "--", "env", "A=1 2", "harness", "sample"]
    [way] = find("/usr/bin/ssh -o BatchMode=yes {host}", "a", "cd '/x y' && harness sample")
    assert command_of(way) == ["/usr/bin/ssh", "-o", "BatchMode=yes", "a", "cd '/x y' && harness sample"]


@pytest.mark.parametrize(
    ("via", "hosts", "remote"),
    [
        ("ssh host", "a", "x"),
        ("ssh {host}", "", "x"),
        ("ssh '{host}", "a", "x"),
        ("", "a", "x"),
        ("ssh {host}", "a", " "),
    ],
)
def test_a_setting_that_leads_nowhere_is_wrong_usage(via: str, hosts: str, remote: str) -> None:
    with pytest.raises(BadSetting):
        find(via, hosts, remote)


@pytest.mark.parametrize(
    "output",
    [
        ANSWER,
        b"Welcome!\r\n" + ANSWER,
        ANSWER + b"logout\n",
        b"\x1f\x8b\x08 no archive \x1f\x8b\x08" + ANSWER,
        gzip.compress(b"another archive") + ANSWER + gzip.compress(b"{}"),
    ],
    ids=["bare", "greeted", "taken leave of", "after what looks like one", "among others"],
)
def test_an_answer_is_found_in_noise(output: bytes) -> None:
    assert answer_in(output).notes == ["hello"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"", "no answer"),
        (b"bash: line 1: who?\n", "no answer; it wrote: bash: line 1: who?"),
        (ANSWER[:-5], "broke off"),
        (ANSWER.replace(b"\n", b"\r\n") if b"\n" in ANSWER else ANSWER[:20] + b"\r" + ANSWER[20:], "terminal"),
        (gzip.compress(b"not json"), "can't be read"),
        (pack(NodeAnswer(format="drydock-sample/9")), "another version"),
    ],
    # Not the bytes themselves: gzip writes the time into them, and processes that run tests side by side compare names.
    ids=["nothing", "an error", "cut off", "as a terminal gives it", "not JSON", "another version"],
)
def test_what_is_no_answer_says_why(output: bytes, reason: str) -> None:
    with pytest.raises(Unreachable) as caught:
        answer_in(output)
    assert reason in caught.value.reason


def test_an_archive_of_zeros_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST_ANSWER > 1 << 30
    monkeypatch.setattr("harness.hang.ways.via.LARGEST_ANSWER", 1 << 16)
    with pytest.raises(Unreachable, match="broke off"):
        answer_in(gzip.compress(bytes(1 << 20)))


def test_stacks_that_travelled_once_are_all_there() -> None:
    stacks = b'[{"pid": 7, "thread_id": 1, "frames": []}]'
    dumps = {"7.json": stacks, "8.json": stacks.replace(b"7", b"8")}
    assert answer_in(b"hello\n" + pack(NodeAnswer(dumps=dumps))).dumps == dumps


def test_a_thousand_hosts_get_the_files_that_they_need() -> None:
    """Three pipes each are more than the 1,024 files that a process may usually have open."""
    code = (
        "import resource as r; from harness.hang.ways.via import find\n"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (64, min(hard, 8192)))\n"
        "find('ssh {host}', 'n[1-1000]'); print(r.getrlimit(r.RLIMIT_NOFILE)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 3000
