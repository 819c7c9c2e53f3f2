"""What outlives a run and is changed by it; what only looks like that is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checks.lint.written import around, said

END = "\nreturn 1.0"
ASK = "\nawait client.chat.completions.create(messages={}, max_tokens=1)"


@pytest.mark.parametrize(
    "run",
    [
        "HISTORY.append(data)\nawait self.ask(client, HISTORY)",
        "messages = HISTORY\nmessages += [data]" + ASK.format("messages"),
        "HISTORY.extend([data])\nasked = [*HISTORY, data]" + ASK.format("asked"),
        "await self.fill(HISTORY)" + ASK.format("HISTORY"),
    ],
)
def test_a_conversation_of_the_modules(tmp_path: Path, run: str) -> None:
    found = around(tmp_path, run + END, top="HISTORY = []", methods="async def fill(self, one):\n    one.append(1)")
    assert list(found) == ["shared-state"]
    assert found["shared-state"].status == "fail"
    assert "HISTORY" in found["shared-state"].detail


def test_a_list_that_only_grows_warns(tmp_path: Path) -> None:
    found = around(tmp_path, "DONE.append(data)\nreturn 1.0", top="DONE = []")
    assert {code: one.status for code, one in found.items()} == {"shared-state": "warn"}


def test_a_list_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("HISTORY: list = []\n")
    run = "HISTORY.append(data)\nawait client.chat.completions.create(messages=HISTORY, max_tokens=1)\nreturn 1.0"
    assert list(around(tmp_path, run, top="from elsewhere import HISTORY")) == ["shared-state"]


@pytest.mark.parametrize(
    ("top", "run"),
    [
        ("STATS = Counter()", "STATS['runs'] += 1"),
        ("CACHE = {}", "if data['q'] not in CACHE:\n    CACHE[data['q']] = await self.judge('')"),
        ("CACHE = {}", "CACHE.setdefault(data['id'], []).append(1)"),
        ("BY_ID = {}", "BY_ID[data['id']].append(1)"),
        ("LAST = deque(maxlen=10)", "LAST.append(1)"),
        ("POOL = []", "one = POOL.pop()\nPOOL.append(one)"),
        ("SHOTS = [1]", "await client.chat.completions.create(messages=[*SHOTS, data], max_tokens=1)"),
        ("SHOTS = [1]", "messages = list(SHOTS)\nmessages.append(2)"),
        ("SHOTS = [1]", "SHOTS = []\nSHOTS.append(2)"),
        ("GATE = asyncio.Semaphore(5)", "async with GATE:\n    pass"),
    ],
)
def test_what_a_module_may_keep(tmp_path: Path, top: str, run: str) -> None:
    assert around(tmp_path, run + END, top=top) == {}


@pytest.mark.parametrize(
    ("run", "status"),
    [
        ("messages = data['messages']\nmessages.append(1)\nawait self.ask(client, messages)", "fail"),
        ("data['seen'].append(1)\nawait self.ask(client, data['messages'])", "warn"),
        (
            "messages = data['messages']\nmessages.append(1)\n"
            "await client.chat.completions.create(messages=messages, max_tokens=1)",
            "fail",
        ),
        (
            "messages = data.get('messages') or []\nmessages += [1]\n"
            "await client.chat.completions.create(messages=messages, max_tokens=1)",
            "fail",
        ),
        ("data['messages'] += [{'role': 'user'}]", "warn"),
        ("question = data.pop('question')", "warn"),
        ("data['answer'] = 'x'", "warn"),
        ("del data['answer']", "warn"),
        ("self.change(data)", "warn"),
    ],
)
def test_a_sample_that_is_changed(tmp_path: Path, run: str, status: str) -> None:
    found = around(tmp_path, run + END, methods="def change(self, sample):\n    sample.update(a=1)")
    assert {code: one.status for code, one in found.items()} == {"sample-changed": status}


@pytest.mark.parametrize(
    "run",
    [
        "messages = list(data['messages'])\nmessages.append(1)",
        "messages = [*data['messages']]\nmessages += [1]",
        "messages = data['messages'].copy()\nmessages.append(1)",
        "messages = data['messages'][:]\nmessages.append(1)",
        "data = copy.deepcopy(data)\ndata['messages'].append(1)",
        "text = data['prompt']\ntext += 'x'",
        "messages = data['messages'] + [1]\nmessages.append(1)",
        "mine = {}\nmine['a'] = data",
    ],
)
def test_a_copy_may_be_changed(tmp_path: Path, run: str) -> None:
    assert around(tmp_path, run + END) == {}


def test_a_comment_takes_it_out(tmp_path: Path) -> None:
    run = "data['answer'] = 'x'  # drydock: ignore[sample-changed]\nreturn 1.0"
    assert around(tmp_path, run) == {}


def test_a_method_of_another_object_is_no_change_of_the_sample(tmp_path: Path) -> None:
    source = """
    class Agent:
        async def run(self, data, **extra_kwargs):
            tools = extra_kwargs["tools"]
            tools.append(1)
            return 1.0
    """
    assert said(tmp_path, source) == {}
