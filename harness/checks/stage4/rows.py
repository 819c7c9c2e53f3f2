"""One row of what a rollout brings, whichever framework's it is; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of a trajectory, without its padding.

    Args:
        at: trajectory and row, for messages.
        ids, mask, logprobs, versions: a number for each token; mask is 1 for what the model generated. verl has no
            versions.
        answer: what the model generated, decoded without special tokens.
        prompt: what it was asked, decoded.
        spelled: the answer with its special tokens, as AReaL hands it to an agent, all but the one that ends it.
    """

    at: tuple[int, int]
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    reward: float
    prompt: str = ""
    answer: str = ""
    spelled: str = ""

    @property
    def generated(self) -> tuple[int, ...]:
        """Ids of the tokens that the mask counts as generated."""
        return tuple(token for token, use in zip(self.ids, self.mask, strict=True) if use)

    @property
    def asked(self) -> tuple[int, ...]:
        """Ids up to the first generated one."""
        return self.ids[: self.mask.index(1)] if 1 in self.mask else self.ids

    @property
    def name(self) -> str:
        """For messages."""
        return f"trajectory {self.at[0]}, row {self.at[1]}"
