"""Log points by ``sys.monitoring`` (Python 3.12 and newer): only the line itself costs anything."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

_m: Any = getattr(sys, "monitoring", None)
# 0 to 2 and 5 are for debuggers, coverage, profilers and optimizers.
TOOLS = (4, 3)
Hit = Callable[[types.FrameType], None]


class Monitoring:
    """The log points of this process: code to line to what is called there."""

    def __init__(self) -> None:
        self._points: dict[types.CodeType, dict[int, list[Hit]]] = {}
        self._tool: int | None = None

    def add(self, codes: list[types.CodeType], line: int, hit: Hit) -> None:
        """Call a function with the frame each time that a line of one of these codes is reached."""
        tool = self._taken()
        for code in codes:
            lines = self._points.setdefault(code, {})
            lines[line] = [*lines.get(line, []), hit]
            _m.set_local_events(tool, code, _m.events.LINE)
        # Lines that another log point switched off are asked for once more.
        _m.restart_events()

    def remove(self, codes: list[types.CodeType], line: int, hit: Hit) -> None:
        """Undo it; what is left costs nothing."""
        for code in codes:
            lines = self._points.get(code, {})
            lines[line] = [other for other in lines.get(line, []) if other is not hit]
            if not lines[line]:
                del lines[line]
            if not lines:
                self._points.pop(code, None)
                if self._tool is not None:
                    _m.set_local_events(self._tool, code, 0)
        if not self._points and self._tool is not None:
            _m.register_callback(self._tool, _m.events.LINE, None)
            _m.free_tool_id(self._tool)
            self._tool = None

    def _taken(self) -> int:
        if self._tool is None:
            for tool in TOOLS:
                if _m.get_tool(tool) is None:
                    _m.use_tool_id(tool, "drydock log points")
                    _m.register_callback(tool, _m.events.LINE, self._line)
                    self._tool = tool
                    break
            else:
                raise RuntimeError("other tools have taken all of sys.monitoring's places for tools")
        return self._tool

    def _line(self, code: types.CodeType, line: int) -> Any:
        hits = self._points.get(code, {}).get(line)
        if not hits:
            return _m.DISABLE
        frame = sys._getframe(1)
        for hit in hits:
            hit(frame)
        return None
