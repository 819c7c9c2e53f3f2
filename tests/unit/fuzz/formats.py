"""Parsers of what users write or fetch: settings, data, configurations, models, and what goes over a wire."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import io
import json
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from gateway.config import ConfigError, load_config
from harness.breakpoints import launch
from harness.checks import samples
from harness.checks.lint import config as lint_config
from harness.checks.lint import train_config
from harness.compare import conversations
from harness.dap import wire
from harness.errors import BadConfig, BadSetting, DataUnreadable, DrydockError, UnusableModel, UsageError
from harness.models import folders, gguf
from harness.openai_api.reading import Protocol, StreamReader, ToolCall, read_body
from harness.openai_api.sse import Decoder
from harness.settings import load_settings
from harness.stack.images import apt_config, pip_config
from harness.stack.images.catalogue import load_catalogue
from harness.stack.images.lock import read_lock
from harness.stack.machines.meeting import Facts
from tests.support.harness import CLONE
from tests.unit.fuzz.parser import Parser, in_file, of_text

PROTOCOLS: tuple[Protocol, ...] = ("chat", "completions", "messages", "responses")


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Whatever asks for the clone finds this folder."""
    with mock.patch.dict("os.environ", {"DRYDOCK_HOME": str(folder)}):
        yield


def _settings(data: bytes, folder: Path) -> Any:
    (folder / "drydock.env").write_bytes(data)
    with at_home(folder):
        return load_settings(environ={})


def _training(path: Path) -> Any:
    config = lint_config.read_any(path)
    list(config.everything())
    for name in ("rollout.max_concurrent_rollouts", "actor.path", "gconfig.n_samples", "data.0.x", "trainer.nnodes"):
        config.hit(name, str(config.get(name)))
    return train_config.read(path)


def _data(path: Path) -> Any:
    found = samples.read(path)
    return [found.sample(index).data for index in range(len(found))]


def _stream(data: bytes, folder: Path) -> Any:
    replies = []
    for protocol in PROTOCOLS:
        decoder, reader = Decoder(), StreamReader(protocol)
        for event in [*decoder.feed(data[: len(data) // 2]), *decoder.feed(data[len(data) // 2 :]), *decoder.finish()]:
            reader.feed(event)
        replies.append(reader.reply())
    return [[call.parsed for call in reply.tool_calls] for reply in replies]


def _answer(data: bytes, folder: Path) -> Any:
    body = json.loads(data)
    return [[call.parsed for call in read_body(protocol, body).tool_calls] for protocol in PROTOCOLS]


def _messages(data: bytes, folder: Path) -> Any:
    stream, found = io.BytesIO(data), []
    while (message := wire.read(stream)) is not None:
        found.append(message)
    return found


def _images(data: bytes, folder: Path) -> Any:
    docker = folder / "docker"
    docker.mkdir(exist_ok=True)
    shutil.copy(CLONE / "docker/images.lock", docker / "images.lock")
    (docker / "images.yaml").write_bytes(data)
    return load_catalogue(folder)


def _model(data: bytes, folder: Path) -> Any:
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(SAFETENSORS)
    (folder / "config.json").write_bytes(data)
    return folders.check_folder(folder)


def _shards(data: bytes, folder: Path) -> Any:
    (folder / "tokenizer.json").write_text("{}")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(SAFETENSORS)
    (folder / folders.INDEX).write_bytes(data)
    return folders.check_folder(folder)


def _gateway(data: bytes, folder: Path) -> Any:
    (folder / "key").write_text("k")
    pairs = (line.partition("=") for line in data.decode("utf-8", "replace").splitlines())
    return load_config({**{name: value for name, _, value in pairs}, "API_KEY_FILE": str(folder / "key")})


def _sources(data: bytes, folder: Path) -> Any:
    (folder / "sources.list").write_bytes(data)
    (folder / "sources.list.d").mkdir(exist_ok=True)
    (folder / "sources.list.d/x.sources").write_bytes(data)
    return apt_config.source_uris(folder)


def _gguf() -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    fields = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    fields += text("llama.context_length") + struct.pack("<II", 4, 2048)
    fields += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    fields += text("general.alignment") + struct.pack("<II", 4, 32)
    tensor = text("output.weight") + struct.pack("<IQQIQ", 2, 4, 2, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 4) + fields + tensor
    return head + b"\0" * (-len(head) % 32) + b"\0" * 32


def _safetensors() -> bytes:
    head = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {}}).encode()
    return struct.pack("<Q", len(head)) + head + b"\0" * 8


GGUF, SAFETENSORS = _gguf(), _safetensors()
CHAT = b"""data: {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "Par"}}]}

data: {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}]}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}

data: [DONE]

"""
MESSAGES = b"""event: message_start
data: {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 3}}}

event: content_block_start
data: {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f"}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}

event: message_stop
data: {"type": "message_stop"}

"""
RESPONSES = b"""event: response.output_text.delta
data: {"type": "response.output_text.delta", "delta": "Par"}

data: {"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Paris"}]}, {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}], "usage": {"input_tokens": 3, "output_tokens": 4}}}

"""
BODIES = (
    b'{"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "Paris", "tool_calls": [{"id": "t", "function": {"name": "f", "arguments": "{}"}}]}, "text": "P", "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}',
    b'{"id": "m", "model": "m", "stop_reason": "end_turn", "content": [{"type": "text", "text": "Paris"}, {"type": "tool_use", "name": "f", "input": {}, "id": "t"}], "usage": {"input_tokens": 3, "output_tokens": 4}}',
)
SAMPLES = b"""{"messages": [{"role": "user", "content": "The capital of France?"}], "answer": "paris"}
{"prompt": "Say hello", "output_ids": [1, 2], "logprobs": [-0.1, -0.2]}
{"prompt_ids": [1, 2, 3], "output_ids": [4], "logprobs": [-1.5]}
{"conversation": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], "tools": []}
"""
CONFIGS = tuple(path.read_bytes() for path in sorted((CLONE / "examples/training").glob("*.yaml")))
ANCHORS = b"""base: &a {batch_size: 4, n: &b [1, 2]}
rollout:
  <<: *a
  max_concurrent_rollouts: ${train_dataset.batch_size}
gconfig:
  n_samples: ${oc.select:base.batch_size,8}
train_dataset:
  batch_size: ${oc.env:NO_SUCH_NAME,16}
"""
PLAIN = b"# settings\nMODEL=smollm2-135m\nexport PORT=8090\nWORKERS='2'\nCPU_LIMIT=1.5\nGRACE=3\nDEBUG=nccl\n"
FACTS = b'{"image": "drydock/dev:1", "ray": "2.50", "python": "3.11.2", "packages": {"ray": "2.50"}, "told": {}, "time": 1.0}'
LAUNCH = b'{\n  // mine\n  "version": "0.2.0",\n  "configurations": [\n    {"name": "x", "type": "debugpy"},\n    {"name": "Drydock: paused 1"}\n  ]\n}\n'
GATEWAY = b'ENGINE=llamacpp\nENGINE_START={"command": ["{python}", "serve", "{model}"], "environment": {"A": "1"}, "counters": ["a:b"]}\nMODEL_PATH=/models/m.gguf\nMODEL_NAMES=["m", "n"]\nCONTEXT=2048\nENGINE_ARGS=--a "b c"\nGATEWAY_PORT=8080\n'
PIP = b"global.index-url='https://pip.example.com/simple'\ninstall.trusted-host='a b'\n:env:.timeout='60'\nglobal.find-links='/wheels\\n/more'\n"
APT = b"deb [arch=amd64] http://deb.example.com/debian bookworm main\n\nTypes: deb\nURIs: https://deb.example.com/debian\nSuites: bookworm\nComponents: main\n"

PARSERS = (
    Parser("drydock.env", _settings, (PLAIN,), (BadSetting,)),
    Parser("training configuration", in_file("train.yaml", _training), (*CONFIGS, ANCHORS), (BadConfig,)),
    Parser("samples", in_file("data.jsonl", _data), (SAMPLES,), (DataUnreadable,)),
    Parser("conversations to compare", in_file("data.jsonl", lambda path: list(conversations.read(path))), (SAMPLES,),
           (UsageError, DataUnreadable)),
    Parser("stream of events", _stream, (CHAT, MESSAGES, RESPONSES)),
    Parser("whole answer of a model", _answer, BODIES, (ValueError, RecursionError)),
    Parser("arguments of a tool call", lambda data, _: ToolCall("f", data.decode("utf-8", "replace")).parsed,
           (b'{"city": "Paris", "n": [1, 2]}',)),
    Parser("messages of a debug adapter", _messages,
           (wire.encode({"seq": 1, "type": "response", "body": {"threads": []}}) * 2,), (ValueError,)),
    Parser("launch.json", of_text(lambda text: launch.updated(text, [{"name": "Drydock: paused 1"}])), (LAUNCH,),
           (ValueError,)),
    Parser("docker/images.lock", in_file("images.lock", read_lock), ((CLONE / "docker/images.lock").read_bytes(),),
           (DrydockError,)),
    Parser("docker/images.yaml", _images, ((CLONE / "docker/images.yaml").read_bytes(),), (DrydockError,)),
    Parser("GGUF", in_file("m.gguf", gguf.read_header), (GGUF,), (UnusableModel,)),
    Parser("safetensors", in_file("m.safetensors", folders.check_safetensors), (SAFETENSORS,), (UnusableModel,)),
    Parser("config.json of a model", _model,
           (b'{"architectures": ["L"], "max_position_embeddings": 8, "text_config": {}}',), (UnusableModel,)),
    Parser("index of a model's shards", _shards, (b'{"weight_map": {"a": "model.safetensors"}}',), (UnusableModel,)),
    Parser("what a head tells", lambda data, _: Facts.read(json.loads(data)), (FACTS,), (ValueError, RecursionError)),
    Parser("the gateway's settings", _gateway, (GATEWAY,), (ConfigError,)),
    Parser("pip config list", of_text(pip_config.parse_pip_config), (PIP,)),
    Parser("apt's sources", _sources, (APT,)),
    Parser("apt-config dump", of_text(apt_config.parse_settings), (b'Acquire::http::Proxy "http://p.example.com:1";\n',)),
)  # fmt: skip
