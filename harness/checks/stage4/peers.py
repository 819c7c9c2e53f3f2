"""Whose the other end of a loopback connection is, by the kernel's own word.

AReaL's engine opens a connection for each call, and each leaves a socket behind for a minute. So the kernel is asked
for the one socket (sock_diag, as ``ss`` does); its table of all of them takes milliseconds to read, and is only read
where that isn't to be had.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_BY_FAMILY, _REQUEST = 20, 1
_TCP_ALL_STATES = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI")
# Ports and addresses in the network's order; then an interface and a cookie, of which any is meant.
_WHICH = struct.Struct("!HH16s16s")
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
# In the answer: four bytes of state, the socket's name, time to expiry, two queues, then its owner.
_UID_AT = _HEADER.size + 4 + _WHICH.size + len(_ANY) + 12

Address = tuple[str, int]


def is_ours(peer: Address | None, here: Address | None) -> bool:
    """Whether the other end of a connection belongs to this user.

    Args:
        peer: address and port of the other end; None where it has gone.
        here: address and port of our end.
    """
    if peer is None or here is None:
        return False
    try:
        uid = _asked(peer, here)
    except OSError:
        uid = _looked_up(peer, here)
    return uid == os.getuid()


def _asked(peer: Address, here: Address) -> int | None:
    """The owner of the socket that is bound to ``peer`` and connected to ``here``; None where there is none.

    Raises:
        OSError: this kernel, or what stands in for one, can't be asked.
    """
    which = _WHICH.pack(peer[1], here[1], socket.inet_aton(peer[0]) + bytes(12), socket.inet_aton(here[0]) + bytes(12))
    body = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _TCP_ALL_STATES) + which + _ANY
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 4) as kernel:
        kernel.settimeout(1.0)
        kernel.sendto(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body, (0, 0))
        answer = kernel.recv(4096)
    if len(answer) < _UID_AT + 4 or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        code = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if code == 2:  # ENOENT
            return None
        raise OSError(code, os.strerror(code))
    return int(struct.unpack_from("=I", answer, _UID_AT)[0])


def _looked_up(peer: Address, here: Address) -> int | None:
    """The same by the table of all sockets."""
    ends = [_as_in_table(peer), _as_in_table(here)]
    try:
        lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    return next((int(row[7]) for line in lines if (row := line.split())[1:3] == ends), None)


def _as_in_table(address: Address) -> str:
    number = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{number:08X}:{address[1]:04X}"
