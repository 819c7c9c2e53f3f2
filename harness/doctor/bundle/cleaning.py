"""What is taken out of everything that goes into a report: secrets, local variables, the name of the home folder."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.runs.redact import SHORTEST, Redactor

# In dumps of stacks, wherever they stand.
_LOCALS = frozenset({"locals", "local_variables"})
# So does py-spy print them: deeper lines follow.
_LOCALS_HEAD = re.compile(r"^(\s*)(?:Arguments|Locals):\s*$")


class Cleaner:
    """Cleans texts and documents.

    Args:
        secrets: known values, which must be nowhere.
        home: this user's home folder, which is shown as ``~``; "" for none.
    """

    def __init__(self, secrets: Iterable[str], home: str = "") -> None:
        self._secrets = sorted({value for value in secrets if len(value) >= SHORTEST})
        self._redactor = Redactor(self._secrets)
        self._home = re.compile(re.escape(home.rstrip("/")) + r"(?=/|\b)") if len(home) > 1 else None

    def clean(self, name: str, content: str) -> str:
        """A file's text without what nobody else may read.

        Args:
            name: its name, which says how it is read.
        """
        if name.endswith(".json"):
            content = self._document(content)
        elif name.endswith(".jsonl"):
            content = "".join(f"{self._document(line, None)}\n" for line in content.splitlines())
        text = self._redactor.text(without_locals(content))
        return self._home.sub("~", text) if self._home else text

    def leaks(self, text: str) -> bool:
        """Whether a known secret is in a text still; then something here is wrong, and the text must not go out."""
        return any(secret in text for secret in self._secrets)

    def _document(self, text: str, indent: int | None = 1) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return json.dumps(self._redactor.data(without_local_keys(value)), indent=indent, ensure_ascii=False)


def without_local_keys(value: Any) -> Any:
    """A document without the values of local variables."""
    if isinstance(value, Mapping):
        return {key: without_local_keys(inner) for key, inner in value.items() if str(key) not in _LOCALS}
    if isinstance(value, list):
        return [without_local_keys(inner) for inner in value]
    return value


def without_locals(text: str) -> str:
    """A text without the blocks in which py-spy prints local variables."""
    if "Arguments:" not in text and "Locals:" not in text:
        return text
    kept: list[str] = []
    depth: int | None = None
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if depth is not None and (indent > depth or not line.strip()):
            continue
        head = _LOCALS_HEAD.match(line.rstrip("\n"))
        depth = len(head[1]) if head else None
        if head is None:
            kept.append(line)
    return "".join(kept)


def known_secrets(environ: Mapping[str, str], clones: Iterable[Path], given: Iterable[str | None]) -> list[str]:
    """Everything on this machine that is known to be a secret and that this user may read.

    Args:
        clones: folders with ``.drydock/PROJECT/secrets``.
        given: secrets among the settings.
    """
    from harness.processes.redact import secret_values
    from harness.runs.environment import secrets_of

    found = [value for value in given if value]
    # A path to a secret is none.
    found += [value for value in secret_values(environ) if not value.startswith(("/", "./", "~"))]
    found += secrets_of(dict(environ))
    home = Path(environ.get("HOME") or "/nonexistent")
    files = [path for clone in clones for path in _files(clone / ".drydock")]
    files += [
        Path(environ.get("HF_HOME") or home / ".cache/huggingface") / "token",
        Path(environ.get("HF_TOKEN_PATH") or "/nonexistent"),
        Path(environ.get("RAY_AUTH_TOKEN_PATH") or home / ".ray/auth_token"),
    ]
    found += [text for path in files if (text := _read(path))]
    found += re.findall(r"\bpassword\s+(\S+)", _read(home / ".netrc"))
    logins = re.findall(r'"(?:auth|identitytoken|registrytoken)"\s*:\s*"([^"]+)"', _read(home / ".docker/config.json"))
    found += [*logins, *map(_password, logins)]
    return [value.strip() for value in found if value.strip() not in ("", "none")]


def _password(login: str) -> str:
    """The password in a login of Docker's, which is base64 of ``user:password``; "" in anything else."""
    try:
        return base64.b64decode(login, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*/secrets/*"))
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")[:65536] if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
