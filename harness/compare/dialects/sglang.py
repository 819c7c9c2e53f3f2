"""SGLang: ``POST /generate`` with ``return_logprob``. Pure; written after its sources (``io_struct.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare.dialects.answers import number, text_of
from harness.compare.dialects.base import Decoded, NotThere, Request, Scored, WithoutImages, in_full
from harness.compare.dialects.counting import Counting
from harness.compare.model import Sampling


@dataclass(frozen=True)
class SGLang(Counting, WithoutImages):
    """SGLang's own ``/generate``."""

    model: str
    name: str = "sglang"
    prefills: bool = True

    def decode(self, prompt: Sequence[int], sampling: Sampling, salt: str = "") -> Request:
        """See ``Dialect``; there is no salt, and the seed is the server's."""
        return Request(
            "/generate",
            {
                "input_ids": list(prompt),
                "sampling_params": {"max_new_tokens": sampling.max_tokens, **in_full(sampling)},
                "return_logprob": True,
                "top_logprobs_num": 1,
                **({"extra_key": salt} if salt else {}),
            },
            at_root=True,
        )

    def decoded(self, answer: Any) -> Decoded:
        """See ``Dialect``."""
        about = _about(answer)
        entries = about.get("output_token_logprobs") or []
        if not entries and answer.get("text"):
            raise NotThere("meta_info.output_token_logprobs")
        finish = about.get("finish_reason")
        return Decoded(
            ids=[int(entry[1]) for entry in entries],
            logprobs=[number(entry[0]) for entry in entries],
            top=_tops(about.get("output_top_logprobs"), len(entries)),
            text=answer.get("text") or "",
            finish=str(finish.get("type", "") if isinstance(finish, Mapping) else finish or ""),
            prompt_tokens=about.get("prompt_tokens"),
            cached=about.get("cached_tokens"),
        )

    def prefill(self, prompt: Sequence[int], output: Sequence[int]) -> Request:
        """See ``Dialect``; the first entry of a range has no log-prob, so the range begins one token early."""
        return Request(
            "/generate",
            {
                "input_ids": [*prompt, *output],
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": True,
                "logprob_start_len": len(prompt) - 1,
                "top_logprobs_num": 1,
            },
            at_root=True,
        )

    def prefilled(self, answer: Any, prompt: Sequence[int], output: Sequence[int]) -> Scored:  # noqa: ARG002
        """See ``Dialect``."""
        about = _about(answer)
        entries = (about.get("input_token_logprobs") or [])[-len(output) :]
        if [entry[1] for entry in entries] != list(output):
            raise NotThere("meta_info.input_token_logprobs of the tokens that were sent")
        return Scored(
            [number(entry[0]) for entry in entries],
            _tops((about.get("input_top_logprobs") or [])[-len(output) :], len(output)),
        )

    def spell(self, ids: Sequence[int]) -> Request | None:
        """See ``Dialect``."""
        return Request("/detokenize", {"tokens": list(ids)}, at_root=True)

    def spelt(self, answer: Any) -> str:
        """See ``Dialect``."""
        return text_of(answer, "text")


def _about(answer: Any) -> Mapping[str, Any]:
    about = answer.get("meta_info") if isinstance(answer, Mapping) else None
    if not isinstance(about, Mapping):
        raise NotThere("meta_info")
    return about


def _tops(found: Any, length: int) -> list[int]:
    tops = [entry[0][1] for entry in found or [] if entry]
    return [int(top) for top in tops] if len(tops) == length else []


DIALECT, TRIED = SGLang, 20
