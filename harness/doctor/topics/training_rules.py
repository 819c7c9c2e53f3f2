"""What environment variables do to a training run; pure.

A rule is an entry of ``RULES``. To add one, find the line of the program that reads the variable (or see that none
does), and give the rule a case in ``tests/unit/doctor/test_training.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness.doctor.findings import Finding, Sign, bad, ok, warn

SHOWN = 3


@dataclass(frozen=True)
class Place:
    """Somewhere that has an environment.

    Attributes:
        name: this shell, a process, a container.
        variables: those of ``NAMES`` that are set there.
        here: it is in the network of this machine, whose interfaces we see.
    """

    name: str
    variables: Mapping[str, str]
    here: bool = False


@dataclass(frozen=True)
class Rule:
    """One way in which a variable does nothing, or harm.

    Attributes:
        variable: its name.
        when: given its value and all others, whether the rule applies.
        sign: ``bad`` where what was meant certainly doesn't happen, ``warn`` where it may hurt.
        says: what is so; stands behind ``NAME=value``.
    """

    variable: str
    when: Callable[[str, Mapping[str, str]], bool]
    sign: Sign
    says: str
    consequence: str
    mend: str


def _always(value: str, others: Mapping[str, str]) -> bool:  # noqa: ARG001
    return True


def _on(value: str, others: Mapping[str, str]) -> bool:  # noqa: ARG001
    return value.strip().lower() in ("1", "true", "yes", "on", "y", "t")


def _off(value: str, others: Mapping[str, str]) -> bool:  # noqa: ARG001
    return value.strip().lower() in ("0", "false", "no", "off", "n", "f")


def _not_one_of(*known: str) -> Callable[[str, Mapping[str, str]], bool]:
    return lambda value, others: value not in known  # noqa: ARG005


def _below(limit: float) -> Callable[[str, Mapping[str, str]], bool]:
    return lambda value, others: value.strip().isdigit() and float(value) < limit  # noqa: ARG005


RULES = (
    Rule(
        "NCCL_TIMEOUT", _always, "bad", "has no effect: neither NCCL nor PyTorch reads it",
        "A collective waits as long as before: the timeout= of init_process_group, 10 minutes with NCCL; "
        "AReaL gives 7200 s.",
        "unset NCCL_TIMEOUT   # the time is init_process_group(timeout=…), verl's nccl_timeout; "
        "a dump at its end: make up DEBUG=recorder",
    ),
    Rule(
        "RAY_DEBUG_POSTMORTEM", _always, "bad", "has no effect: nobody reads that name",
        "No worker waits at an uncaught exception.",
        "export RAY_DEBUG_POST_MORTEM=1   # with one more _",
    ),
    Rule(
        "RAY_DEBUG_POST_MORTEM", _not_one_of("0", "1"), "bad", "is as good as 0: only 1 counts",
        "No worker waits at an uncaught exception.",
        "export RAY_DEBUG_POST_MORTEM=1",
    ),
    Rule(
        "RAY_DEBUG", _not_one_of("1", "legacy"), "bad", "switches Ray's debugger off: only 1 and legacy mean one",
        "breakpoint() in a task or actor is passed over without a word.",
        "unset RAY_DEBUG   # 1 is Ray's default",
    ),
    Rule(
        "PYTHONBREAKPOINT", lambda value, others: value == "0", "warn",  # noqa: ARG005
        "makes breakpoint() do nothing",
        "Code that isn't Ray's passes every breakpoint over without a word.",
        "unset PYTHONBREAKPOINT",
    ),
    Rule(
        "HF_HUB_ENABLE_HF_TRANSFER", _on, "warn", "has no effect with huggingface_hub 1.0 and newer",
        "Downloads are as fast as without.",
        "export HF_XET_HIGH_PERFORMANCE=1   # what took its place",
    ),
    Rule(
        "TORCH_NCCL_DUMP_ON_TIMEOUT", lambda value, others: _on(value, others)
        and _off(others.get("TORCH_NCCL_ENABLE_MONITORING", "1"), others),
        "bad", "has no effect with TORCH_NCCL_ENABLE_MONITORING=0: the monitoring thread writes the dump",
        "A collective that times out leaves no Flight Recorder.",
        "unset TORCH_NCCL_ENABLE_MONITORING",
    ),
    Rule(
        "TORCH_NCCL_ENABLE_MONITORING", _off, "warn", "switches off what ends a process whose NCCL watchdog is stuck",
        "A job that hangs in CUDA or NCCL keeps its GPUs for ever.",
        "unset TORCH_NCCL_ENABLE_MONITORING   # while debugging: make up DEBUG=patient",
    ),
    Rule(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", _below(60), "warn", "is short: a healthy job is ended in the middle",
        "Loading kernels, a checkpoint or a debugger's pause holds the watchdog up for longer.",
        "unset TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    ),
    Rule(
        "TORCH_NCCL_BLOCKING_WAIT", _on, "warn", "makes the CPU wait for each collective",
        "Nothing overlaps any more, and an async collective's error comes up elsewhere.",
        "unset TORCH_NCCL_BLOCKING_WAIT",
    ),
    Rule(
        "NCCL_BLOCKING_WAIT", _on, "warn",
        "is the old name of TORCH_NCCL_BLOCKING_WAIT, and makes the CPU wait for each collective",
        "Nothing overlaps any more.",
        "unset NCCL_BLOCKING_WAIT",
    ),
    Rule(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", _off, "warn", "keeps ranks alive after a collective has failed",
        "One rank's error makes all others wait instead of end.",
        "unset TORCH_NCCL_ASYNC_ERROR_HANDLING",
    ),
    Rule(
        "NCCL_P2P_DISABLE", _on, "warn", "keeps GPUs from copying to one another directly",
        "Collectives within a machine take several times as long. It is often left over from a hunt for a hang.",
        "unset NCCL_P2P_DISABLE",
    ),
    Rule(
        "NCCL_SHM_DISABLE", _on, "warn", "keeps ranks of one machine from sharing memory",
        "They talk over the network instead, and slowly.",
        "unset NCCL_SHM_DISABLE   # where /dev/shm was too small: make it larger",
    ),
    Rule(
        "NCCL_IB_DISABLE", _on, "warn", "keeps NCCL off InfiniBand and RoCE",
        "Collectives between machines go over TCP, at a tenth of the speed where there is InfiniBand.",
        "unset NCCL_IB_DISABLE",
    ),
    Rule(
        "CUDA_LAUNCH_BLOCKING", _on, "warn", "makes the CPU wait for each kernel",
        "Training and serving are many times slower, and races hide.",
        "unset CUDA_LAUNCH_BLOCKING   # when the hunt is over",
    ),
    Rule(
        "TORCH_DISTRIBUTED_DEBUG", lambda value, others: value.upper() == "DETAIL", "warn",  # noqa: ARG005
        "makes ranks compare notes before each collective",
        "Small collectives take several times as long, and timing changes.",
        "unset TORCH_DISTRIBUTED_DEBUG   # when the hunt is over",
    ),
    Rule(
        "PYTHONASYNCIODEBUG", lambda value, others: bool(value), "warn",  # noqa: ARG005
        "makes every task of an event loop keep its origin's stack",
        "A rollout of many small tasks is up to 20 times slower.",
        "unset PYTHONASYNCIODEBUG   # when the hunt is over",
    ),
    Rule(
        "PYTHONOPTIMIZE", lambda value, others: value not in ("", "0"), "warn",  # noqa: ARG005
        "removes every assert",
        "An agent's or reward's own checks don't run, and wrong samples are trained on.",
        "unset PYTHONOPTIMIZE",
    ),
    Rule(
        "PYTORCH_CUDA_ALLOC_CONF",
        lambda value, others: "expandable_segments:true" in value.lower().replace(" ", ""),  # noqa: ARG005
        "warn", "clashes with vLLM's sleep mode",
        "A vLLM engine that shares its GPUs with training ends at its start: “Expandable segments are not compatible "
        "with memory pool”.",
        "unset PYTORCH_CUDA_ALLOC_CONF   # where vLLM and the trainer share GPUs",
    ),
    Rule(
        "RAY_memory_monitor_refresh_ms", lambda value, others: value.strip() == "0", "warn",  # noqa: ARG005
        "switches Ray's memory monitor off",
        "When memory runs out the kernel ends a process of its choice, the raylet or the server among them.",
        "unset RAY_memory_monitor_refresh_ms",
    ),
    Rule(
        "VLLM_SERVER_DEV_MODE", _on, "warn", "opens vLLM's routes that run any method of its workers",
        "Who reaches the server's port runs code in it; its API key doesn't protect these routes.",
        "unset VLLM_SERVER_DEV_MODE   # or let nobody but the trainer reach that port",
    ),
    Rule(
        "AREAL_ALLOW_DEFAULT_ADMIN_KEY", _on, "warn", "lets AReaL's proxy start with the key that everybody knows",
        "Who reaches it is its administrator.",
        "unset AREAL_ALLOW_DEFAULT_ADMIN_KEY   # and set rollout.agent.admin_api_key",
    ),
)  # fmt: skip

# Read by `decide_addresses`, and what rules look at beside their own variable.
_ADDRESSES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "MASTER_ADDR", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK")
NAMES = frozenset({rule.variable for rule in RULES} | set(_ADDRESSES))


def decide(places: Iterable[Place]) -> list[Finding]:
    """Every variable that does nothing or harm, once for each value, with the places that have it."""
    places = list(places)
    findings = []
    for rule in RULES:
        by_value: dict[str, list[str]] = {}
        for place in places:
            value = place.variables.get(rule.variable)
            if value is not None and rule.when(value, place.variables):
                by_value.setdefault(value, []).append(place.name)
        for value, names in by_value.items():
            text = f"{rule.variable}={value} {rule.says} ({some(names)})."
            make = bad if rule.sign == "bad" else warn
            findings.append(make(text, rule.consequence, rule.mend))
    return findings or [ok(f"no variable without effect, and none that hurts, {_where(places)}")]


def decide_addresses(places: Iterable[Place], interfaces: frozenset[str]) -> list[Finding]:
    """Ranks that can't find one another: an interface that isn't here, a master on the loopback, a rank in a shell."""
    places = list(places)
    findings: dict[Finding, None] = {}
    for place in places:
        if place.here and interfaces:
            findings.update(dict.fromkeys(_interfaces(place, interfaces)))
        findings.update(dict.fromkeys(_rendezvous(place)))
    return list(findings) or [ok(f"no address or interface that keeps ranks apart, {_where(places)}")]


def _interfaces(place: Place, interfaces: frozenset[str]) -> list[Finding]:
    findings = []
    for variable, missing in (
        ("NCCL_SOCKET_IFNAME", _nccl_misses(place.variables.get("NCCL_SOCKET_IFNAME", ""), interfaces)),
        ("GLOO_SOCKET_IFNAME", _gloo_misses(place.variables.get("GLOO_SOCKET_IFNAME", ""), interfaces)),
    ):
        if missing:
            findings.append(
                bad(
                    f"{variable}={place.variables[variable]} names no interface of this machine ({place.name}).",
                    "The process group fails, or hangs, when it is made.",
                    f"unset {variable}   # or one of: {', '.join(sorted(interfaces)[:6])}",
                )
            )
    return findings


def _nccl_misses(value: str, interfaces: frozenset[str]) -> bool:
    """NCCL takes prefixes with commas between; ``=`` in front asks for whole names, ``^`` names those to leave out."""
    if not value or value.startswith("^"):
        return False
    exact, names = value.startswith("="), [name for name in value.lstrip("=").split(",") if name]
    return not any(one == name or (not exact and one.startswith(name)) for one in interfaces for name in names)


def _gloo_misses(value: str, interfaces: frozenset[str]) -> bool:
    """Gloo takes whole names with commas between, and needs every one of them."""
    return any(name not in interfaces for name in value.split(",") if name)


def _rendezvous(place: Place) -> list[Finding]:
    variables = place.variables
    master = variables.get("MASTER_ADDR", "")
    world, local = variables.get("WORLD_SIZE", ""), variables.get("LOCAL_WORLD_SIZE", "")
    findings = []
    loopback = master in ("localhost", "::1") or master.startswith("127.")
    if loopback and world.isdigit() and local.isdigit() and int(world) > int(local):
        findings.append(
            bad(
                f"MASTER_ADDR={master} with {world} ranks, {local} of them on this machine ({place.name}).",
                "Each machine waits for the others at its own loopback, for ever.",
                "export MASTER_ADDR=…   # the first machine's address, the same on all of them",
            )
        )
    if place.name == "this shell" and variables.get("RANK") and world.isdigit() and int(world) > 1:
        findings.append(
            warn(
                f"RANK={variables['RANK']} and WORLD_SIZE={world} are exported in this shell.",
                "Every program that is started here takes itself for one of many ranks, and waits for the others.",
                "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE",
            )
        )
    return findings


def some(names: list[str]) -> str:
    """A few names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _where(places: list[Place]) -> str:
    others = len(places) - 1
    return "in this shell" + (f" and {others} more place{'s' * (others > 1)}" if others > 0 else "")
