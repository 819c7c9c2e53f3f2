"""What a log point evaluates: a condition, and a text with ``{expressions}`` in it, as in an f-string."""

from __future__ import annotations

import ast
import types
from typing import Any

LONGEST = 2000


class Condition:
    """An expression that decides whether a hit counts; an empty one always holds."""

    def __init__(self, text: str) -> None:
        self._code = _compiled(ast.parse(text.strip(), mode="eval").body) if text.strip() else None

    def holds(self, frame: types.FrameType) -> bool:
        """Its truth in a frame; whatever it raises is the caller's."""
        return self._code is None or bool(_value(self._code, frame))


class Template:
    """A text such as ``{reward:.3f} for {prompt[:80]}``: all that an f-string can say, format and conversion too."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | tuple[str, types.CodeType, int, types.CodeType | None]] = []
        for part in _f_string(text).values:
            if isinstance(part, ast.FormattedValue):
                spec = _compiled(part.format_spec) if part.format_spec is not None else None
                name = ast.unparse(part.value)
                self._parts.append((name, _compiled(part.value), part.conversion, spec))
            elif isinstance(part, ast.Constant):
                self._parts.append(str(part.value))

    def fill(self, frame: types.FrameType) -> tuple[str, dict[str, Any]]:
        """The text, and the value of each expression as JSON can carry it; each is evaluated once."""
        text, values = [], {}
        for part in self._parts:
            if isinstance(part, str):
                text.append(part)
                continue
            name, code, conversion, spec = part
            value = _value(code, frame)
            values[name] = plain(value)
            text.append(_formatted(value, conversion, _value(spec, frame) if spec is not None else ""))
        return "".join(text), values


def _f_string(text: str) -> ast.JoinedStr:
    for quotes in ("'''", '"""'):
        if quotes in text:
            continue
        try:
            # Raw, so that what was typed is what is shown; the space keeps a last quote or backslash apart.
            parsed = ast.parse(f"rf{quotes}{text} {quotes}", mode="eval").body
        except SyntaxError:
            continue
        if isinstance(parsed, ast.JoinedStr):
            last = parsed.values[-1]
            if isinstance(last, ast.Constant):
                last.value = str(last.value)[:-1]
            return parsed
    # Once more, for its message.
    ast.parse(f'rf"""{text} """', mode="eval")
    raise SyntaxError("both kinds of triple quotes are in it")


def _compiled(node: ast.expr) -> types.CodeType:
    code: types.CodeType = compile(ast.fix_missing_locations(ast.Expression(node)), "<log point>", "eval")
    return code


def _value(code: types.CodeType, frame: types.FrameType) -> Any:
    if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
        # A lambda or a generator in it sees its globals only, so the locals have to be among them.
        return eval(code, {**frame.f_globals, **frame.f_locals})
    return eval(code, frame.f_globals, frame.f_locals)


def _formatted(value: Any, conversion: int, spec: str) -> str:
    if conversion == -1 and not spec and is_array(value):
        return shape_of(value)
    if conversion != -1:
        how = {ord("r"): repr, ord("a"): ascii}.get(conversion)
        value = how(value) if how is not None else str(value)
    return format(value, spec)


def plain(value: Any) -> Any:
    """A value as JSON can carry it: numbers and short texts as they are, arrays as their shape, the rest as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if is_array(value):
        return shape_of(value)
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def is_array(value: Any) -> bool:
    """Whether it has a shape and a type of elements, as tensors and arrays have; nothing is computed."""
    return not isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype") and bool(value.shape)


def shape_of(value: Any) -> str:
    """``Tensor(2, 31) float32 cuda:0``: nothing is moved or computed, so no GPU is waited for."""
    device = f" {value.device}" if hasattr(value, "device") else ""
    kind = str(value.dtype).replace("torch.", "")
    return f"{type(value).__name__}{tuple(value.shape)} {kind}{device}"
