"""How the stack is, from the real state and from what the last `up` wrote down of its settings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness.places import write_whole
from harness.settings import BadValue, Settings, environment_name, settings_fields
from harness.stack import observe, samplers
from harness.stack.already import fine
from harness.stack.gpu.split import Split
from harness.stack.limits import Limits
from harness.stack.machines import sharing
from harness.stack.machines.sharing import Node
from harness.stack.observe import Service
from harness.stack.plan import Plan, make_plan
from harness.stack.summary import describe


@dataclass(frozen=True)
class Status:
    """The stack as it is.

    Attributes:
        plan: what the last `up` was asked for; what the settings ask for where there was none.
        nodes: of a shared cluster, those on other machines and dead ones among them.
        unsampled: containers without a sampler: `hang-dump` in ``dev`` can't see into them. Nothing else needs it.
    """

    plan: Plan
    names: tuple[str, ...]
    services: list[Service]
    unsampled: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    @property
    def up(self) -> bool:
        return any(service.containers for service in self.services)

    @property
    def fine(self) -> bool:
        return fine(self.services)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        facts = describe(self.plan, self.names)
        return {
            "up": self.up,
            "fine": self.fine,
            **facts,
            "services": [s.as_dict() for s in self.services],
            "unsampled": self.unsampled,
            **({"nodes": [node.as_dict() for node in self.nodes]} if self.plan.shared else {}),
        }


def status(client: Any, settings: Settings) -> Status:
    """Look at the stack that runs.

    A stack that was brought up with ``make up MODEL=… PORT=…`` is to be found by a plain ``make status``: so what
    that `up` was given counts, except for what this call sets itself.
    """
    plan, names = recall(settings)
    services = observe.look(client, plan.expected)
    containers = [container for service in services for container in service.containers]
    unsampled = samplers.lacking(client, plan.expected.project, containers) if containers else []
    nodes = sharing.nodes(plan.expected, node_manager=plan.ports.node_manager) if plan.shared else []
    return Status(plan, names, services, unsampled, nodes)


def remember(plan: Plan, names: tuple[str, ...]) -> None:
    """Write down what this `up` was asked for (no secret among it)."""
    given = {field: plan.settings.shown(field) for field in plan.settings.given if field not in _SECRET}
    kept: dict[str, Any] = {"settings": given, "names": names}
    if plan.gpus.any:
        gpus = {"inference": plan.gpus.inference, "train": plan.gpus.train, "why": plan.gpus.why, "way": plan.gpu_way}
        kept["gpus"] = {**gpus, "engine_inferred": plan.engine_inferred}
    kept["limits"] = asdict(plan.limits)
    write_whole(plan.settings.state_dir / "up.json", json.dumps(kept, indent=2))


def asked_before(settings: Settings) -> dict[str, str]:
    """What the last `up` was given, by the settings' environment names; secrets are not kept, so none are here."""
    return {environment_name(field): value for field, value in _kept(settings)[0].items()}


def gone_back(settings: Settings) -> dict[str, str]:
    """Settings of the last `up` that this call leaves at their default, by name; people seldom mean that."""
    old = asked_before(settings)
    if _kept_gpus(settings).get("engine_inferred"):
        old.pop(environment_name("engine"), None)  # nobody has asked for it
    return {
        environment_name(field): old[environment_name(field)]
        for field in sorted(_RECALLED)
        if environment_name(field) in old
        and settings.origin(field) == "default"
        and old[environment_name(field)] != settings.shown(field)
    }


def recall(settings: Settings) -> tuple[Plan, tuple[str, ...]]:
    """The plan of the last `up`, and the names its server answers to."""
    given, names = _kept(settings)
    old = {name: value for name, value in given.items() if name in _RECALLED}
    mine = {name: getattr(settings, name) for name in settings.given}
    try:
        # A stack of one engine can't be asked for another's services: its engine and all that goes with it is kept.
        merged = Settings(**{**mine, **old}, given=frozenset({*mine, *old}))
    except BadValue:
        return make_plan(settings, to_start=False), (settings.model,)
    return _with_kept_limits(_with_kept_gpus(make_plan(merged, to_start=False))), names


def _with_kept_gpus(plan: Plan) -> Plan:
    """The plan with the GPUs that the last `up` shared out."""
    kept = _kept_gpus(plan.settings)
    try:
        gpus = Split(tuple(kept["inference"]), tuple(kept["train"]), str(kept["why"]))
        return replace(plan, gpus=gpus, gpu_way=kept["way"], engine_inferred=bool(kept["engine_inferred"]))
    except (KeyError, TypeError):
        return plan


def _with_kept_limits(plan: Plan) -> Plan:
    """The plan with the limits under which the last `up` started its containers."""
    kept = _kept_part(plan.settings, "limits")
    try:
        limits = Limits(int(kept["memory"]), int(kept["pids"]), float(kept["cpus"]), tuple(kept["cannot"]))
    except (KeyError, TypeError, ValueError):
        return plan
    return replace(plan, limits=limits)


def _kept_gpus(settings: Settings) -> dict[str, Any]:
    return _kept_part(settings, "gpus")


def _kept_part(settings: Settings, name: str) -> dict[str, Any]:
    try:
        kept = json.loads((settings.state_dir / "up.json").read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _kept(settings: Settings) -> tuple[dict[str, str], tuple[str, ...]]:
    """What :func:`remember` wrote: settings by field, and names; none where it can't be read or is no such thing."""
    try:
        kept = json.loads((settings.state_dir / "up.json").read_text(encoding="utf-8"))
        given = {name: str(value) for name, value in kept["settings"].items() if name in settings_fields()}
        return given, tuple(map(str, kept["names"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}, (settings.model,)


_SECRET = frozenset({"openai_api_key", "hf_token"})
_RECALLED = frozenset(
    {"model", "engine", "openai_base_url", "workspace", "framework_src", "workers", "port", "dashboard_port", "context"}
    | {"debug", "ray_auth", "share", "ray_port", "memory_limit", "pids_limit", "cpu_limit"}
)
