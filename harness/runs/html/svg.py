"""Elements of SVG, escaped; no style attributes, which the pages' policy forbids."""

from __future__ import annotations

from markupsafe import Markup, escape

Attribute = str | int | float | None


def element(name: str, *children: str | Markup, **attributes: Attribute) -> Markup:
    """An element; children and attributes are escaped unless they are ``Markup``.

    ``class_`` stands for class, and other underscores for hyphens; attributes that are None are left out.
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{}{}>{}</{}>").format(Markup(name), written, Markup("").join(map(escape, children)), Markup(name))


def picture(width: int, height: int, label: str, *children: Markup, class_: str = "chart", role: str = "img") -> Markup:
    """A whole picture that scales with the page.

    Args:
        label: what it shows, for people who can't see it.
        role: ``group`` where parts of it can be reached by keyboard; what is in an ``img`` isn't told of.
    """
    return element("svg", *children, viewBox=f"0 0 {width} {height}", role=role, aria_label=label, class_=class_)


def _value(value: str | int | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
