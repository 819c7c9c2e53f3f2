"""Secrets out of command lines, before they are kept: results are made to be passed on.

Known values are taken out by ``runs.redact``; here are the places in which command lines carry unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "[redacted]"  # as in runs.redact

_NAME = re.compile(r"(?:^|[-_.])(?:api[-_]?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
# `--hub-token VALUE`, `--api-key=VALUE`, `HF_TOKEN=VALUE`. `--max-tokens 512` or `--key 3` carry none.
_FLAG = re.compile(
    r"(?P<name>(?<![\w-])--?[\w.-]*(?:api[-_]?key|access[-_]?key|token|secret|password|passwd)(?:=|\s+))"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"]+)",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    r"(?P<name>\b\w*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)=)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"]+)", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(?P<name>://[^/\s:@]*:)(?P<value>[^/\s@]+)(?=@)")

# Shorter values than this turn up in harmless places.
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name usually holds a secret."""
    return _NAME.search(name) is not None


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """The values that must not be written down, longest first so that none is cut by a shorter one."""
    found = {value for name, value in environ.items() if is_secret_name(name) and len(value) >= _SHORTEST}
    return sorted(found, key=len, reverse=True)


def redact_command(text: str) -> str:
    """A command line with what stands where secrets usually stand hidden."""
    for pattern in (_FLAG, _ASSIGNMENT, _URL_PASSWORD):
        text = pattern.sub(rf"\g<name>{HIDDEN}", text)
    return text
