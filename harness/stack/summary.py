"""What a person needs to know once the stack is up: where things are, and what to type next."""

from __future__ import annotations

from typing import Any

from harness.stack.plan import Plan

# What RAY_AUTH=off opens.
OPENED = (
    "every user of this machine, and before Docker 28 every neighbour that routes to it, can run code in the stack "
    "(your workspace is in it) by Ray's dashboard"
)


def describe(plan: Plan, names: tuple[str, ...]) -> dict[str, Any]:
    """The same facts for ``--json``; where keys lie, never what they are."""
    settings = plan.settings
    return {
        "base_url": plan.server.host_url,
        "anthropic_base_url": plan.server.anthropic_host_url,
        "base_url_in_containers": plan.server.container_url,
        "models": list(names),
        "engine": settings.engine,
        "dashboard": f"http://127.0.0.1:{settings.dashboard_port}",
        "keys": str(plan.keys),
        "workspace": str(settings.workspace),
        **({"share": f"{settings.share}:{settings.ray_port}"} if plan.shared else {}),
        "gpus": {"inference": list(plan.gpus.inference), "train": list(plan.gpus.train)},
        "limits": {
            "memory_bytes": plan.limits.memory,
            "pids": plan.limits.pids,
            "cpus": plan.limits.cpus,
            "cannot": list(plan.limits.cannot),
        },
        "debug": {preset.name: dict(preset.variables) for preset in plan.debug},
    }


def rows(plan: Plan, names: tuple[str, ...]) -> list[list[str]]:
    """The table that `up` and `status` end with."""
    facts = describe(plan, names)
    key_file = "OPENAI_API_KEY, as you gave it" if plan.external else f"{facts['keys']}/api_key"
    open_to_all = plan.settings.ray_auth == "off"
    token = "asks for no token" if open_to_all else f"token: {facts['keys']}/ray_token"
    table = [
        ["OpenAI base URL", facts["base_url"]],
        ["Anthropic base URL", facts["anthropic_base_url"]],
        ["key", key_file],
        ["model", " or ".join(names[:3]) or "what the server lists"],
        ["engine", plan.settings.engine],
        ["Ray dashboard", f"{facts['dashboard']}   ({token})"],
        ["workspace", f"{facts['workspace']}   (/workspace in the containers)"],
    ]
    if plan.shared:
        table.append(
            [
                "another machine joins",
                f"make worker HEAD={facts['share']} TOKEN_FILE=FILE   "
                f"(a copy of {facts['keys']}/ray_token; for a firewall: make ports)",
            ]
        )
    if plan.limits.memory or plan.limits.pids:
        table.append(["limits", f"{plan.limits.shown()}   (MEMORY_LIMIT= PIDS_LIMIT= CPU_LIMIT=)"])
    if open_to_all:
        table.append(["RAY_AUTH off", OPENED])
    if plan.gpus.any:
        table.append(["GPUs", plan.gpus.why])
    for preset in plan.debug:
        table.append([f"DEBUG {preset.name}", f"{preset.shows}. Costs: {preset.costs}"])
    return table
