"""A model of a hub that HF_ENDPOINT names is served under its names, by both engines, and fetched once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import tiny_model
from tests.support.harness import CLONE, Stack, free_port
from tests.support.hub import QWEN, QWEN_COMMIT, QWEN_GGUF_COMMIT, Hub

pytestmark = pytest.mark.docker

# What the guide's agents ask for.
GUIDE_NAME = "qwen/qwen2.5-0.5b-instruct"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub() as running:
        running.add_qwen(tmp_path / "served")
        yield running


@pytest.fixture
def stack(tmp_path: Path, hub: Hub) -> Iterator[Stack]:
    settings = {
        "MODEL": "qwen2.5-0.5b",
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "DRYDOCK_CACHE": str(tmp_path / "cache"),
        "PORT": str(free_port()),
        "DASHBOARD_PORT": str(free_port()),
        "CONTEXT": "1024",
        "THREADS": "1",
    }
    made = Stack("drydock-served", tmp_path, settings)
    yield made
    made.run("down")
    shutil.rmtree(CLONE / ".drydock" / made.project, ignore_errors=True)


def ask(stack: Stack, model: str) -> httpx2.Response:
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0,
        "max_tokens": 32,
        "logprobs": True,
    }
    url = f"http://127.0.0.1:{stack.settings['PORT']}/v1/chat/completions"
    return httpx2.post(url, json=body, headers={"Authorization": f"Bearer {stack.key()}"}, timeout=60)


@pytest.mark.parametrize(
    ("engine", "commit"),
    [
        pytest.param("llamacpp", QWEN_GGUF_COMMIT),
        # vLLM alone takes a minute to start on two cores.
        pytest.param("vllm", QWEN_COMMIT, marks=pytest.mark.slow),
    ],
)
def test_a_model_of_a_loopback_hub_answers_to_its_names(stack: Stack, hub: Hub, engine: str, commit: str) -> None:
    stack.settings["ENGINE"] = engine
    stack.run("up").ok()
    assert {request.path.split("/resolve/")[1].split("/")[0] for request in hub.served("/resolve/")} == {commit}

    for name in ("qwen2.5-0.5b", QWEN, GUIDE_NAME):
        answer = ask(stack, name)
        assert answer.status_code == 200, answer.text
        choice = answer.json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (tiny_model.REPLY, "stop")
        assert choice["logprobs"]["content"][0]["logprob"] < 0
    assert ask(stack, "gpt-4o").status_code == 404

    asked = len(hub.requests)
    stack.run("up").ok()
    assert len(hub.requests) == asked, "weights that are here were asked for again"
