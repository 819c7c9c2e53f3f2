"""Do both sides make the same tokens of the same conversation, and if not, what kind of difference is it? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["equal", "bos", "whitespace", "retokenised", "template", "count"]


@dataclass(frozen=True)
class TokenDifference:
    """One conversation as both sides render it.

    Args:
        line: of the data.
        kind: what kind of difference it is.
        place: of the first token that differs.
        server, reference: some tokens around that place, as text.
        server_count, reference_count: how many tokens each makes of it.
    """

    line: int
    kind: Kind
    place: int = 0
    server: str = ""
    reference: str = ""
    server_count: int = 0
    reference_count: int = 0


@dataclass
class TokenReport:
    """What is known about tokens.

    Args:
        rendered: conversations of which both sides' ids were compared; ``counted``: of which only their number was.
        differences: those that differ.
        retokenised: outputs that become other ids when their text is tokenised again; of ``outputs``.
        vocabulary: what differs between the server's tokenizer and the reference's; empty where nothing does.
    """

    rendered: int = 0
    counted: int = 0
    differences: list[TokenDifference] = field(default_factory=list)
    retokenised: int = 0
    outputs: int = 0
    vocabulary: str = ""

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of difference occurs."""
        return Counter(one.kind for one in self.differences)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "kinds": dict(self.kinds)}


def compare(
    line: int,
    server: Sequence[int],
    reference: Sequence[int],
    *,
    bos: int | None,
    server_pieces: Sequence[str],
    reference_pieces: Sequence[str],
) -> TokenDifference:
    """What differs between two renderings of one conversation.

    Args:
        server, reference: token ids.
        bos: the token that begins a text, if the tokenizer has one.
        server_pieces, reference_pieces: the same as texts, token by token.
    """
    if list(server) == list(reference):
        return TokenDifference(line, "equal", server_count=len(server), reference_count=len(reference))
    place = next(
        (n for n, (a, b) in enumerate(zip(server, reference, strict=False)) if a != b), min(len(server), len(reference))
    )
    return TokenDifference(
        line,
        _kind(server, reference, bos, "".join(server_pieces), "".join(reference_pieces)),
        place,
        _around(server_pieces, place),
        _around(reference_pieces, place),
        len(server),
        len(reference),
    )


def _kind(server: Sequence[int], reference: Sequence[int], bos: int | None, one: str, other: str) -> Kind:
    if bos is not None and _without(server, bos) == _without(reference, bos):
        return "bos"
    if one == other:
        return "retokenised"
    if "".join(one.split()) == "".join(other.split()):
        return "whitespace"
    return "template"


def vocabularies(server: Mapping[int, str], reference: Mapping[int, str]) -> str:
    """What differs between what token ids are as text on both sides, white space apart; empty where nothing does."""
    other = [token for token, text in server.items() if "".join(text.split()) != "".join(reference[token].split())]
    if not other:
        return ""
    one = other[0]
    return (
        f"{len(other)} of {len(server)} token ids that were asked for are another text, "
        f"{one} for one: server {server[one]!r}, reference {reference[one]!r}"
    )


def picked(vocabulary: int, special: Collection[int], many: int = 16) -> list[int]:
    """Token ids all over a vocabulary, none that steers."""
    step = max(1, vocabulary // many)
    return [token for token in range(step - 1, vocabulary, step) if token not in special][:many]


def _without(ids: Sequence[int], bos: int) -> list[int]:
    """Without what stands at the beginning of the text."""
    start = 0
    while start < len(ids) and ids[start] == bos:
        start += 1
    return list(ids[start:])


def _around(pieces: Sequence[str], place: int) -> str:
    return "".join(pieces[max(0, place - 4) : place + 8])
