"""What of this machine a build needs in order to reach its packages: as secrets, so that no image keeps any of it.

Indexes, mirrors, proxies and certificates often carry names and passwords of a company's network. They are given to
BuildKit as secrets (never part of a layer, a history or a cache key) and, for proxies, as the predefined build
arguments, which BuildKit keeps out of the history as well. Their values come from the environment, not from a command
line that every user of the machine can read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from harness.errors import EnvironmentUnfit
from harness.settings import Settings
from harness.stack.images import apt_config, pip_config
from harness.stack.images.apt_config import AptConfig
from harness.stack.images.pip_config import PipConfig

# BuildKit refuses secrets above 500 KB.
LARGEST_SECRET = 500_000
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")
_CERTIFICATE = re.compile(r"-----BEGIN [A-Z ]*CERTIFICATE-----.*?-----END [A-Z ]*CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class HostConfig:
    """Everything that builds are told of this machine.

    Attributes:
        secrets: id to content; empty ones are left out.
        proxies: names and values for the environment of the build's process.
        wheel_folders: folders to look for locked wheels in.
        needs_host_network: an index or a proxy is on this machine's own loopback, which containers don't see.
        local_servers: their addresses, for a person to read.
    """

    apt: AptConfig
    pip: PipConfig
    secrets: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, str] = field(default_factory=dict)
    wheel_folders: tuple[Path, ...] = ()
    local_servers: tuple[str, ...] = ()

    @property
    def needs_host_network(self) -> bool:
        return bool(self.local_servers)


def read_host_config(settings: Settings, environ: Mapping[str, str] | None = None) -> HostConfig:
    """Gather this machine's configuration of pip, apt, certificates and proxies.

    Raises:
        EnvironmentUnfit: the certificates are more than a build secret can hold.
    """
    environment = os.environ if environ is None else environ
    pip = pip_config.read_pip_config()
    apt = apt_config.read_apt_config(settings.debian_mirror)
    certificates = read_certificates(pip, environment)
    secrets = {
        "pip_conf": pip_config.for_build(pip, with_certificates=bool(certificates)),
        "pip_constraints": "".join(_read(path) for path in pip.constraints()),
        "netrc": pip_config.netrc_for(pip.hosts()),
        "apt_sources": apt.sources_secret(),
        "apt_conf": apt.settings_secret(with_certificates=bool(certificates)),
        "ca_bundle": certificates,
    }
    proxies = {name: value for base in PROXIES for name in (base, base.upper()) if (value := environment.get(name))}
    if proxy := pip.first("proxy"):
        # Told to pip alone, but not everything that fetches packages in a build is pip.
        proxies = {"http_proxy": proxy, "https_proxy": proxy, **proxies}
    return HostConfig(
        apt=apt,
        pip=pip,
        secrets={name: text for name, text in secrets.items() if text},
        proxies=proxies,
        wheel_folders=tuple(pip.folders()),
        local_servers=tuple(sorted(_local_servers(pip, apt, proxies))),
    )


def read_certificates(pip: PipConfig, environ: Mapping[str, str]) -> str:
    """The certificates that programs here are told to trust, "" where they are told nothing.

    Raises:
        EnvironmentUnfit: they are more than a build secret can hold.
    """
    named = [
        pip.first("cert"),
        *(environ.get(name) for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")),
    ]
    for name in named:
        path = Path(name).expanduser() if name else None
        if path is None or not path.is_file():
            continue
        # Comments are left out: they are much of the size, and nobody's business.
        text = "\n".join(_CERTIFICATE.findall(path.read_text(encoding="utf-8", errors="replace"))) + "\n"
        if len(text) > LARGEST_SECRET:
            raise EnvironmentUnfit(
                f"The certificates in {path} are {len(text) // 1000} KB; a build takes {LARGEST_SECRET // 1000} KB.",
                consequence="Images can't be built with them.",
                mend="SSL_CERT_FILE=FILE REQUESTS_CA_BUNDLE=FILE PIP_CERT=FILE make up   # only those needed",
            )
        return text if text.strip() else ""
    return ""


def _local_servers(pip: PipConfig, apt: AptConfig, proxies: dict[str, str]) -> set[str]:
    """Indexes, mirrors and proxies on this machine's own loopback; their passwords left out."""
    urls = [word for option in pip_config.REMOTE_ONLY for word in pip.remote(option)]
    urls += [uri for uri in (apt.archive, apt.security) if uri]
    urls += [*pip.options.get("proxy", []), *apt.settings.values()]
    urls += [value for name, value in proxies.items() if name.lower() != "no_proxy"]
    found = set()
    for url in urls:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            continue
        if host == "localhost" or host == "::1" or host.startswith("127."):
            found.add(f"{host}:{port}" if port else host)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip() + "\n"
    except OSError:
        return ""
