"""Keys and tokens of the stack: made once, mode 0600, readable by the containers' user and nobody else."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from harness.errors import EnvironmentUnfit
from harness.stack.plan import Plan


def ensure(plan: Plan) -> Path:
    """Make the keys that are missing and write those that the user gave; returns their folder.

    Changing owners is why the files are always written anew rather than opened: a file of another owner
    is replaced, never written into.

    Raises:
        EnvironmentUnfit: the folder can't be written.
    """
    settings = plan.settings
    place = plan.keys
    given = settings.openai_api_key.get_secret_value() if settings.openai_api_key else ""
    hub = settings.hf_token.get_secret_value() if settings.hf_token else ""
    wanted = {
        # A server of one's own often asks for no key; SDKs refuse to start without one.
        "api_key": (given or "none") if plan.external else _generated(place / "generated_key"),
        "ray_token": _generated(place / "ray_token"),
        "hf_token": hub,
    }
    try:
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
        if not plan.external:
            # Kept beside, so that the key is the same again after a time with an external server.
            _write(place / "generated_key", wanted["api_key"], plan)
        for name, value in wanted.items():
            _write(place / name, value, plan)
    except OSError as error:
        raise EnvironmentUnfit(
            f"The keys can't be written to {place}: {error.strerror}.",
            consequence="Without keys no service may start.",
            mend=f"chown -R $(id -u) {settings.state_dir}",
        ) from None
    return place


def last_written(place: Path) -> str:
    """Changes whenever a key file is written anew: containers that have mounted it hold the old one until then."""
    return str(max((path.stat().st_mtime_ns for path in place.glob("*")), default=0))


def _generated(path: Path) -> str:
    return _read(path) or secrets.token_hex(32)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None


def _write(path: Path, value: str, plan: Plan) -> None:
    if path.exists() and _read(path) == (value or None) and path.stat().st_mode & 0o777 == 0o600:
        owner = path.stat().st_uid
        if owner == plan.uid or os.geteuid() != 0:
            # Not touched: a bind mount of a running container holds the old inode.
            return
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(value)
    if os.geteuid() == 0:
        os.chown(fresh, plan.uid, plan.gid)
    fresh.replace(path)
