"""What the end of a build's log says about the cause, and the mend for it."""

from __future__ import annotations

import re

from harness.errors import (
    BadSetting,
    BuildFailed,
    DownloadMismatch,
    DrydockError,
    EngineNetworkGone,
    FrameworkRefused,
    NoSpace,
    PackagesUnreachable,
    RequirementsConflict,
)

SHOWN_LINES = 20
# A step's own name says nothing about what went wrong in it.
_STEP = re.compile(r"^(ERROR: )?\[(internal|[^]]*\d+/\d+)\]")
# A script inside a build says by this that it will not go on, and why; docker/node/environment.py writes it.
REFUSED = re.compile(r"DRYDOCK-REFUSED: (.*)")
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_MISMATCH = re.compile(r"DO NOT MATCH THE HASHES|Hash Sum mismatch|hashes are required", re.IGNORECASE)
_CERTIFICATE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|certificate verification failed", re.IGNORECASE
)
_NO_BRIDGE = re.compile(r"could not find bridge (\S+): ")
_NETWORK = re.compile(
    r"Temporary failure (?:in name resolution|resolving)|Could not resolve|Name or service not known|Connection refused"
    r"|Network is unreachable|Connection timed out|Read timed out|ConnectTimeout|NewConnectionError|No route to host"
    r"|Unable to connect to|Failed to fetch|ProxyError",
    re.IGNORECASE,
)
# pip shows the line, points at the place in it, and says where it stands.
_MALFORMED = re.compile(
    r"Invalid requirement: (?P<what>[^\n]+?)(?:\n[^\n]*?){0,3} ?\(from line (?P<line>\d+) of (?P<file>[^)\n]+)\)"
)
_CONFLICT = re.compile(r"conflicting dependencies|ResolutionImpossible|Cannot install ")
_NO_VERSION = re.compile(
    r"(?:Could not find a version that satisfies the requirement|No matching distribution found for) (.+)"
)


def explain(kind: str, lines: list[str], log: str) -> DrydockError:
    """The error for a build that failed.

    Args:
        kind: which image.
        lines: everything the build printed.
        log: the file that holds the same, for the mend.
    """
    text = "\n".join(lines[-400:])
    what = "Your project could not be installed" if kind == "user" else f"The image `{kind}` could not be built"
    shown = "\n".join([line for line in lines if line.strip() and not _STEP.match(line)][-SHOWN_LINES:])
    if refused := REFUSED.search(text):
        return FrameworkRefused(refused[1])
    if _NO_SPACE.search(text):
        return NoSpace(f"The disk became full while the image `{kind}` was built.")
    if kind == "user" and (malformed := _MALFORMED.search(text)):
        return _malformed(malformed)
    if _CONFLICT.search(text) and kind in ("user", "node"):
        return _conflict(text)
    if _MISMATCH.search(text):
        return DownloadMismatch(f"A package for the image `{kind}` is not the file that the lock names.", logs=shown)
    if _CERTIFICATE.search(text):
        return PackagesUnreachable(
            f"{what}: a server's certificate isn't trusted.",
            mend="SSL_CERT_FILE=/path/to/ca.pem make up   # the bundle that has your network's own authority",
            logs=shown,
        )
    if bridge := _NO_BRIDGE.search(text):
        return EngineNetworkGone(f"{what}: the network {bridge[1]} of Docker Engine has gone.", logs=shown)
    if _NETWORK.search(text):
        return PackagesUnreachable(
            f"{what}: a server with packages doesn't answer.",
            mend="make doctor TOPIC=network   # which one; then set DEBIAN_MIRROR=, pip's index-url or a proxy",
            logs=shown,
        )
    if missing := _NO_VERSION.search(text):
        return BuildFailed(
            f"{what}: no package index has {missing[1].partition('(from')[0].strip()}.",
            mend=f"less {log}   # the whole log",
            logs=shown,
        )
    return BuildFailed(f"{what}.", mend=f"less {log}   # the whole log", logs=shown)


def _malformed(match: re.Match[str]) -> BadSetting:
    """A line that is no requirement, with its number."""
    file = match["file"].removeprefix("/requirements/")
    return BadSetting(
        f"Line {match['line']} of {file} is no requirement: {match['what']}.",
        consequence="Nothing was installed, and what runs was left as it is.",
        mend=f"write it as NAME==VERSION in line {match['line']} of {file}, then the same command again",
    )


def _conflict(text: str) -> RequirementsConflict:
    """Both sides of what pip could not reconcile."""
    cause = re.search(r"The conflict is caused by:\n((?:[ \t]+.*\n)+)", text + "\n")
    sides = [line.strip() for line in (cause[1] if cause else "").splitlines() if line.strip()]
    if not sides:
        sides = [match[0] for match in re.finditer(r"Cannot install .*", text)][:1]
    ours = [side for side in sides if "(constraint)" in side]
    theirs = [side for side in sides if side not in ours]
    what = "; ".join([*theirs, *ours]).replace("The user requested (constraint)", "this image keeps to")
    return RequirementsConflict(
        f"Your project's requirements can't be met: {what.replace('The user requested', 'it asks for')}."
    )
