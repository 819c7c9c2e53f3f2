"""The simulated server's faults and answers, without a server."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest

from harness.errors import BadSetting
from harness.openai_api.reading import Protocol, StreamReader, read_body
from harness.openai_api.simulated import answers, faults
from harness.openai_api.simulated.faults import Fault
from harness.openai_api.sse import Decoder

PROTOCOLS = [protocol for protocol in get_args(Protocol) if protocol != "other"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ()),
        ("429", (Fault("429", 1.0, 1.0),)),
        ("429:0.1", (Fault("429", 0.1, 1.0),)),
        ("429:0.1:3s, reset:0.5", (Fault("429", 0.1, 3.0), Fault("reset", 0.5))),
        ("slow-first-token:250ms:0.2", (Fault("slow-first-token", 0.2, 0.25),)),
        ("all", tuple(Fault(kind.name, 0.05, kind.seconds or 0.0) for kind in faults.KINDS)),
    ],
)
def test_faults_are_read(text: str, wanted: tuple[Fault, ...]) -> None:
    assert faults.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("flood", "429:2", "429:-1", "429:x", "500:2s", "429:nan", "429:infs", "429:0.6,500:0.6"),
        *("429:0.1,429:0.1", "all:0.2", "all,reset", "429:-1s"),
    ],
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        faults.parse(text)


def test_the_seed_decides_which_call_meets_which_fault() -> None:
    wanted = faults.parse("429:0.2,reset:0.1")

    def met(seed: int) -> list[str]:
        drawn = [faults.draw(wanted, seed, run, number) for run in range(1000) for number in (1, 2)]
        return [fault.name if fault else "" for fault in drawn]

    assert met(1) == met(1) != met(2)
    counted = Counter(met(1))
    assert 300 < counted["429"] < 500
    assert 130 < counted["reset"] < 270


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("empty", "cut", "limit"), [(False, False, None), (True, False, None), (False, True, 4)])
def test_an_answer_keeps_its_protocol_whole_and_streamed(
    protocol: Protocol, empty: bool, cut: bool, limit: int | None
) -> None:
    request: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Who?"}]}
    request |= {"max_tokens": limit} if limit else {}
    answer = answers.think(request, "id-1", tokens=12, empty=empty, cut=cut)
    whole = read_body(protocol, answers.body(protocol, answer))
    reader, decoder = StreamReader(protocol), Decoder()
    for part in answers.events(protocol, answer, with_usage=True):
        for event in decoder.feed(part.encode()):
            reader.feed(event)
    streamed = reader.reply()
    for reply in (whole, streamed):
        assert reply.deviations == []
        assert reply.id == "id-1"
        assert reply.completion_tokens == (0 if empty else limit or 12)
        assert (reply.text == "") is empty
    assert streamed.text == whole.text
    assert streamed.finish_reason == whole.finish_reason
    finishes = {"messages": ("max_tokens", "end_turn"), "responses": ("incomplete", "completed")}
    assert whole.finish_reason == finishes.get(protocol, ("length", "stop"))[0 if cut else 1]
