"""Proxies that catch requests to ourselves, and files of certificates that aren't any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.doctor.topics.network_proxies import (
    Proxies,
    bypasses,
    decide_certificates,
    decide_proxies,
    gather_certificates,
    gather_proxies,
    without_password,
)

PROXY = "http://me:secret@proxy.example:3128"


def signs(environ: dict[str, str], config: str = "") -> list[str]:
    return [finding.sign for finding in decide_proxies(gather_proxies(environ, config))]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["ok"]),
        ({"HTTP_PROXY": PROXY}, ["bad"]),
        ({"http_proxy": PROXY}, ["bad"]),
        ({"ALL_PROXY": PROXY}, ["bad"]),
        ({"HTTPS_PROXY": PROXY}, ["ok"]),  # our own addresses are http
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "localhost,127.0.0.1"}, ["ok"]),
        ({"HTTP_PROXY": PROXY, "no_proxy": "*"}, ["ok"]),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "localhost,.example"}, ["bad"]),
        ({"HTTP_PROXY": PROXY, "http_proxy": "http://other", "NO_PROXY": "127.0.0.1"}, ["warn", "ok"]),
    ],
)
def test_requests_to_ourselves(environ: dict[str, str], expected: list[str]) -> None:
    assert signs(environ) == expected


def test_the_mend_keeps_what_no_proxy_has() -> None:
    finding = decide_proxies(gather_proxies({"HTTP_PROXY": PROXY, "NO_PROXY": ".corp"}, ""))[0]
    assert finding.mend == "export NO_PROXY=.corp,127.0.0.1,localhost"


def test_no_password_is_shown() -> None:
    config = json.dumps({"proxies": {"default": {"httpProxy": PROXY}}})
    for finding in decide_proxies(gather_proxies({"HTTP_PROXY": PROXY}, config)):
        assert "secret" not in str(finding)
    assert without_password(PROXY) == "http://proxy.example:3128"
    assert without_password("me:secret@proxy:1x") == "(an address that can't be read)"


def test_docker_s_own_configuration_puts_proxies_into_containers() -> None:
    config = {"proxies": {"default": {"httpProxy": PROXY, "noProxy": "127.0.0.1"}}}
    finding = decide_proxies(gather_proxies({}, json.dumps(config)))[0]
    assert finding.sign == "bad"
    assert "inference, ray-head" in finding.text
    config["proxies"]["default"]["noProxy"] = "127.0.0.1,inference,ray-head"
    assert signs({}, json.dumps(config)) == ["ok"]


@pytest.mark.parametrize("config", ["not json", "[]", '{"proxies": null}', '{"proxies": {"default": null}}'])
def test_a_strange_configuration_is_none(config: str) -> None:
    assert gather_proxies({}, config) == Proxies({})


def test_hosts_that_are_left_out() -> None:
    assert bypasses("127.0.0.1", "localhost, 127.0.0.1")
    assert not bypasses("127.0.0.1", "127.0.0.0/8")  # known to some libraries only


def test_certificate_files(tmp_path: Path) -> None:
    good, empty = tmp_path / "good.pem", tmp_path / "empty.pem"
    good.write_text("-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n")
    empty.touch()
    files = gather_certificates(
        {
            "SSL_CERT_FILE": str(good),
            "PIP_CERT": str(good),
            "REQUESTS_CA_BUNDLE": str(tmp_path / "none.pem"),
            "CURL_CA_BUNDLE": str(empty),
            "NODE_EXTRA_CA_CERTS": str(tmp_path),
        }
    )
    findings = decide_certificates(files)
    assert [f.sign for f in findings] == ["bad", "bad", "bad", "ok"]
    assert "no such file" in findings[0].text
    assert "SSL_CERT_FILE, PIP_CERT" in findings[3].text
