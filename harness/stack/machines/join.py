"""``python -m harness.stack.machines.join HOST:PORT``: may this node join? Prints what its Ray then has to be told.

Standard output: lines of shell, ``export NAME='value'``. Standard error: what is wrong, for people. Exit codes:
0 it may; 75 the head can't be reached, now; 20 and more, for good: it is somebody else, the token is wrong, and so on.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from harness.stack.machines import meeting
from harness.stack.machines.meeting import Facts, Refused
from harness.stack.machines.serve import closed
from harness.stack.ray_ports import AGENTS, DEBUGGERS, WORKERS, Ports, head_address

# All that a head may set here.
NAMES = (
    "DRYDOCK_NODE_ADDRESS", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
)  # fmt: skip
EXIT = {"unreachable": 75, "stranger": 20, "token": 21, "version": 22, "clock": 23, "ports": 24}


def main() -> None:
    """Look at the head, and let oneself be looked at."""
    host, port = head_address(sys.argv[1])
    token = meeting.read_secret(os.environ.get("RAY_AUTH_TOKEN_PATH", "/run/secrets/ray_token"))
    try:
        address, head = check(host, Ports(port), token)
    except Refused as refused:
        print(f"drydock: not joined ({refused.kind}): {refused.what}\n{refused.mend}", file=sys.stderr)  # noqa: T201
        sys.exit(EXIT[refused.kind])
    for name, value in {"DRYDOCK_NODE_ADDRESS": address, **head.told}.items():
        if name in NAMES:
            print(f"export {name}={shlex.quote(value)}")  # noqa: T201


def check(host: str, ports: Ports, token: str) -> tuple[str, Facts]:
    """This node's own address, and what the head is.

    Raises:
        Refused: it may not join.
    """
    if not token:
        raise Refused("token", "No token: the file is empty or can't be read.", "TOKEN_FILE= names it")
    asked = time.time()
    head = facts_of(host, ports, token)
    warning = meeting.clock_fit(meeting.skew(head, asked, time.time()))
    if warning:
        print(f"drydock: {warning}", file=sys.stderr)  # noqa: T201
    meeting.same_version(head, meeting.own_facts())
    if shut := closed(host, (ports.control, *ports.of_every_node)):
        # What the head itself can't reach either isn't there yet.
        if meeting.ask(host, ports.meeting, token, "/listens", {"ports": shut}, seconds=15)["closed"]:
            raise Refused("unreachable", f"The head at {host} is still starting.", "make status   # on the head")
        meeting.ports_open(shut, f"from here to the head {host}")
    address = own_address(host, ports.meeting)
    tried = (*ports.of_every_node, WORKERS.start, DEBUGGERS.start, AGENTS.start)
    with listening(address, tried) as heard:
        answer = meeting.ask(host, ports.meeting, token, "/reach", {"ports": heard}, seconds=15)
    meeting.ports_open(answer["closed"], f"from the head to this node {address}")
    return address, head


def facts_of(host: str, ports: Ports, token: str) -> Facts:
    """What the head is made of.

    Raises:
        Refused: it can't be asked.
    """
    try:
        return Facts.read(meeting.ask(host, ports.meeting, token, "/facts"))
    except ValueError:
        raise Refused("stranger", *meeting.stranger(host, ports.meeting)) from None


def own_address(host: str, port: int) -> str:
    """The address of this machine on the way to the head: the one at which the head finds it."""
    family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def listening(address: str, ports: Sequence[int]) -> Iterator[list[int]]:
    """Listen at all of these that are free; whatever holds the others can be tried as well, so they aren't."""
    with contextlib.ExitStack() as stack:
        heard = []
        for port in ports:
            server = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind((address, port))
                server.listen()
            except OSError:
                continue
            heard.append(port)
        yield heard


if __name__ == "__main__":
    main()
