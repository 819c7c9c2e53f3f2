"""Proxies and certificates: settings of other programs that send our own requests astray."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, ok, warn
from harness.doctor.probing import read

SERVICES = ("inference", "ray-head")
# Which programs read which variable: Python's ssl and httpx, requests and pip, curl, pip alone, Node.
CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True)
class Proxies:
    """Every proxy that has a say here.

    Attributes:
        environment: ``http``, ``https``, ``all``, ``no`` to the value that Python takes, as the environment has it.
        both_cases: names that are set in small and in capital letters to different values.
        injected: proxies that the Docker client puts into every container's environment (``~/.docker/config.json``).
    """

    environment: dict[str, str]
    both_cases: tuple[str, ...] = ()
    injected: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CertificateFile:
    """A file of certificates that a variable names.

    Attributes:
        state: what is wrong with it, "" for nothing.
    """

    variable: str
    path: str
    state: str


def gather_proxies(environ: Mapping[str, str], docker_config: str) -> Proxies:
    """Read the environment and the Docker client's configuration."""
    names = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    values = {name.removesuffix("_proxy"): environ.get(name) or environ.get(name.upper()) or "" for name in names}
    different = tuple(
        name.upper()
        for name in names
        if environ.get(name) and environ.get(name.upper()) and environ[name] != environ[name.upper()]
    )
    try:
        injected = (json.loads(docker_config or "{}").get("proxies") or {}).get("default") or {}
    except (ValueError, AttributeError, RecursionError):
        injected = {}
    # Docker's own client takes nothing but text there.
    named = injected.items() if isinstance(injected, dict) else ()
    injected = {name: value for name, value in named if isinstance(value, str)}
    return Proxies({name: value for name, value in values.items() if value}, different, injected)


def gather_certificates(environ: Mapping[str, str]) -> list[CertificateFile]:
    """Look at the files of certificates that variables name."""
    return [CertificateFile(name, environ[name], _state(Path(environ[name]))) for name in CA_FILES if environ.get(name)]


def decide_proxies(proxies: Proxies) -> list[Finding]:
    """Whether requests to ourselves would go through a proxy, on this machine or in the containers."""
    findings = []
    for name in proxies.both_cases:
        findings.append(
            warn(
                f"{name} and {name.lower()} are both set and differ.",
                "Some programs read the one, some the other.",
                f"unset {name.lower()}",
            )
        )
    through = proxies.environment.get("http") or proxies.environment.get("all")
    if through and not bypasses("127.0.0.1", proxies.environment.get("no", "")):
        findings.append(
            bad(
                f"Requests to http://127.0.0.1 go through the proxy {without_password(through)}: "
                "NO_PROXY doesn't name 127.0.0.1.",
                "Your agents and SDKs would ask the proxy for the inference server, and get its error page.",
                f"export NO_PROXY={with_names(proxies.environment.get('no', ''), ('127.0.0.1', 'localhost'))}",
            )
        )
    elif through or proxies.environment.get("https"):
        shown = without_password(through or proxies.environment["https"])
        findings.append(ok(f"proxy {shown}; requests to 127.0.0.1 don't go through it"))
    inside = proxies.injected.get("httpProxy")
    missing = [name for name in ("127.0.0.1", *SERVICES) if not bypasses(name, proxies.injected.get("noProxy", ""))]
    if inside and missing:
        names = with_names(proxies.injected.get("noProxy", ""), ("127.0.0.1", "localhost", *SERVICES))
        findings.append(
            bad(
                f"~/.docker/config.json gives every container the proxy {without_password(inside)}, "
                f"also for {', '.join(missing)}.",
                "In the stack's containers agents would ask the proxy for the inference server, and Ray for its head.",
                f'in ~/.docker/config.json, at proxies → default: "noProxy": "{names}"',
            )
        )
    return findings or [ok("no proxy is set")]


def decide_certificates(files: list[CertificateFile]) -> list[Finding]:
    """A variable that names no usable file breaks every HTTPS request of the programs that read it."""
    findings = [
        bad(
            f"{file.variable}={file.path}: {file.state}.",
            "Every HTTPS request of the programs that read it fails, or trusts nobody.",
            f"unset {file.variable}   # or let it name a file of certificates (PEM)",
        )
        for file in files
        if file.state
    ]
    good: dict[str, list[str]] = {}
    for file in files:
        if not file.state:
            good.setdefault(file.path, []).append(file.variable)
    return findings + [ok(f"certificates from {path} ({', '.join(names)})") for path, names in good.items()]


def bypasses(host: str, no_proxy: str) -> bool:
    """Whether a host is left out of the proxy, by the rule of Python's standard library.

    Other libraries know address ranges too, but what is to work with all of them has to be named.
    """
    return bool(urllib.request.proxy_bypass_environment(host, {"no": no_proxy}))  # type: ignore[attr-defined]


def with_names(no_proxy: str, names: tuple[str, ...]) -> str:
    """A NO_PROXY that names these hosts besides what it has."""
    have = [word.strip() for word in no_proxy.split(",") if word.strip()]
    return ",".join([*have, *(name for name in names if name not in have)])


def without_password(url: str) -> str:
    """A proxy's address as it may be shown."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return "(an address that can't be read)"
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}" if host else "(an address that can't be read)"


def _state(path: Path) -> str:
    if path.is_dir():
        return "this is a folder"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return f"it can't be read ({error.strerror})"
    return "" if "-----BEGIN" in text else "there is no certificate in it"


def _proxies(context: Context) -> list[Finding]:  # noqa: ARG001  # every check is called alike
    folder = Path(os.environ.get("DOCKER_CONFIG") or "~/.docker").expanduser()
    return decide_proxies(gather_proxies(os.environ, read(folder / "config.json")))


def _certificates(context: Context) -> list[Finding]:  # noqa: ARG001  # every check is called alike
    return decide_certificates(gather_certificates(os.environ))


CHECKS = (Check("network.proxies", _proxies), Check("network.certificates", _certificates))
