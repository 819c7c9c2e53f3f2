"""Checks run side by side: a hanging or failing one costs the others nothing."""

from __future__ import annotations

import threading
import time

import pytest

from harness.doctor import running
from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, ok
from harness.doctor.probing import Once
from harness.doctor.running import LEAST_SECONDS, Outcome, run, time_left
from harness.errors import PortTaken
from harness.settings import Settings


@pytest.fixture
def context() -> Context:
    return Context(Settings())


def outcomes(context: Context, *checks: Check, whole: float = 5.0) -> dict[str, Outcome]:
    return {outcome.check.id: outcome for outcome in run(checks, context, whole)}


def fine(_: Context) -> list[Finding]:
    return [ok("fine")]


def test_a_check_that_hangs_is_named_and_the_others_are_shown(context: Context) -> None:
    never = threading.Event()

    def hang(_: Context) -> list[Finding]:
        never.wait()
        return []

    try:
        found = outcomes(context, Check("docker.hangs", hang, limit=0.05), Check("disk.good", fine))
    finally:
        never.set()
    assert found["disk.good"].findings == (ok("fine"),)
    late = found["docker.hangs"]
    assert not late.finished
    assert late.findings[0].sign == "warn"
    assert "docker.hangs did not answer within" in late.findings[0].text


def test_the_limit_of_the_whole_run_counts_too(context: Context) -> None:
    never = threading.Event()

    def hang(_: Context) -> list[Finding]:
        never.wait()
        return []

    started = time.monotonic()
    try:
        found = outcomes(context, *(Check(f"docker.{n}", hang, limit=60) for n in range(5)), whole=0.1)
    finally:
        never.set()
    assert time.monotonic() - started < 5
    assert not any(outcome.finished for outcome in found.values())


def test_a_check_that_raises_is_our_mistake_and_named(context: Context) -> None:
    def broken(_: Context) -> list[Finding]:
        raise KeyError("ServerVersion")

    found = outcomes(context, Check("docker.broken", broken), Check("disk.good", fine))
    finding = found["docker.broken"].findings[0]
    assert finding.sign == "warn"
    assert "docker.broken failed itself: KeyError: 'ServerVersion'" in finding.text
    assert "test_running.py, line" in finding.text
    assert found["disk.good"].findings == (ok("fine"),)


def test_an_error_of_ours_keeps_its_three_sentences(context: Context) -> None:
    def taken(_: Context) -> list[Finding]:
        raise PortTaken("PORT=8080 is taken.", mend="make up PORT=8081")

    finding = outcomes(context, Check("ports.x", taken))["ports.x"].findings[0]
    assert finding == Finding("bad", "PORT=8080 is taken.", PortTaken.consequence, "make up PORT=8081")


def test_checks_run_at_the_same_time(context: Context) -> None:
    together = threading.Barrier(4, timeout=5)

    def meet(_: Context) -> list[Finding]:
        together.wait()
        return [ok("met")]

    found = outcomes(context, *(Check(f"machine.{n}", meet, limit=5) for n in range(4)))
    assert all(outcome.findings == (ok("met"),) for outcome in found.values())


def test_what_several_checks_need_is_gathered_once() -> None:
    calls = []
    once = Once(lambda: calls.append(1) or len(calls))  # type: ignore[func-returns-value]
    threads = [threading.Thread(target=once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert once() == 1
    assert calls == [1]


def test_a_slow_start_leaves_checks_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_age", lambda: 30.0)
    monkeypatch.setattr(running, "patience", lambda: 1.0)
    assert time_left() == LEAST_SECONDS
    monkeypatch.setattr(running, "_age", lambda: 0.6)
    assert time_left() == pytest.approx(3.6)


def test_a_busy_machine_makes_limits_longer(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: Context) -> list[Finding]:
        time.sleep(0.05)
        return [ok("at last")]

    monkeypatch.setattr(running, "patience", lambda: 3.0)
    monkeypatch.setattr(running, "_age", lambda: 0.2)
    assert time_left() == pytest.approx(14.0)
    monkeypatch.setattr(running, "patience", lambda: 5000.0)
    assert outcomes(context, Check("docker.slow", slow, limit=0.01), whole=60.0)["docker.slow"].finished


def test_a_topic_that_is_asked_for_by_name_may_take_longer() -> None:
    def slow(_: Context) -> list[Finding]:
        time.sleep(0.1)
        return [ok("read it all")]

    check = Check("model.checksums", slow, limit=0.001, limit_on_request=30.0)
    asked = Context(Settings(topic="Model"))
    assert outcomes(asked, check, whole=0.01)["model.checksums"].finished
