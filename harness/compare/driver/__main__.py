"""Answers requests on standard input, one JSON document a line, until it is closed.

Requests: ``{"do": "open" | "load" | "render" | "encode" | "pieces" | "texts" | "score" | "generate" | "memory", …}``.
An answer carries ``"re"``, the number of its request; ``score`` and ``generate`` answer one line a sample, as soon as
it is done. What goes wrong is answered as ``{"re": …, "error": kind, "what": sentence}`` and ends nothing.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

# Before transformers is imported, which reads them once.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

from .memory import forget_peak, give_back, resident
from .told import Told, of_memory

Json = dict[str, Any]


class Program:
    """What is loaded, and the requests."""

    def __init__(self) -> None:
        self.requests: dict[str, Callable[[Json], Iterator[Json]]] = {
            "open": self.open,
            "load": self.load,
            "render": self.render,
            "encode": self.encode,
            "pieces": self.pieces,
            "texts": self.texts,
            "score": self.score,
            "generate": self.generate,
            "memory": self.memory,
        }
        self._models: dict[str, Any] = {}
        self._text: Any = None
        self._loaded = 0

    def open(self, asked: Json) -> Iterator[Json]:
        """The tokenizer alone, and how many tokens the weights know."""
        if asked.get("alone") and "torch" not in sys.modules:
            # To transformers it isn't installed then; with it the import takes three times as long.
            sys.modules["torch"] = None  # type: ignore[assignment]
        from .text import Text, embeddings

        self._text = Text(asked["path"])
        facts = {**self._text.facts(), "embeddings": embeddings(asked["path"])}
        give_back()
        forget_peak()
        yield {"facts": facts}

    def load(self, asked: Json) -> Iterator[Json]:
        """Tokenizer and weights; what was loaded before is let go first, or kept where there is plenty of room."""
        from .model import Model, room_for
        from .text import Text

        if asked["dtype"] not in self._models:
            if not asked.get("beside"):
                self._models.clear()
            elif not room_for(asked):
                yield {"facts": {}}
                return
            if self._text is None:
                self._text = Text(asked["path"])
            model = Model(asked, self._text.tokenizer)
            model.touch()
            self._models[asked["dtype"]] = model
            give_back()
            forget_peak()
            self._loaded = resident()
        yield {"facts": {**self._text.facts(), **self._models[asked["dtype"]].facts()}}

    def render(self, asked: Json) -> Iterator[Json]:
        """Conversations as token ids, by the chat template; what goes wrong says at which of them (``at``)."""
        found = []
        for place, one in enumerate(asked["conversations"]):
            try:
                found.append(self._text.render(one))
            except Told as error:
                raise Told(error.kind, str(error), **({"at": place} if error.kind == "refused" else {})) from error
        yield {"ids": found}

    def encode(self, asked: Json) -> Iterator[Json]:
        """Texts as token ids, without special tokens around them."""
        yield {"ids": [self._text.encode(text) for text in asked["texts"]]}

    def pieces(self, asked: Json) -> Iterator[Json]:
        """Each token as text on its own, and all of them together."""
        yield {
            "pieces": [self._text.pieces(ids) for ids in asked["ids"]],
            "texts": [self._text.decode(ids) for ids in asked["ids"]],
        }

    def texts(self, asked: Json) -> Iterator[Json]:
        """Token ids as texts, once whole and once without special tokens."""
        yield {
            "whole": [self._text.decode(ids) for ids in asked["ids"]],
            "texts": [self._text.decode(ids, special=False) for ids in asked["ids"]],
        }

    def memory(self, _asked: Json) -> Iterator[Json]:
        """Bytes that this process had at most since what it was asked to load was there."""
        yield {"peak": resident("VmHWM")}

    def score(self, asked: Json) -> Iterator[Json]:
        """Log-probabilities of each sample's output, teacher-forced."""
        from .scoring import score

        yield from score(
            self._models[asked["dtype"]],
            asked["samples"],
            asked.get("views") or [{}],
            asked.get("change"),
            self._text.with_images,
        )
        yield {"done": True, "over_model": max(0, resident("VmHWM") - self._loaded)}

    def generate(self, asked: Json) -> Iterator[Json]:
        """Outputs of the model itself."""
        from .generating import generate

        yield from generate(self._models[asked["dtype"]], asked["samples"], asked["sampling"])
        yield {"done": True}


def main() -> int:
    """Serve until standard input ends."""
    # Libraries print what they like; answers have a pipe of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(value: Json) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    program = Program()
    for line in sys.stdin:
        asked = json.loads(line)
        number = asked.get("re")
        try:
            for answer in program.requests[asked["do"]](asked):
                say({"re": number, **answer})
        except Told as error:
            say({"re": number, "error": error.kind, "what": str(error), **error.facts})
        except ImportError as error:
            say({"re": number, "error": "import", "what": str(error)})
        except Exception as error:  # noqa: BLE001  # foreign libraries may raise anything; the asker decides
            kind = "memory" if of_memory(error) else "failed"
            traceback.print_exc()
            say({"re": number, "error": kind, "what": f"{type(error).__name__}: {error}"[:2000]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
