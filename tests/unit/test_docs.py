"""What the documentation names is there: files, verbs, settings, checks, messages, exit codes."""

from __future__ import annotations

import re
import shlex
import subprocess
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
from harness.hang.causes import CAUSES
from harness.hang.zoo.run import ProgramFailed
from harness.openai_api.simulated.faults import KINDS
from harness.settings import environment_names
from tests.support import documentation, wrong_examples

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
    *("MODLE", "N", "RAY_DEBUG_POST_MORTEM", "RAY_API_SERVER_ADDRESS", "TORCH_DISTRIBUTED_DEBUG", "DRYDOCK_DEBUGGABLE"),
}
# What `make chaos` and `make fuzz` read beside settings.
OF_TESTS = {"STEPS", "SECONDS"}
# Hosts that an address may have: ours, those that are nobody's, and where frameworks' sources are.
HOSTS = {"127.0.0.1", "inference", "example.com", "github.com"}
# First parts of absolute paths: those of the containers, of any Linux, of the servers' routes, and of examples.
PLACES = {
    *("workspace", "framework", "models", "runs", "run", "opt", "dev", "proc", "sys", "tmp", "etc", "var", "usr"),
    *("v1", "health", "metrics", "generate", "tokenize", "completions", "infill", "apply-template", "drydock"),
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
                assert name in {*environment_names().values(), *OF_TESTS}, line
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
    known = set(environment_names().values()) | NOT_OURS | OF_TESTS
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
    ours = "".join(section(text, heading) for heading in re.findall(r"^## (.+ \(exit code \d\))$", text, re.MULTILINE))
    quoted = [
        piece.strip()
        for row in table_rows(ours)
        for message in re.findall(r"`([^`]+)`", row[0])
        for piece in re.split(r"…|PORT=8080 |MODLE|MODEL=|WORKSPACE=", message)
        if " " in piece.strip()
    ]
    assert len(quoted) > 8
    for piece in quoted:
        assert piece in said, piece


def error_classes() -> dict[str, type[errors.DrydockError]]:
    """Every error of ours by its name; rooms have a few of their own."""
    found = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.DrydockError)
    }
    found[ProgramFailed.__name__] = ProgramFailed
    sources = (path.read_text() for path in (CLONE / "harness").rglob("*.py"))
    bases = "|".join(found)
    everywhere = {name for text in sources for name in re.findall(rf"^class (\w+)\((?:{bases})\)", text, re.MULTILINE)}
    assert everywhere <= set(found), "an error outside harness/errors.py that this test doesn't know"
    return found


@each_page
def test_classes_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:[A-Z][a-z]+){2,})`", page.read_text()):
        assert name in error_classes() or name in ("CommonParams", "ActorDiedError"), name


def test_every_error_can_be_looked_up_by_its_name() -> None:
    text = (CLONE / "docs/troubleshooting.md").read_text()
    rows = list(table_rows(section(text, "By the name of the error")))[1:]
    codes = {row[1].strip("`"): int(re.findall(r"\d+", row[0])[0]) for row in rows}
    assert len(codes) == len(rows), "twice the same class"
    there = {name: value.exit_code for name, value in error_classes().items() if name != "DrydockError"}
    assert codes == there, "docs/troubleshooting.md has a row for each error, with its exit code"


def test_every_cause_of_a_hang_can_be_looked_up_by_its_code() -> None:
    text = section((CLONE / "docs/troubleshooting.md").read_text(), "A hang, by the code of its cause")
    titles = {row[0].strip("`"): row[1] for row in list(table_rows(text))[1:]}
    assert titles == {code: cause.title for code, cause in CAUSES.items() if code not in ("none", "unknown")}
    stacks = section((CLONE / "docs/hang-dump.md").read_text(), "Case by case")
    described = {code for row in table_rows(stacks) for code in re.findall(r"`([a-z0-9-]+)`", row[0])}
    assert set(titles) <= described


# Written by others at this moment; they get their marks when they are whole.
YET_UNMARKED = {"doctor.md", "stage-4.md"}


@pytest.mark.parametrize("page", documentation.PAGES, ids=lambda page: page.name)
def test_commands_are_run_or_say_why_not(page: Path) -> None:
    text = page.read_text()
    assert documentation.marks(text) == documentation.marked(text), "a mark that no block follows"
    for block in documentation.blocks(text):
        known = block.code is not None or block.reason or page.name in YET_UNMARKED
        assert known, f"{page.name}:{block.line}: neither <!-- run --> nor <!-- not run: why -->"
        parsed = subprocess.run(["bash", "-n"], input=block.commands, text=True, capture_output=True, check=False)
        assert parsed.returncode == 0, f"{page.name}:{block.line}: {parsed.stderr}"


def test_the_main_pages_have_commands_that_are_tried() -> None:
    tried = {
        page.name
        for page in documentation.PAGES
        if any(block.code is not None for block in documentation.blocks(page.read_text()))
    }
    assert {"README.md", "serve.md", "checks.md", "your-project.md", "tutorial.md", "bring-your-own.md"} <= tried


def test_what_a_page_shows_is_held_against_what_was_printed() -> None:
    page = (
        "<!-- run: ends with 2 -->\n```sh\nmake lint\n```\n\n<!-- printed -->\n```\n$ make lint\n✗ at 3: …wrong\n```\n"
    )
    (block,) = documentation.blocks(page)
    assert (block.code, block.printed) == (2, ("✗ at 3: …wrong",))
    assert block.missing("one\n✗  at 17: all of it wrong\n") == []
    assert block.missing("✗ at 3: right") == ["✗ at 3: …wrong"]


def test_the_tutorial_shows_the_agent_that_it_copies() -> None:
    shown = re.findall(r"^```python\n(.*?)^```", (CLONE / "docs/tutorial.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    source = (CLONE / "examples/tutorial/my_agent.py").read_text()
    lines = [line.strip() for line in shown.splitlines() if line.strip() and "async def run" not in line]
    assert [line for line in lines if line not in source] == []


def test_every_page_is_linked_from_the_readme() -> None:
    text = (CLONE / "README.md").read_text()
    linked = set(re.findall(r"\]\((docs/[\w.-]+\.md)\)", text))
    there = {f"docs/{path.name}" for path in (CLONE / "docs").glob("*.md")}
    assert there - linked == {"docs/benchmarks.md"}


# Pages and verbs that are new in English at this moment.
YET_UNTRANSLATED = {"docs/machines.md", "worker", "ports"}


def test_the_chinese_readme_has_the_same_commands_and_links() -> None:
    english, chinese = ((CLONE / name).read_text() for name in ("README.md", "README.zh-CN.md"))
    assert [(block.commands, block.code) for block in documentation.blocks(chinese)] == [
        (block.commands, block.code) for block in documentation.blocks(english)
    ]
    named = [
        {cell for row in table_rows(text) for cell in re.findall(r"`make ([a-z-]+)`", row[0])}
        | set(re.findall(r"\]\((docs/[\w./-]+|[A-Z]\w+\.md|LICENSE)\)", text))
        for text in (english, chinese)
    ]
    here = YET_UNTRANSLATED | {"README.md"}
    assert named[0] - here == named[1] - here
    # What a terminal showed is the same in both.
    fences = [re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for text in (english, chinese)]
    shown = [[text for language, text in found if not language] for found in fences]
    assert shown[0] == shown[1]


def test_threads_are_cited_as_what_they_are() -> None:
    text = (CLONE / "docs/faq.md").read_text()
    links = re.findall(
        r"\[([\w.-]+/[\w.-]+)#(\d+)\]\(https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)\)", text
    )
    assert len(links) == text.count("](https://") > 20
    assert all((repository, number) == (there, same) for repository, number, there, same in links)


def test_every_verb_of_make_is_in_the_readme() -> None:
    text = section((CLONE / "README.md").read_text(), "The verbs")
    named = {verb for row in table_rows(text) for verb in re.findall(r"`make ([a-z-]+)`", row[0])}
    helped = set(re.findall(r"^([a-z][a-z-]*):.*## ", (CLONE / "Makefile").read_text(), re.MULTILINE))
    # An editor calls the first; the others are in pages of their own.
    assert helped - named - {"dev-container", "gpu-selftest", "bench-hang", "chaos", "fuzz", "help"} <= YET_UNTRANSLATED
    assert named <= targets()


def test_every_attack_of_the_safety_page_is_tried_by_a_test() -> None:
    """A row names what holds and who tries it; a test that is gone would leave a promise."""
    page = (CLONE / "docs" / "safety.md").read_text()
    names = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert len(names) > 40
    for path, name in names:
        [file] = [one for one in (CLONE / "tests").rglob("*.py") if one.as_posix().endswith(f"/{path}")]
        found = re.search(rf"((?:^@.*\n(?:[ \])].*\n)*)*)^(async )?def {name}\(", file.read_text(), re.MULTILINE)
        assert found, f"{path}::{name}"
        [row] = [line for line in page.splitlines() if f"{path}::{name}`" in line]
        assert ("pytest.mark.slow" in found[1]) == ("◦" in row), row
