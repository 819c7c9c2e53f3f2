"""Equal stacks travel once, and nothing is lost by it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.hang.collect import assemble
from harness.hang.decide import diagnose
from harness.processes.sampling import alike
from harness.processes.sampling.alike import grouped, restored
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest, pack, plain, unpack


def stacks(pid: int, function: str = "all_reduce", **more: Any) -> bytes:
    """One process as py-spy prints it: closely, or in older versions with line breaks."""
    style: dict[str, Any] = {"separators": (",", ":")} if pid != 9 else {"indent": 2}
    frames = [{"name": function, "filename": "/t/a.py", "short_filename": "a.py", "line": 7, "locals": None}]
    frames += [frames[0] | {"name": f"layer_{number}", "line": number} for number in range(40)]
    thread = {
        "pid": pid, "thread_id": 140_000_000_000 + pid, "thread_name": "MainThread", "os_thread_id": pid,
        "active": False, "owns_gil": False, "frames": frames, "process_info": None,
    }  # fmt: skip
    return json.dumps([thread | more], **style).encode()


def test_of_equal_stacks_one_is_kept() -> None:
    dumps = {f"{pid}.json": stacks(pid) for pid in (7, 123, 4_000_000)} | {
        "8.json": stacks(8, "read_shard"),
        "9.json": stacks(9),
    }
    kept, others = grouped(dumps)
    assert sorted(kept) == ["7.json", "8.json", "9.json"]
    assert {name: like for name, (like, _) in others.items()} == {"123.json": "7.json", "4000000.json": "7.json"}
    assert restored(kept, others) == dumps


@pytest.mark.parametrize("more", [{"active": True}, {"owns_gil": True}, {"thread_name": "other"}])
def test_what_differs_in_more_than_numbers_is_not_equal(more: dict[str, Any]) -> None:
    kept, others = grouped({"7.json": stacks(7), "8.json": stacks(8, **more)})
    assert (sorted(kept), others) == (["7.json", "8.json"], {})


@given(
    st.dictionaries(st.text(max_size=5), st.binary(max_size=60).map(lambda rest: b"[" + rest) | st.binary(max_size=9))
)
def test_anything_comes_back_as_it_was(dumps: dict[str, bytes]) -> None:
    assert restored(*grouped(dumps)) == dumps


@given(st.lists(st.sampled_from([b'{"pid": ', b'"thread_id":', b"12", b"007", b"}", b'\\"pid\\": 3']), max_size=12))
def test_anything_that_looks_like_numbers_comes_back_as_it_was(parts: list[bytes]) -> None:
    dumps = {"a": b"[" + b"".join(parts), "b": b"[" + b"".join(parts).replace(b"12", b"9"), "c": b"[" + b"".join(parts)}
    assert restored(*grouped(dumps)) == dumps


WRONG = [("none.json", ["1"]), ("7.json", ["1"]), ("7.json", ["1"] * 4), ("7.json", ['1"'] * 3)]
REFUSED = r"can't be made from|numbers are none"


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused(wrong: tuple[str, list[str]]) -> None:
    kept, _ = grouped({"7.json": stacks(7)})
    with pytest.raises(ValueError, match=REFUSED):
        restored(kept, {"8.json": wrong})
    text = json.dumps(plain(NodeAnswer(dumps=kept, alike={"8.json": wrong})))
    with pytest.raises(ValueError, match=REFUSED):
        unpack(gzip.compress(text.encode()))


def test_an_answer_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_BYTES", 1000)
    kept, others = grouped({f"{pid}.json": stacks(pid) for pid in range(1, 9)})
    with pytest.raises(ValueError, match="more than an answer can hold"):
        restored(kept, others)


def test_the_verdict_is_the_same_and_far_less_travels() -> None:
    def answer() -> NodeAnswer:
        found = NodeAnswer(host="a")
        for rank in range(64):
            pid = 1000 + 7 * rank
            found.dumps[f"{pid}.json"] = stacks(pid, "all_reduce" if rank != 5 else "read_shard")
            entry = ProcessEntry(
                pid=pid, role="rank", rank=rank, world_size=64, samples=[SampleEntry(file=f"{pid}.json")]
            )
            found.processes.append(entry)
        return found

    direct, sent = answer(), answer()
    packed = pack(sent)
    assert sent.dumps == direct.dumps
    arrived = unpack(packed)
    assert arrived == direct
    request = SampleRequest(samples=1)
    verdicts = [diagnose(assemble([one], {}, request).dump).as_dict() for one in (direct, arrived)]
    assert verdicts[0] == verdicts[1]
    as_it_is = gzip.compress(json.dumps(plain(direct), separators=(",", ":")).encode(), 3)
    assert len(packed) < len(as_it_is) / 3
