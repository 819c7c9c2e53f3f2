"""What keeps people from debugging, decided from what every process of the cluster says of itself; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from harness.doctor.findings import Finding, bad, note, ok, warn

if TYPE_CHECKING:
    from harness.breakpoints.fitness import Process, Scene
    from harness.breakpoints.trial import Trial

# A question to what a process says; None is nothing to tell.
Asked = Callable[[Mapping[str, Any]], Any]
OLDEST_DEBUGPY = "1.8.0"
SHOWN = 3
# Presets and variables that make a process slow, whoever set them.
SLOW = {
    "CUDA_LAUNCH_BLOCKING": "the CPU waits for each kernel",
    "PYTHONASYNCIODEBUG": "each task of an event loop keeps its origin's stack",
    "TORCH_DISTRIBUTED_DEBUG": "ranks compare notes before each collective",
}
SAID = {
    "listen() has already been called": (
        "debugpy.listen() was called twice in {names}.",
        "The second call raised, so this worker's breakpoints are out of order.",
        "remove `debugpy.listen(…)` from your code: Ray calls it at the first breakpoint()",
    ),
    "debugpy>=1.8.0' cannot be loaded": (
        "Ray could not load debugpy in {names}, and passed a breakpoint() over.",
        "It says so in the worker's log only; nothing was paused.",
        "python -m pip install 'debugpy>=1.8'   # where these workers run",
    ),
}


def decide(scene: Scene) -> list[Finding]:
    """Everything that is known to keep people from debugging, one finding each, and what is fine."""
    findings = [*decide_way_in(scene), *decide_cluster(scene)]
    if scene.problem:
        return findings
    if not scene.processes:
        findings.append(
            note("No worker or driver runs now, so none could be asked.", "", "start your program, then this again")
        )
        return findings
    rest = [
        *decide_versions(scene),
        *decide_stops(scene.processes),
        *decide_files(scene),
        *decide_ports(scene.processes),
        *decide_speed(scene.processes),
    ]
    if not any(finding.sign in ("bad", "warn") for finding in rest):
        asked = sum(process.says is not None for process in scene.processes)
        first = next(process.says for process in scene.processes if process.says is not None)
        findings.append(
            ok(
                f"breakpoints would stop in all {asked} workers and drivers: Python {first['python']}, "
                f"Ray {first['ray']}, debugpy {first['debugpy']}, sources as they are here"
            )
        )
    return findings + rest


def decide_way_in(scene: Scene) -> list[Finding]:
    """The dashboard, which editors and we ask who is paused: "Connecting…" for ever, connection refused."""
    findings = []
    if scene.problem:
        mend = "make status   # is the head up?\nmake logs S=ray-head   # S=dev, where other machines may join"
        if "token" in scene.problem:
            mend = "RAY_AUTH_TOKEN_PATH=…   # a file with the token of the cluster that is meant"
        text = scene.problem[0].upper() + scene.problem[1:].rstrip(".") + "."
        consequence = "Ray's extension stays at “Connecting…”, and nobody can say who is paused."
        findings.append(bad(text, consequence, mend))
    else:
        findings.append(ok(f"the dashboard at {scene.url} answers"))
    if scene.relay:
        findings.append(
            bad(
                f"The relay to it in dev is of no use: {scene.relay}.",
                "Ray's extension and a browser behind a forwarded port can't connect; they know no token.",
                f"docker restart {scene.host}   # on the machine itself; open shells in dev end",
            )
        )
    elif scene.relay is not None:
        findings.append(ok("127.0.0.1:8265 in dev gives it without a token, to Ray's extension too"))
    return findings


def decide_cluster(scene: Scene) -> list[Finding]:
    """Drivers that have joined, or made, another cluster than the one that is looked at."""
    return [
        bad(
            f"PID {pid} here has joined another cluster ({session}).",
            f"What pauses there is not seen by who looks at {scene.url}: “no paused tasks”.",
            "ray.init() without an address; and RAY_ADDRESS as it was",
        )
        for pid, session in scene.strangers
    ]


def decide_versions(scene: Scene) -> list[Finding]:
    """Python, Ray and debugpy have to be the same where code runs and where it is debugged."""
    findings = []
    told = {"python": "Python", "ray": "Ray", "debugpy": "debugpy"}
    for key, shown in told.items():
        here = scene.here.get(key)
        others = _grouped(scene.processes, _value(key))
        for version, names in others.items():
            if here and version and version not in (here, "unknown"):
                findings.append(
                    bad(
                        f"{shown} is {version} in {names}, and {here} here.",
                        "Variables stay empty, or breakpoints don't bind, where both sides aren't of one make.",
                        "make down up   # makes all of them from one image; a runtime_env with pip may differ again",
                    )
                )
    return findings


def decide_stops(processes: Iterable[Process]) -> list[Finding]:
    """Whether `breakpoint()` would stop: debugpy, Ray's switches, who owns the hook, what Ray has said."""
    processes = list(processes)
    findings = []
    for problem, names in _grouped(processes, _debugpy_problem).items():
        findings.append(
            bad(
                f"debugpy {problem} in {names}.",
                "Ray passes breakpoint() over, or the debugger shows no variables.",
                "python -m pip install 'debugpy>=1.8'   # where these workers run; and no debugpy.py of your own",
            )
        )
    for value, names in _grouped(processes, lambda says: _switch(says, "RAY_DEBUG", ("1",))).items():
        consequence = "Ray's old debugger takes its breakpoints: `ray debug` on the node, no editor."
        if value != "legacy":
            consequence = "With any value but 1 there is no debugger: breakpoint() is passed over without a word."
        findings.append(bad(f"RAY_DEBUG={value} in {names}.", consequence, "unset RAY_DEBUG   # 1 is Ray's default"))
    for value, names in _grouped(processes, lambda says: _switch(says, "RAY_DEBUG_POST_MORTEM", ("1", "0"))).items():
        findings.append(
            bad(
                f"RAY_DEBUG_POST_MORTEM={value} in {names}.",
                "Only 1 makes a worker wait at an uncaught exception.",
                "RAY_DEBUG_POST_MORTEM=1",
            )
        )
    for _, names in _grouped(processes, lambda says: _switch(says, "RAY_DEBUG_POSTMORTEM", ())).items():
        findings.append(
            bad(
                f"RAY_DEBUG_POSTMORTEM is set in {names}; nobody reads that name.",
                "No worker waits at an uncaught exception.",
                "RAY_DEBUG_POST_MORTEM=1   # with one more _",
            )
        )
    for hook, names in _grouped(processes, _foreign_hook).items():
        findings.append(
            bad(
                f"breakpoint() belongs to {hook} in {names}.",
                "It doesn't reach Ray's debugger, so nothing is ever paused.",
                "remove what sets sys.breakpointhook or PYTHONBREAKPOINT there",
            )
        )
    for line, (text, consequence, mend) in SAID.items():
        for _, names in _grouped(processes, _has_said(line)).items():
            findings.append(bad(text.format(names=names), consequence, mend))
    return findings


def decide_files(scene: Scene) -> list[Finding]:
    """Sources that an editor here can't match with what the process has loaded: grey, unverified breakpoints."""
    findings = []
    for process in scene.processes:
        copied, missing, other = [], [], []
        for name, checksum in (process.says or {}).get("files", ()):
            if "/_ray_pkg_" in name:
                copied.append(name)
            elif checksum is not None and scene.files.get(name) is None:
                missing.append(name)
            elif checksum is not None and scene.files.get(name) != checksum:
                other.append(name)
        for files, what, consequence, mend in (
            (
                copied, "has loaded a copy that Ray made of it",
                "A breakpoint set in your own file stays grey (“unverified”).",
                "no working_dir in the runtime_env: your workspace is at the same path in every node",
            ),
            (
                missing, "has loaded it, and it isn't here",
                "An editor here can't show it, and its breakpoints stay grey (“unverified”).",
                "move it below your workspace; a framework's checkout: make up FRAMEWORK_SRC=FOLDER",
            ),
            (
                other, "has loaded another content of it than is here",
                "Breakpoints stop at other lines than you see, or nowhere.",
                "make restart-ray   # or make it the same file: below the workspace all nodes share one",
            ),
        ):  # fmt: skip
            if files:
                findings.append(bad(f"{_some(files)}: {process.name} {what}.", consequence, mend))
    return findings


def decide_ports(processes: Iterable[Process]) -> list[Finding]:
    """Whether a debugger can get in: connection refused, already listening, not to be asked."""
    findings = []
    for process in processes:
        if process.says is None:
            findings.append(
                warn(
                    f"{process.name} can't be asked: {process.problem}.",
                    "Where it pauses is not known, and its variables may not be readable.",
                    f"make attach PID={process.worker.pid}   # may still get in",
                )
            )
            continue
        debugger = process.says.get("debugger") or {}
        address, by = debugger.get("address"), str(debugger.get("by") or "")
        if not address:
            continue
        host, port = address
        if debugger.get("listens") is False:
            findings.append(
                bad(
                    f"The debugger's port {port} of {process.name} is gone: its debugpy has ended.",
                    "Connection refused; it can't be started twice in one process.",
                    "restart that worker   # or the whole cluster: make restart-ray",
                )
            )
        elif _loopback(host) and not _loopback(process.worker.ip):
            findings.append(
                bad(
                    f"debugpy listens on {host}:{port} only in {process.name}, as {by or 'somebody'} asked.",
                    "Connection refused from every other container.",
                    "remove that debugpy.listen(…): Ray calls it itself, on the node's address",
                )
            )
        elif by and not by.rpartition(":")[0].endswith(("ray/util/debugpy.py", "inside/listening.py")):
            findings.append(
                note(
                    f"{by} calls debugpy.listen() itself in {process.name}.",
                    "Here Ray takes over its port; elsewhere Ray's own call would raise “has already been called”.",
                )
            )
    return findings


def decide_speed(processes: Iterable[Process]) -> list[Finding]:
    """What makes a debugged process slow."""
    processes = list(processes)
    findings = []
    for _, names in _grouped(processes, lambda says: (says.get("debugger") or {}).get("attached") or None).items():
        findings.append(
            note(
                f"A debugger is attached to {names}.",
                "Functions with breakpoints run slower, and an editor that shows tensors computes them.",
                "disconnect it when you are done; make trace   # notes values without stopping",
            )
        )
    for _, names in _grouped(processes, _without_speedups).items():
        findings.append(
            warn(
                f"debugpy runs without its compiled parts in {names}.",
                "Every line of a debugged process is slower by far.",
                "unset PYDEVD_USE_CYTHON; python -m pip install --force-reinstall debugpy",
            )
        )
    for count, names in _grouped(processes, lambda says: says.get("log_points") or None).items():
        findings.append(note(f"{count} log points of `make trace` are on in {names}."))
    for name, why in SLOW.items():
        for value, names in _grouped(processes, _slow(name)).items():
            findings.append(
                warn(f"{name}={value} in {names}: {why}.", "Everything there is slower.", "make up   # without DEBUG=")
            )
    return findings


def decide_trial(trial: Trial) -> list[Finding]:
    """Whether a debugger works in this Python at all."""
    if not trial.problem:
        return [ok(f"a small program was stopped at a breakpoint and its variables read ({trial.seconds:.1f} s)")]
    return [
        bad(
            f"A debugger doesn't work in this Python: {trial.problem}.",
            "Breakpoints are passed over, or variables stay empty.",
            "python -c 'import debugpy; print(debugpy.__file__)'   # is it the one that was installed?\nmake down up",
        )
    ]


# --- helpers


def _grouped(processes: Iterable[Process], ask: Asked) -> dict[Any, str]:
    """What is asked of each process to the names of those that say so; None is nothing to tell."""
    found: dict[Any, list[str]] = {}
    for process in processes:
        if process.says is not None and (value := ask(process.says)) is not None:
            found.setdefault(value, []).append(process.name)
    return {value: _some(names) for value, names in found.items()}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _debugpy_problem(says: Mapping[str, Any]) -> str | None:
    version = says.get("debugpy")
    if version is None:
        return "can't be imported"
    if version == "unknown":
        return f"is something else than the installed one ({says.get('debugpy_at')})"
    numbers = [int(part) for part in str(version).split(".")[:2] if part.isdigit()]
    if numbers < [1, 8]:
        return f"{version} is older than {OLDEST_DEBUGPY}"
    # Ray compares the two as texts.
    return (
        f"{version} is refused by Ray, which takes it for older than {OLDEST_DEBUGPY}"
        if version < OLDEST_DEBUGPY
        else None
    )


def _switch(says: Mapping[str, Any], name: str, fine: tuple[str, ...]) -> str | None:
    value = (says.get("switches") or {}).get(name)
    return None if value is None or value in fine else str(value)


def _value(key: str) -> Asked:
    return lambda says: says.get(key)


def _has_said(line: str) -> Asked:
    return lambda says: line in says.get("said", ()) or None


def _slow(name: str) -> Asked:
    return lambda says: _switch(says, name, ("", "0", "OFF", "INFO"))


def _foreign_hook(says: Mapping[str, Any]) -> str | None:
    return None if says.get("hook") == "ray" or not says.get("session") else str(says.get("hook"))


def _without_speedups(says: Mapping[str, Any]) -> bool | None:
    return True if says.get("compiled") is False or _switch(says, "PYDEVD_USE_CYTHON", ("YES",)) else None


def _loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("localhost", "::1")
