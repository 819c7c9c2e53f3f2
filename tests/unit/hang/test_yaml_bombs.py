"""Headers of programs and the lock of images: YAML that stands for endless much, or has no end, is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import LockUnreadable, UsageError
from harness.hang.zoo import program
from harness.stack.images.lock import read_lock

# Nine of nine of nine …: a kilobyte that stands for more words than there are atoms.
LAUGHS = "a0: &a0 [ha, ha, ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 60))
DEEP = "- " * 5_000
CIRCLE = "&a [*a]"
CODE = '!!python/object/apply:os.mkdir ["evil"]'


@pytest.mark.parametrize(
    "header",
    [f"{LAUGHS}cause: *a59", f"{LAUGHS}culprits: *a59", f"cause: {CIRCLE}", f"cause:\n {DEEP}", f"cause: {CODE}"],
    ids=["laughs", "laughs in a list", "circle", "deep", "code"],
)
def test_a_program_of_the_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text(f'"""A case.\n---\n{header}\n"""\n')
    with pytest.raises(UsageError) as refusal:
        program.read(path)
    assert len(refusal.value.what) < 2000
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "text",
    [f"{LAUGHS}images: [*a59]", f"{LAUGHS}images: [{{image: *a59}}]", f"images: {CIRCLE}", f"images:\n {DEEP}", CODE],
    ids=["laughs", "laughs as a name", "circle", "deep", "code"],
)
def test_the_lock_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "images.lock"
    path.write_text(text)
    with pytest.raises(LockUnreadable) as refusal:
        read_lock(path)
    assert len(refusal.value.what) < 2000
    assert not (tmp_path / "evil").exists()
