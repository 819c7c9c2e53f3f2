"""Takes secrets out of what is written: those that are known, and whatever looks like one.

A report is made to be put into a public issue. Known values are the safe part; the shapes catch what an agent prints
of its own, a key of a provider that Drydock has never heard of among it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

STAND_IN = "[redacted]"

# Shorter values are words ("None", "EMPTY") that servers without a key take for one.
SHORTEST = 8

_Shape = tuple[tuple[str, ...], "re.Pattern[str]"]
# Each with what a text must hold, in small letters, for the shape to be looked for at all: nearly no text does, and
# looking for a few letters costs a hundredth of looking for a shape.
_SHAPES: list[_Shape] = [
    (needed, re.compile(shape))
    for needed, shape in (
        (("k-",), r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter and their like
        (("hf_",), r"\bhf_[A-Za-z0-9]{16,}"),
        (("gh",), r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}"),
        (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        (("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),
        (("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        (("aiza",), r"\bAIza[A-Za-z0-9_-]{30,}"),
        (("nvapi-",), r"\bnvapi-[A-Za-z0-9_-]{20,}"),
        (("gsk_",), r"\bgsk_[A-Za-z0-9]{20,}"),
        (("xox",), r"\bxox[abpros]-[A-Za-z0-9-]{10,}"),
        (("eyj",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),  # JSON web tokens
        (("-----begin",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    )
]
# What stays in front of the secret, so that a reader sees what was there.
_AFTER: list[_Shape] = [
    (needed, re.compile(shape))
    for needed, shape in (
        (("bearer", "basic"), r"(?i)\b(bearer\s+|basic\s+)([A-Za-z0-9._~+/=-]{8,})"),
        (("://",), r"(?i)(\b[a-z][a-z0-9+.-]*://)([^/\s:@\"']+:[^/\s@\"']+)(?=@)"),
        (
            ("key", "secret", "passw", "token"),
            r"(?i)([\"']?\b[a-z0-9_-]*(?:api[_-]?key|secret|password|passwd|access[_-]?token|auth[_-]?token)[\"']?\s*[:=]\s*[\"']?)"
            # A call or a look-up is where a secret comes from, and none itself; its quotes may be escaped for a page.
            r"(?![a-z_][\w.]*[(\[](?:[\"']|&#3[49];|&quot;|[\w.]*[)\],]))([^\s\"',;}{)]{8,})",
        ),
    )
]
# What matches s and i where case doesn't count, beyond what lower() knows.
_FOLDED = str.maketrans({"\u017f": "s", "\u0131": "i", "\u0307": ""})
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:api[_-]?key|secret|password|passwd|authorization|(?:access|auth|hf|ray)[_-]?token)$|^token$"
)


class Redactor:
    """Knows some secrets, and how others look.

    Args:
        secrets: values that must appear nowhere; empty and very short ones are passed over.
    """

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        self._known: list[str] = []
        self.add(*secrets)

    def add(self, *secrets: str | None) -> None:
        """Learn more secrets."""
        for secret in secrets:
            value = (secret or "").strip()
            if len(value) >= SHORTEST:
                # As it is, as JSON writes it, and as a URL carries it.
                self._known += {value, json.dumps(value)[1:-1], quote(value, safe="")} - set(self._known)
        # The longest first: one secret may be the beginning of another.
        self._known.sort(key=len, reverse=True)

    def text(self, text: str) -> str:
        """A text without secrets."""
        for secret in self._known:
            text = text.replace(secret, STAND_IN)
        small = _small(text)
        for needed, shape in _SHAPES:
            if any(word in small for word in needed):
                text = shape.sub(STAND_IN, text)
        for needed, shape in _AFTER:
            if any(word in small for word in needed):
                text = shape.sub(lambda match: match.group(1) + STAND_IN, text)
        return text

    def data(self, value: Any) -> Any:
        """The same for JSON-like data: in keys, in values, and by a key's name."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(str(key)): STAND_IN
                if isinstance(item, str) and len(item) >= SHORTEST and _SECRET_NAME.search(str(key))
                else self.data(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        return value


def _small(text: str) -> str:
    small = text.lower()
    return small if small.isascii() else small.translate(_FOLDED)
