"""One folder a run: ``runs/<time>-<verb>/``.

The folder is there from the start, under its final name, so that long work can be followed in it. Each file in it is
whole or absent: written beside itself and renamed. ``result.json`` comes last; a folder without one is a run that is
still going or died, and is listed as that. ``latest`` leads to the newest finished run.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.errors import DrydockError, NoSpace, RunsNotWritable
from harness.runs.redact import Redactor

RESULT = "result.json"
LATEST = "latest"
_WRITERS = 8

Fingerprint = Callable[[], Mapping[str, Any]]


def shown(folder: Path) -> str:
    """A run's folder as people find it on their own machine (``RUNS_SHOWN`` is set in the containers)."""
    place = os.environ.get("RUNS_SHOWN")
    return f"{place}/{folder.name}" if place else str(folder)


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, to write into.

    As a context manager it is finished at the end: where nobody wrote a result, with one that says how the block ended.

    Args:
        path: the folder.
        verb: what runs.
        redactor: goes over everything that is written.
    """

    path: Path
    verb: str
    redactor: Redactor = field(default_factory=Redactor)

    @classmethod
    def create(
        cls, root: Path, verb: str, redactor: Redactor | None = None, *, now: datetime.datetime | None = None
    ) -> RunFolder:
        """Make a new folder; two that begin within the same second get different ones.

        Args:
            root: where the folders of all runs are.
            verb: what runs, for the folder's name.
            redactor: goes over everything that will be written; by default one that knows no secret but their shapes.
            now: for tests.

        Raises:
            RunsNotWritable: the folder can't be made.
            NoSpace: the disk is full.
        """
        stamp = (now or datetime.datetime.now()).strftime("%Y%m%d-%H%M%S")
        try:
            root.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1000):
                path = root / (f"{stamp}-{verb}" if number == 1 else f"{stamp}-{verb}-{number}")
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                return cls(path, verb, redactor or Redactor())
        except OSError as error:
            raise explained(error, root) from None
        raise RunsNotWritable(f"{root} holds a thousand runs of this second")

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (self.path / RESULT).exists():
            return
        if kind is None:
            self.finish({"verb": self.verb, "exit_code": 0})
        else:
            # The block's own error is the one to show, also where the disk is full for this as well.
            with contextlib.suppress(DrydockError):
                self.finish({"verb": self.verb, "exit_code": 1, "error": f"{kind.__name__}: {error}"})

    def write_json(self, name: str, value: Any) -> Path:
        """Write one file of JSON, whole or not at all."""
        text = json.dumps(self.redactor.data(value), indent=2, ensure_ascii=False, default=str)
        return self._write(name, text + "\n")

    def write_text(self, name: str, text: str) -> Path:
        """Write one file of text, whole or not at all."""
        return self._write(name, self.redactor.text(text))

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Write one file as it is, whole or not at all; for what can hold no secret."""
        return self._write(name, content)

    def write_all(self, files: Mapping[str, str | bytes]) -> None:
        """Write many files side by side, each whole or not at all: most of the time is spent waiting for the disk.

        Args:
            files: content by name; text goes through the redactor, bytes are for what can hold no secret.
        """
        mask = _umask()

        def write(name: str) -> None:
            content = files[name]
            self._write(name, self.redactor.text(content) if isinstance(content, str) else content, mask)

        with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
            list(pool.map(write, files))

    def discard(self) -> None:
        """Take the whole folder back: its work was broken off, and half of it is worth nothing."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_lines(self, name: str, values: Iterable[Any]) -> Path:
        """Write one JSON document a line."""
        lines = (json.dumps(self.redactor.data(value), ensure_ascii=False, default=str) for value in values)
        return self._write(name, "".join(f"{line}\n" for line in lines))

    def finish(self, result: Mapping[str, Any], *, fingerprint: Fingerprint | None = None) -> Path:
        """Write the environment's fingerprint and the result, and lead ``latest`` here.

        Args:
            result: what ``result.json`` says.
            fingerprint: gathers versions, digests and revisions; where it fails, the report says so and stands.
        """
        if fingerprint is not None:
            self.write_json("environment.json", _fingerprint(fingerprint))
        path = self.write_json(RESULT, result)
        self.link_latest()
        return path

    def link_latest(self) -> None:
        """Lead ``latest`` here; the link is never absent in between, and no reason to fail."""
        link = self.path.parent / LATEST
        beside = self.path.parent / f".{LATEST}-{os.getpid()}"
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
            beside.symlink_to(self.path.name)
            beside.replace(link)

    def _write(self, name: str, content: str | bytes, mask: int | None = None) -> Path:
        target = self.path / name
        beside: str | None = None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, 0o644 & ~(_umask() if mask is None else mask))
            os.replace(beside, target)
        except OSError as error:
            if beside is not None:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
            raise explained(error, self.path) from None
        return target


@dataclass(frozen=True)
class Listed:
    """One run in the list of all.

    Args:
        outcome: ``ok``, ``failed``, or ``unfinished`` where there is no result; of a hang dump also what it found,
            ``hung`` or ``unknown``.
    """

    path: Path
    verb: str
    outcome: str
    result: Mapping[str, Any]


def listed(root: Path) -> list[Listed]:
    """All runs, the newest first; read from the folders themselves, so that the list is never stale."""
    found: list[Listed] = []
    if not root.is_dir():
        return found
    for path in sorted(root.iterdir(), key=lambda path: path.name, reverse=True):
        if path.is_symlink() or not path.is_dir():
            continue
        verb = "-".join(part for part in path.name.split("-")[2:] if not part.isdigit())
        try:
            result = json.loads((path / RESULT).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            result = None
        if not isinstance(result, dict):
            found.append(Listed(path, verb, "unfinished", {}))
            continue
        outcome = "ok" if result.get("exit_code", 0) == 0 else "failed"
        # That something hangs is what such a run has found out; it didn't fail.
        if result.get("state") in ("hung", "unknown"):
            outcome = str(result["state"])
        found.append(Listed(path, str(result.get("verb", verb)), outcome, result))
    return found


def _fingerprint(gather: Fingerprint) -> Mapping[str, Any]:
    try:
        return gather()
    except DrydockError as error:
        return {"not gathered": error.what}
    except (OSError, ValueError) as error:
        return {"not gathered": f"{type(error).__name__}: {error}"}


def explained(error: OSError, place: Path) -> DrydockError:
    """What to say when something can't be written there: that the disk is full, or what else the system says."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(
            f"no space left to write results into {place}",
            consequence="What isn't there yet is not kept; what was printed is all.",
            mend=f"df -h {place.parent}   # free space there, or set RUNS= to a folder on another disk",
        )
    return RunsNotWritable(
        f"results can't be written into {place}: {error.strerror or error}",
        mend=f"ls -ld {place.parent} {place}   # who owns it? then chown it, or set RUNS= to a folder of your own",
    )


def _umask() -> int:
    # There is no way to read it without setting it, so it is asked for while one thread writes.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
