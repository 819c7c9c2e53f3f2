"""What a worker's log says about why a trajectory, or the whole start, failed; pure.

AReaL hands none of it on: a rollout that fails is logged in the worker and left out of what ``rollout_batch`` returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.stage4.frameworks import Framework

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"^(?:\S+ )*?((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)): ?(.*)$")


@dataclass(frozen=True)
class Known:
    """Something that AReaL's log says, in words of ours.

    Args:
        code: its name in reports.
        pattern: where it stands in a line.
        says: what it means; ``{0}`` and so on are the pattern's groups.
        mend: what to do.
        fatal: nothing can come any more of a start that says so.
    """

    code: str
    pattern: re.Pattern[str]
    says: str
    mend: str
    fatal: bool = False


@dataclass(frozen=True)
class Reason:
    """One reason, with how often it stands in the log and the first line of it."""

    code: str
    text: str
    mend: str
    count: int
    line: str
    fatal: bool


def _known(code: str, pattern: str, says: str, mend: str, fatal: bool = False) -> Known:
    return Known(code, re.compile(pattern), says, mend, fatal)


KNOWN = (
    _known(
        "reward-type",
        r"Invalid reward type: <class '([^']+)'>",
        "AReaL drops a run whose reward is {0}: it takes a float or a dict of them",
        "return float(reward)",
    ),
    _known(
        "no-proxy",
        r"proxy_addr is required for agent workflows",
        "no proxy was started for the agents: every run of them is dropped",
        "controller.start_proxy() before rollout_batch",
    ),
    _known(
        "not-importable",
        r"Failed to import workflow from string '([^']+)'[^:]*: (.*)",
        "the worker can't import {0}: {1}",
        "put its folder on the workers' PYTHONPATH: rollout.scheduling_spec[0].env_vars.PYTHONPATH",
    ),
    _known(
        "run-not-async",
        r"Agent's 'run' method must be an async function",
        "AReaL refuses the agent: its run is no async function",
        "write: async def run(self, data, **extra_kwargs)",
    ),
    _known(
        "no-run",
        r"Agent must have a callable 'run' method",
        "AReaL refuses the agent: it has no run",
        "add: async def run(self, data, **extra_kwargs)",
    ),
    _known(
        "no-call",
        r"[Nn]o interactions in session",
        "a run made no call to the model: there is nothing to give the reward to",
        "call the model through base_url and api_key of run",
    ),
    _known(
        "admin-key",
        r"Refusing to start (?:the )?server on non-loopback host",
        "AReaL's proxy doesn't start with the admin key that everybody knows",
        "rollout.agent.admin_api_key: ${{oc.env:AREAL_ADMIN_KEY}}",
        fatal=True,
    ),
    _known(
        "port-taken",
        # Only uvicorn's words: AReaL's workers start again at another port by themselves.
        r"error while attempting to bind on address \(.*?(\d+)\): .*address already in use",
        "port {0}, which AReaL chose for its proxy, was taken by another program in the meantime",
        "run it again: AReaL chooses another port",
        fatal=True,
    ),
    _known(
        "litellm",
        r"No module named '(litellm\.[\w.]+)'",
        "AReaL's proxy can't import {0}: this litellm is too new for it",
        "pip install litellm==1.81.3",
        fatal=True,
    ),
    _known(
        "unknown-key",
        r"Key '([^']+)' not in '(\w+)'",
        "Key '{0}' not in '{1}': AReaL has none of that name",
        "its names: python -c 'from areal.api.cli_args import {1} as c; print(*c.__dataclass_fields__)'",
    ),
    _known(
        "no-engine",
        r"No module named '(vllm|sglang)[\w.]*'",
        "AReaL can't start {0} itself: it isn't installed in its Python",
        "attach to a server that runs: make up ENGINE=vllm",
        fatal=True,
    ),
    _known(
        "debugger-missing",
        r"No module named debugpy",
        "the worker's Python has no debugpy",
        "pip install debugpy",
        fatal=True,
    ),
    _known(
        "module-missing",
        # Without quotes where `python -m` says it.
        r"No module named '?([\w.]+)'?",
        "a worker lacks the package {0}",
        "install it into the Python that has AReaL",
        fatal=True,
    ),
    _known(
        "tokenizer",
        r"(?:OSError: )?(.*?) is not a local folder and is not a valid model identifier",
        "there is no tokenizer at {0}",
        "rollout.tokenizer_path: the model's folder or its hub id",
        fatal=True,
    ),
    _known(
        "tokenizer",
        # What the hub's library says of a folder that isn't there, for it takes that for a model's name.
        r"(?:Repo id must be in the form [^:]*: |Incorrect path_or_model_id: )'([^']*)'",
        "there is no tokenizer at {0}",
        "rollout.tokenizer_path: the model's folder or its hub id",
        fatal=True,
    ),
    _known(
        "tokenizer",
        r"We couldn't connect to '[^']*' to load the files|Can't load tokenizer for '([^']*)'",
        "the tokenizer isn't on this machine, and the hub isn't reached",
        "rollout.tokenizer_path: the model's folder",
        fatal=True,
    ),
    _known(
        "server-gone",
        r"(?:Cannot connect to host|Connect call failed|Server disconnected|Connection reset by peer)",
        "the inference server went away",
        "make logs S=inference",
    ),
    _known(
        "bad-gateway",
        r"(?:502, message='Bad Gateway'|502 Bad Gateway|HTTP 502)",
        "the inference server went away",
        "make logs S=inference",
    ),
    _known(
        "no-capacity",
        r"(?:\b429\b.*(?:capacity|session)|Too Many Requests)",
        "AReaL's proxy let no more sessions in (429)",
        "raise rollout.max_concurrent_rollouts, or end sessions sooner",
    ),
    _known(
        "reward-id",
        r"error code 400\].*[Ee]rror setting reward",
        "a reward was given to a completion id that AReaL's proxy doesn't know; the trajectory is kept without it",
        "use the id of a completion of this run",
    ),
    _known(
        "concat-style",
        r"Cannot export interactions in 'concat' style",
        "AReaL can't put the turns of a run into one row: export_style is concat, and chat_template_type isn't",
        "rollout.agent.chat_template_type: concat, or export_style: individual",
    ),
    _known(
        "timed-out",
        r"Rollout timed out after ([\d.]+)s",
        "a rollout took longer than rollout.request_timeout ({0} s)",
        "find where it waits: make check STAGE=2",
    ),
    _known(
        "choices",
        r"NotImplementedError.*\bn\b.*(?:not supported|!= ?1)",
        "AReaL's proxy answers one choice a call",
        "leave n out, and make several calls",
    ),
)


# What verl's log says, or what stands in its own exceptions.
KNOWN_IN_VERL = (
    _known(
        "reward-type",
        r"Invalid reward type: <class '([^']+)'>",
        "the agent's reward is {0}: it has to be a float, or a dict of them",
        "return float(reward)",
    ),
    _known("reward", r"ValueError: (Invalid reward: .*)", "{0}", "return a finite float"),
    _known(
        "no-call",
        r"NoCalls: the run made no call to the model",
        "a run made no call to the model: there is no token to train on",
        "call the model through base_url and api_key of run",
    ),
    _known(
        "history",
        r"the messages are not those of the call before with more at their end",
        "a run's call doesn't go on from the one before: verl trains on one sequence a run",
        "only ever append to the messages, and leave the model's answers as they came",
    ),
    _known(
        "data-source",
        r"Reward function is not implemented for data_source='?([^'\n]*?)'?$",
        "verl has no reward for data_source {0}, and no reward function of yours is read",
        "reward.custom_reward_function.path: your file",
    ),
    _known(
        "loop-unknown",
        r"Agent loop (\S+) not registered",
        "verl knows no agent loop {0}",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path: the file that names it",
    ),
    _known(
        "parser-unknown",
        r"Unknown tool parser: (\S+)",
        "verl has no tool parser {0}",
        "actor_rollout_ref.rollout.multi_turn.format: hermes, or what your model writes",
    ),
    _known(
        "key-missing",
        r"KeyError: '(data_source|reward_model|ground_truth|score)'",
        "verl's reward manager needs {0}, and a sample or the reward function's dict has none",
        "give each sample data_source and reward_model: {{ground_truth: …}}, and a dict of rewards a score",
    ),
    _known(
        "module-missing",
        r"No module named '([\w.]+)'",
        "verl lacks the package {0}",
        "install it into the Python that has verl",
        fatal=True,
    ),
    _known(
        "tokenizer",
        r"(?:OSError: )?(\S*) is not a local folder and is not a valid model identifier",
        "there is no model at {0}",
        "actor_rollout_ref.model.path: the model's folder",
        fatal=True,
    ),
    _known(
        "server-answers",
        r"the inference server answered (\d+): (.{0,200})",
        "the inference server answered {0}: {1}",
        "make check STAGE=1",
    ),
    _known(
        "server-gone",
        r"(?:Cannot connect to host|Connect call failed|ServerDisconnectedError|Connection reset by peer)",
        "the inference server went away",
        "make logs S=inference",
    ),
    _known(
        "no-memory",
        r"(?:OutOfMemoryError|Task was killed due to the node running low on memory)",
        "Ray ended a worker, for the machine has no memory left",
        "fewer prompts: GLOBAL_BS=4",
    ),
)


def plain(text: str) -> str:
    """A log without colours."""
    return _ANSI.sub("", text)


def reasons_of(framework: Framework, log: str) -> list[Reason]:
    """What a log of this framework says."""
    return reasons(log, KNOWN_IN_VERL if framework.key == "verl" else KNOWN)


def reasons(log: str, all_known: Sequence[Known] = KNOWN) -> list[Reason]:
    """What a log says, each kind once, in the order in which it came up first."""
    found: dict[str, Reason] = {}
    for line in plain(log).splitlines():
        for known in all_known:
            if (match := known.pattern.search(line)) is None:
                continue
            text = known.says.format(*(group or "?" for group in match.groups()))
            before = found.get(known.code)
            count = before.count + 1 if before else 1
            first = before or Reason(
                known.code, text, known.mend.replace("{{", "{").replace("}}", "}"), 1, line.strip()[:300], known.fatal
            )
            found[known.code] = Reason(first.code, first.text, first.mend, count, first.line, first.fatal)
            break
    return list(found.values())


def last_error(log: str) -> str:
    """The last exception that a log names, in one line; empty where it names none."""
    return next(_errors(plain(log).splitlines()[::-1]), "")


def _errors(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if match := _ERROR.match(line.strip()):
            yield f"{match[1].rpartition('.')[2]}: {match[2]}".strip().rstrip(":")[:300]
