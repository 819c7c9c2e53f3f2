"""What the documentation names is there: files, verbs, settings, checks, messages, exit codes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from gateway.refusals import TABLES
from harness import errors
from harness.agent.contract import Kind
from harness.checks.lint import areal_rules, catalogue, verl_rules
from harness.checks.stage1_rules import SUBJECTS
from harness.cli.main import INNER_VERBS, VERBS
from harness.doctor.topics import CHECKS
from harness.doctor.topics.training_rules import RULES
from harness.openai_api.simulated.faults import KINDS
from harness.settings import environment_names
from tests.support import wrong_examples

CLONE = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "examples/*.md")
    for path in CLONE.glob(pattern)
    if path.name != "CHANGELOG.md"
)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CLONE)))

# Variables of other programs, or examples of something wrong.
NOT_OURS = {
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "HF_HOME", "KEY", "NAME", "VALUE", "FILE"),
    *("MODLE", "N", "RAY_DEBUG_POST_MORTEM", "RAY_API_SERVER_ADDRESS"),
}
# Hosts that an address may have: ours, and those that are nobody's.
HOSTS = {"127.0.0.1", "inference", "example.com"}
# First parts of absolute paths: those of the containers, of any Linux, of the servers' routes, and of examples.
PLACES = {
    *("workspace", "framework", "models", "runs", "run", "opt", "dev", "proc", "tmp", "etc", "var", "usr"),
    *("v1", "health", "metrics", "generate", "tokenize", "completions", "infill", "drydock"),
    *("path", "home"),
}


def code(text: str) -> Iterator[str]:
    """Lines of fenced blocks and inline code."""
    for number, part in enumerate(re.split(r"^```[a-z]*$", text, flags=re.MULTILINE)):
        if number % 2:
            yield from part.splitlines()
        else:
            yield from (match.replace("\n", " ") for match in re.findall(r"`([^`]+)`", part))


def table_rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of all tables."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def section(text: str, heading: str) -> str:
    """A section's text, its heading left out."""
    found = re.search(rf"^##+ {re.escape(heading)}$(.*?)(?=^##? |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading!r}"
    return found[1]


def anchors(text: str) -> set[str]:
    """What headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        found = (page.parent / target) if target else page
        assert found.exists(), link
        assert not anchor or anchor in anchors(found.read_text()), link


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (CLONE / "Makefile").read_text(), re.MULTILINE))


def words_after(command: str, line: str) -> Iterator[str]:
    """The words that follow each call of a command in a line of code, up to a comment or an operator."""
    for rest in re.findall(rf"(?:^|[$→;&]\s*){command} (.*)", line):
        try:
            yield from shlex.split(rest, comments=True)
        except ValueError:  # a quote that the next line closes
            yield rest.split()[0]


def test_calls_are_found_in_lines_of_code() -> None:
    found = {
        line: list(words_after("make", line))
        for line in ("$ make up check X=1   # brings", "  → make down", "to make it")
    }
    assert list(found.values()) == [["up", "check", "X=1"], ["down"], []]


@each_page
def test_verbs_of_make_are_there(page: Path) -> None:
    for line in code(page.read_text()):
        for word in words_after("make", line):
            name, equals, _ = word.partition("=")
            if equals:
                # Another program's variable stands before `make`: after it, make takes it for a mistyped setting.
                assert name in environment_names().values(), line
            elif re.fullmatch(r"[a-z][a-z-]+", word):
                assert word in targets(), line
            else:
                break


@each_page
def test_verbs_of_the_harness_are_there(page: Path) -> None:
    for line in code(page.read_text()):
        for verb in re.findall(r"\bharness ([a-z][a-z-]+)", line):
            assert verb in VERBS or verb in INNER_VERBS, line


@each_page
def test_settings_are_there(page: Path) -> None:
    known = set(environment_names().values()) | NOT_OURS
    for line in code(page.read_text()):
        for name in re.findall(r"(?<![\w$-])([A-Z][A-Z_]*)=", line):
            assert name in known, line


@each_page
def test_addresses_and_paths_are_nobodys_own(page: Path) -> None:
    for line in code(page.read_text()):
        for host in re.findall(r"https?://([\w.-]+)", line):
            assert host in HOSTS or host.endswith(".example.com"), line
        for place in re.findall(r"(?<![\w~.:/…$)}>-])/([a-z][\w-]*)", line):
            assert place in PLACES, line


def test_every_line_of_stage_1_is_explained() -> None:
    rows = {row[1]: row[0] for row in table_rows((CLONE / "docs/checks.md").read_text()) if len(row) > 3}
    described = {f"`{subject.id}`": subject.title for subject in SUBJECTS}
    assert {id_: title for id_, title in rows.items() if "`server." in id_} == described


def test_every_line_of_stage_2_is_explained() -> None:
    source = "\n".join(path.read_text() for path in (CLONE / "harness/checks").glob("*.py"))
    ids = set(re.findall(r'"((?:run|agent|data)\.[a-z-]+)"', source)) | {f"agent.{kind}" for kind in get_args(Kind)}
    # Only said where the agent loads, which needs no explanation.
    ids -= {"agent.load", "agent.import-failed", "run.end"}
    explained = section((CLONE / "docs/checks.md").read_text(), "Stage 2: one run of your agent")
    assert set(re.findall(r"`((?:run|agent|data)\.[a-z-]+)`", explained)) == ids


def test_every_line_of_stage_3_is_explained() -> None:
    source = "\n".join(path.read_text() for path in (CLONE / "harness/checks").glob("*.py"))
    ids = set(re.findall(r'"(load\.[a-z-]+)"', source)) - {"load.json"}
    explained = section((CLONE / "docs/checks.md").read_text(), "Stage 3: many runs at once")
    assert set(re.findall(r"`(load\.[a-z-]+)` \|", explained)) == ids


def test_every_fault_is_explained() -> None:
    rows = list(table_rows(section((CLONE / "docs/checks.md").read_text(), "The simulated server")))[1:]
    assert {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row[0])} == {kind.name for kind in KINDS}


def test_every_rule_of_the_lint_is_explained_and_has_an_example() -> None:
    rules = {rule.id: rule.title for rule in [*catalogue.RULES, *areal_rules.RULES, *verl_rules.RULES]}
    explained = set(re.findall(r"`(lint\.[a-z0-9-]+)`", section((CLONE / "docs/checks.md").read_text(), "The lint")))
    assert explained - {"lint.source", "lint.config"} == set(rules)
    shown = {id_ for row in wrong_examples.rows() for id_ in row.ids}
    assert set(rules) - shown == {"lint.history-template"}  # that takes a real model's template


def test_every_check_of_the_doctor_is_explained() -> None:
    text = (CLONE / "docs/doctor.md").read_text()
    explained = [found for row in table_rows(text) for found in re.findall(r"^`([a-z]+\.[a-z]+)`$", row[0])]
    assert sorted(explained) == sorted(check.id for check in CHECKS)


def test_every_variable_that_does_nothing_or_harm_is_explained() -> None:
    rows = list(table_rows(section((CLONE / "docs/doctor.md").read_text(), "Variables of a training")))[1:]
    named = {name for row in rows for name in re.findall(r"`([A-Za-z0-9_]+)", row[0])}
    assert named == {rule.variable for rule in RULES}


def test_what_llamacpp_refuses_is_what_the_gateway_refuses() -> None:
    refused = {refusal.field for refusal in TABLES["llamacpp"]}
    rows = list(table_rows(section((CLONE / "docs/serve.md").read_text(), "What llama.cpp can't give")))[1:]
    named = {name for row in rows for name in re.findall(r"`(\w+)", row[0])}
    assert len(rows) > 5
    assert named <= refused


def test_the_exit_codes_are_those_of_the_errors() -> None:
    text = (CLONE / "docs/your-project.md").read_text()
    codes = {int(row[0]) for row in table_rows(section(text, "Exit codes")) if row[0].isdigit()}
    raised = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.DrydockError)
    }
    assert codes == raised | {0}


def test_messages_that_are_explained_are_really_said() -> None:
    said = "\n".join(
        path.read_text()
        for pattern in ("harness/**/*.py", "docker/gateway/**/*.py", "scripts/**/*.sh", "Makefile")
        for path in CLONE.glob(pattern)
    )
    text = (CLONE / "docs/troubleshooting.md").read_text()
    quoted = [
        piece.strip()
        for row in table_rows(text)
        for message in re.findall(r"`([^`]+)`", row[0])
        for piece in re.split(r"…|PORT=8080 |MODLE|MODEL=|WORKSPACE=", message)
        if " " in piece.strip()
    ]
    assert len(quoted) > 8
    for piece in quoted:
        assert piece in said, piece


@each_page
def test_classes_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:[A-Z][a-z]+){2,})`", page.read_text()):
        assert hasattr(errors, name) or name == "CommonParams", name
