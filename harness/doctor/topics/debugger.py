"""The debugger: would a breakpoint stop, would an editor find it and show its variables, in every process there is.

Looked at on request only: every worker of the cluster is asked, which takes longer than all other topics together.
What is found is decided in debugger_rules.py.
"""

from __future__ import annotations

import os

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note
from harness.doctor.topics.debugger_rules import decide, decide_trial
from harness.errors import DrydockError
from harness.places import in_container

SECONDS = 30.0


def _runs_in_dev() -> bool:
    """Whether this is the machine of a stack, whose cluster is asked from inside its network."""
    return not (in_container() or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS"))


def _cluster(context: Context) -> list[Finding]:
    if _runs_in_dev() and context.runs_stacks:
        return _asked_in_dev(context)
    from harness.breakpoints import fitness

    return decide(fitness.scene(in_dev=in_container()))


def _asked_in_dev(context: Context) -> list[Finding]:
    if not context.engine().answers:
        return [note("Not looked at: the Docker engine can't be asked.")]
    from harness.stack.machines import worker

    if worker.is_worker(context.settings):
        head = worker.head_of(context.settings)
        mend = f"make doctor TOPIC=debugger   # on {head.partition(':')[0]}"
        return [note(f"This machine is a node of {head}, whose doctor asks every process of the cluster.", mend=mend)]
    from harness.doctor.topics import inside
    from harness.stack.delegate import answer_from_dev

    try:
        _, document = answer_from_dev(context.settings, ["doctor", "--topic", "debugger"], ())
        found = [Finding(f["sign"], f["text"], f["consequence"], "\n".join(f["mend"])) for f in document["findings"]]
    except (DrydockError, KeyError, TypeError) as error:
        what = error.what if isinstance(error, DrydockError) else "The dev container's doctor gave no report."
        return [bad(what, "Who could be debugged can't be known.", "make up")]
    nodes = inside.gather(context.settings.project, our_files=False)
    return [*found, *inside.decide_versions(nodes)]


def _trial(context: Context) -> list[Finding]:
    if _runs_in_dev() and context.runs_stacks:
        return []  # in dev, where it matters
    from harness.breakpoints import trial

    return decide_trial(trial.run())


CHECKS = (Check("debugger.cluster", _cluster, limit=SECONDS), Check("debugger.trial", _trial, limit=SECONDS))
