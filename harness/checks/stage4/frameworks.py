"""What the frameworks whose rollouts stage 4 runs call the same things; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Framework:
    """A framework, in the words that lines use.

    Args:
        key: the first part of the ids of its lines.
        name: as it writes itself.
        where: where they run, in a title.
        worker: what runs the agents.
        proxy: what answers their calls.
        tokenizer: where a configuration names the tokenizer.
        group: what a run that fails takes with it, in a sentence; a space before it.
        lost: what becomes of a run that failed.
        parts: what has to start, for an agent and for a reward function.
        stuck: what a training does where the start fails.
        not_found: what becomes of an agent whose module isn't found.
        python_path: where PYTHONPATH is set.
        waits: what a training does where nothing moves.
        no_call: what becomes of a run without a call to the model.
        rewritten: what follows from a chat template that changes earlier turns, and what helps.
        no_base_path: the address that agents get has no ``/v1``.
    """

    key: str
    name: str
    where: str
    worker: str
    proxy: str
    tokenizer: str
    group: str
    lost: str
    parts: tuple[str, str]
    stuck: str
    not_found: str
    python_path: str
    waits: str
    no_call: str
    rewritten: str
    for_rewritten: str
    no_base_path: bool

    def id(self, subject: str) -> str:
        """The id of a line about this framework."""
        return f"{self.key}.{subject}"


AREAL = Framework(
    key="areal",
    name="AReaL",
    where="AReaL's rollout controller",
    worker="AReaL's worker",
    proxy="AReaL's proxy",
    tokenizer="rollout.tokenizer_path",
    group=" One run that fails takes its whole group with it.",
    lost="AReaL leaves it out of the batch without an exception: rollout_batch returns fewer, and training goes on.",
    parts=("controller, worker and proxy", "controller, worker and engine"),
    stuck="Training ends, or waits for its setup_timeout, at the same place.",
    not_found="Training names an agent by its module: “Failed to import workflow from string”, for every run.",
    python_path=" in rollout.scheduling_spec[0].env_vars",
    waits="A rollout waits for it until rollout.request_timeout, an hour by default.",
    no_call="AReaL has nothing to train on: “No interactions in session”, and drops the trajectory.",
    rewritten="With export_style concat a run of several turns is trained on tokens that nobody generated.",
    for_rewritten="rollout.agent.export_style: individual, or chat_template_type: concat",
    no_base_path=True,
)
VERL = Framework(
    key="verl",
    name="verl",
    where="verl's agent loops",
    worker="verl's agent loop worker",
    proxy="verl's agent loop",
    tokenizer="actor_rollout_ref.model.path",
    group=" One run that fails takes its whole group with it.",
    lost="verl marks the prompt as failed in a worker's log, drops its whole group, and training goes on.",
    parts=("Ray, agent loop worker and the agents' port", "Ray, agent loop worker and reward worker"),
    stuck="Training ends at the same place.",
    not_found="Training names an agent by its module: “ModuleNotFoundError”, and no agent loop is made.",
    python_path=" in ray_kwargs.ray_init.runtime_env.env_vars",
    waits="verl has no time-out for an agent loop: training waits here for ever.",
    no_call="There is no token to train on.",
    rewritten="verl adds a turn's tokens to those before; the model's own template would have shown it others.",
    for_rewritten="actor_rollout_ref.model.custom_chat_template: one that only appends",
    no_base_path=False,
)
