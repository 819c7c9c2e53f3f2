"""The distribution's own archive is found among a machine's sources, in both formats of apt."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.images import apt_config
from harness.stack.images.apt_config import AptConfig, read_apt_config

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.lan/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.lan/security
Suites: trixie-security
Components: main

Enabled: no
Types: deb
URIs: http://off.lan/debian
Suites: trixie
Components: main
"""
ONE_LINE = """\
# deb http://commented.lan/debian trixie main
deb [arch=amd64 signed-by=/x.gpg] https://elsewhere.lan/apt stable main
deb-src http://mirror.lan/debian trixie main
deb cdrom:[Debian]/ trixie main
deb http://us:word@company.lan/remote-debian/ bookworm main contrib # ours
deb http://company.lan/remote-security bookworm-security main
"""


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt_config, "_apt_config_dump", lambda: "")


def machine(folder: Path, system: str, codename: str, **sources: str) -> Path:
    (folder / "apt/sources.list.d").mkdir(parents=True)
    (folder / "os-release").write_text(f'PRETTY_NAME="x"\nID={system}\nVERSION_CODENAME={codename}\n')
    for name, text in sources.items():
        (folder / "apt/sources.list.d" / name.replace("__", ".")).write_text(text)
    return folder


def test_another_release_of_debian_lends_its_mirrors(tmp_path: Path) -> None:
    found = read_apt_config(None, machine(tmp_path, "debian", "trixie", debian__sources=DEB822, other__list=ONE_LINE))
    assert (found.archive, found.security) == ("http://mirror.lan/debian", "http://mirror.lan/security")
    assert found.sources("bookworm").splitlines() == [
        "deb http://mirror.lan/debian bookworm main",
        "deb http://mirror.lan/debian bookworm-updates main",
        "deb http://mirror.lan/security bookworm-security main",
    ]
    assert found.sources_secret().splitlines()[0] == "# debian"


def test_a_mirror_with_a_path_of_its_own_is_found_by_its_suite(tmp_path: Path) -> None:
    found = read_apt_config(None, machine(tmp_path, "debian", "bookworm", all__list=ONE_LINE))
    assert found.archive == "http://us:word@company.lan/remote-debian"
    assert found.security == "http://company.lan/remote-security"


def test_a_mirror_set_by_hand_wins(tmp_path: Path) -> None:
    found = read_apt_config("http://mine.lan/debian/", machine(tmp_path, "ubuntu", "noble", x__list=ONE_LINE))
    assert found == AptConfig("debian", "http://mine.lan/debian", "http://mine.lan/debian-security", {})


def test_another_system_has_nothing_to_lend(tmp_path: Path) -> None:
    found = read_apt_config(None, machine(tmp_path, "fedora", "", x__list=ONE_LINE))
    assert found.sources_secret() == ""


def test_only_what_leads_to_servers_is_taken_from_apts_settings() -> None:
    dump = """\
APT::Architecture "amd64";
Acquire::http::Proxy "http://me:word@proxy.lan:3128";
Acquire::http::Proxy::mirror.lan "DIRECT";
Acquire::https::CAInfo "/etc/ca.pem";
Acquire::https::Proxy "";
"""
    settings = apt_config.parse_settings(dump)
    assert settings == {
        "Acquire::http::Proxy": "http://me:word@proxy.lan:3128",
        "Acquire::http::Proxy::mirror.lan": "DIRECT",
    }
    assert AptConfig("", None, None, settings).settings_secret(with_certificates=True).splitlines() == [
        'Acquire::http::Proxy "http://me:word@proxy.lan:3128";',
        'Acquire::http::Proxy::mirror.lan "DIRECT";',
        'Acquire::https::CAInfo "/run/secrets/ca_bundle";',
    ]
