"""Any machine that a command leads to: ``ssh {host}``, ``srun --overlap -w {host}``, ``kubectl exec -i {host} --``.

The command runs ``harness sample`` over there, gets the request on its standard input and gives one compressed answer
back. No shell of this machine reads any of it, and a host's name can't be taken for an option.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import resource
import selectors
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from harness.errors import BadSetting
from harness.hang.ways import Unreachable, Way
from harness.processes.sampling.model import ANSWER_FORMAT, NodeAnswer, SampleRequest, plain, read_answer

PLACE = "{host}"
LARGEST_OUTPUT = 256 << 20
LARGEST_ANSWER = 2 << 30
MOST_HOSTS = 4_096
# Numbers and containers of this machine.
_NOT_HANDED_ON = frozenset({"pids", "within"})
# A pipe to each of the three streams, both ends while it is started.
_FILES_EACH, _OTHER_FILES = 6, 256
# Its complaints may come a little later than the end of its answer.
_LAST_WORDS = 0.5
_GZIP = b"\x1f\x8b\x08"
# A host, user@host, an address, a pod as kind/name; never an option, a blank or anything that a shell would read.
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?(?:[A-Za-z0-9_][A-Za-z0-9._:/-]*|\[[0-9A-Fa-f:.]+\])")
_RANGE = re.compile(r"([^\[\]]*)\[([0-9,-]+)\](.*)")
# What stands in a complaint, and what that means; the first that is found counts.
_REASONS = (
    ("Permission denied (", "it doesn't let this user in"),
    ("Host key verification failed", "its host key isn't known here"),
    ("No such command 'sample'", "its harness is too old: it has no `sample`"),
    ("The request can't be used", "its harness is of another version and doesn't understand the request"),
    ("No module named", "its harness can't run there"),
    ("not found", "no harness there; REMOTE= says where it is"),
    ("No such file or directory", "no harness there; REMOTE= says where it is"),
)


def find(via: str, hosts: str, remote: str = "harness sample") -> list[Way]:
    """A way to each host.

    Args:
        via: the command that leads to ``{host}``.
        hosts: names with commas between, Slurm's ranges (``node[01-04]``), or ``@FILE`` with one on each line.
        remote: what samples over there.

    Raises:
        BadSetting: one of them can't be used.
    """
    try:
        words = shlex.split(via)
        command = shlex.split(remote)
    except ValueError as error:
        raise BadSetting(f"VIA={via} REMOTE={remote} can't be read: {error}.", mend=_MEND) from None
    if not any(PLACE in word for word in words):
        raise BadSetting(f"VIA={via} has no {PLACE}, so it would lead to one place for all hosts.", mend=_MEND)
    if not command:
        raise BadSetting("REMOTE is empty.", mend="REMOTE='/path/to/venv/bin/harness sample'")
    names = host_names(hosts)
    if not names:
        raise BadSetting("VIA is given, but HOSTS names no host.", mend=_MEND)
    _allow_files(_FILES_EACH * len(names))
    # ssh hands one text to a shell over there, whatever it is given; so that text is what was typed.
    tail = [remote] if os.path.basename(words[0]) == "ssh" else command
    return [Via(name, [word.replace(PLACE, name) for word in words] + tail) for name in names]


def _allow_files(wanted: int) -> None:
    """Let this process have so many more files open, as far as the system does; a usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted + _OTHER_FILES if hard == resource.RLIM_INFINITY else min(hard, wanted + _OTHER_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_MEND = "make hang-dump VIA='ssh {host}' HOSTS=node1,node2"


def host_names(text: str) -> list[str]:
    """The hosts that are meant, each once.

    Raises:
        BadSetting: a name has something in it that no host's name has, or the file can't be read.
    """
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(f"HOSTS={text}: the file can't be read: {error}.", mend=_MEND) from None
        # As MPI and DeepSpeed write it: `node1 slots=8`.
        names = [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")]
    else:
        names = [name for part in re.split(r",(?![^\[]*\])|\s+", text) if part for name in _expanded(part)]
    for name in names:
        if not _HOST.fullmatch(name):
            raise BadSetting(f"HOSTS: {name!r} is no name of a host.", mend=_MEND)
    if len(names) > MOST_HOSTS:
        raise BadSetting(f"HOSTS names more than {MOST_HOSTS} hosts.", mend=_MEND)
    return list(dict.fromkeys(names))


def _expanded(name: str) -> list[str]:
    match = _RANGE.fullmatch(name)
    if match is None or not match[1]:
        return [name]  # [::1] is an address
    found = []
    for part in match[2].split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) - int(first) > MOST_HOSTS:
            raise BadSetting(f"HOSTS: {name!r} is no range of hosts.", mend=_MEND)
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return [whole for number in found for whole in _expanded(f"{match[1]}{number}{match[3]}")]


class Via:
    """One host."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        """Run the command; it is ended with all it has started when there is no more time."""
        rest = max(1.0, deadline - time.monotonic())
        seconds = min(request.timeout_seconds, max(1.0, rest - 5))
        wanted = plain(dataclasses.replace(request, timeout_seconds=seconds), _NOT_HANDED_ON)
        code, output, complaint = self._run(json.dumps(wanted).encode(), deadline - 1)
        if self._stopped:
            raise Unreachable("it was broken off")
        return answer_in(output) if code == 0 else _refused(code, output, complaint)

    def _run(self, request: bytes, deadline: float) -> tuple[int, bytes, bytes]:
        """Run to the end; what it started ends with it.

        Not by ``communicate``: something that left its group may hold the pipes for ever (ssh's ControlPersist does),
        and something that is no harness may write without end.
        """
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise Unreachable(f"{self._command[0]} can't be started: {error.strerror}") from None
        self._process = process
        if self._stopped:
            _end(process)
        with process:
            try:
                output, complaint = _carried(process, request, deadline)
                return process.wait(max(0.1, deadline - time.monotonic())), output, complaint
            except (TimeoutError, subprocess.TimeoutExpired):
                raise Unreachable("it didn't answer in time") from None
            finally:
                _end(process)

    def stop(self) -> None:
        """End the command. What it started elsewhere ends by itself, at the latest with the time it was given."""
        self._stopped = True
        if self._process is not None:
            _end(self._process)


def answer_in(output: bytes) -> NodeAnswer:
    """The answer in what a command wrote, which may have greetings before it and farewells after it.

    Raises:
        Unreachable: there is none, or none of this version.
    """
    start, reason = -1, "it gave no answer"
    while (start := output.find(_GZIP, start + 1)) >= 0:
        packed = zlib.decompressobj(wbits=31)
        try:
            text = packed.decompress(output[start:], LARGEST_ANSWER)
        except zlib.error:
            reason = "its answer was changed on the way; VIA must not ask for a terminal (-t)"
            continue
        if not packed.eof:
            reason = "its answer broke off"
            continue
        try:
            answer = read_answer(text)
        except ValueError as error:
            reason = f"its answer can't be read: {error}"
            continue
        if answer.format != ANSWER_FORMAT:
            reason = f"its harness is of another version: it writes {answer.format}, this reads {ANSWER_FORMAT}"
            raise Unreachable(reason)
        return answer
    said = output[:2000].decode("utf-8", "replace").strip().splitlines()
    raise Unreachable(f"{reason}; it wrote: {said[0][:120]}" if said and _GZIP not in output else reason)


def _refused(code: int, output: bytes, complaint: bytes) -> NodeAnswer:
    text = (complaint or output)[-8000:].decode("utf-8", "replace")
    said = [line.strip() for line in text.splitlines() if line.strip()]
    last = said[-1][:200] if said else f"exit code {code}"
    meant = next((reason for word, reason in _REASONS if word in text), "")
    raise Unreachable(f"{meant} ({last})" if meant else f"the command failed with exit code {code}: {last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _carried(process: subprocess.Popen[bytes], request: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Hand the request over and take what comes, until its standard output ends, and its complaints."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaint, rest = bytearray(), bytearray(), memoryview(request)
    with selectors.DefaultSelector() as selector:
        for stream, event in ((process.stdin, selectors.EVENT_WRITE), (process.stdout, selectors.EVENT_READ),
                              (process.stderr, selectors.EVENT_READ)):  # fmt: skip
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event)
        while selector.get_map():
            answered = process.stdout.fileno() not in selector.get_map()
            ready = selector.select(max(0.0, _LAST_WORDS if answered else deadline - time.monotonic()))
            if not ready and answered:
                break
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    try:
                        rest = rest[os.write(key.fd, rest) :]
                    except BrokenPipeError:
                        rest = rest[:0]  # it reads no more; why, its complaint says
                    if not rest:
                        selector.unregister(key.fileobj)
                        process.stdin.close()
                elif not (data := os.read(key.fd, 1 << 16)):
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += data
                    if len(output) > LARGEST_OUTPUT:
                        raise Unreachable(f"it wrote more than {LARGEST_OUTPUT >> 20} MB, which is no answer")
                else:
                    complaint = (complaint + data)[-8000:]
    return bytes(output), bytes(complaint)
