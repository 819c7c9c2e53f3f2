"""This machine's apt sources and apt proxy, in a form that a build of another release can use."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CODENAME = "@CODENAME@"
# What of `apt-config dump` concerns reaching a server.
_REACH = re.compile(r'^(Acquire::(?:http|https|ftp)::(?:Proxy|Verify-Peer|User-Agent)[^ ]*) "([^"]*)";$', re.IGNORECASE)
_SECTIONS = {"debian": "main", "ubuntu": "main universe"}


@dataclass(frozen=True)
class AptConfig:
    """Where a build gets its Debian or Ubuntu packages.

    Attributes:
        system: ``debian`` or ``ubuntu``, "" where nothing is known.
        archive: URI of the archive, None for what the image itself has.
        security: URI of the archive of security updates, None where there is none.
        settings: apt's settings for proxies.
    """

    system: str
    archive: str | None
    security: str | None
    settings: dict[str, str]

    def sources(self, codename: str = CODENAME) -> str:
        """A sources.list, "" where the image's own are to be used."""
        if self.archive is None:
            return ""
        sections = _SECTIONS[self.system]
        lines = [f"deb {self.archive} {codename} {sections}", f"deb {self.archive} {codename}-updates {sections}"]
        if self.security:
            lines.append(f"deb {self.security} {codename}-security {sections}")
        return "\n".join(lines) + "\n"

    def sources_secret(self) -> str:
        """The same with the system's name in the first line, for docker/build/apt-install."""
        return f"# {self.system}\n{self.sources()}" if self.archive else ""

    def settings_secret(self, *, with_certificates: bool) -> str:
        """An apt.conf for a build, "" where there is nothing to tell."""
        settings = dict(self.settings)
        if with_certificates:
            settings["Acquire::https::CAInfo"] = "/run/secrets/ca_bundle"
        return "".join(f'{name} "{value}";\n' for name, value in sorted(settings.items()))


def read_apt_config(debian_mirror: str | None, etc: Path = Path("/etc")) -> AptConfig:
    """Look at this machine; a Debian mirror that was set by hand wins over its own sources."""
    settings = parse_settings(_apt_config_dump())
    if debian_mirror:
        mirror = debian_mirror.rstrip("/")
        return AptConfig("debian", mirror, f"{mirror}-security", settings)
    os_release = read_os_release(etc / "os-release")
    system = os_release.get("ID", "")
    if system not in _SECTIONS:
        return AptConfig("", None, None, settings)
    archive, security = choose(source_uris(etc / "apt"), system, os_release.get("VERSION_CODENAME", ""))
    return AptConfig(system, archive, security, settings)


def choose(uris: list[tuple[str, str]], system: str, codename: str) -> tuple[str | None, str | None]:
    """The distribution's own archive and its security archive among all sources, which may be other projects' too."""
    plain = [uri for uri, suite in uris if suite == codename or ("-" not in suite and _named_for(uri, system))]
    # An archive whose path ends in the system's name is surely it; a company's mirror may have any path.
    archive = next((uri for uri in plain if _named_for(uri, system)), plain[0] if plain else None)
    security = next((uri for uri, suite in uris if suite in (f"{codename}-security", "stable-security")), None)
    return archive, security


def _named_for(uri: str, system: str) -> bool:
    return uri.endswith((f"/{system}", f"/{system}-ports"))


def source_uris(apt: Path) -> list[tuple[str, str]]:
    """(URI, suite) of every source of section main, in apt's order; both of apt's formats are read."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    found: list[tuple[str, str]] = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if path.suffix == ".sources":
            found += _deb822(text)
        elif path.suffix == ".list":
            found += _one_line(text)
    return found


def parse_settings(dump: str) -> dict[str, str]:
    """Proxy settings out of ``apt-config dump``."""
    return {match[1]: match[2] for line in dump.splitlines() if (match := _REACH.match(line.strip())) and match[2]}


def _one_line(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        match = re.match(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)$", line.strip())
        if match and "main" in match[3].split("#")[0].split() and _usable(match[1]):
            found.append((match[1].rstrip("/"), match[2]))
    return found


def _deb822(text: str) -> list[tuple[str, str]]:
    found = []
    fields: dict[str, list[str]]
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        fields = {
            name.strip().lower(): value.split()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        off = fields.get("enabled", ["yes"]) == ["no"]
        if off or "deb" not in fields.get("types", []) or "main" not in fields.get("components", []):
            continue
        found += [(uri.rstrip("/"), suite) for uri in fields.get("uris", []) for suite in fields.get("suites", [])]
    return [(uri, suite) for uri, suite in found if _usable(uri)]


def _usable(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def read_os_release(path: Path) -> dict[str, str]:
    """The fields of an ``os-release`` file, empty where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip("\"'") for name, equals, value in (line.partition("=") for line in lines) if equals}


def _apt_config_dump() -> str:
    try:
        return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
