from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.matching import Matcher, Miss

PATH = "/v1/chat/completions"


def exchange(number: int, request: Any, path: str = PATH) -> Exchange:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return Exchange(3, number, "POST", path, body, 200, blocks=(b"answer %d" % number,))


def ask(matcher: Matcher, request: Any, path: str = PATH) -> Exchange | Miss:
    return matcher.claim("POST", path, request if isinstance(request, bytes) else json.dumps(request).encode())


def number(found: Exchange | Miss) -> int:
    assert isinstance(found, Exchange), found
    return found.number


def test_a_request_gets_its_own_answer_whatever_the_order() -> None:
    numbers = list(range(1, 50))
    matcher = Matcher(3, [exchange(n, {"seed": n}) for n in numbers])
    random.Random(1).shuffle(numbers)
    assert [number(ask(matcher, {"seed": n})) for n in numbers] == numbers
    assert matcher.left == 0


def test_equal_requests_get_their_answers_in_order() -> None:
    # Lines of a recording stand in the order in which the calls ended.
    matcher = Matcher(3, [exchange(2, {"a": 1}), exchange(3, {"a": 1}), exchange(1, {"a": 1})])
    assert [number(ask(matcher, {"a": 1})) for _ in range(3)] == [1, 2, 3]


def test_how_the_json_is_written_does_not_count() -> None:
    matcher = Matcher(3, [exchange(1, b'{"a": 1, "b": "\\u00fc"}'), exchange(2, b'{"b":"\xc3\xbc","a":1}')])
    assert number(ask(matcher, '{ "b":"ü",\n"a":1}'.encode())) == 1
    assert number(ask(matcher, b'{"a": 1, "b": "\\u00fc"}')) == 2


def test_one_more_than_recorded_is_an_error() -> None:
    matcher = Matcher(3, [exchange(1, {"a": 1})])
    ask(matcher, {"a": 1})
    missed = ask(matcher, {"a": 1})
    assert isinstance(missed, Miss)
    assert "equal calls were recorded 1 times, and this is one more" in missed.text


def test_the_nearest_is_shown_with_the_difference() -> None:
    def chat(text: str, **more: Any) -> dict[str, Any]:
        return {"model": "m", "messages": [{"role": "user", "content": text}], **more}

    long = "A story. " * 200
    matcher = Matcher(
        3, [exchange(1, chat("something else")), exchange(2, chat(long + "the end", seed=1)), exchange(3, chat("x"))]
    )
    missed = ask(matcher, chat(long + "The end", temperature=0.5))
    assert isinstance(missed, Miss)
    assert missed.nearest == 2
    assert missed.text.startswith(f"POST {PATH} of run 3 was not recorded: nearest is call 2 of 3\n")
    assert [line.split(":")[0] for line in missed.differences] == ["messages[0].content", "seed", "temperature"]
    assert "the end”, asked …“" in missed.differences[0]
    assert len(missed.differences[0]) < 400
    assert missed.differences[1:] == ("seed: recorded 1, not asked", "temperature: not recorded, asked 0.5")


def test_a_call_that_was_given_already_is_nearest_only_where_no_other_is() -> None:
    matcher = Matcher(3, [exchange(1, {"a": "one"}), exchange(2, {"a": "two"})])
    assert number(ask(matcher, {"a": "one"})) == 1
    missed = ask(matcher, {"a": "oney"})
    assert isinstance(missed, Miss)
    assert missed.nearest == 2
    ask(matcher, {"a": "two"})
    missed = ask(matcher, {"a": "oney"})
    assert isinstance(missed, Miss)
    assert "nearest is call 1 of 2, given already" in missed.text


def test_another_route_and_a_run_without_calls() -> None:
    missed = ask(Matcher(3, [exchange(1, {"a": 1})]), {"a": 1}, "/v1/completions")
    assert isinstance(missed, Miss)
    assert missed.differences == ("path: recorded /v1/chat/completions, asked /v1/completions",)
    missed = ask(Matcher(3, []), {"a": 1})
    assert isinstance(missed, Miss)
    assert "this run made no call when it was recorded" in missed.text


def test_a_body_that_is_no_json() -> None:
    matcher = Matcher(3, [exchange(1, b"\xff\x00 form")])
    assert number(ask(matcher, b"\xff\x00 form")) == 1
    assert isinstance(ask(matcher, b"\xff\x00 farm"), Miss)


@pytest.mark.parametrize(
    ("recorded", "asked", "fits"),
    [
        ("key [redacted] end", "key sk-live-123 end", True),
        ("[redacted]", "anything", True),
        ("a [redacted] b [redacted] c", "a 1 b 2 c", True),
        ("a [redacted] b [redacted] c", "a 1 c 2 b", False),
        ("key [redacted] end", "key sk-live-123 END", False),
        ("ab[redacted]ba", "aba", False),
    ],
)
def test_what_stands_for_a_secret_fits_any_text(recorded: str, asked: str, fits: bool) -> None:
    matcher = Matcher(3, [exchange(1, {"m": [recorded]})])
    assert isinstance(ask(matcher, {"m": [asked]}), Exchange) is fits


def test_secrets_are_taken_out_before_it_is_compared() -> None:
    matcher = Matcher(3, [exchange(1, {"m": "[redacted]!", "n": 1})], lambda raw: raw.replace(b"secret", b"[redacted]"))
    assert number(ask(matcher, {"n": 1, "m": "secret!"})) == 1
    missed = ask(matcher, {"n": 2, "m": "secret!"})
    assert isinstance(missed, Miss)
    assert "secret" not in missed.text


def test_what_a_terminal_obeys_is_written_out() -> None:
    missed = ask(Matcher(3, [exchange(1, {"m": "a"})]), {"m": "\x1b[31m\u202e\x07"})
    assert isinstance(missed, Miss)
    assert "asked “\\x1b[31m\\u202e\\x07”" in missed.text


def test_threads_at_once_share_out_each_answer_once() -> None:
    matcher = Matcher(3, [exchange(n, {"a": 1}) for n in range(1, 401)])
    got: list[int] = []

    def work() -> None:
        got.extend(number(ask(matcher, {"a": 1})) for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 401))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values)
def test_any_two_requests_match_or_say_why_not(recorded: Any, asked: Any) -> None:
    matcher = Matcher(3, [exchange(1, recorded)])
    found = ask(matcher, asked)
    if isinstance(found, Miss):
        assert found.nearest == 1
        assert all(line.isprintable() for line in found.differences)
        # As JSON: for Python False is 0, and 1 is 1.0.
        assert json.dumps(recorded, sort_keys=True) != json.dumps(asked, sort_keys=True)
    assert Miss.from_dict(json.loads(json.dumps(found.as_dict()))) == found if isinstance(found, Miss) else True
