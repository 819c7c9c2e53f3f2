"""Called by the Makefile, by whatever Python there is: names what a mistyped verb or setting may have meant.

Prints `; did you mean X?`, or nothing where nothing is near.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path


def near(word: str, known: list[str]) -> str:
    """The likeliest of the known words; "" where none is near."""
    word = re.sub(r"[^\w-]", "", word)
    # `watch` is a part of `hang-watch`: nearer than any other of as many letters.
    parts = [name for name in known if len(word) > 2 and (word in name.split("-") or name == f"{word}S")]
    found = parts[:1] or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else ""


def main(kind: str, given: str, known: list[str]) -> None:
    """Print what may have been meant by each of the given words."""
    if kind == "verb":
        text = Path(__file__).parents[1].joinpath("Makefile").read_text(encoding="utf-8")
        known = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
        found = near(given.lower(), known)
        sys.stdout.write(
            f"{given}: no verb of Drydock{f'. Did you mean `make {found}`?' if found else '.'} All verbs: make\n"
        )
        return
    pairs = [(word, near(word.upper(), known)) for word in given.split()]
    meant = [f"{name}= for {word}=" for word, name in pairs if name]
    sys.stdout.write(f". Did you mean {' and '.join(meant)}?" if meant else ".")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
