"""Renders a template into a page that is whole in itself."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from harness import __version__
from harness.runs.redact import Redactor

_REDACTOR = Redactor()
_HERE = Path(__file__).parent / "templates"


def render(template: str, folder: Path, *, style_of: str = "", script_of: str = "", **values: Any) -> str:
    """A page's HTML.

    Every value is escaped, except for what ``harness.runs.html`` itself has made (``Markup``). Should a hostile text
    become code all the same, the page's policy lets no script run but its own, and nothing be fetched.

    Args:
        template: file name of a template that extends ``base.html.j2``.
        folder: where it is.
        style_of, script_of: files in there that go behind those which all pages have.
        values: what it shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_redacted,
    )
    environment.filters |= {"seconds": seconds, "count": count, "printable": printable}
    style, script = (_HERE / "style.css").read_text("utf-8"), (_HERE / "script.js").read_text("utf-8")
    style += (folder / style_of).read_text("utf-8") if style_of else ""
    script += (folder / script_of).read_text("utf-8") if script_of else ""
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    return environment.get_template(template).render(
        **values, style=Markup(style), script=Markup(script), policy=policy, version=__version__
    )


def _redacted(value: Any) -> Any:
    """Shapes of secrets are known in a text as it is: once it is escaped, quotes and ends of values are others."""
    return _REDACTOR.text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def seconds(value: float | None) -> str:
    """A span of time as people say it."""
    if value is None:
        return "–"
    if value < 0.0995:
        return f"{value * 1000:.{1 if value < 0.00995 else 0}f} ms"
    if value < 119.5:
        return f"{value:.{2 if value < 9.95 else 1}f} s"
    return f"{value / 60:.1f} min" if value < 7170 else f"{value / 3600:.1f} h"


def count(value: float | int | None) -> str:
    """A number with its thousands apart."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def printable(value: Any) -> str:
    """A text without what turns the direction of writing or can't be seen, these written out."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in str(value)
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
