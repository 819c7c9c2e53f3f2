"""Writes the archive: whole or not at all, readable for this user only, and never over a file that is there."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.doctor.bundle.choosing import LeftOut
from harness.errors import NoSpace, ReportExists, ReportNotWritable

LIST = "what-is-in-here.json"


@dataclass(frozen=True)
class Entry:
    """One file of a report, cleaned."""

    name: str
    text: str

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode("utf-8", "replace"))


def plain(name: str) -> str:
    """A name that leads out of no folder and does nothing to a terminal, whatever an agent has called its file."""
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "_", part).lstrip(".") or "_" for part in name.split("/") if part]
    return "/".join(parts)


def archive(entries: Sequence[Entry], left: Sequence[LeftOut], folder: str) -> bytes:
    """A gzipped tar with everything below one folder, and a list of what is in it and what isn't."""
    listing = {
        "files": [{"name": plain(entry.name), "bytes": entry.size} for entry in entries],
        "left_out": [one.as_dict() for one in left],
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for entry in [Entry(LIST, json.dumps(listing, indent=1, ensure_ascii=False)), *entries]:
            data = entry.text.encode("utf-8", "replace")
            info = tarfile.TarInfo(f"{folder}/{plain(entry.name)}")
            info.size, info.mode, info.mtime = len(data), 0o644, int(time.time())
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


def refuse_existing(target: Path) -> None:
    """Say at once that a report can't be written there, before anything is gathered.

    Raises:
        ReportExists: something has that name.
    """
    if os.path.lexists(target):
        raise ReportExists(f"{target} is there already.")


def write(target: Path, content: bytes) -> None:
    """Write the archive.

    Raises:
        ReportExists: something has that name.
        ReportNotWritable, NoSpace: it can't be written there.
    """
    beside: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Made for this user only.
        descriptor, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            # Unlike a rename this fails where something has that name.
            os.link(beside, target)
        except FileExistsError:
            raise ReportExists(f"{target} is there already.") from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            refuse_existing(target)  # a file system without such links
            os.replace(beside, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"The disk of {target.parent} is full.", consequence="No report was written.") from None
        raise ReportNotWritable(f"{target} can't be written: {error.strerror or error}.") from None
    finally:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)
