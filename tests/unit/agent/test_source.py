from __future__ import annotations

from pathlib import Path

import pytest

from harness.agent.source import locate
from harness.errors import AgentNotFound, AgentUnreadable

AGENT = """
import asyncio
from elsewhere import Imported

class Helper:
    pass

class Good:
    async def run(self, data, **extra_kwargs):
        def inner():
            return 5
        if data:
            return 1.0
        return 0.0

    class Inner:
        async def run(self, data, *, base_url, api_key, http_client):
            return 1.0

class Sync:
    def run(self, data):
        return 1.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "my_agent.py").write_text(AGENT)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "module"),
    [
        ("pack/my_agent.py:Good", "my_agent"),
        ("pack.my_agent:Good", "pack.my_agent"),
        ("pack.my_agent.Good", "pack.my_agent"),
    ],
)
def test_three_ways_lead_to_the_same_class(folder: Path, given: str, module: str) -> None:
    source = locate(given, folders=[folder])
    assert (source.module, source.class_name, source.class_line) == (module, "Good", 8)
    assert source.path is not None
    assert source.path.samefile(folder / "pack" / "my_agent.py")
    assert source.run is not None
    assert (source.run.is_async, source.run.takes_kwargs, source.run.returns) == (True, True, (13, 14))


def test_a_files_own_folder_comes_first_in_its_search(folder: Path) -> None:
    assert locate("pack/my_agent.py:Good", folders=[folder]).search == (folder / "pack", folder)


def test_a_nested_class_is_found(folder: Path) -> None:
    source = locate("pack.my_agent:Good.Inner", folders=[folder])
    assert source.run is not None
    assert source.run.takes_kwargs


def test_a_run_that_is_not_async_is_seen_without_running_anything(folder: Path) -> None:
    source = locate("pack.my_agent:Sync", folders=[folder])
    assert source.run is not None
    assert (source.run.is_async, source.run.takes_kwargs) == (False, False)


def test_no_code_runs(folder: Path) -> None:
    (folder / "bomb.py").write_text("raise SystemExit('it ran')\nclass A:\n    async def run(self, data): ...\n")
    (folder / "pack" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    assert locate("bomb:A", folders=[folder]).class_line == 2
    assert locate("pack.my_agent.Good", folders=[folder]).class_line == 8


def test_folders_are_searched_in_order(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "pack").mkdir(parents=True)
    (other / "pack" / "my_agent.py").write_text("class Good:\n    async def run(self, data, **k): ...\n")
    assert locate("pack/my_agent.py:Good", folders=[other, folder]).class_line == 1


def test_a_missing_file_names_those_beside_it(folder: Path) -> None:
    with pytest.raises(AgentNotFound) as caught:
        locate("pack/mine.py:Good", folders=[folder])
    assert "no file pack/mine.py" in caught.value.what
    assert "pack/my_agent.py" in caught.value.mend
    assert caught.value.exit_code == 2


def test_a_missing_module_is_told(folder: Path) -> None:
    with pytest.raises(AgentNotFound, match=r"no module 'pack\.nothing'"):
        locate("pack.nothing.Good", folders=[folder])


def test_a_missing_class_names_those_with_a_run(folder: Path) -> None:
    with pytest.raises(AgentNotFound) as caught:
        locate("pack/my_agent.py:Goood", folders=[folder])
    assert "has no class Goood" in caught.value.what
    assert "Good, Sync" in caught.value.consequence
    assert "Helper" not in caught.value.consequence


def test_a_file_without_class_names_its_classes(folder: Path) -> None:
    with pytest.raises(AgentNotFound) as caught:
        locate("pack/my_agent.py", folders=[folder])
    assert "names a file but no class" in caught.value.what
    assert "Good, Sync" in caught.value.mend


def test_an_imported_or_made_class_is_left_to_the_child(folder: Path) -> None:
    assert locate("pack.my_agent:Imported", folders=[folder]).class_line is None
    (folder / "made.py").write_text("A = type('A', (), {})\nif True:\n    class B: ...\n")
    assert locate("made:A", folders=[folder]).class_line is None
    assert locate("made:B", folders=[folder]).class_line is None


@pytest.mark.parametrize("module", ["from x import *\n", "def __getattr__(name): ...\n"])
def test_a_module_that_may_hold_anything_is_left_to_the_child(folder: Path, module: str) -> None:
    (folder / "any.py").write_text(module)
    assert locate("any:Whatever", folders=[folder]).class_line is None


def test_a_syntax_error_is_told_with_its_line(folder: Path) -> None:
    (folder / "broken.py").write_text("class A:\n    async def run(self, data)\n        return 1.0\n")
    with pytest.raises(AgentUnreadable) as caught:
        locate("broken.py:A", folders=[folder])
    assert "broken.py, line 2" in caught.value.what
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("content", [b"\x00", b"\xff\xfe nonsense", b"# coding: nothing\n"])
def test_a_file_that_is_no_python_is_told(folder: Path, content: bytes) -> None:
    (folder / "broken.py").write_bytes(content)
    with pytest.raises(AgentUnreadable):
        locate("broken.py:A", folders=[folder])


@pytest.mark.parametrize("given", ["", "Agent", "x:", "x:not a name", "x:1"])
def test_what_is_no_name_is_told(folder: Path, given: str) -> None:
    with pytest.raises(AgentNotFound):
        locate(given, folders=[folder])


def test_a_path_with_spaces_works(tmp_path: Path) -> None:
    (tmp_path / "my agents").mkdir()
    (tmp_path / "my agents" / "a.py").write_text(AGENT)
    assert locate("my agents/a.py:Good", folders=[tmp_path]).class_line == 8


def test_a_package_below_src_is_found_and_its_folder_searched(folder: Path) -> None:
    (folder / "pack").rename(folder / "kept")
    (folder / "src").mkdir()
    (folder / "kept").rename(folder / "src" / "pack")
    source = locate("pack.my_agent:Good", folders=[folder])
    assert source.path is not None
    assert source.path.samefile(folder / "src" / "pack" / "my_agent.py")
    assert source.search == (folder / "src", folder)


def test_what_lies_in_the_folder_itself_comes_before_src(folder: Path) -> None:
    (folder / "src" / "pack").mkdir(parents=True)
    (folder / "src" / "pack" / "my_agent.py").write_text(AGENT)
    source = locate("pack.my_agent:Good", folders=[folder])
    assert source.search == (folder,)
