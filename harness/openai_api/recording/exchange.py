"""One call with its answer, as it went over the wire: plain data, and one line of a file."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

End = Literal["whole", "unreachable", "cut", "abandoned"]
"""whole: the answer came to its end. unreachable: none came. cut: it broke off. abandoned: the agent hung up."""


class Malformed(ValueError):
    """A line of a recording that says nothing usable."""


@dataclass(frozen=True)
class Exchange:
    """One call.

    Args:
        run: index of the run it belongs to.
        number: counts from 1 within a run, in the order in which the calls began.
        path: with its query, as the agent asked for it.
        request: the request's body.
        status: HTTP status; None where no answer came.
        headers: those of the answer that say something to a client.
        blocks: the answer's body: one block, or an event of a stream each.
        offsets: seconds after the call's begin at which each block came.
        end: how the answer ended.
        why: the same in a sentence, where it isn't whole.
        started: seconds after the run began.
        seconds: to the last byte.
        in_process: it came through httpx in the agent's own process.
        clipped: the answer was too long to be kept whole.
    """

    run: int
    number: int
    method: str
    path: str
    request: bytes
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    blocks: tuple[bytes, ...] = ()
    offsets: tuple[float, ...] = ()
    end: End = "whole"
    why: str = ""
    started: float = 0.0
    seconds: float = 0.0
    in_process: bool = False
    clipped: bool = field(default=False)

    @property
    def content_type(self) -> str:
        """Of the answer; empty where there is none."""
        return next((value for name, value in self.headers if name == "content-type"), "")

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream of events."""
        return "event-stream" in self.content_type

    def as_dict(self) -> dict[str, Any]:
        """For a line of a file."""
        return {
            "run": self.run,
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "request": _text(self.request),
            "status": self.status,
            "headers": [list(pair) for pair in self.headers],
            "blocks": [_text(block) for block in self.blocks],
            "offsets": [round(offset, 4) for offset in self.offsets],
            "end": self.end,
            "why": self.why,
            "started": round(self.started, 4),
            "seconds": round(self.seconds, 4),
            "in_process": self.in_process,
            "clipped": self.clipped,
        }

    @classmethod
    def from_dict(cls, value: Any) -> Exchange:
        """The reverse of ``as_dict``; anybody may have written the file, so everything is looked at.

        Raises:
            Malformed: it isn't one.
        """
        try:
            return cls(
                run=_whole(value["run"]),
                number=_whole(value["number"]),
                method=_word(value["method"]),
                path=_path(value["path"]),
                request=_bytes(value["request"]),
                status=None if value["status"] is None else _status(value["status"]),
                headers=tuple(_header(pair) for pair in value["headers"]),
                blocks=tuple(_bytes(block) for block in value["blocks"]),
                offsets=tuple(float(offset) for offset in value["offsets"]),
                end=_end(value["end"]),
                why=str(value["why"]),
                started=float(value["started"]),
                seconds=float(value["seconds"]),
                in_process=value["in_process"] is True,
                clipped=value["clipped"] is True,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Malformed(f"{type(error).__name__}: {error}") from None


def _text(raw: bytes) -> Any:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    return base64.b64decode(value["base64"], validate=True)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise Malformed(f"{value!r} is no number of a run or a call")
    return value


def _status(value: Any) -> int:
    if not isinstance(value, int) or not 200 <= value <= 599:
        raise Malformed(f"{value!r} is no HTTP status")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or not (value.isascii() and value.isalpha()):
        raise Malformed("no HTTP method")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise Malformed("no path of a request")
    return value


def _header(pair: Any) -> tuple[str, str]:
    name, value = pair
    if not isinstance(name, str) or not isinstance(value, str):
        raise Malformed("a header that is no text")
    plain = name.replace("-", "").isalnum() and name.isascii() and value.isascii() and value.isprintable()
    if not plain or (name not in KEPT_HEADERS and not name.startswith(KEPT_PREFIXES)):
        raise Malformed("a header that no recording has")
    return name, value


def _end(value: Any) -> End:
    if value not in get_args(End):
        raise Malformed(f"{value!r} is no end of a call")
    end: End = value
    return end


# What clients act on or show. Cookies, dates and a server's name are nobody's business.
KEPT_HEADERS = {
    *("content-type", "content-encoding", "retry-after", "retry-after-ms", "x-should-retry"),
    *("x-request-id", "request-id", "location"),
}
KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-", "openai-version")


def kept(headers: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers of an answer that a recording keeps."""
    found = []
    for pair in headers:
        try:
            found.append(_header(pair))
        except Malformed:
            continue
    return tuple(found)
