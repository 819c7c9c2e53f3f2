"""What we write we read back as it was, whatever is in it; and what comes from elsewhere writes and runs nothing."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import io
import json
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.dap import wire
from harness.errors import NoSpace, SavedUnusable
from harness.hang.readers import recorder
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.sse import Decoder
from harness.places import write_whole
from harness.processes.sampling.model import NodeAnswer, pack, unpack
from harness.settings import load_settings
from harness.stack import loading
from harness.stack.already import Record
from harness.stack.expected import Expected
from harness.stack.images.lock import Lock, Locked, read_lock, write_lock
from tests.unit.fuzz.dumps import ENTRIES
from tests.unit.fuzz.formats import CHAT, MESSAGES, at_home

FAST = settings(
    max_examples=25, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TEXT = st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@FAST
@given(st.lists(st.dictionaries(TEXT, JSON, max_size=4), max_size=4))
def test_messages_of_a_debug_adapter(messages: list[dict[str, Any]]) -> None:
    stream = io.BytesIO(b"".join(map(wire.encode, messages)))
    assert [wire.read(stream) for _ in messages] == messages
    assert wire.read(stream) is None


@FAST
@given(
    st.builds(
        Exchange,
        run=st.integers(0, 2**31 - 1), number=st.integers(0, 2**31 - 1), method=st.sampled_from(["GET", "POST"]),
        path=st.just("/v1/chat/completions?a=b"), request=st.binary(max_size=40),
        status=st.none() | st.integers(200, 599), blocks=st.lists(st.binary(max_size=30), max_size=4).map(tuple),
        offsets=st.lists(st.integers(0, 99).map(float), max_size=4).map(tuple), why=TEXT,
        end=st.sampled_from(["whole", "unreachable", "cut", "abandoned"]), in_process=st.booleans(), clipped=st.booleans(),
    )
)  # fmt: skip
def test_a_recorded_call(exchange: Exchange) -> None:
    line = json.dumps(exchange.as_dict())
    assert "\n" not in line
    assert Exchange.from_dict(json.loads(line)) == exchange


@FAST
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}:[0-9][a-z0-9.]{0,7}", fullmatch=True),
        st.tuples(st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True), st.booleans()), max_size=4,
    )
)  # fmt: skip
def test_the_lock_of_images(images: dict[str, tuple[str, bool]]) -> None:
    entries = {name: Locked(name, digest, verified=verified) for name, (digest, verified) in images.items()}
    path = Path(os.environ["FUZZ_FOLDER"]) / "images.lock"
    write_lock(path, Lock(entries))
    assert read_lock(path).entries == entries


@FAST
@given(
    st.sampled_from(["MODEL", "ENGINE_ARGS", "CMD", "MATCH", "AGENT"]),
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=30),
    st.sampled_from(["", "'", '"']),
)
def test_a_setting_in_the_file(name: str, value: str, quote: str) -> None:
    folder = Path(os.environ["FUZZ_FOLDER"])
    if not quote and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return  # these quotes are the file's own
    (folder / "drydock.env").write_text(f"# mine\n{name}={quote}{value}{quote}\n", encoding="utf-8")
    with at_home(folder):
        assert getattr(load_settings(environ={}), name.lower()) == value


@FAST
@given(st.sampled_from([CHAT, MESSAGES]), st.lists(st.integers(0, 700), max_size=12))
def test_a_stream_is_the_same_in_whatever_pieces_it_comes(stream: bytes, cuts: list[int]) -> None:
    whole = Decoder()
    wanted = [*whole.feed(stream), *whole.finish()]
    pieces, found, last = Decoder(), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        found += pieces.feed(stream[last:cut])
        last = max(last, cut)
    assert [*found, *pieces.finish()] == wanted


@FAST
@given(st.dictionaries(st.from_regex(r"[a-z0-9]{1,8}\.json", fullmatch=True), st.binary(max_size=50), max_size=4))
def test_an_answer_of_a_sampler(dumps: dict[str, bytes]) -> None:
    texts = {name: content.hex().encode() for name, content in dumps.items()}
    assert unpack(pack(NodeAnswer(dumps=texts))).dumps == texts


@FAST
@given(st.lists(TEXT, max_size=3), st.dictionaries(TEXT, st.tuples(st.integers(0), st.integers(0)), max_size=3))
def test_what_an_up_found(notes: list[str], watched: dict[str, tuple[int, int]]) -> None:
    path = Path(os.environ["FUZZ_FOLDER"]) / "already.json"
    record = Record(
        ["MODEL"], "x", watched, {"/tmp": [0, 0]}, Expected("p", {"dev": 1}, 2, 1, 2, "/k"), notes, [["a", "b"]]
    )
    record.write(path)
    assert Record.read(path) == record


@FAST
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_file_that_is_written_whole(text: str) -> None:
    folder = Path(os.environ["FUZZ_FOLDER"]) / "whole"
    write_whole(folder / "f", text)
    assert (folder / "f").read_bytes() == text.encode()
    assert os.listdir(folder) == ["f"]


class Call:
    """What a pickle does that calls something."""

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


@FAST
@given(
    st.sampled_from([os.system, os.mkdir, eval, exec, print, open, getattr, __import__, pickle.loads]),
    st.sampled_from(["version", "entries", "pg_status", "pg_config"]),
    st.integers(2, 5),
)
def test_a_recorder_s_pickle_calls_nothing_wherever_it_is_asked_to(function: Any, place: str, protocol: int) -> None:
    made = Path(os.environ["FUZZ_FOLDER"]) / "made"
    argument = {os.system: f"mkdir {made}", eval: f"__import__('os').mkdir({str(made)!r})"}.get(function, str(made))
    data = pickle.dumps({**ENTRIES, place: [Call(function, (argument,))]}, protocol=protocol)
    with pytest.raises(ValueError, match="which no recorder writes"):
        recorder.read(data, 0)
    assert not made.exists()


NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "", "/", "hub", "c.json"]), min_size=1, max_size=5).map("/".join)


@FAST
@given(
    st.lists(st.tuples(NAMES, st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]), NAMES), max_size=5)
)
def test_saved_weights_land_in_their_places_only(members: list[tuple[str, bytes, str]]) -> None:
    folder = Path(os.environ["FUZZ_FOLDER"]) / "saved"
    place, outside = folder / "in/hub", folder / "outside"
    place.mkdir(parents=True, exist_ok=True)
    outside.mkdir(exist_ok=True)
    with tarfile.open(folder / "weights.tar", "w") as tar:
        for name, kind, leads in members:
            info = tarfile.TarInfo(f"hub/{name}")
            info.type, info.linkname, info.size = kind, leads, 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"evil"))
    try:
        loading._place_weights(folder / "weights.tar", {"hub": place})
    except (SavedUnusable, NoSpace):
        pass
    written = {path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    assert all(path.is_relative_to(place) for path in written - {folder / "weights.tar"})
    for path in place.rglob("*"):
        assert Path(os.path.normpath(path.parent / os.readlink(path) if path.is_symlink() else path)).is_relative_to(
            place
        )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each test, not of each of its inputs; and hypothesis wants no fixtures as arguments."""
    monkeypatch.setenv("FUZZ_FOLDER", str(tmp_path))
