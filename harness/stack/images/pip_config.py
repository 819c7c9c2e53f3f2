"""This machine's pip configuration, and what of it a build can use.

A build reaches indexes over http(s); a folder of this machine it can't. So local indexes are dropped, and find-links
folders are searched here for the wheels that a lock names by hash.
"""

from __future__ import annotations

import ast
import hashlib
import netrc
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

# Options that make sense inside a build; certificates travel by their own secret, folders not at all.
PASSED_ON = ("index-url", "extra-index-url", "trusted-host", "find-links", "timeout", "retries", "proxy", "no-index")
REMOTE_ONLY = {"index-url", "extra-index-url", "find-links"}
_LINE = re.compile(r"^(?P<section>[^.]+)\.(?P<option>[^=]+)=(?P<value>.*)$")


@dataclass(frozen=True)
class PipConfig:
    """What pip on this machine is told, as far as builds need to know.

    Attributes:
        options: option name to its words, of all of pip's configuration files and the environment together.
    """

    options: dict[str, list[str]]

    def first(self, option: str) -> str | None:
        """The first word of an option, None where it isn't set."""
        words = self.options.get(option)
        return words[0] if words else None

    def remote(self, option: str) -> list[str]:
        """The words of an option that a build could reach."""
        return [word for word in self.options.get(option, []) if _is_remote(word)]

    def folders(self) -> list[Path]:
        """The find-links folders of this machine."""
        return [_as_path(word) for word in self.options.get("find-links", []) if not _is_remote(word)]

    def constraints(self) -> list[Path]:
        """The constraint files of this machine; they hold for what a user's project brings, not for our locks."""
        return [_as_path(word) for word in self.options.get("constraint", []) if not _is_remote(word)]

    def hosts(self) -> set[str]:
        """The hosts of all remote indexes and pages."""
        words = [word for option in REMOTE_ONLY for word in self.remote(option)]
        return {host for word in words if (host := urlsplit(word).hostname)}


def read_pip_config() -> PipConfig:
    """Ask this interpreter's pip; an interpreter without pip has no configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return parse_pip_config(done.stdout if done.returncode == 0 else "")


def parse_pip_config(listing: str) -> PipConfig:
    """Read the output of ``pip config list``; ``install`` wins over ``global``, the environment over both."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in listing.splitlines():
        match = _LINE.match(line.strip())
        if not match:
            continue
        value = _unquoted(match["value"])
        option = match["option"].replace("_", "-").removeprefix("default-")
        sections.setdefault(match["section"], {})[option] = value.split()
    merged: dict[str, list[str]] = {}
    for section in ("global", "install", ":env:"):
        merged |= sections.get(section, {})
    return PipConfig(merged)


def for_build(config: PipConfig, *, with_certificates: bool) -> str:
    """A pip.conf for a build; "" where there is nothing to tell."""
    lines = []
    for option in PASSED_ON:
        words = config.remote(option) if option in REMOTE_ONLY else config.options.get(option, [])
        if words:
            lines.append(f"{option} = " + "\n    ".join(words))
    if with_certificates:
        lines.append("cert = /run/secrets/ca_bundle")
    return "[global]\n" + "\n".join(lines) + "\n" if lines else ""


def netrc_for(hosts: Iterable[str], path: Path | None = None) -> str:
    """The logins that a user's ``.netrc`` has for these hosts, and no others: builds run other people's code."""
    try:
        known = netrc.netrc(str(path or Path("~/.netrc").expanduser()))
    except (OSError, netrc.NetrcParseError):
        return ""
    lines = []
    for host in sorted(hosts):
        entry = known.hosts.get(host)
        if entry:
            login, _, password = entry
            lines.append(f"machine {host} login {login} password {password}")
    return "\n".join(lines) + "\n" if lines else ""


def locked_wheels(folders: list[Path], locks: list[Path]) -> list[Path]:
    """Wheels in these folders whose sha256 stands in one of these locks, in a fixed order.

    Only files of a name that a lock has are read: a folder may hold gigabytes that are of no interest.
    """
    texts = [path.read_text(encoding="utf-8") for path in locks]
    names = {_plain(match) for text in texts for match in re.findall(r"^([A-Za-z0-9][\w.-]*)", text, re.MULTILINE)}
    hashes = {match for text in texts for match in re.findall(r"--hash=sha256:([0-9a-f]{64})", text)}
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.whl")) if folder.is_dir() else []:
            if path.name not in found and _plain(path.name.split("-")[0]) in names and sha256_of(path) in hashes:
                found[path.name] = path
    return [found[name] for name in sorted(found)]


def sha256_of(path: Path) -> str:
    """The sha256 of a file, "" where it can't be read."""
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    except OSError:
        return ""
    return total.hexdigest()


def _plain(name: str) -> str:
    """A project's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_remote(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def _as_path(word: str) -> Path:
    return Path(url2pathname(urlsplit(word).path) if word.startswith("file:") else word).expanduser()


def _unquoted(value: str) -> str:
    """pip prints values as Python literals."""
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value
