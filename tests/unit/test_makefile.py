"""The Makefile hands every value to the harness as it was typed, and executes nothing that is in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.settings import environment_names

CLONE = Path(__file__).parents[2]
NAMES = sorted(environment_names().values())
# Prints its arguments and its environment, one NUL-terminated string each.
FAKE_HARNESS = '#!/bin/sh\nprintf "argument=%s\\0" "$@"\nexec env -0\n'

NASTY = [
    "plain",
    "echo $5 {x} $(shell touch pwned) \"q\" 's'",
    "$$ $ $x ${HOME} $(HOME) $(info hello) $@",
    "`touch pwned` $(touch pwned); touch pwned & touch pwned | cat > pwned",
    "a # b \\# c",
    "100 % of %s \\n \\t \\ \\\\",
    "ünïcödé 漢字 🚢",
    "trailing blanks   ",
    "tab\there",
    "two\nlines $(shell touch pwned)",
    "endef\n$(shell touch pwned)\ndefine",
    "a=b := c ?= d += e != touch pwned",
    "~ * ? [a-z] !",
    "ends with a backslash\\",
    "",
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone, in a folder with a space in its name, whose harness tells what it was given."""
    folder = tmp_path / "my clone"
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / "scripts").mkdir()
    shutil.copy(CLONE / "Makefile", folder)
    for path, text in {
        ".venv/bin/harness": FAKE_HARNESS,
        "scripts/bootstrap.sh": "#!/bin/sh\n",
        "scripts/ensure-docker.sh": "#!/bin/sh\n",
    }.items():
        (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    return folder


def call_make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a fresh shell: without what a make around the tests or a user's own settings would add."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in NAMES and not name.startswith("MAKE") and name not in ("MFLAGS", "DRYDOCK_MAKE_VARS")
    }
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=inherited | environment, text=True, capture_output=True, check=False
    )


def received(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What the harness found in its environment."""
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


@pytest.mark.parametrize("value", NASTY)
def test_a_value_typed_after_make_arrives_literally(clone: Path, value: str) -> None:
    environment = received(call_make(clone, "run", f"CMD={value}"))
    assert environment["CMD"] == value
    assert environment["DRYDOCK_MAKE_VARS"] == "CMD"
    assert not list(clone.rglob("pwned"))


@pytest.mark.parametrize("value", [*NASTY, "  leading blanks"])
def test_a_value_from_the_environment_arrives_literally(clone: Path, value: str) -> None:
    environment = received(call_make(clone, "run", CMD=value))
    assert environment["CMD"] == value
    assert environment["DRYDOCK_MAKE_VARS"] == ""
    assert not list(clone.rglob("pwned"))


def test_what_is_typed_wins_over_the_environment_and_is_named(clone: Path) -> None:
    environment = received(call_make(clone, "up", "MODEL=typed", "ENGINE=vllm", MODEL="exported", PORT="1"))
    assert (environment["MODEL"], environment["ENGINE"], environment["PORT"]) == ("typed", "vllm", "1")
    assert sorted(environment["DRYDOCK_MAKE_VARS"].split()) == ["ENGINE", "MODEL"]


def test_no_value_is_on_the_command_line_or_in_makes_own_variables(clone: Path) -> None:
    environment = received(call_make(clone, "up", "HF_TOKEN=secret-canary"))
    assert environment["argument"] == "up"
    assert [name for name, value in environment.items() if "secret-canary" in value] == ["HF_TOKEN"]


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_passes(clone: Path, name: str) -> None:
    assert received(call_make(clone, "settings", f"{name}=$x"))[name] == "$x"


def test_the_makefile_knows_the_settings_and_no_others(clone: Path) -> None:
    (clone / "probe.mk").write_text("$(info $(SETTINGS))")
    done = call_make(clone, "-f", "Makefile", "-f", "probe.mk", "help")
    assert sorted(done.stdout.splitlines()[0].split()) == NAMES


@pytest.mark.parametrize("name", ["STEPS", "SECONDS"])
def test_what_only_tests_read_passes_too(clone: Path, name: str) -> None:
    assert received(call_make(clone, "settings", f"{name}=$x"))[name] == "$x"


def test_a_mistyped_name_stops_make_before_anything_runs(clone: Path) -> None:
    done = call_make(clone, "up", "MODLE=x")
    assert done.returncode == 2
    assert "MODLE: no setting of Drydock" in done.stderr
    assert done.stdout == ""


def test_make_alone_lists_the_verbs_one_line_each(clone: Path) -> None:
    lines = call_make(clone).stdout.splitlines()
    verbs = [line.split()[1] for line in lines]
    wanted = "up down status logs shell run check restart-ray doctor settings clean test test-full bench"
    assert " ".join(verb for verb in verbs if verb in wanted.split()) == wanted
    assert all(len(line.split()) > 3 for line in lines)


def test_verbs_run_in_the_order_typed_even_with_many_jobs(clone: Path) -> None:
    done = call_make(clone, "-j8", "up", "check", "status", "down")
    arguments = [entry.removeprefix("argument=") for entry in done.stdout.split("\0") if entry.startswith("argument=")]
    assert arguments == ["up", "check", "status", "down"]


def test_a_verb_that_fails_keeps_the_next_from_running(clone: Path) -> None:
    (clone / ".venv/bin/harness").write_text("#!/bin/sh\necho $1\nexit 3\n")
    done = call_make(clone, "up", "check")
    assert done.returncode == 2
    assert done.stdout == "up\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("check AGNET=x", "AGENT="),
        ("hang-dump CONTAINER=x", "CONTAINERS="),
        ("hang-dump match=x", "MATCH="),
        ("watch", "make hang-watch"),
        ("chekc", "make check"),
    ],
)
def test_what_is_mistyped_is_refused_with_what_may_have_been_meant(clone: Path, typed: str, meant: str) -> None:
    shutil.copy(CLONE / "scripts/did_you_mean.py", clone / "scripts")
    done = call_make(clone, *typed.split())
    assert done.returncode == 2
    assert f"Did you mean {meant}" in done.stderr.replace("`", "")
    assert done.stdout == ""


@pytest.mark.parametrize("typed", ["a'b;touch pwned", "$(shell touch pwned)", "`touch pwned`", "X';touch pwned;'=1"])
def test_a_name_that_is_mistyped_is_not_executed(clone: Path, typed: str) -> None:
    shutil.copy(CLONE / "scripts/did_you_mean.py", clone / "scripts")
    assert call_make(clone, typed).returncode == 2
    assert not list(clone.rglob("pwned"))
