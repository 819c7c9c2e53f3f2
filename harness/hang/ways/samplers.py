"""From inside ``dev``: the stack's containers, by the samplers that `up` has put beside them.

``dev`` has no Docker socket and no capability. Each sampler listens on a Unix socket in a volume that nobody else has;
its program is docker/dev/sampler.py, and harness/stack/samplers.py starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from harness.hang.ways import Unreachable, Way
from harness.hang.ways.remote import LARGEST_ANSWER, asked, named
from harness.processes.sampling.model import NodeAnswer, SampleRequest, unpack

FOLDER = Path("/run/drydock-samplers")
# Services and how many containers each of them has: `dev=1,ray-worker=2`.
EXPECTED = "DRYDOCK_SAMPLED"
OWN_SERVICE = "dev"
_NO_SAMPLER = "it has ended or was restarted since `make up`, or its sampler was ended: make up   # on the host"


class SamplerWay:
    """One container with a sampler that answers."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        self.name = name
        self._connection = connection

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        """Have it sampled; the sampler gives up as soon as this connection closes.

        Raises:
            Unreachable: the sampler ended or didn't answer in time.
        """
        with self._connection as connection:
            try:
                connection.settimeout(max(0.1, deadline - time.monotonic()))
                connection.sendall(asked(request))
                data = _all_of(connection, deadline)
            except TimeoutError:
                raise Unreachable("it didn't answer in time") from None
            except OSError as error:
                raise Unreachable(f"its sampler broke off: {error.strerror}") from None
        try:
            return named(unpack(data), self.name, request)
        except ValueError as error:
            raise Unreachable(_complaint(data) or f"its sampler broke off: {error}") from None

    def stop(self) -> None:
        """Hang up, also without having asked; the sampler then turns to the next."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class NoSampler:
    """One container that should have a sampler and has none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:  # noqa: ARG002
        """Never answers."""
        raise Unreachable(_NO_SAMPLER)


def find(environ: Mapping[str, str] = os.environ, folder: Path = FOLDER) -> list[Way]:
    """All containers of the stack; [] outside ``dev``."""
    expected = read_expected(environ.get(EXPECTED, ""))
    alive: dict[str, socket.socket] = {}
    dead: list[str] = []
    for name in sorted(path.name for path in folder.glob("[!.]*")) if expected else []:
        connection = _connected(folder / name)
        if connection is None:
            dead.append(name)
        else:
            alive[name] = connection
    return [*(SamplerWay(*item) for item in alive.items()), *map(NoSampler, missing(expected, list(alive), dead))]


def own(ways: list[Way]) -> list[Way]:
    """The way to this container itself: there, numbers of processes are the same as here. Closes the others."""
    alive = [way for way in ways if isinstance(way, SamplerWay)]
    for way in alive:
        if service_of(way.name, (OWN_SERVICE,)) != OWN_SERVICE:
            way.stop()
    return [way for way in alive if service_of(way.name, (OWN_SERVICE,)) == OWN_SERVICE]


def missing(expected: Mapping[str, int], alive: list[str], dead: list[str]) -> list[str]:
    """Names of containers that should answer and don't; pure.

    A socket without a sampler may be left from a container that isn't wanted any more: so numbers decide.
    """
    absent: list[str] = []
    for service, count in expected.items():
        short = count - sum(service_of(name, expected) == service for name in alive)
        gone = [name for name in dead if service_of(name, expected) == service]
        absent += [*gone, *[service] * short][: max(0, short)]
    return absent


def service_of(container: str, services: Mapping[str, int] | tuple[str, ...]) -> str:
    """The Compose service of a container by its name, PROJECT-SERVICE-NUMBER; "" where it is none of these."""
    stem = re.sub(r"-\d+$", "", container)
    return max((service for service in services if stem.endswith(f"-{service}")), key=len, default="")


def read_expected(text: str) -> dict[str, int]:
    """The value of ``EXPECTED``; what can't be read is left out."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: int(count) for name, _, count in pairs if name and count.isdecimal()}


def _connected(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(2)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def _all_of(connection: socket.socket, deadline: float) -> bytes:
    found = bytearray()
    while data := connection.recv(1 << 16):
        found += data
        if len(found) > LARGEST_ANSWER:
            raise Unreachable("its answer is too large")
        connection.settimeout(max(0.1, deadline - time.monotonic()))
    return bytes(found)


def _complaint(data: bytes) -> str:
    """The reason that a sampler gave in place of an answer, "" where it gave none."""
    try:
        return str(json.loads(b'{"error"' + data.rpartition(b'{"error"')[2])["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return ""
