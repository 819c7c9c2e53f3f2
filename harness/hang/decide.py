"""Weighs what the rules found: state, cause, confidence, laggards. Pure: a dump in, a verdict out."""

from __future__ import annotations

import sys

from harness.hang import scene as scenes
from harness.hang import sleeping, waits
from harness.hang.causes import RULES, Finding, logs_alone
from harness.hang.causes.finding import say
from harness.hang.causes.services import is_all_idle
from harness.hang.describe import describe, who_all
from harness.hang.grouping import names
from harness.hang.groups import members
from harness.hang.model import Dump
from harness.hang.scene import Scene
from harness.hang.verdict import Confidence, State, Verdict
from harness.hang.waits import JOINED

CERTAIN, GAP_CERTAIN, GAP_UNDECIDED, WORTH_SAYING = 0.88, 0.12, 0.08, 0.5
# What one look can show for certain: the kernel's word on a process, a log, a recorder. A stack alone can't: every
# healthy program is in some call at some moment.
_TOLD_BY_MORE_THAN_A_STACK = (
    "Log",
    "Flight Recorder",
    "is in state T",
    "is being traced",
    "ended",
    "zombie",
    "task awaits",
    "tasks await",
)


def diagnose(dump: Dump) -> Verdict:
    """Decide what a dump means."""
    scene = scenes.build(dump)
    findings = _best_of_each([finding for rule in RULES for finding in rule(scene)])
    verdict = _without_hang(scene, findings) or _by_findings(scene, findings)
    _unless_asleep(scene, verdict)
    verdict.evidence += _not_looked_at(scene, verdict)
    describe(verdict, scene)
    return verdict


def load_table() -> None:
    """Read the table of waits, which ``diagnose`` does otherwise when it is first called."""
    waits.load_table()


def _best_of_each(findings: list[Finding]) -> list[Finding]:
    """One finding a cause, the strongest, with the evidence of the others; strongest first.

    Of equally strong ones who names fewer goes first, and who names nobody last; the order of the rules says nothing.
    """
    best: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: (-finding.score, len(finding.laggards) or sys.maxsize)):
        known = best.setdefault(finding.cause, finding)
        if known is not finding:
            known.evidence += [text for text in finding.evidence if text not in known.evidence]
            known.laggards = known.laggards or finding.laggards
    return sorted(best.values(), key=lambda finding: -finding.score)


def _without_hang(scene: Scene, findings: list[Finding]) -> Verdict | None:
    """The verdict when nothing hangs, or nothing can be seen; None when the findings decide."""
    if logs_alone.is_all(scene):
        return None if findings else _only_logged(scene)
    if not scene.groups and not scene.unread and not scene.dump.recordings:
        return _ended(scene)
    if is_all_idle(scene) and not any(finding.score >= CERTAIN for finding in findings):
        if all(group.kind in ("loader-idle", "pool-idle", "pool-helper") for group in scene.groups):
            return Verdict(
                "unknown",
                "none",
                "undecided",
                [],
                evidence=["Only helpers without work were dumped; who should give it to them wasn't."],
            )
        return Verdict(
            "idle", "none", "likely", ["none"], evidence=["Everybody waits for work, and nobody waits for them."]
        )
    stuck = [group for group in scene.joined if not group.moved]
    moving = [group for group in scene.groups if group.moved]
    if scene.sampled_twice and moving and not stuck and not scene.gone and not _stands_out(findings):
        evidence = [f"Between the samples {who_all(members(moving))} got on."]
        # Who couldn't be asked may be the one that is stuck.
        state: State = "unknown" if scene.dump.unreachable else "slow"
        cause = "unknown" if scene.dump.unreachable else "none"
        return Verdict(state, cause, "likely", [cause], evidence=evidence)
    if compiled := _compiled_code(scene, findings):
        return Verdict("slow", "none", "likely", ["none"], evidence=compiled)
    if not findings or findings[0].score < 0.4:
        return Verdict("unknown", "unknown", "undecided", [], evidence=_what_is_seen(scene))
    return None


def _compiled_code(scene: Scene, findings: list[Finding]) -> list[str]:
    """Sentences on those who compute in compiled code while nobody waits in a collective, and no other rule knows more.

    Without the interpreter's lock it is no loop in Python: a product of matrices, a hash, a parser.
    """
    computing = [group for group in scene.groups if group.computes and not group.standing.thread.holds_gil]
    others = [group for group in scene.groups if group not in computing and not group.idle]
    if not computing or others or scene.gone or scene.dump.unreachable:
        return []
    if any(finding.cause != "python-loop" and finding.score >= WORTH_SAYING for finding in findings):
        return []
    long = "Long work, or a call that doesn't end: nobody can see which. GAP=60 looks again later."
    return [f"{say(computing)}, computing in compiled code at the same line in every sample.", long]


def _not_looked_at(scene: Scene, verdict: Verdict) -> list[str]:
    """What a person has to know of those who were named or expected, and of whom nothing was read."""
    said = [
        f"Process {process.pid} was named: {process.error}."
        for process in scene.gone
        if process.missing and process.pid and process.error
    ]
    seen = [process for process in scene.gone if process.state == "X" and process.samples and process.role != "child"]
    if seen:
        said.insert(0, f"{names(process.id for process in seen)} ended while the dump was taken.")
    if scene.unasked and not set(verdict.laggards) & {f"rank{rank}" for rank in scene.unasked}:
        who = names(f"rank{rank}" for rank in scene.unasked)
        verb = "wasn't" if len(scene.unasked) == 1 else "weren't"
        said.append(f"{who} {verb} looked at: name the container or host as well.")
    named = " ".join(verdict.evidence)
    said += [f"{name} couldn't be asked: {why}." for name, why in scene.dump.unreachable.items() if name not in named]
    return said[:6]


def _stands_out(findings: list[Finding]) -> bool:
    """Whether something is to be named even though things move: a reward that takes long, a worker that is late."""
    return bool(findings) and findings[0].score >= 0.6


def _only_logged(scene: Scene) -> Verdict:
    """Lines that bear on a hang, none of which says that somebody waits."""
    seen = [f"Log: {hint.text}" for hint in scene.dump.hints[:4]]
    return Verdict("unknown", "unknown", "undecided", [], evidence=[*seen, "No log says that anybody waits."])


def _ended(scene: Scene) -> Verdict:
    """Everybody has ended."""
    bad = [process for process in scene.gone if process.exit_code not in (0, None)]
    absent = [process for process in scene.gone if process.missing]
    if absent:
        return Verdict(
            "unknown",
            "dead-peer",
            "undecided",
            ["dead-peer"],
            [p.id for p in absent],
            ["None of the expected processes was found."],
        )
    logged = [f"Log: {hint.text}" for hint in scene.hints("traceback")[:3]]
    if not bad and logged and scene.hints("finished"):
        evidence = ["Every process ended with exit code 0, and the log has a traceback.", *logged]
        return Verdict("done", "exception-swallowed", "likely", ["exception-swallowed"], evidence=evidence)
    evidence = [f"{process.id} ended with exit code {process.exit_code}." for process in bad[:4]] + logged
    return Verdict(
        "done",
        "none",
        "likely",
        ["none"],
        [p.id for p in bad],
        evidence or ["Every process has ended with exit code 0."],
    )


def _by_findings(scene: Scene, findings: list[Finding]) -> Verdict:
    top = findings[0]
    second = findings[1] if len(findings) > 1 else None
    gap = top.score - second.score if second else 1.0
    confidence: Confidence = "likely"
    candidates = [top.cause]
    if top.score < WORTH_SAYING or (second is not None and gap < GAP_UNDECIDED and second.score >= 0.4):
        confidence = "undecided"
        candidates = [finding.cause for finding in findings[:2] if finding.score >= 0.4]
    elif top.state == "unknown":
        confidence = "undecided"
    elif top.score >= CERTAIN and gap >= GAP_CERTAIN and _may_be_certain(scene, top):
        confidence = "certain"
    state: State = top.state
    evidence = list(top.evidence)
    if second is not None and confidence == "undecided":
        evidence += [text for text in second.evidence if text not in evidence]
    if scene.recorded is not None and not any("Flight Recorder" in text for text in evidence):
        evidence.append(f"Flight Recorder: {scene.recorded.text}")
    cause = top.cause
    if top.score < WORTH_SAYING:
        state, cause = "unknown", "unknown"
    laggards = top.laggards or (second.laggards if second is not None and confidence == "undecided" else [])
    if cause == "unknown":
        laggards = []
    runners = {finding.cause: round(finding.score, 2) for finding in findings[1:6] if finding.score >= 0.3}
    return Verdict(state, cause, confidence, candidates, laggards, evidence, runners_up=runners)


def _unless_asleep(scene: Scene, verdict: Verdict) -> None:
    """Who hangs doesn't go on by itself; whoever is blamed and sleeps for a while does."""
    blamed = [group for group in scene.groups if set(group.ids) & set(verdict.laggards) and group.role != "child"]
    found = sleeping.in_the_way(blamed, scene.groups)
    if found is None or verdict.state not in ("hung", "slow"):
        return
    sleep, sentence = found
    verdict.gap = sleeping.gap(sleep)
    verdict.evidence.append(sentence)
    if verdict.state == "hung":
        verdict.state = "slow"
        verdict.confidence = "likely" if verdict.confidence == "certain" else verdict.confidence


def _may_be_certain(scene: Scene, top: Finding) -> bool:
    """One sample of stacks is never certain; two that agree, or a word from the kernel, a log or a recorder, may be."""
    if any(word in text for text in top.evidence for word in _TOLD_BY_MORE_THAN_A_STACK):
        return True
    return scene.sampled_twice and not any(group.moved for group in scene.groups if group.kind in JOINED)


def _what_is_seen(scene: Scene) -> list[str]:
    seen = [f"{names(group.ids)}: {group.wait}." for group in scene.groups[:4]]
    if not scene.sampled_twice:
        seen.append("One sample can't tell computing from hanging; nobody is seen to wait for anybody.")
    return seen
