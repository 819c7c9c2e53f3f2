"""An agent of ours inside verl: an agent loop whose model is reached over OpenAI's protocol.

verl's agent loops get token ids from ``server_manager.generate`` and give token ids, a mask and a reward back. An agent
that is written for an OpenAI client sees none of that. ``AgentLoop`` stands between: it runs such an agent as one run
of verl, answers its calls of ``/v1/chat/completions`` by verl's own ``generate``, its tokenizer, its Continuous Token
builder and its tool parser, and hands in what came of it as one sequence. A training uses it by a file that
``actor_rollout_ref.rollout.agent.agent_loop_config_path`` names::

    - name: my_agent
      _target_: drydock_verl.AgentLoop
      agent: my_agents.single_turn.SingleTurn

It needs verl and what verl itself brings, so this file alone on the workers' PYTHONPATH is enough.

verl trains on one sequence for each run, so an agent's messages may only be added to. Temperature and top-p are the
training configuration's: log-probs are computed with these. ``max_tokens`` is the agent's, within ``response_length``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import math
import secrets
import time
from typing import Any, ClassVar
from uuid import uuid4

from aiohttp import web
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema

MAX_BODY = 64 * 1024 * 1024
# What verl adds to a sample before an agent loop gets it.
OWN_FIELDS = (
    "raw_prompt", "dummy_tensor", "index", "tools_kwargs", "interaction_kwargs", "priority", "uid", "session_id",
)  # fmt: skip


class NoCalls(ValueError):
    """A run without a call to the model has no tokens to train on."""


@register("drydock")
class AgentLoop(AgentLoopBase):
    """Runs an agent with ``async run(data, **extra_kwargs)`` as one of verl's agent loops.

    Args:
        agent: import path of its class, or a mapping with ``class`` and ``arguments`` for its ``__init__``.
    """

    def __init__(self, *args: Any, agent: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        told = OmegaConf.to_container(agent) if OmegaConf.is_config(agent) else agent
        self._agent = agent_of({"class": told} if isinstance(told, str) else told)
        self.response_length = self.rollout_config.response_length
        self.tool_parser = ToolParser.get_tool_parser(self.rollout_config.multi_turn.format, self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """One run of the agent; its reward is verl's reward, and no reward manager is asked."""
        session = Session(self, sampling_params)
        data = {name: value for name, value in kwargs.items() if name not in OWN_FIELDS}
        gate = await Gate.of_this_process()
        began = time.monotonic()
        with gate.open(session) as key:
            reward = await self._agent.run(data, base_url=gate.address, api_key=key, http_client=gate.client)
        if not session.mask:
            raise NoCalls("the run made no call to the model")
        length = len(session.ids) - len(session.mask)
        cut = self.response_length
        return AgentLoopOutput(
            prompt_ids=session.ids[:length],
            response_ids=session.ids[length:][:cut],
            response_mask=session.mask[:cut],
            response_logprobs=session.logprobs[:cut] if session.logprobs is not None else None,
            reward_score=number_of(reward, session.answers),
            num_turns=session.turns,
            metrics={"generate_sequences": session.seconds, "tool_calls": time.monotonic() - began - session.seconds},
            extra_fields={"turn_scores": [], "tool_rewards": [], "reward_extra_info": {}},
        )


_agents: dict[str, Any] = {}


def agent_of(told: dict[str, Any]) -> Any:
    """The agent, one for all runs of this process; verl makes its loops anew for each."""
    key = json.dumps(told, sort_keys=True, default=str)
    if key not in _agents:
        module, _, name = told["class"].rpartition(".")
        _agents[key] = getattr(importlib.import_module(module), name)(**told.get("arguments", {}))
    return _agents[key]


def number_of(reward: Any, answers: list[str]) -> float:
    """The one number that verl takes for a run: the float, or that of the last completion in a dict by their ids.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(reward, dict):
        known = [reward[answer] for answer in answers if answer in reward]
        if not known:
            raise ValueError("Invalid reward: no key of the dict is the id of a completion of this run")
        reward = known[-1]
    if not isinstance(reward, float):
        raise ValueError(f"Invalid reward type: {type(reward)}")
    if not math.isfinite(reward):
        raise ValueError(f"Invalid reward: {reward}")
    return reward


class Session:
    """One run's conversation, as messages and as tokens.

    Args:
        loop: the agent loop, whose tokenizer and ``generate`` are used.
        sampling: verl's sampling parameters.
    """

    def __init__(self, loop: AgentLoop, sampling: dict[str, Any]) -> None:
        self.loop, self.sampling = loop, dict(sampling)
        self.request_id = uuid4().hex
        self.ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] | None = None
        self.messages: list[dict[str, Any]] = []
        self.answers: list[str] = []
        self.turns, self.seconds = 0, 0.0
        self._one_at_a_time = asyncio.Lock()

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request to ``/v1/chat/completions``.

        Raises:
            Refused: it asks for what can't be trained on.
        """
        if body.get("stream"):
            raise Refused("stream is not supported: verl's generate answers as a whole")
        if body.get("n") not in (None, 1):
            raise Refused("n is not supported: one choice a call")
        async with self._one_at_a_time:
            return await self._complete(body)

    async def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = [plain(message) for message in body["messages"]]
        tools = body.get("tools") or None
        await self._take(messages, tools)
        before = len(self.ids)
        room = self.loop.response_length - len(self.mask)
        wanted = body.get("max_completion_tokens") or body.get("max_tokens") or room
        text, finish = "", "length"
        calls: list[dict[str, Any]] = []
        made: list[int] = []
        if room > 0:
            began = time.monotonic()
            output = await self.loop.server_manager.generate(
                request_id=self.request_id,
                prompt_ids=self.ids,
                sampling_params={**self.sampling, "max_tokens": min(room, int(wanted)), **self._stops(tools)},
            )
            self.seconds += time.monotonic() - began
            made = list(output.token_ids)
            await self._add(made, output.log_probs)
            text, calls = await self._read(made, tools)
            finish = "tool_calls" if calls else "length" if len(made) >= min(room, int(wanted)) else "stop"
        self.turns += 2
        answer = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        self.messages = [*messages, plain(answer)]
        self.answers.append(f"chatcmpl-{uuid4().hex}")
        return {
            "id": self.answers[-1],
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model") or "",
            "choices": [{"index": 0, "message": answer, "finish_reason": finish, "logprobs": None}],
            "usage": {
                "prompt_tokens": before,
                "completion_tokens": len(made),
                "total_tokens": before + len(made),
            },
        }

    async def _take(self, messages: list[dict[str, Any]], tools: Any) -> None:
        """Bring what the agent added to the conversation into the tokens."""
        if not self.messages:
            self.ids = list(await self.loop.ct_build_initial_tokens(messages, tools=tools))
            return
        kept = len(self.messages)
        if messages[:kept] != self.messages or len(messages) == kept:
            raise Refused(
                "the messages are not those of the call before with more at their end: "
                "verl trains on one sequence a run"
            )
        merged, self.mask, self.logprobs = await self.loop.ct_merge_context_msg(
            self.messages, messages, self.ids, self.mask, self.logprobs, tools=tools
        )
        self.ids = list(merged.token_ids)

    async def _add(self, made: list[int], logprobs: list[float] | None) -> None:
        before = self.logprobs if self.logprobs is not None or not logprobs else []
        merged, self.mask, self.logprobs = await self.loop.ct_merge_assistant_token(
            self.ids, made, self.mask, before, assistant_logprobs=logprobs or None
        )
        self.ids = list(merged.token_ids)

    def _stops(self, tools: Any) -> dict[str, Any]:
        stops = getattr(self.loop.tool_parser, "stop_token_ids", None) if tools else None
        return {"stop_token_ids": list(stops)} if stops else {}

    async def _read(self, made: list[int], tools: Any) -> tuple[str, list[dict[str, Any]]]:
        if not tools:
            return self.loop.tokenizer.decode(made, skip_special_tokens=True), []
        schemas = [OpenAIFunctionToolSchema.model_validate(tool) for tool in tools]
        text, calls = await self.loop.tool_parser.extract_tool_calls(made, schemas)
        for token in self.loop.tokenizer.all_special_tokens:
            text = text.replace(token, "")
        return text, [
            {
                "id": call.tool_call_id or f"call_{uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]


class Refused(Exception):
    """A request that is answered with 400."""


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what SDKs add to it, so that equal ones are equal; arguments as chat templates take them."""
    kept: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
    for name in ("tool_call_id", "name"):
        if message.get(name):
            kept[name] = message[name]
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [
            {"id": call.get("id"), "type": "function", "function": _function(call["function"])} for call in calls
        ]
    return kept


def _function(called: dict[str, Any]) -> dict[str, Any]:
    arguments = called.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            read = json.loads(arguments)
            arguments = read if isinstance(read, dict) else arguments
    return {"name": called.get("name"), "arguments": arguments}


class Gate:
    """A port of 127.0.0.1, one a process, at which each run has a key of its own.

    Attributes:
        address: what agents get as ``base_url``; whoever wants to see their calls puts their own in front.
        client: an httpx client that all agents of this process share; None where there is no httpx.
    """

    _only: ClassVar[Gate | None] = None
    _making: ClassVar[asyncio.Lock | None] = None

    def __init__(self) -> None:
        self.address = ""
        self._sessions: dict[str, Session] = {}
        self.client: Any = None

    @classmethod
    async def of_this_process(cls) -> Gate:
        """The gate, opened when it is first asked for."""
        cls._making = cls._making or asyncio.Lock()
        async with cls._making:
            if cls._only is None:
                gate = cls()
                await gate._start()
                cls._only = gate
        return cls._only

    async def _start(self) -> None:
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        with contextlib.suppress(ImportError):
            import httpx

            self.client = httpx.AsyncClient(timeout=httpx.Timeout(3600.0), limits=httpx.Limits(max_connections=None))

    @contextlib.contextmanager
    def open(self, session: Session) -> Any:
        """A key for one run, which ends with the block."""
        key = secrets.token_hex(16)
        self._sessions[key] = session
        try:
            yield key
        finally:
            del self._sessions[key]

    async def _answer(self, request: web.Request) -> web.Response:
        session = self._sessions.get(request.headers.get("Authorization", "").partition(" ")[2].strip())
        if session is None:
            return _error(401, "no run has this key: it is over, or another key was given")
        try:
            return web.json_response(await session.complete(await request.json()))
        except (Refused, KeyError, ValueError) as error:
            return _error(400, str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001
            # The server's trouble, told to the agent as any server tells it; verl's own words for it are kept.
            return _error(500, f"{type(error).__name__}: {str(error)[:2000]}")


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": {"message": text, "type": "invalid_request_error"}}, status=status)
