"""An agent and samples in a user's folder: what is nearest, nothing of what isn't theirs, and never a failure."""

from __future__ import annotations

from pathlib import Path

from harness.agent.nearby import agent_in, samples_in

AGENT = "class {}:\n    async def run(self, data, **extra):\n        return 0.0\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_empty_folder_and_one_that_is_not_there(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        assert (agent_in(folder), samples_in(folder)) == ("", "")


def test_the_nearest_is_taken(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "agents" / "a.py", AGENT.format("Deep"))
    write(tmp_path / "z.py", "broken (\n")
    write(tmp_path / "lib.py", "class NoAgent:\n    pass\n")
    assert agent_in(tmp_path) == "deep/agents/a.py:Deep"
    write(tmp_path / "mine" / "b.py", AGENT.format("Mine"))
    assert agent_in(tmp_path) == "mine/b.py:Mine"
    write(tmp_path / "top.py", AGENT.format("Top"))
    assert agent_in(tmp_path) == "top.py:Top"


def test_what_is_not_theirs_is_left_out(tmp_path: Path) -> None:
    for folder in (".venv", "venv", "node_modules", "build", ".git"):
        write(tmp_path / folder / "a.py", AGENT.format("Foreign"))
        write(tmp_path / folder / "a.jsonl", "{}\n")
    write(tmp_path / "test_a.py", AGENT.format("Test"))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert (agent_in(tmp_path), samples_in(tmp_path)) == ("", "")


def test_samples_are_objects_a_line_each(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "[1]\n")
    write(tmp_path / "b.jsonl", "not json")
    (tmp_path / "c.jsonl").write_bytes(b"\xff\xfe\n")
    assert samples_in(tmp_path) == ""
    write(tmp_path / "data" / "d.jsonl", '{"messages": []}\n{"messages": []}\n')
    assert samples_in(tmp_path) == "data/d.jsonl"
