"""Samples the container whose PID namespace it has joined, for somebody who may not do so (harness/hang/ways).

    sampler.py once  CONTAINER_ID SECONDS    a probe: one request, the first line of standard input; ends with whoever
                                             holds that input, after SECONDS at the latest
    sampler.py serve CONTAINER_ID SOCKET     a sampler: a request for each connection, one after the other

A request is a line of JSON. The answer is what `harness sample` wrote (gzip), or a line of JSON with an `error`.

This runs as root with CAP_SYS_PTRACE, and a sampler's requests come from a container in which agents run code. So
nothing of a request gets further than `checked` lets it, and all that is ever done is sampling that one container. The
standard library only, and little of it: a sampler is idle nearly always, and `harness sample` starts when it is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

LONGEST_REQUEST = 32_768  # fits into a pipe, so that writing it never waits
READ_SECONDS = 5.0
# Beside what the samples themselves may take: starting Python, packing the answer.
EXTRA_SECONDS = 15.0
# Time for the dumps in flight to be ended and for what they held to be let go on.
END_SECONDS = 8.0
# Between two requests, so that nobody can keep a container under py-spy all the time.
REST_SECONDS = 0.5
LARGEST_ANSWER = 64 << 20
CHUNK = 65_536

# What may be asked for. Not here on purpose: `logs` (it reads files), `within` (it says whose processes) and `tasks`
# (it runs code in the process, or the process's own interpreter here).
FLAGS = frozenset({"everything", "locals", "native"})
NUMBERS = {"samples": (1, 5), "gap_seconds": (0, 600), "timeout_seconds": (1, 900), "dump_seconds": (0.1, 120)}
MOST_PIDS = 2_000
LARGEST_PID = 1 << 22
LONGEST_MATCH = 1_000


class Refused(Exception):
    """A request that can't be served, with the reason."""


def checked(line: bytes, container: str) -> tuple[bytes, float]:
    """The request as it is handed on, and how many seconds it may take.

    Raises:
        Refused: it is anything but a request for samples.
    """
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("the request is not JSON") from None
    if not isinstance(asked, dict):
        raise Refused("the request is not an object")
    for name, value in asked.items():
        if not _fits(name, value):
            raise Refused(f"{name[:40]!r} can't be asked for, or not with this value")
    seconds = float(asked.setdefault("timeout_seconds", 120))
    return json.dumps({**asked, "within": container}).encode(), seconds + EXTRA_SECONDS


def _fits(name: str, value: object) -> bool:
    if name in FLAGS:
        return isinstance(value, bool)
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if name == "match":
        return isinstance(value, str) and len(value) <= LONGEST_MATCH
    if name == "pids":
        return isinstance(value, list) and len(value) <= MOST_PIDS and all(map(_is_pid, value))
    return False


def _is_pid(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_PID


def sample(request: bytes, seconds: float, asker: int, answer: int) -> str:
    """Run `harness sample` and copy its answer; returns why there is none, "" where all went well.

    Args:
        asker: a descriptor of whoever asked; when it ends or says anything more, nobody waits for the answer.
        answer: the descriptor that the answer goes to.
    """
    child = subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "harness"), "sample"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/tmp", "LC_ALL": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )
    try:
        assert child.stdin is not None
        child.stdin.write(request)
        child.stdin.close()
        return _copied(child, time.monotonic() + seconds, asker, answer)
    except OSError as error:
        return f"the answer could not be carried: {error.strerror}"
    finally:
        _end(child)


def _copied(child: subprocess.Popen[bytes], deadline: float, asker: int, answer: int) -> str:
    assert child.stdout is not None
    assert child.stderr is not None
    output, complaint = child.stdout.fileno(), child.stderr.fileno()
    waiting, said, copied = [output, complaint, asker], b"", 0
    while output in waiting or complaint in waiting:
        ready = select.select(waiting, [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            return "it took longer than it was given"
        if asker in ready:
            return "whoever asked is gone"
        for stream in ready:
            data = os.read(stream, CHUNK)
            if not data:
                waiting.remove(stream)
            elif stream == complaint:
                said = (said + data)[-2000:]
            else:
                copied += len(data)
                if copied > LARGEST_ANSWER:
                    return "the answer is too large"
                _write(answer, data, deadline)
    code = child.wait()
    return "" if code == 0 and copied else said.decode("utf-8", "replace").strip() or f"exit code {code}"


def _write(descriptor: int, data: bytes, deadline: float) -> None:
    while data:
        if not select.select([], [descriptor], [], max(0.0, deadline - time.monotonic()))[1]:
            raise TimeoutError(0, "nobody takes it")
        data = data[os.write(descriptor, data) :]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it in the way that leaves no target stopped; what doesn't listen is killed with all it has started."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            _adopt_orphans()
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-child.pid, 0):
                    pass
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _adopt_orphans() -> None:
    """Become the one whom orphans go to: the first process of this namespace is the target's, and may reap none."""
    import ctypes  # here, because it takes memory that an idle sampler can do without

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def once(container: str, seconds: float) -> None:
    """Serve the one request of a probe."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        request, may_take = checked(_line(0, time.monotonic() + seconds), container)
        os.set_blocking(1, False)
        reason = sample(request, min(seconds, may_take), 0, 1)
    except Refused as error:
        reason = str(error)
    if reason:
        sys.exit(reason)


def serve(container: str, path: str) -> None:
    """Serve requests on a socket until the target ends, and this with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    folder, name = os.path.split(path)
    os.chdir(folder)  # a socket's path may have 107 bytes, and so a name alone goes further
    _remove_dead()
    listener = socket.socket(socket.AF_UNIX)
    hidden = f".{name}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(hidden)
    listener.bind(hidden)
    os.chmod(hidden, 0o666)  # whoever has this volume may ask
    listener.listen(8)
    os.rename(hidden, name)  # so that what has a name also answers
    print(f"sampler: ready, {path}", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                reason = _serve_one(connection, container)
            except Exception as error:  # noqa: BLE001  # one request must not end the service for all that follow
                reason = f"{type(error).__name__}: {error}"
            if reason:
                with contextlib.suppress(OSError):
                    connection.send(json.dumps({"error": reason}).encode() + b"\n")
        time.sleep(REST_SECONDS)


def _serve_one(connection: socket.socket, container: str) -> str:
    connection.setblocking(False)
    asker = connection.fileno()
    try:
        line = _line(asker, time.monotonic() + READ_SECONDS)
        request, seconds = checked(line, container)
    except Refused as error:
        return str(error)
    return sample(request, seconds, asker, asker)


def _line(descriptor: int, deadline: float) -> bytes:
    """The first line of what comes, without its end."""
    found = b""
    while b"\n" not in found:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Refused("no whole request came in time")
        data = os.read(descriptor, CHUNK)
        found += data
        if not data or len(found) > LONGEST_REQUEST:
            raise Refused("no whole request came" if not data else "the request is too long")
    return found.partition(b"\n")[0]


def _remove_dead() -> None:
    """Remove sockets of samplers that ended with their container; nobody else could."""
    for name in os.listdir("."):
        if name.startswith("."):
            continue  # another that starts right now
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(name)
            except ConnectionRefusedError:
                os.unlink(name)
            except OSError:
                continue  # busy, or no socket


if __name__ == "__main__":
    if sys.argv[1] == "once":
        once(sys.argv[2], float(sys.argv[3]))
    else:
        serve(sys.argv[2], sys.argv[3])
