"""The server's side: what speaks there, and many requests at once so that it is never idle."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from harness.compare.dialects import DIALECTS, Decoded, Dialect, NotThere, Request, Scored, read
from harness.compare.model import Conversation, Sample, Sampling
from harness.errors import NoLogProbs, ServerUnreachable
from harness.openai_api.http import Endpoint, error_message, explain, limits_for

if TYPE_CHECKING:
    import httpx2 as httpx
else:
    try:
        import httpx2 as httpx
    except ModuleNotFoundError:  # Python 3.10
        import httpx

Item = TypeVar("Item")
_TRIES = 3


class Refused(Exception):
    """The server said no to one request: its sentence."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said or f"HTTP {status}")
        self.status = status


@dataclass(frozen=True)
class Facts:
    """What a server is.

    Args:
        model: the name to ask under.
        names: all that it lists.
        context: tokens that a request may have; 0: it doesn't say.
        version: of the engine, where it says so.
    """

    dialect: Dialect
    model: str
    names: tuple[str, ...] = ()
    root: str = ""
    context: int = 0
    version: str = ""
    cannot: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "engine": self.dialect.name,
            "model": self.model,
            "names": list(self.names),
            "root": self.root,
            "context": self.context,
            "version": self.version,
            "cannot": list(self.cannot),
        }


class Engine:
    """A server; an asynchronous context manager.

    Args:
        in_flight: requests at once.
        timeout: seconds that one request may take.
    """

    def __init__(self, endpoint: Endpoint, *, in_flight: int, timeout: float, transport: Any = None) -> None:
        self.endpoint = endpoint
        self.in_flight = in_flight
        self._timeout = timeout
        headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0), pool=None),
            limits=limits_for(endpoint, connections=in_flight),
            headers=headers,
            transport=transport,
        )

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def ask(self, request: Request) -> Any:
        """POST, and the JSON that comes back.

        Raises:
            Refused: the server says no.
            ServerUnreachable: it can't be asked, also not the third time.
        """
        url = (self.endpoint.root if request.at_root else self.endpoint.base_url) + request.path
        return await self._send("POST", url, request.body)

    async def get(self, path: str, *, at_root: bool = False) -> Any:
        """GET, likewise."""
        return await self._send("GET", (self.endpoint.root if at_root else self.endpoint.base_url) + path, None)

    async def _send(self, method: str, url: str, body: Any) -> Any:
        for attempt in range(1, _TRIES + 1):
            try:
                response = await self._client.request(method, url, json=body)
            except httpx.HTTPError as error:
                if attempt == _TRIES or isinstance(error, httpx.ReadTimeout):
                    raise ServerUnreachable(explain(error, url, self._timeout).text) from None
                await asyncio.sleep(attempt)
                continue
            if response.status_code in (429, 502, 503, 504) and attempt < _TRIES:
                await asyncio.sleep(attempt)
                continue
            try:
                answer = response.json()
            except ValueError:
                answer = None
            if response.status_code >= 500 and not await self._alive():
                said = error_message(answer) or response.text[:300]
                raise ServerUnreachable(f"the engine behind {self.endpoint.base_url} has died: {said}")
            if response.status_code >= 400:
                raise Refused(response.status_code, error_message(answer) or response.text[:300])
            return answer
        raise AssertionError("the last attempt returns or raises")

    async def _alive(self) -> bool:
        """Whether the server says that it is well; an engine may have died behind one that answers."""
        try:
            response = await self._client.get(self.endpoint.root + "/health")
        except httpx.HTTPError:
            return False
        return bool(response.status_code < 500)

    async def look(self, wanted: str) -> Facts:
        """Which server this is, and what it can.

        Raises:
            NoLogProbs: nothing that it speaks gives log-probs by token ids.
            ServerUnreachable: it can't be asked, or wants another key.
        """
        listed = await self._models()
        given = listed.get("data") if isinstance(listed, dict) else None
        entries = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        names = tuple(str(one.get("id")) for one in entries)
        entry = next(
            (one for one in entries if str(one.get("id")).lower() == wanted.lower()), entries[0] if entries else {}
        )
        model = str(entry.get("id") or wanted)
        common: dict[str, Any] = {
            "model": model,
            "names": names,
            "root": str(entry.get("root") or ""),
            "context": context if type(context := entry.get("max_model_len")) is int and context > 0 else 0,
            "version": await self._version(),
        }
        reasons = []
        for make in DIALECTS:
            dialect = make(model)
            try:
                await self._try(dialect)
                return Facts(dialect, **common, cannot=() if dialect.prefills else ("prompt log-probs",))
            except (Refused, NotThere) as error:
                reasons.append(f"{dialect.name}: {error}")
        raise NoLogProbs(
            f"{self.endpoint.base_url} gives no log-probs for token ids",
            consequence=f"There is nothing to compare. {'; '.join(reasons)}"[:600],
        )

    async def _models(self) -> Any:
        try:
            return await self.get("/models")
        except Refused as error:
            if error.status in (401, 403):
                raise ServerUnreachable(
                    f"{self.endpoint.base_url} doesn't take the key: {error}",
                    consequence="Nothing was compared.",
                    mend="OPENAI_API_KEY=KEY   # or without OPENAI_BASE_URL, for the stack's own server",
                ) from None
            raise ServerUnreachable(
                f"{self.endpoint.base_url}/models answers {error.status}: {error}"[:400],
                consequence="Nothing was compared.",
                mend="OPENAI_BASE_URL=http://HOST:PORT/v1   # is the /v1 right?\nmake status   # is it up?",
            ) from None

    async def _try(self, dialect: Dialect) -> None:
        """One tiny question in a dialect; ids this small exist in every vocabulary."""
        prompt = [10, 11, 12]
        decoded = await self.decode(dialect, prompt, Sampling(max_tokens=1))
        if not decoded.logprobs and decoded.text:
            raise NotThere("log-probs of the output")
        if dialect.prefills:
            await self.read(dialect, prompt[:2], prompt[2:])

    async def _version(self) -> str:
        for path in ("/version", "/server_info", "/drydock/state"):
            try:
                found = await self.get(path, at_root=True)
            except (Refused, ServerUnreachable):
                continue
            if isinstance(found, dict):
                said = found.get("version") or found.get("engine_version")
                if said:
                    return str(said)
        return ""

    async def rendered(self, dialect: Dialect, request: Request) -> list[int]:
        """A conversation as token ids, as the server's own template makes them."""
        found: list[int] | Request = request
        while isinstance(found, Request):
            found = read(dialect.rendered, await self.ask(found))
        return found

    async def decode(self, dialect: Dialect, prompt: list[int], sampling: Sampling, salt: str = "") -> Decoded:
        """Sample one output."""
        return read(dialect.decoded, await self.ask(dialect.decode(prompt, sampling, salt)))

    async def chat(self, dialect: Dialect, conversation: Conversation, sampling: Sampling) -> Decoded:
        """Sample one answer to a conversation with images."""
        request = dialect.chat(conversation.messages, conversation.tools, sampling)
        if request is None:
            raise NotThere(
                f"token ids and log-probs of a chat, without which images can't be compared ({dialect.name})"
            )
        return read(dialect.chatted, await self.ask(request))

    async def read(self, dialect: Dialect, prompt: list[int], output: list[int]) -> Scored:
        """Log-probs of given tokens as the engine reads them."""
        return read(dialect.prefilled, await self.ask(dialect.prefill(prompt, output)), prompt, output)

    async def prefill(self, dialect: Dialect, sample: Sample) -> None:
        """Add the log-probs of a sample's own tokens as the engine reads them."""
        scored = await self.read(dialect, sample.prompt, sample.output)
        sample.prefill = scored.logprobs
        sample.top = scored.top or sample.top

    async def each(self, items: AsyncIterator[Item], work: Callable[[Item], Awaitable[None]]) -> None:
        """Do something with every item, as many at once as there may be requests; the first error ends all."""

        async def worker() -> None:
            while True:
                async with lock:
                    try:
                        item = await anext(items)
                    except StopAsyncIteration:
                        return
                await work(item)

        lock = asyncio.Lock()
        workers = [asyncio.ensure_future(worker()) for _ in range(self.in_flight)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def problem_of(sample: Sample, vocabulary: int) -> str:
    """Why a sample can't be compared; empty where it can."""
    if not sample.output:
        return "empty completion"
    if len(sample.decode) != len(sample.output):
        return f"{len(sample.output)} tokens and {len(sample.decode)} log-probs"
    if vocabulary and (beyond := [token for token in (*sample.prompt, *sample.output) if token >= vocabulary]):
        return f"token {beyond[0]} isn't in the reference's vocabulary of {vocabulary}"
    if all(not math.isfinite(value) for value in sample.decode):
        return "no finite log-prob"
    return ""
