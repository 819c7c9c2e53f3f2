"""Do both sides make the same tokens: ids all over the vocabulary, and the conversations as each renders them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from harness.compare.dialects import NotThere, counted, read
from harness.compare.engine import Engine, Facts, Refused
from harness.compare.gather import rendered, wanted
from harness.compare.job import Job
from harness.compare.model import Conversation
from harness.compare.reference import Reference
from harness.compare.tokens import TokenDifference, TokenReport, picked, vocabularies
from harness.compare.tokens import compare as compare_tokens

# Conversations whose rendering is asked of the server, too.
_RENDERED = 16


class TokenCheck:
    """Both sides' tokens.

    Args:
        words: the process that has the reference's tokenizer.
        pictures: the one that can prepare images; it loads weights first.
        facts: of the tokenizer.
        notes: what couldn't be asked is added here.
    """

    def __init__(
        self, job: Job, engine: Engine, server: Facts, words: Reference, pictures: Reference, facts: dict[str, Any],
        notes: list[str],
    ) -> None:  # fmt: skip
        self.job, self.engine, self.server, self.notes = job, engine, server, notes
        self.words, self.pictures, self.facts = words, pictures, facts
        self.tokens = TokenReport()

    async def render(self, asked: Sequence[Conversation]) -> list[list[int]]:
        """Conversations as the reference's token ids."""
        found: list[list[int]] = [[] for _ in asked]
        for process, images in ((self.words, False), (self.pictures, True)):
            places = [place for place, one in enumerate(asked) if bool(one.images) is images]
            if places:
                ids = await rendered(self.job, process, [asked[place] for place in places])
                for place, own in zip(places, ids, strict=True):
                    found[place] = own
        return found

    async def other_vocabulary(self) -> bool:
        """Whether token ids all over the vocabulary are other texts at the server, as far as it says."""
        ids = picked(self.facts["vocabulary"], self.facts["special"])
        dialect = self.server.dialect
        requests = [request for token in ids if (request := dialect.spell([token])) is not None]
        if len(requests) < len(ids):
            return False
        try:
            asked = [self.engine.ask(request) for request in requests]
            theirs = [read(dialect.spelt, answer) for answer in await asyncio.gather(*asked)]
        except (Refused, NotThere):
            return False
        (ours,), _ = await self.words.pieces([ids])
        self.tokens.vocabulary = vocabularies(dict(zip(ids, theirs, strict=True)), dict(zip(ids, ours, strict=True)))
        return bool(self.tokens.vocabulary)

    async def rendered(self) -> list[tuple[Conversation, list[int]]]:
        """The first conversations as the reference renders them."""
        found: dict[int, Conversation] = {}
        for conversation in wanted(self.job):
            if conversation.line in found or len(found) >= _RENDERED:
                break
            found[conversation.line] = conversation
        asked = [one for one in found.values() if one.messages]
        return list(zip(asked, await self.render(asked), strict=True)) if asked else []

    async def check(self, checked: Sequence[tuple[Conversation, list[int]]]) -> None:
        """Both sides' tokens of the first conversations."""
        for conversation, ours in checked:
            await self._check_one(conversation, ours)

    async def _check_one(self, conversation: Conversation, ours: list[int]) -> None:
        request = self.server.dialect.render(conversation.messages, conversation.tools)
        # What a conversation with images becomes, the server says when it answers it.
        if request is None or conversation.images:
            return
        try:
            theirs = await self.engine.rendered(self.server.dialect, request)
        except Refused as error:
            note = f"the server renders no conversation like line {conversation.line}: {error}"
            if len(self.notes) < 8:
                self.notes.append(note[:300])
            return
        except NotThere as error:
            count = counted(error)
            if count is not None:
                self.tokens.counted += 1
                if count != len(ours):
                    self.tokens.differences.append(
                        TokenDifference(conversation.line, "count", server_count=count, reference_count=len(ours))
                    )
            return
        await self.hold(conversation.line, theirs, ours)

    async def hold(self, line: int, theirs: list[int], ours: list[int]) -> None:
        """Both sides' tokens of a conversation against each other."""
        self.tokens.rendered += 1
        if theirs != ours and len(self.tokens.differences) < _RENDERED:
            (one, other), _ = await self.words.pieces([theirs, ours])
            self.tokens.differences.append(
                compare_tokens(line, theirs, ours, bos=self.facts["bos"],
                               server_pieces=one, reference_pieces=other)
            )  # fmt: skip

    async def ids_of(self, decoded: Any) -> list[int] | None:
        """Token ids of an output whose tokens the server names by texts; None where they can't be told apart."""
        (ids,) = await self.words.encode(["".join(decoded.pieces)])
        (pieces,), _ = await self.words.pieces([ids])
        return ids if pieces == decoded.pieces else None
