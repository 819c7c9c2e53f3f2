"""Docker containers, whoever started them: each is sampled by a probe, a short-lived container of ours beside it.

The probe joins the target's PID namespace and brings Python, the harness and py-spy along, so the target needs none of
them, nor a shell, nor any right. Its program is docker/dev/sampler.py. It gets the request on its standard input and
ends as soon as that closes: also when this process is killed, for the engine then closes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import fnmatch
import re
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any

import docker.errors
import requests.exceptions
from docker.types import LogConfig
from docker.utils.socket import frames_iter_no_tty

from harness import docker_engine
from harness.docker_engine import ROLE_LABEL, Container
from harness.errors import BadSetting
from harness.hang.ways import Unreachable, Way
from harness.hang.ways.remote import LARGEST_ANSWER, asked, named
from harness.processes.sampling.model import NodeAnswer, SampleRequest, unpack

PROGRAM = ("/opt/venv/bin/python", "-I", "-S", "/opt/drydock/sampler.py")
ROLE = "probe"
# The host's loopback relay: no process of the system, only bytes pass through it.
_NOT_MEANT = ("host-relay",)
_STDOUT = 1
# So many names are told where one has to be chosen.
_FEW = 8


class ContainerWay:
    """One container.

    Args:
        named: a person has named it: where nothing in it looks like training or serving, all its Python is meant.
    """

    def __init__(self, client: Any, target: Container, image: str, *, named: bool = False) -> None:
        self.name = target.name
        self._named = named
        self._client, self._target, self._image = client, target, image
        self._connection: Any = None

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        """Sample its processes by a probe.

        Raises:
            Unreachable: it doesn't run, is paused, ended meanwhile, or the engine doesn't start the probe.
        """
        if reason := why_not(self._target):
            raise Unreachable(reason)
        answer = self._answer(request, deadline)
        if self._named and not answer.processes and answer.left_out and not (request.match or request.everything):
            answer = self._answer(dataclasses.replace(request, everything=True), deadline)
        return answer

    def _answer(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        try:
            output, complaint = self._probe(request, deadline)
        except docker.errors.DockerException as error:
            raise Unreachable(self._why_silent(_explanation(error))) from None
        except (OSError, requests.exceptions.RequestException) as error:
            raise Unreachable(f"the connection to Docker broke: {error}") from None
        if not output:
            raise Unreachable(self._why_silent(complaint))
        try:
            answer = unpack(output)
        except ValueError as error:
            raise Unreachable(f"its probe broke off: {complaint or error}") from None
        return named(answer, self.name, request)

    def stop(self) -> None:
        """Hang up; the probe then lets go on what it holds, and ends."""
        beneath = _socket(self._connection)
        if beneath is not None:  # neither before it was made nor after it was closed
            with contextlib.suppress(OSError):
                beneath.shutdown(socket.SHUT_RDWR)

    def _probe(self, request: SampleRequest, deadline: float) -> tuple[bytes, str]:
        seconds = max(1.0, deadline - time.monotonic())
        probe = docker_engine.create_beside(
            self._client,
            self._target,
            self._image,
            [*PROGRAM, "once", self._target.id, f"{seconds:.1f}"],
            stdin_open=True,
            # Stacks may hold secrets; they are read from the connection and written to no log.
            log_config=LogConfig(type="none"),
            labels={ROLE_LABEL: ROLE},
        )
        try:
            self._connection = connection = self._client.api.attach_socket(
                probe.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            )
            probe.start()
        except BaseException:
            # What never ran isn't removed by its end.
            with contextlib.suppress(docker.errors.APIError):
                probe.remove(force=True)
            raise
        with connection:
            _socket(connection).sendall(asked(request))
            return _heard(frames_iter_no_tty(connection))

    def _why_silent(self, complaint: str) -> str:
        try:
            now = self._client.containers.get(self._target.id).status
        except docker.errors.NotFound:
            now = "removed"
        except docker.errors.DockerException:
            now = "running"
        if now == "paused":
            return f"it was paused while it was sampled: docker unpause {self.name}"
        if now != "running":
            return f"it ended while it was sampled ({now})"
        return f"a probe beside it gave no answer: {complaint or 'it was ended'}"


def of_stack(client: Any, stack: Sequence[Container], image: str) -> list[Way]:
    """A stack's containers, those that have ended too: that they did may be why the others wait."""
    return [ContainerWay(client, one, image) for one in stack if one.service not in _NOT_MEANT]


def by_name(client: Any, wanted: Sequence[str], image: str) -> list[Way]:
    """The containers that names, ids or patterns (``*``) call for.

    Raises:
        BadSetting: a name calls for none.
    """
    return [
        ContainerWay(client, one, image, named=True) for one in choose(docker_engine.all_containers(client), wanted)
    ]


def choose(there: Sequence[Container], wanted: Sequence[str]) -> list[Container]:
    """Those that are called for, each once; a pattern calls for none that has ended."""
    chosen: dict[str, Container] = {}
    for name in wanted:
        found = [one for one in there if _called(one, name)]
        if not found:
            raise BadSetting(
                f"CONTAINERS={name}: no container has this name.",
                consequence="Nothing was sampled.",
                mend=_those_that_run(there, name),
            )
        chosen |= {one.id: one for one in found}
    return list(chosen.values())


def _those_that_run(there: Sequence[Container], wanted: str) -> str:
    """Which containers could be meant, the likest name first; Drydock's own helpers are nobody's system."""
    names = [one.name for one in there if one.status != "exited" and not one.name.endswith("-sampler")]
    if not names:
        return "docker ps -a   # none runs"
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, name, wanted).ratio())
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    step = f"docker ps   # those that run: {', '.join(names[:_FEW])}{more}"
    near = difflib.get_close_matches(wanted, names, 1)
    return f"make hang-dump CONTAINERS={near[0]}   # is that meant?\n{step}" if near else step


def _called(container: Container, name: str) -> bool:
    if re.fullmatch(r"[0-9a-f]{8,64}", name) and container.id.startswith(name):
        return True
    if any(letter in name for letter in "*?["):
        return container.status in ("running", "paused") and fnmatch.fnmatchcase(container.name, name)
    return container.name == name


def why_not(target: Container) -> str:
    """Why a container can't be sampled now; "" where it can."""
    if target.status == "paused":
        # A process that is frozen can't be held for a moment; the attempt would stop it once it goes on.
        return f"it is paused: docker unpause {target.name}"
    if target.running:
        return ""
    if target.oom_killed:
        return "it has ended: the kernel killed it, out of memory"
    return f"it has ended, with exit code {target.exit_code}" if target.status == "exited" else f"it is {target.status}"


def _heard(frames: Iterable[tuple[Any, Any]]) -> tuple[bytes, str]:
    output, complaint = bytearray(), bytearray()
    for stream, data in frames:
        (output if stream == _STDOUT else complaint).extend(data)
        if len(output) > LARGEST_ANSWER or len(complaint) > LARGEST_ANSWER:
            raise Unreachable("its answer is too large")
    return bytes(output), complaint.decode("utf-8", "replace").strip()[-500:]


def _socket(connection: Any) -> Any:
    """What is beneath the SDK's connection: a socket, or with ssh:// a channel that has the same methods."""
    return getattr(connection, "_sock", connection)


def _explanation(error: Exception) -> str:
    return str(getattr(error, "explanation", "") or error)[:300]
