"""One connection of an editor carried on to a debugger: an editor's entry names a port before the process is known.

``python -m harness.breakpoints.relay PORT HOST PORT`` listens on this loopback, says ``ready``, carries the first
connection to the end, and is gone. The standard library only.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

from harness.errors import DebuggerGone

# What the entries of launch.json name; below the range of debuggers (breakpoints/inside).
PORT = 20999
# An editor connects as soon as the task that began this has ended; a person may be asked something before.
WAIT_SECONDS = 120.0


def begin(host: str, port: int, *, at: int = PORT) -> None:
    """Start one that outlives this command.

    Raises:
        DebuggerGone: the port is taken.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.breakpoints.relay", str(at), host, str(port)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != "ready":
        process.wait()
        raise DebuggerGone(
            f"Port {at} can't be listened at: {said or 'the relay ended at once'}.",
            consequence="An editor that was to be let in there has not come yet; the process goes on.",
            mend=f"wait {WAIT_SECONDS:.0f} s, after which it is given up, and try again",
        )
    process.returncode = 0  # it is left to itself


def carry(at: int, host: str, port: int) -> None:
    """Listen, carry one connection, and return; also where none comes in time."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", at))
            listening.listen(1)
        except OSError as error:
            _say(error.strerror or str(error))
            return
        _say("ready")
        listening.settimeout(WAIT_SECONDS)
        try:
            near, _ = listening.accept()
        except OSError:
            return
    # The next editor can be let in from here on.
    with near, socket.create_connection((host, port), timeout=10) as far:
        for one in (near, far):
            one.settimeout(None)
        back = threading.Thread(target=_copy, args=(far, near), daemon=True)
        back.start()
        _copy(near, far)
        back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """One direction to its end; either end closes both, for a debugger's client and server leave together."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    carry(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
