"""What a file of samples is where it isn't one JSON object a line, and the command that makes it so."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from harness.places import shown

# A list of samples is read as a whole up to here, to be sure that it is one.
_MOST_BYTES = 64 * 1024 * 1024
_MAGIC = ((b"PAR1", "parquet"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\x1f\x8b", "gzip"),
          (b"ARROW1", "arrow"), (b"PK\x03\x04", "zip"))  # fmt: skip
# For pandas.
_TO_LINES = "sys.argv[2], orient='records', lines=True"


@dataclass(frozen=True)
class Format:
    """One format.

    Args:
        name: in a sentence, with its article.
        mend: a command that writes the same samples as lines of JSON, "" where none is sure.
    """

    name: str
    mend: str = ""


def by_its_first_bytes(path: Path) -> Format | None:
    """Of formats that begin in a way that no JSON does.

    Raises:
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        begins = file.read(16)
    kind = next((kind for magic, kind in _MAGIC if begins.startswith(magic)), "")
    here, there = _quoted(path)
    if kind == "parquet":
        read = f"import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json({_TO_LINES})"
        return Format("a Parquet file, as verl's recipes write them", f"python -c {shlex.quote(read)} {here} {there}")
    if kind == "arrow":
        read = "import sys, datasets; datasets.Dataset.from_file(sys.argv[1]).to_json(sys.argv[2])"
        return Format("an Arrow file", f"python -c {shlex.quote(read)} {here} {there}")
    if kind == "utf-16":
        return Format("text in UTF-16, as Windows programs write it", f"iconv -f UTF-16 -t UTF-8 {here} > {there}")
    if kind == "gzip":
        return Format("compressed by gzip", f"gunzip -c {here} > {there}")
    return Format("a zip archive", f"unzip {here}") if kind == "zip" else None


def by_its_text(path: Path) -> Format | None:
    """Of formats that are text; for a file of which no line is a sample.

    Raises:
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    here, there = _quoted(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        write = "import json, sys; [print(json.dumps(one)) for one in json.load(open(sys.argv[1]))]"
        return Format("one JSON list of all samples", f"python -c {shlex.quote(write)} {here} > {there}")
    if isinstance(value, dict):
        return Format("one JSON object over several lines")
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    for sign, name in ((",", "a table with commas (CSV)"), ("\t", "a table with tabs (TSV)")):
        if len(lines) > 1 and lines[0].count(sign) and not lines[0].lstrip().startswith(("{", "[")):
            read = f"import sys, pandas; pandas.read_csv(sys.argv[1], sep={sign!r}).to_json({_TO_LINES})"
            return Format(name, f"python -c {shlex.quote(read)} {here} {there}")
    return None


def _quoted(path: Path) -> tuple[str, str]:
    """The file, and the one that a command writes; never the same."""
    new = path.with_suffix(".jsonl" if path.suffix != ".jsonl" else ".lines.jsonl")
    return shlex.quote(shown(path)), shlex.quote(shown(new))
