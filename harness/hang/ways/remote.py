"""What ways in share that ask docker/dev/sampler.py: the request as it takes it, and the answer with its name."""

from __future__ import annotations

import json

from harness.processes.sampling.dumper import DENIED
from harness.processes.sampling.model import NodeAnswer, SampleRequest, plain

LARGEST_ANSWER = 64 << 20
# Not for whoever asks from elsewhere: `logs` reads files, `within` says whose processes are meant, and `tasks` has the
# process run code, or runs its interpreter, which in a container may be anything.
_NOT_HANDED_ON = frozenset({"logs", "within", "tasks"})


def asked(request: SampleRequest) -> bytes:
    """The request as a probe or a sampler takes it: one line."""
    return json.dumps(plain(request, _NOT_HANDED_ON)).encode() + b"\n"


def named(answer: NodeAnswer, container: str, request: SampleRequest) -> NodeAnswer:
    """The answer with the container's name, and with what it means when nothing could be read."""
    answer.container = container
    if request.tasks:
        how = "it is not done from outside a container; in there: harness hang-dump --tasks"
        answer.notes.append(f"{container}: TASKS=1: {how}")
    errors = [sample.error for entry in answer.processes for sample in entry.samples]
    if errors and all(error == DENIED for error in errors):
        answer.notes.append(
            f"{container}: nothing could be read, although who looked is root with CAP_SYS_PTRACE. A security module"
            " or a seccomp profile forbids it, or the daemon keeps user namespaces apart (rootless, userns-remap):"
            " docker info --format '{{.SecurityOptions}}';"
            f" docker inspect --format '{{{{.AppArmorProfile}}}} {{{{.HostConfig}}}}' {container}"
        )
    return answer
