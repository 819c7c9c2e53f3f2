"""One call of ``harness check``: the wanted stages in order, and the report on them whatever happens on the way."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness import __version__
from harness.agent.runner import Limits
from harness.agent.source import AgentSource, locate
from harness.checks import page, samples, stage1, stage2, stage3, stage3_keep, stage3_replay
from harness.checks import report as reports
from harness.checks.findings import StageResult
from harness.checks.gather import Gathered
from harness.checks.report import CheckReport
from harness.checks.stage3_wanted import Wanted
from harness.checks.stage4 import keep as stage4_keep
from harness.checks.stage4 import stage as stage4
from harness.checks.stage4.wanted import Wanted as InAreal
from harness.checks.tapes import Tapes
from harness.errors import BadSetting, Interrupted, ServerUnreachable, UsageError
from harness.openai_api import probes
from harness.openai_api.http import Endpoint, Server
from harness.openai_api.recording.store import RecordedRun, Recording, Writer
from harness.places import shown
from harness.runs import RunFolder
from harness.runs.folder import Fingerprint

STAGES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Request:
    """What to check.

    Args:
        stages: in ascending order.
        model: empty means the first that the server lists.
        agent, data: as the user wrote them.
        folders: where files and modules are looked for.
        record: a new folder that keeps the calls of all runs.
        replay: a recording that answers in the server's place; ``endpoint`` isn't asked then.
        run: which of its runs stage 2 replays.
        load: what stage 3 does.
        areal: what stage 4 does; None where it isn't wanted.
    """

    stages: tuple[int, ...]
    endpoint: Endpoint
    model: str
    agent: str
    data: str
    seed: int | None
    limits: Limits
    folders: tuple[Path, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    request_timeout: float = 60.0
    record: Path | None = None
    replay: Path | None = None
    run: int | None = None
    load: Wanted = field(default_factory=Wanted)
    areal: InAreal | None = None


@dataclass(frozen=True)
class Listener:
    """Who wants to hear how the check goes on: a person's terminal, or nobody.

    Args:
        begins: called before a stage, with its number and title.
        tells: called with a few words on what is being done.
        ends: called with a stage's result.
    """

    begins: Callable[[int, str], None] = lambda _number, _title: None
    tells: Callable[[str], None] = lambda _text: None
    ends: Callable[[StageResult], None] = lambda _result: None


def parse_stages(text: str) -> tuple[int, ...]:
    """The stages that a text like ``1,2`` or ``1-3`` names.

    Raises:
        UsageError: one of them isn't there.
    """
    wanted: set[int] = set()
    for part in text.replace(" ", ",").split(","):
        if not part:
            continue
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isdigit() and int(end) in STAGES for end in ends) or int(ends[0]) > int(ends[1]):
            known = ", ".join(map(str, STAGES))
            raise UsageError(
                f"there is no stage {part!r}",
                consequence="Nothing was checked.",
                mend=f"STAGE={STAGES[0]}-{STAGES[-1]}   # there are: {known}",
            )
        wanted.update(range(int(ends[0]), int(ends[1]) + 1))
    if not wanted:
        raise UsageError("no stage is named", mend="STAGE=1,2")
    return tuple(sorted(wanted))


@dataclass(frozen=True)
class Prepared:
    """What stage 2 works on, found and read.

    Args:
        data: None where a recording has the samples.
        recording: what is replayed.
        recorded: the run of it that stage 2 replays.
    """

    agent: AgentSource
    data: samples.DataSet | None
    recording: Recording | None = None
    recorded: RecordedRun | None = None


def prepare(request: Request) -> Prepared | None:
    """Find what the request names, before anything runs and before there is a report; None where no agent runs.

    Raises:
        AgentNotFound, AgentUnreadable: the agent isn't there, or isn't Python.
        DataNotFound, DataUnreadable: the data set isn't there, or can't be read.
        RecordingUnusable: there is no such recording, or no such run in it.
        BadSetting: what is asked of recordings contradicts itself.
    """
    _sound(request)
    if request.stages == (1,):
        return None
    agent = locate(request.agent, folders=request.folders)
    if request.replay is not None:
        recording = Recording.open(request.replay)
        if 3 in request.stages:
            stage3_replay.size_of(recording, 0)
        return Prepared(agent, None, recording, recording.pick(request.run))
    return Prepared(agent, samples.read(samples.find(request.data, request.folders)))


def _sound(request: Request) -> None:
    if request.record is not None and request.replay is not None:
        raise BadSetting("RECORD and REPLAY are both set", mend="unset one: a replay has nothing new to record")
    if request.run is not None and request.replay is None:
        raise BadSetting(f"RUN={request.run} names a run of a recording, and none is named", mend="REPLAY=FOLDER")
    if request.record is not None and request.stages == (1,):
        raise BadSetting("RECORD keeps the calls of agents, and stage 1 runs none", mend="STAGE=2")
    if request.run is not None and 3 in request.stages:
        raise BadSetting(f"RUN={request.run} names one run, and stage 3 replays all of them", mend="STAGE=2")
    if request.replay is not None and 1 in request.stages:
        raise BadSetting("stage 1 asks a server, and REPLAY does without one", mend="STAGE=2")


def check(
    request: Request, prepared: Prepared | None, folder: RunFolder, *, listener: Listener, fingerprint: Fingerprint
) -> CheckReport:
    """Run the wanted stages and write the report.

    A later stage isn't run where an earlier one failed in a way that leaves it nothing to work with.

    Raises:
        ServerUnreachable: stage 1 was not asked for, and there is no server.
        Interrupted: Ctrl-C; the report on what was done until then has been written.
        RecordingExists, RunsNotWritable, NoSpace: the calls can't be recorded.
    """
    course = _Course(request, folder, listener, request.model)
    try:
        if 1 in request.stages:
            course.stage1()
        if 2 in request.stages and prepared is not None and not course.ended_early:
            course.stage2(prepared)
        if 3 in request.stages and prepared is not None and not course.ended_early:
            course.stage3(prepared)
        if 4 in request.stages and prepared is not None and not course.ended_early:
            course.stage4(prepared)
    except KeyboardInterrupt:
        course.ended_early = "stopped by Ctrl-C"
        _finish(course, fingerprint)
        raise Interrupted(
            "Stopped by Ctrl-C.",
            consequence=f"What was found until then is in {shown(folder.path)}.",
            mend="make check",
        ) from None
    return _finish(course, fingerprint)


@dataclass
class _Course:
    """A check under way: what is known so far, and the stages that add to it."""

    request: Request
    folder: RunFolder
    listener: Listener
    model: str
    done: list[StageResult] = field(default_factory=list)
    seed: int | None = None
    ended_early: str = ""

    def stage1(self) -> None:
        request = self.request
        self.listener.begins(1, f"the server at {request.endpoint.base_url}")
        self.model, result = stage1.run(
            request.endpoint, model=self.model, timeout=request.request_timeout, tell=self.listener.tells
        )
        self._ended(result)
        if result.failed and len(request.stages) > 1:
            self.ended_early = f"stage {request.stages[1]} was not run: the server isn't fit for it"

    def stage2(self, prepared: Prepared) -> None:
        request = self.request
        if prepared.recording is not None:
            self.model = request.model or prepared.recording.model
        elif 1 not in request.stages:
            self.model = _served_model(request)
        # Stage 3 records all its runs; one more of stage 2 would take the place of the first.
        tapes = Tapes() if set(request.stages) & {3, 4} else _tapes(request, prepared, self.model, self.folder)
        self.listener.begins(2, f"one run of {prepared.agent.given}")
        finished = stage2.run(_plan(request, prepared, self.model, tapes), request.endpoint, tell=self.listener.tells)
        self.seed = finished.seed
        if finished.gathered is not None:
            keep_raw(self.folder, finished.gathered)
        self._ended(finished.result)
        if tapes.writer is not None:
            tapes.writer.check()
        later = [stage for stage in request.stages if stage > 2]
        if finished.result.failed and later:
            self.ended_early = f"stage {later[0]} was not run: one run fails already"

    def stage3(self, prepared: Prepared) -> None:
        """Many runs; with the seed of stage 2 where that has made one."""
        request = self.request
        if prepared.recording is not None:
            self._replayed(prepared, prepared.recording)
            return
        if request.stages == (3,) and request.load.simulation is None:
            self.model = _served_model(request)
        size = request.load.size
        self.listener.begins(3, f"{size.runs} runs of {prepared.agent.given}, {size.at_once} at once")
        model = self.model or "simulated"
        writer = None if 4 in request.stages else _tapes(request, prepared, model, self.folder).writer
        plan = stage3.Plan(
            prepared.agent,
            prepared.data,
            self.seed if self.seed is not None else request.seed,
            model,
            size,
            request.load.simulation,
            request.limits,
            request.arguments,
            writer,
        )
        many = stage3.run(plan, request.endpoint, tell=self.listener.tells)
        self.seed = many.seed
        stage3_keep.keep(self.folder, many)
        self._ended(many.result)
        if many.interrupted:
            raise KeyboardInterrupt
        if writer is not None:
            writer.check()

    def stage4(self, prepared: Prepared) -> None:
        """A batch through a framework's own rollout, with the seed of the stages before."""
        request, wanted = self.request, self.request.areal
        assert wanted is not None
        assert prepared.data is not None
        if request.stages == (4,):
            self.model = _served_model(request)
        self.listener.begins(4, f"{wanted.prompts} × {wanted.group_size} runs in {wanted.framework.where}")
        writer = _tapes(request, prepared, self.model, self.folder).writer
        seed = self.seed if self.seed is not None else request.seed
        plan = stage4.Plan(prepared.agent, prepared.data, seed, self.model, wanted, request.arguments, writer)
        finished = stage4.run(plan, request.endpoint, tell=self.listener.tells)
        self.seed = finished.seed if finished.seed is not None else self.seed
        if finished.gathered is not None:
            stage4_keep.keep(self.folder, finished.gathered)
        self._ended(finished.result)
        if finished.interrupted:
            raise KeyboardInterrupt
        if writer is not None:
            writer.check()

    def _replayed(self, prepared: Prepared, recording: Recording) -> None:
        request = self.request
        size = stage3_replay.size_of(recording, request.load.size.in_flight)
        self.model = request.model or recording.model
        self.listener.begins(3, f"{size.runs} runs of {prepared.agent.given}, replayed")
        plan = stage3.Plan(prepared.agent, None, None, self.model, size, None, request.limits, request.arguments, None)
        many = stage3_replay.run(plan, recording, tell=self.listener.tells)
        stage3_keep.keep(self.folder, many)
        self._ended(many.result)
        if many.interrupted:
            raise KeyboardInterrupt

    def _ended(self, result: StageResult) -> None:
        self.done.append(result)
        self.listener.ends(result)


def _plan(request: Request, prepared: Prepared, model: str, tapes: Tapes) -> stage2.Plan:
    return stage2.Plan(
        prepared.agent,
        prepared.data,
        request.seed,
        model,
        request.limits,
        request.arguments,
        tapes,
        prepared.recorded,
    )


def _tapes(request: Request, prepared: Prepared, model: str, folder: RunFolder) -> Tapes:
    """What the check records into, or replays."""
    if request.record is None:
        return Tapes(recording=prepared.recording)
    about = {
        "stages": list(request.stages),
        "agent": request.agent,
        "arguments": dict(request.arguments),
        "data": request.data,
        "model": model,
        "group_size": _group_size(request),
        # What AReaL's proxy answers is recorded as if it were below /v1, as with every other server.
        "base_path": "/v1" if request.areal is not None else urlsplit(request.endpoint.base_url).path,
        "drydock": __version__,
    }
    return Tapes(writer=Writer.create(request.record, about, folder.redactor))


def _group_size(request: Request) -> int:
    if request.areal is not None:
        return request.areal.group_size
    return request.load.size.group_size if 3 in request.stages else 1


def _served_model(request: Request) -> str:
    """The model to name to an agent when stage 1 has not asked: the wanted one, or the first that is listed."""
    with Server(request.endpoint, timeout=min(request.request_timeout, 20.0)) as server:
        answer = probes.MODELS.send(server, "")
    if answer.status is None or answer.status in (401, 403):
        raise ServerUnreachable(
            f"the server at {request.endpoint.base_url}: {answer.problem}", consequence="No agent can run without it."
        )
    listed = probes.served_models(answer)
    return request.model or (listed[0] if listed else "")


def _finish(course: _Course, fingerprint: Fingerprint) -> CheckReport:
    request, folder = course.request, course.folder
    asked = {
        "stages": list(request.stages),
        "base_url": request.endpoint.base_url or None,
        "model": course.model,
        "agent": request.agent if request.stages != (1,) else None,
        "data": request.data if request.stages != (1,) else None,
        "timeout": request.limits.run,
        "record": None if request.record is None else str(request.record),
        "replay": None if request.replay is None else str(request.replay),
    }
    report = reports.build(course.done, asked=asked, seed=course.seed, ended_early=course.ended_early)
    folder.write_text("junit.xml", reports.to_junit(report))
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    folder.write_text(page.NAME, page.build(report, folder.path, folder.redactor, made=made))
    folder.finish(report.model_dump(mode="json"), fingerprint=fingerprint)
    return report


def keep_raw(folder: RunFolder, gathered: Gathered) -> None:
    """Keep what a run said and did, beyond what the report shows of it."""
    trace = gathered.trace
    folder.write_lines("stage2/calls.jsonl", (call.as_dict() for call in gathered.calls))
    folder.write_lines("stage2/events.jsonl", trace.events)
    for name, output in (("stdout", trace.output), ("stderr", trace.errors)):
        if output.total:
            folder.write_text(f"stage2/{name}.txt", output.text())
    if (raised := trace.event("raised")) is not None:
        folder.write_text("stage2/traceback.txt", raised["traceback"])
    if trace.stacks is not None:
        folder.write_json("stage2/stacks.json", trace.stacks)


def parse_arguments(text: str | None) -> dict[str, Any]:
    """Keyword arguments for an agent's ``__init__``, written as a JSON object.

    Raises:
        UsageError: it isn't one.
    """
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--agent-args is no JSON: {error}", mend="--agent-args '{\"turns\": 3}'") from None
    if not isinstance(value, dict):
        raise UsageError("--agent-args is no JSON object", mend="--agent-args '{\"turns\": 3}'")
    return value
