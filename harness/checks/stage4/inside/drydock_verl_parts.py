"""What stage 4 puts into verl's places: the inference server, the worker with an agent that is observed, the reward.

Each is verl's own class with a note taken, or stands where one of verl's classes stands. Runs in verl's interpreter.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
from typing import Any

import aiohttp
import drydock_observed
from drydock_verl import AgentLoop, Gate
from verl.experimental.agent_loop.agent_loop import AgentLoopManager, AgentLoopWorker
from verl.workers.rollout.replica import TokenOutput

BREAK = "DRYDOCK_BREAK"


class Server:
    """Stands where verl has its vLLM or SGLang replica, and asks the server that runs already.

    Args:
        address: of the server, without a path.
        model: its name there.
        generate: the server has SGLang's own route.
        rollout: ``prompt_length``, ``response_length`` and ``ignore_eos`` of the rollout's configuration.
        timeout: seconds for one answer.
    """

    def __init__(self, address: str, model: str, generate: bool, rollout: dict[str, Any], timeout: float) -> None:
        self._address, self._model, self._generate, self._rollout = address, model, generate, rollout
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,  # noqa: ARG002  # the parameters are those of verl's replicas
        image_data: Any = None,
        video_data: Any = None,
        **_: Any,
    ) -> TokenOutput:
        """Tokens in, tokens out; lengths are limited as verl's own replica limits them."""
        if image_data or video_data:
            raise NotImplementedError("a check sends text alone to the server")
        asked = dict(sampling_params)
        rollout = self._rollout
        room = rollout["prompt_length"] + rollout["response_length"] - len(prompt_ids)
        most = asked.pop("max_tokens", None) or asked.pop("max_new_tokens", None)
        most = max(1, most or min(rollout["response_length"], room))
        wants_logprobs = bool(asked.pop("logprobs", False))
        asked["ignore_eos"] = rollout["ignore_eos"]
        send = self._by_generate if self._generate else self._by_completions
        return await send(list(prompt_ids), asked, most, wants_logprobs)

    async def _by_completions(self, ids: list[int], asked: dict[str, Any], most: int, logprobs: bool) -> TokenOutput:
        body = {"model": self._model, "prompt": ids, "max_tokens": most, **asked, "return_tokens_as_token_ids": True}
        # Ids come with log-probs alone, so these are asked for in any case.
        answer = await self._post("/v1/completions", {**body, "logprobs": 0})
        choice = answer["choices"][0]
        told = choice["logprobs"]
        ids = [int(token.rpartition(":")[2]) for token in told["tokens"]]
        return _output(ids, list(told["token_logprobs"]) if logprobs else None, choice.get("finish_reason"))

    async def _by_generate(self, ids: list[int], asked: dict[str, Any], most: int, logprobs: bool) -> TokenOutput:
        body = {"input_ids": ids, "sampling_params": {**asked, "max_new_tokens": most}, "return_logprob": True}
        answer = await self._post("/generate", body)
        told = answer["meta_info"]["output_token_logprobs"]
        reason = (answer["meta_info"].get("finish_reason") or {}).get("type")
        return _output([int(one[1]) for one in told], [float(one[0]) for one in told] if logprobs else None, reason)

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, connector=aiohttp.TCPConnector(limit=0))
        async with self._session.post(self._address + path, json=body) as response:
            text = await response.text()
            if response.status != 200:
                raise RuntimeError(f"the inference server answered {response.status}: {text[:500]}")
            return json.loads(text)


def _output(ids: list[int], logprobs: list[float] | None, reason: str | None) -> TokenOutput:
    stopped = {"abort": "aborted", "stop": "completed", "length": "completed"}.get(reason or "", reason)
    return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason=stopped, extra_fields={"global_steps": 0})


class Worker(AgentLoopWorker):
    """verl's worker, with a port for agents that can be asked for, and a debugger that it can wait for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if address := os.environ.get(BREAK):
            import debugpy

            host, _, port = address.rpartition(":")
            debugpy.configure(subProcess=False)
            debugpy.listen((host, int(port)))
            debugpy.wait_for_client()
        super().__init__(*args, **kwargs)

    async def gate(self, address: str = "") -> str:
        """Where agents' calls are answered; a given address takes its place for the agents."""
        gate = await Gate.of_this_process()
        before: str = gate.address
        gate.address = address or before
        return before


class ObservedLoop(AgentLoop):
    """The agent loop for agents of ours, with a note of what each run returned or raised."""

    def __init__(self, *args: Any, agent: Any, **kwargs: Any) -> None:
        from omegaconf import OmegaConf

        told = OmegaConf.to_container(agent) if OmegaConf.is_config(agent) else agent
        super().__init__(*args, agent={"class": "drydock_observed.Agent", "arguments": {"drydock": told}}, **kwargs)


class Observed:
    """The user's reward function, with a note of what it returned or raised."""

    def __init__(self, told: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("drydock_reward_module", told["file"])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["drydock_reward_module"] = module
        spec.loader.exec_module(module)
        self.function = getattr(module, told["name"])
        self._notes, self._rewards = told["notes"], told["rewards"]

    def note(self, event: str, **fields: Any) -> None:
        """One line for whoever looks."""
        drydock_observed._note(self._notes, event, **fields)

    def returned(self, began: float, result: Any) -> None:
        """What it gave."""
        described = drydock_observed._describe(self._rewards, result)
        self.note("scored", seconds=time.time() - began, reward=described)

    def raised(self, error: BaseException) -> None:
        """What it raised instead."""
        self.note("raised", index=None, session="", **drydock_observed._raised(error))


_observed: dict[str, Observed] = {}


def _of(told: dict[str, Any]) -> Observed:
    key = f"{told['file']}:{told['name']}"
    if key not in _observed:
        _observed[key] = Observed(told)
    return _observed[key]


def score(*, drydock: Any, **kwargs: Any) -> Any:
    """Stands where the user's reward function stands."""
    observed, began = _of(drydock), time.time()
    try:
        result = observed.function(**kwargs)
    except BaseException as error:
        observed.raised(error)
        raise
    observed.returned(began, result)
    return result


async def score_async(*, drydock: Any, **kwargs: Any) -> Any:
    """The same where it is a coroutine function."""
    observed, began = _of(drydock), time.time()
    try:
        result = await observed.function(**kwargs)
    except BaseException as error:
        observed.raised(error)
        raise
    observed.returned(began, result)
    return result


def is_async(told: dict[str, Any]) -> bool:
    """Whether the user's reward function is a coroutine function, which verl treats differently."""
    return inspect.iscoroutinefunction(_of(told).function)


def manager_class() -> type[AgentLoopManager]:
    """verl's manager with our worker in its workers' place."""
    import ray

    class Manager(AgentLoopManager):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.agent_loop_workers_class = ray.remote(Worker)
            super().__init__(*args, **kwargs)

    return Manager


def explain(error: BaseException) -> str:
    """An exception with its traceback, as it goes into the log."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def run(coroutine: Any) -> Any:
    """Run a coroutine of verl's from outside of any event loop."""
    return asyncio.new_event_loop().run_until_complete(coroutine)
