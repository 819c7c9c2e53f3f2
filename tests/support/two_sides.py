"""A language model of a few lines, as a server in several dialects and as the reference's process; no torch, no vLLM.

Both sides compute the same: the next token depends on the last one and on a seed, which stands for the weights. Each
can be made wrong in the ways that real ones are. ``serving`` is the server; ``python -m tests.support.two_sides``
speaks what ``harness/compare/driver`` speaks, and ``fake_python`` makes of it what can stand for COMPARE_PYTHON.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VOCABULARY, BOS, EOS, START = 64, 1, 2, 3
_FIRST_LETTER = 4
KEY = "sk-two-sides-0123456789"


@lru_cache(maxsize=4096)
def distribution(last: int, seed: int) -> tuple[float, ...]:
    """Logits of all tokens after one."""
    return tuple(5 * math.sin(last * 12.9898 + token * 78.233 + seed * 3.7) for token in range(VOCABULARY))


def logprobs(logits: tuple[float, ...] | list[float]) -> list[float]:
    """Log-softmax."""
    most = max(logits)
    total = math.log(math.fsum(math.exp(value - most) for value in logits)) + most
    return [value - total for value in logits]


def seen(logits: tuple[float, ...], temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> list[float]:
    """Log-probs after temperature, top-k and top-p, renormalised."""
    found = [value / temperature for value in logits]
    ordered = sorted(range(VOCABULARY), key=lambda token: -found[token])
    kept = ordered[:top_k] if top_k > 0 else ordered
    chances, total, nucleus = logprobs(found), 0.0, []
    for token in kept:
        if total >= top_p:
            break
        nucleus.append(token)
        total += math.exp(chances[token])
    allowed = set(nucleus)
    cut = [value if token in allowed else -1e30 for token, value in enumerate(found)]
    return [value if token in allowed else -math.inf for token, value in enumerate(logprobs(cut))]


def encode(text: str) -> list[int]:
    """A letter a token."""
    return [_FIRST_LETTER + ord(letter) % (VOCABULARY - _FIRST_LETTER) for letter in text]


def render(messages: list[dict[str, Any]], template: str = "") -> list[int]:
    """A chat template: the roles' first letters, what was said, and where the model speaks."""
    found = [BOS] if template != "no bos" else []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text") or "(an image)" for part in content)
        found += [START, *encode(message["role"][0] + ":" + content)]
    return [*found, START, *encode("a:" if template != "other" else "bot:")]


@dataclass
class Sides:
    """The server, and what is wrong with it.

    Args:
        dialect: ``vllm``, ``sglang``, ``llamacpp`` or ``chat`` (which gives no log-probs by token ids).
        seed: the weights.
        template: ``""``, ``no bos`` or ``other``.
        faults: ``processed`` (log-probs after sampling parameters), ``shifted``, ``nan``, ``infinite``, ``empty``,
            ``noisy`` (while sampling), ``other-ids``, ``other-texts`` (of token ids).
        dies_after: requests for samples, after which it is gone; 0: never.
        stands_after: the same, after which it answers none until this is changed.
        overrides: sampling parameters that it takes whatever is asked.
        refuses: status with which it answers whoever asks for its models; 0: it lists them.
    """

    dialect: str = "vllm"
    seed: int = 1
    template: str = ""
    context: int = 4096
    root: str = "/models/two-sides"
    faults: frozenset[str] = frozenset()
    dies_after: int = 0
    stands_after: int = 0
    overrides: dict[str, float] = field(default_factory=dict)
    refuses: int = 0
    requests: list[tuple[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    _samples: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        """Answer one request."""
        self.requests.append((path, body))
        if path == "/v1/models":
            if self.refuses:
                return self.refuses, {"error": {"message": "another key, please"}}
            return 200, {"data": [{"id": "two-sides", "max_model_len": self.context, "root": self.root}]}
        if path == "/health":
            return (500, {}) if self._dead else (200, {})
        if path in ("/version", "/tokenize", "/detokenize", "/apply-template"):
            return self._about(path, body)
        if path == "/v1/chat/completions":
            ids = render(body["messages"], self.template)
            if body.get("return_token_ids") and self.dialect == "vllm":
                return self._chat(ids, body)
            choice = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
            return 200, {"choices": [choice], "usage": {"prompt_tokens": len(ids)}}
        if path == "/v1/completions" and self.dialect in ("vllm", "llamacpp"):
            return self._completion(body)
        if path == "/generate" and self.dialect == "sglang":
            return self._generate(body)
        return 404, {"error": {"message": f"no route {path}"}}

    def _about(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"version": "0.0-fake"}
        if path == "/tokenize" and self.dialect == "vllm" and "messages" in body:
            return 200, {"tokens": render(body["messages"], self.template)}
        if path == "/apply-template" and self.dialect == "llamacpp":
            return 200, {"prompt": json.dumps(render(body["messages"], self.template))}
        if path == "/tokenize" and self.dialect == "llamacpp":
            return 200, {"tokens": json.loads(body["content"])}
        if path == "/detokenize" and self.dialect in ("vllm", "llamacpp"):
            text = "".join(piece(token + ("other-texts" in self.faults)) for token in body["tokens"])
            return 200, {"prompt" if self.dialect == "vllm" else "content": text}
        return 404, {"error": {"message": f"no route {path}"}}

    @property
    def _dead(self) -> bool:
        return 0 < self.dies_after <= self._samples

    def _sample(self, prompt: list[int], asked: dict[str, Any]) -> tuple[list[int], list[float], list[int]]:
        drawn = random.Random(json.dumps([prompt, asked.get("seed"), len(self.requests)]))
        last, ids, found, tops = prompt[-1], [], [], []
        for _ in range(asked.get("max_tokens") or asked.get("max_new_tokens") or 16):
            values = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, **asked, **self.overrides}
            logits = distribution(last, self.seed)
            cold = values["temperature"] == 0
            after = seen(logits, values["temperature"] or 1.0, values["top_p"], max(0, int(values["top_k"] or 0)))
            plain = logprobs(logits)
            best = max(range(VOCABULARY), key=lambda token: plain[token])
            last = best if cold else drawn.choices(range(VOCABULARY), [math.exp(value) for value in after])[0]
            ids.append(last)
            tops.append(best)
            own = after[last] if "processed" in self.faults else plain[last]
            found.append(own + (drawn.gauss(0, 0.8) if "noisy" in self.faults else 0.0))
        if "shifted" in self.faults:
            found = [*found[1:], found[0]]
        if "infinite" in self.faults:
            found[0] = -9999.0
        if "other-ids" in self.faults:
            ids = [token + 100_000 for token in ids]
        return ([], [], []) if "empty" in self.faults else (ids, found, tops)

    def _read(self, ids: list[int]) -> list[float | None]:
        return [None, *(logprobs(distribution(a, self.seed))[b] for a, b in itertools.pairwise(ids))]

    def _completion(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self._dead:
            return 500, {"error": {"message": "the engine is dead"}}
        prompt = body["prompt"]
        if len(prompt) + body["max_tokens"] > self.context:
            return 400, {"error": {"message": f"maximum context length is {self.context} tokens"}}
        if "prompt_logprobs" in body and self.dialect == "vllm":
            entries: list[Any] = [None]
            for number, (token, value) in enumerate(zip(prompt[1:], self._read(prompt)[1:], strict=True)):
                found = logprobs(distribution(prompt[number], self.seed))
                best = max(range(VOCABULARY), key=lambda token: found[token])
                entries.append({str(best): {"logprob": found[best]}, str(token): {"logprob": value}})
            return 200, {"choices": [{"text": "", "prompt_logprobs": entries, "logprobs": None}]}
        while 0 < self.stands_after <= self._samples:
            time.sleep(0.01)
        with self.lock:
            self._samples += 1
        ids, found, tops = self._sample(prompt, body)
        text = "".join(piece(token) for token in ids)
        if self.dialect == "llamacpp":
            content = [
                {"id": a, "token": piece(a), "logprob": b, "top_logprobs": [{"id": c, "logprob": 0.0}]}
                for a, b, c in zip(ids, found, tops, strict=True)
            ]
            shown: dict[str, Any] = {"content": content}
        else:
            numbers = [math.nan if "nan" in self.faults and not place else value for place, value in enumerate(found)]
            shown = {
                "tokens": [f"token_id:{token}" for token in ids],
                "token_logprobs": numbers,
                "top_logprobs": [{f"token_id:{top}": 0.0} for top in tops],
            }
        choice = {"text": text, "finish_reason": "length", "logprobs": shown}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": len(prompt)}}

    def _chat(self, prompt: list[int], body: dict[str, Any]) -> tuple[int, Any]:
        ids, found, tops = self._sample(prompt, body)
        entries = [
            {"token": f"token_id:{a}", "logprob": b, "top_logprobs": [{"token": f"token_id:{c}", "logprob": 0.0}]}
            for a, b, c in zip(ids, found, tops, strict=True)
        ]
        message = {"role": "assistant", "content": "".join(piece(token) for token in ids)}
        choice = {"message": message, "finish_reason": "length", "logprobs": {"content": entries}}
        return 200, {"choices": [choice], "prompt_token_ids": prompt, "usage": {"prompt_tokens": len(prompt)}}

    def _generate(self, body: dict[str, Any]) -> tuple[int, Any]:
        ids = body["input_ids"]
        if "logprob_start_len" in body:
            start = body["logprob_start_len"]
            values = self._read(ids)
            entries = [[None if n == start else values[n], ids[n], None] for n in range(start, len(ids))]
            return 200, {"text": "", "meta_info": {"input_token_logprobs": entries, "output_token_logprobs": []}}
        self._samples += 1
        out, found, tops = self._sample(ids, body["sampling_params"])
        about = {
            "output_token_logprobs": [[a, b, None] for a, b in zip(found, out, strict=True)],
            "output_top_logprobs": [[[0.0, top, None]] for top in tops],
            "finish_reason": {"type": "length"},
            "prompt_tokens": len(ids),
        }
        return 200, {"text": "x" if out else "", "meta_info": about}


def piece(token: int) -> str:
    """A token as text."""
    return {BOS: "<s>", EOS: "</s>", START: "<|>"}.get(token, chr(64 + token))


@contextmanager
def serving(sides: Sides) -> Iterator[str]:
    """A server on this machine; gives its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(*sides.answer(self.path, None))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with sides.lock:
                sides.at_once += 1
                sides.most_at_once = max(sides.most_at_once, sides.at_once)
            try:
                self._say(*sides.answer(self.path, body))
            finally:
                with sides.lock:
                    sides.at_once -= 1

        def _say(self, status: int, body: Any) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def fake_python(folder: Path, **options: Any) -> Path:
    """A program that stands for an interpreter with torch and transformers.

    Args:
        options: ``seed`` (the weights), ``template``, ``error`` (kind and sentence with which loading fails),
            ``dies`` (it is killed while it scores), ``refuses`` (a text with which no conversation is rendered).
    """
    path = folder / "fake-python"
    root = Path(__file__).parents[2]
    path.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={root} TWO_SIDES='{json.dumps(options)}'\n"
        f'case "$*" in *rewards.py*) exec {sys.executable} "$@";; esac\n'
        f"exec {sys.executable} -m tests.support.two_sides\n"
    )
    path.chmod(0o755)
    return path


def fake_weights(folder: Path) -> Path:
    """A folder that looks like a model's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    return folder


# Bytes: of scoring, beyond the weights; of the process that has just the tokenizer.
SCORING, TOKENIZER = 30_000_000, 100_000_000


def main() -> None:
    """The reference's process."""
    options = json.loads(os.environ["TWO_SIDES"])
    model = _Reference(options)
    for line in sys.stdin:
        asked = json.loads(line)
        for answer in getattr(model, asked["do"])(asked):
            print(json.dumps({"re": asked["re"], **answer}), flush=True)


class _Reference:
    """What ``harness/compare/driver`` answers."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._seed, self._dtype = options.get("seed", 1), "bfloat16"

    def open(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._dtype = asked.get("dtype", self._dtype)
        yield {"facts": {"vocabulary": VOCABULARY, "embeddings": VOCABULARY, "bos": BOS, "eos": EOS,
                         "special": [1, 2, 3], "has_template": True, "rope": {}, "transformers": "0.0",
                         "dtype": self._dtype}}  # fmt: skip

    def load(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "error" in self._options:
            kind, what = self._options["error"]
            yield {"error": kind, "what": what, "needed": 3e9, "free": 2e9, "half": 1.5e9}
        else:
            yield from self.open(asked)

    def render(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        template, refuses = self._options.get("template", ""), self._options.get("refuses")
        for place, one in enumerate(asked["conversations"]):
            if refuses and refuses in json.dumps(one):
                yield {"error": "refused", "what": "the chat template refuses it: roles must alternate", "at": place}
                return
        yield {"ids": [encode(one["text"]) if one.get("text") else render(one["messages"], template)
                       for one in asked["conversations"]]}  # fmt: skip

    def encode(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"ids": [encode(text) for text in asked["texts"]]}

    def pieces(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        pieces = [[piece(token) for token in ids] for ids in asked["ids"]]
        yield {"pieces": pieces, "texts": ["".join(one) for one in pieces]}

    def texts(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"whole": ["".join(piece(token) for token in ids) for ids in asked["ids"]],
               "texts": ["".join(piece(token) for token in ids if token > START) for ids in asked["ids"]]}  # fmt: skip

    def generate(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        own = Sides(seed=self._seed)
        for sample in asked["samples"]:
            output, _, _ = own._sample(sample["prompt"], {"max_tokens": sample["max_tokens"], **asked["sampling"]})
            yield {"id": sample["id"], "output": output}
        yield {"done": True}

    def score(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._options.get("dies"):
            os.kill(os.getpid(), 9)
        for sample in asked["samples"]:
            yield {"id": sample["id"], **_score(sample, asked["views"], self._seed, asked["dtype"])}
        yield {"done": True, "over_model": SCORING}

    def memory(self, _asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"peak": TOKENIZER}


def _score(sample: dict[str, Any], views: list[dict[str, float]], seed: int, dtype: str) -> dict[str, Any]:
    ids = [*sample["prompt"], *sample["output"]]
    start = len(sample["prompt"])
    # What rounding to bfloat16 makes.
    rounding = random.Random(json.dumps(ids))
    noise = [rounding.gauss(0, 0.02) if dtype == "bfloat16" else 0.0 for _ in sample["output"]]
    found = []
    for view in views:
        values = {name: value for name, value in view.items() if name in ("temperature", "top_p", "top_k")}
        rows = [seen(distribution(last, seed), **values) for last in ids[start - 1 : -1]]  # type: ignore[arg-type]
        found.append([row[token] + add for row, token, add in zip(rows, sample["output"], noise, strict=True)])
    plain = [logprobs(distribution(last, seed)) for last in ids[start - 1 : -1]]
    tops = [max(range(VOCABULARY), key=lambda token: row[token]) for row in plain]
    return {"logprobs": found, "top": tops, "top_logprobs": []}


if __name__ == "__main__":
    main()
