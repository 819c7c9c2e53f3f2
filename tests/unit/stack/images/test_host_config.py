"""This machine's configuration becomes secrets and proxies of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import EnvironmentUnfit
from harness.settings import load_settings
from harness.stack.images import apt_config, pip_config
from harness.stack.images.apt_config import AptConfig
from harness.stack.images.host_config import read_certificates, read_host_config
from harness.stack.images.pip_config import PipConfig

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"


@pytest.fixture
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_config, "read_pip_config", lambda: PipConfig({}))
    monkeypatch.setattr(pip_config, "netrc_for", lambda hosts: "")
    monkeypatch.setattr(apt_config, "read_apt_config", lambda mirror: AptConfig("", None, None, {}))


@pytest.mark.usefixtures("plain_machine")
def test_a_plain_machine_has_nothing_to_tell() -> None:
    found = read_host_config(load_settings(environ={}), {})
    assert (found.secrets, found.proxies, found.needs_host_network) == ({}, {}, False)


@pytest.mark.usefixtures("plain_machine")
def test_a_proxy_on_this_machines_loopback_needs_its_network_and_is_named_without_its_password() -> None:
    environ = {"HTTPS_PROXY": "http://me:word@127.0.0.1:3128", "no_proxy": "localhost"}
    found = read_host_config(load_settings(environ={}), environ)
    assert found.proxies == environ
    assert found.local_servers == ("127.0.0.1:3128",)


@pytest.mark.usefixtures("plain_machine")
def test_a_proxy_elsewhere_does_not() -> None:
    assert not read_host_config(
        load_settings(environ={}), {"http_proxy": "proxy.lan:3128", "no_proxy": "127.0.0.1"}
    ).needs_host_network


@pytest.mark.usefixtures("plain_machine")
def test_a_proxy_told_to_pip_alone_is_told_to_all_of_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_config, "read_pip_config", lambda: PipConfig({"proxy": ["http://proxy.lan:1"]}))
    found = read_host_config(load_settings(environ={}), {})
    assert found.proxies == {"http_proxy": "http://proxy.lan:1", "https_proxy": "http://proxy.lan:1"}


def test_certificates_come_without_their_comments(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(f"# the company's\n{CERTIFICATE.format('AAAA')}\nnot a certificate\n{CERTIFICATE.format('BBBB')}")
    text = read_certificates(PipConfig({}), {"SSL_CERT_FILE": str(bundle), "REQUESTS_CA_BUNDLE": "/absent"})
    assert text == f"{CERTIFICATE.format('AAAA')}\n{CERTIFICATE.format('BBBB')}\n"


def test_more_certificates_than_a_secret_holds_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(CERTIFICATE.format("A" * 600_000))
    with pytest.raises(EnvironmentUnfit, match=r"ca\.pem are 600 KB"):
        read_certificates(PipConfig({"cert": [str(bundle)]}), {})
