"""When a warm `up` may take the short way, and when it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.already import RECORD, Record, asked, find, owner_of, watch
from harness.stack.expected import Expected

NAMES = ["MODEL", "HF_TOKEN"]
ASKED = {"MODEL": "a", "HF_TOKEN": "hf_canary"}


def record(tmp_path: Path) -> Path:
    """A record of a stack that looked at a folder with one file."""
    looked_at = tmp_path / "harness"
    looked_at.mkdir()
    (looked_at / "up.py").write_text("1")
    expected = Expected("drydock", {"dev": 1}, 2, 8080, 8265, "/keys")
    path = tmp_path / ".drydock" / "drydock" / RECORD
    path.parent.mkdir(parents=True)
    Record(
        NAMES,
        asked(NAMES, ASKED),
        watch([looked_at, tmp_path / "drydock.env"]),
        {str(looked_at): owner_of(str(looked_at))},
        expected,
        ["n"],
        [["a", "b"]],
    ).write(path)
    return path


def test_the_same_question_finds_the_record_as_it_was_written(tmp_path: Path) -> None:
    record(tmp_path)
    found = find(tmp_path, ASKED)
    assert found is not None
    assert found.expected == Expected("drydock", {"dev": 1}, 2, 8080, 8265, "/keys")
    assert (found.notes, found.rows) == (["n"], [["a", "b"]])


@pytest.mark.parametrize(
    "environ", [{"MODEL": "b", "HF_TOKEN": "hf_canary"}, {"MODEL": "a"}, {**ASKED, "DOCKER_HOST": "tcp://x"}]
)
def test_another_question_does_not(tmp_path: Path, environ: dict[str, str]) -> None:
    record(tmp_path)
    assert find(tmp_path, environ) is None


def test_a_variable_that_does_not_count_changes_nothing(tmp_path: Path) -> None:
    record(tmp_path)
    assert find(tmp_path, {**ASKED, "EDITOR": "vi"}) is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [("harness/up.py", "22"), ("harness/new.py", ""), ("drydock.env", "MODEL=x"), ("harness/up.py", None)],
    ids=["edited", "new", "new where there was none", "gone"],
)
def test_whatever_changed_among_what_was_looked_at_counts(tmp_path: Path, name: str, text: str | None) -> None:
    record(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    assert find(tmp_path, ASKED) is None


def test_no_secret_is_kept(tmp_path: Path) -> None:
    assert "canary" not in record(tmp_path).read_text()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"watched": {"a": 1}}', '{"watched": {}, "expected": {"x": 1}}']
)
def test_a_record_that_can_not_be_read_is_none(tmp_path: Path, text: str) -> None:
    record(tmp_path).write_text(text)
    assert find(tmp_path, ASKED) is None


def test_a_workspace_that_got_another_owner_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path)
    assert find(tmp_path, ASKED) is not None
    # Changing an owner takes root; what the record does with it does not.
    monkeypatch.setattr("harness.stack.already.owner_of", lambda path: [1234, 1234])
    assert find(tmp_path, ASKED) is None
