"""Addresses and keys in the source, calls without a limit, and that no key is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.checks.lint.run import lint
from harness.cli.lint import command
from tests.unit.checks.lint.written import around, said

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
CALL = 'client.chat.completions.create(model="m", messages=data["messages"], max_tokens=8)'


def agent(made: str, *, top: str = "", init: str = "pass") -> str:
    return f"""
import os
from openai import AsyncOpenAI

{top}


class Agent:
    def __init__(self, base=None):
        {init}

    async def run(self, data, **extra_kwargs):
        client = {made}
        await {CALL}
        return 1.0
"""


GIVEN = 'base_url=extra_kwargs["base_url"], http_client=extra_kwargs["http_client"]'
GIVEN_KEY = 'api_key=extra_kwargs["api_key"], http_client=extra_kwargs["http_client"]'


@pytest.mark.parametrize(
    ("made", "top", "init"),
    [
        (f'AsyncOpenAI(base_url="http://10.0.0.1/v1", {GIVEN_KEY})', "", "pass"),
        (f"AsyncOpenAI(base_url=BASE, {GIVEN_KEY})", 'BASE = "http://10.0.0.1/v1"', "pass"),
        ("CLIENT", 'CLIENT = AsyncOpenAI(base_url="http://10.0.0.1/v1", api_key=os.environ["OPENAI_API_KEY"])', "pass"),
        (
            "self.client",
            "",
            'self.client = AsyncOpenAI(base_url="http://10.0.0.1/v1", api_key=os.environ["OPENAI_API_KEY"])',
        ),
    ],
)
def test_an_address_in_the_source(tmp_path: Path, made: str, top: str, init: str) -> None:
    found = said(tmp_path, agent(made, top=top, init=init))
    assert found["hard-coded-address"].status == "fail"
    assert "http://10.0.0.1/v1" in found["hard-coded-address"].detail


@pytest.mark.parametrize(
    "made",
    [
        f"AsyncOpenAI({GIVEN}, {GIVEN_KEY.partition(',')[0]})",
        f'AsyncOpenAI(base_url=extra_kwargs.get("base_url") or "http://10.0.0.1/v1", {GIVEN_KEY})',
        f'AsyncOpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://10.0.0.1/v1"), {GIVEN_KEY})',
        'AsyncOpenAI(http_client=extra_kwargs["http_client"])',
        f"AsyncOpenAI(base_url=os.environ['MY_SERVER'], {GIVEN_KEY})",
    ],
)
def test_an_address_from_outside(tmp_path: Path, made: str) -> None:
    assert said(tmp_path, agent(made)) == {}


def test_a_judge_may_be_anywhere(tmp_path: Path) -> None:
    run = """
    judge = AsyncOpenAI(base_url="https://judge.example/v1", api_key=os.environ["JUDGE"], http_client=extra_kwargs["h"])
    await self.ask(judge, [])
    return 1.0
    """
    assert around(tmp_path, run) == {}


@pytest.mark.parametrize("key", [KEY, "0123456789abcdef0123456789abcdef"])
def test_a_real_key_is_found_and_never_shown(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = agent(f'AsyncOpenAI(api_key="{key}", base_url=extra_kwargs["base_url"])')
    assert {"hard-coded-key", "new-client-per-run"} <= set(said(tmp_path, source))
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--json"]):
        printed = CliRunner().invoke(command, ["--agent", "agent.py:Agent", *more])
        assert "hard-coded-key" in printed.output or "a key stands in the source" in printed.output
        assert key not in printed.output
        assert key[:20] not in printed.output


def test_a_stand_in_where_the_key_is_never_asked_for(tmp_path: Path) -> None:
    found = said(tmp_path, agent(f'AsyncOpenAI(api_key="EMPTY", {GIVEN})'))
    assert {code: one.status for code, one in found.items()} == {"hard-coded-key": "warn"}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", ["no-token-limit"]),
        (", max_tokens=5", []),
        (", max_completion_tokens=self.limit", []),
        (", **options", []),
        (', extra_body={"max_tokens": 5}', []),
        (", extra_body=options", []),
    ],
)
def test_a_call_without_a_limit(tmp_path: Path, arguments: str, found: list[str]) -> None:
    run = f"options = {{}}\nawait client.chat.completions.create(messages=[]{arguments})\nreturn 1.0"
    assert list(around(tmp_path, run)) == found


def test_a_package_in_src_is_found_and_followed(tmp_path: Path) -> None:
    package = tmp_path / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "score.py").write_text("def score(text):\n    return len(text)\n")
    source = (
        "from pkg.score import score\n\n\nclass A:\n    async def run(self, data, **kw):\n        return score(data)\n"
    )
    (package / "agent.py").write_text(source)
    for name in ("pkg.agent:A", "src/pkg/agent.py:A"):
        report = lint(name, None, [tmp_path])
        assert [one.id for one in report.findings if one.status == "fail"] == ["lint.reward-int"], name
