"""Whether a server was started from the reference's own files, where both lie on this machine."""

from __future__ import annotations

from pathlib import Path

# Bytes that are read at each of so many places of a file: a training step changes weights everywhere.
_PLACES, _BYTES = 32, 4096


def differing(served: str, reference: str) -> list[str]:
    """Names of files of weights and configuration that aren't the same in both folders, each with how.

    Args:
        served: folder that the server says it was started from (vLLM's ``root``); anything else differs in nothing,
            because nothing is known then.
        reference: folder of the trainer's model.
    """
    one, other = Path(served), Path(reference)
    if not served or not one.is_absolute() or not one.is_dir() or not other.is_dir() or one.samefile(other):
        return []
    names = sorted({file.name for folder in (one, other) for file in folder.glob("*.safetensors")} | {"config.json"})
    return [f"{name} ({how})" for name in names if (how := _how(one / name, other / name))]


def _how(one: Path, other: Path) -> str:
    if not one.is_file() or not other.is_file():
        return "only on one side" if one.is_file() or other.is_file() else ""
    size = one.stat().st_size
    if size != other.stat().st_size:
        return f"{size} and {other.stat().st_size} bytes"
    with one.open("rb") as left, other.open("rb") as right:
        for place in range(_PLACES + 1):
            start = max(0, size - _BYTES) * place // _PLACES
            left.seek(start)
            right.seek(start)
            if left.read(_BYTES) != right.read(_BYTES):
                return "other content"
    return ""
