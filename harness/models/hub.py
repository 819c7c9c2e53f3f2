"""Talks to the model hub: is it there, what does a repository hold, and what do its refusals mean.

Downloads themselves are in ``fetch``. ``huggingface_hub`` is imported here only, and only when a hub is asked: it
reads its environment once, at import, so endpoint, token and offline mode are passed to it explicitly.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from harness.errors import HubFaulty, HubRefused, HubUnreachable, UnknownModel
from harness.models import catalogue
from harness.models.cache import stack_extra_missing
from harness.settings import Settings

REAL_HUB = "https://huggingface.co"

# Long enough for a far-away hub's handshake, short enough that nobody wonders whether something happens.
REACH_SECONDS = 4.0
ANSWER_SECONDS = 15.0
RETRY_PAUSE = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class HubFile:
    """One file of a repository.

    Attributes:
        path: its path in the repository.
        size: bytes; None where the hub doesn't say.
        sha256: its checksum, for large files.
        blob: git's own id of its content, for small ones.
    """

    path: str
    size: int | None
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class Listing:
    """What a repository holds at one commit; ``repo`` is spelled as the hub spells it."""

    repo: str
    commit: str
    files: tuple[HubFile, ...]


class Hub:
    """One model hub.

    Args:
        settings: gives endpoint and token.
        instead: gives the lines that say what else could be done, should the hub not answer.
    """

    def __init__(self, settings: Settings, instead: Callable[[], str] = lambda: "") -> None:
        self.endpoint = (settings.hf_endpoint or REAL_HUB).rstrip("/")
        self.token = settings.hf_token.get_secret_value() if settings.hf_token else None
        self._instead = instead

    def reach(self) -> None:
        """Find out within seconds whether anything answers at all.

        Raises:
            HubUnreachable: no name, no connection, or silence.
        """
        target, port, through = _target(self.endpoint)
        try:
            _within(REACH_SECONDS, lambda: socket.create_connection((target, port), timeout=REACH_SECONDS).close())
        except socket.gaierror:
            raise self.unreachable(f"the name {target} can't be resolved{through}") from None
        except ConnectionRefusedError:
            raise self.unreachable(f"{target}:{port} refuses connections{through}") from None
        except TimeoutError:
            raise self.unreachable(f"{target}:{port} doesn't answer within {REACH_SECONDS:.0f} s{through}") from None
        except (OSError, UnicodeError) as error:
            raise self.unreachable(f"{target}:{port}: {error}{through}") from None

    def listing(self, repo: str, revision: str | None) -> Listing:
        """What a repository holds at a revision; the newest commit where that is None.

        Raises:
            UnknownModel: no such repository or revision.
            HubRefused, HubFaulty, HubUnreachable: the hub doesn't give it.
        """
        for pause in (RETRY_PAUSE, 2 * RETRY_PAUSE):
            try:
                return self._listing(repo, revision)
            except HubFaulty:
                time.sleep(pause)  # large hubs hiccup; what is the matter for longer is told
        return self._listing(repo, revision)

    def _listing(self, repo: str, revision: str | None) -> Listing:
        library = self.library()
        with self.translated(repo, revision):
            api = library.HfApi(endpoint=self.endpoint, token=self.token, library_name="drydock")
            info = api.model_info(repo, revision=revision, files_metadata=True, timeout=ANSWER_SECONDS)
        if not info.sha or info.siblings is None:
            raise HubFaulty(f"{self.endpoint} describes {repo} without naming a commit or files; it isn't a model hub.")
        files = tuple(
            HubFile(item.rfilename, item.size, item.lfs.sha256 if item.lfs else None, item.blob_id)
            for item in info.siblings
        )
        return Listing(info.id or repo, info.sha, files)

    def library(self) -> ModuleType:
        """The module ``huggingface_hub``, set to what the settings say.

        Raises:
            LibraryMissing: it isn't installed.
        """
        # An exported but empty HF_ENDPOINT would be taken for the address "".
        if os.environ.get("HF_ENDPOINT") == "":
            del os.environ["HF_ENDPOINT"]
        try:
            library = importlib.import_module("huggingface_hub")
            for part in ("constants", "errors", "utils"):
                importlib.import_module(f"huggingface_hub.{part}")
        except ImportError:
            raise stack_extra_missing("huggingface_hub") from None
        # Settings decide whether the hub may be asked, and whoever gets here may.
        library.constants.HF_HUB_OFFLINE = False
        # Everything it has to say is said in our own words; its bars and warnings would cut through ours.
        library.utils.disable_progress_bars()
        library.utils.logging.set_verbosity_error()
        return library

    @contextmanager
    def translated(self, repo: str, revision: str | None) -> Iterator[None]:
        """Turn the library's errors into ours."""
        import httpx2

        library = self.library()
        errors = library.errors
        try:
            yield
        except errors.GatedRepoError:
            raise self._gated(repo) from None
        except errors.RevisionNotFoundError:
            raise UnknownModel(
                f"{repo} has no revision {revision}.",
                consequence="Nothing was downloaded.",
                mend=f"make up MODEL={repo}   # the newest, or another branch, tag or commit after an @",
            ) from None
        except errors.RemoteEntryNotFoundError as error:
            raise HubFaulty(f"{self.endpoint} lists a file of {repo} that it doesn't have: {_first(error)}") from None
        except errors.HfHubHTTPError as error:
            raise self._http(repo, error.response.status_code, error.response.headers) from None
        except errors.LocalEntryNotFoundError as error:
            # What the library says when it could neither ask nor find; the reason is in the cause.
            raise self.unreachable(_first(error.__cause__ or error)) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            raise self.unreachable(_reason(error)) from None
        except httpx2.TransportError as error:
            raise HubUnreachable(
                f"The connection to the model hub {self.endpoint} broke: {_reason(error)}.", mend=self._instead()
            ) from None
        except errors.HFValidationError as error:
            raise UnknownModel(f"{repo} can't be the name of a repository: {_first(error)}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise HubFaulty(
                f"{self.endpoint} answers for {repo} with something that isn't a model hub's answer: {_first(error)}",
                mend="check HF_ENDPOINT and proxies",
            ) from None

    def unreachable(self, why: str) -> HubUnreachable:
        """The error for a hub that doesn't answer."""
        return HubUnreachable(f"The model hub {self.endpoint} can't be reached: {why}.", mend=self._instead())

    def _gated(self, repo: str) -> HubRefused:
        page = f"{self.endpoint}/{repo}"
        # A token may also be there from `hf auth login`, which the library finds by itself.
        if self.token or self.library().get_token():
            return HubRefused(
                f"{repo} is gated, and the account of this HF_TOKEN may not download it.",
                mend=f"open {page} with that account, accept the licence, then run the same command again",
            )
        return HubRefused(
            f"{repo} is gated: its owner wants the licence accepted, and HF_TOKEN is not set.",
            mend=f"open {page}, accept the licence, make a read token, then\nHF_TOKEN=hf_… make up MODEL={repo}",
        )

    def _http(self, repo: str, status: int, headers: object) -> UnknownModel | HubRefused | HubFaulty:
        entry = catalogue.find(repo)
        get = getattr(headers, "get", lambda _: None)
        said = str(get("X-Error-Message") or "")
        if status in (401, 403):
            if "nvalid credentials" in said or "nvalid username" in said:
                return HubRefused(f"{self.endpoint} doesn't accept this HF_TOKEN: {said}", mend="HF_TOKEN=hf_… make up")
            if status == 403 or (entry is not None and entry.gated):
                return self._gated(repo)
            # The hub says 401 for what doesn't exist as well, so as not to tell private names.
            return HubRefused(
                f"{self.endpoint} doesn't show {repo}: it is private, gated, or doesn't exist.{_meant(repo)}",
                mend="check the spelling, or give a token that may see it: HF_TOKEN=hf_… make up",
            )
        if status == 404 and not get("X-Error-Code"):
            # A hub says what it misses; this may be any web server, or a proxy's page.
            return HubFaulty(
                f"{self.endpoint} answers with HTTP 404 for {repo}: no model hub, or a mirror without this model.",
                mend="check HF_ENDPOINT and proxies\n" + self._instead(),
            )
        if status == 404:
            close = _close(repo)
            return UnknownModel(
                f"{self.endpoint} has no repository {repo}.{_meant(repo)}",
                consequence="Nothing was downloaded.",
                mend=f"make up MODEL={close[0]}" if close else "check the spelling: OWNER/NAME",
            )
        if status == 429:
            return HubRefused(
                f"{self.endpoint} has had too many requests from this address.",
                mend="wait a few minutes; HF_TOKEN=hf_… raises the limit",
            )
        return HubFaulty(
            f"{self.endpoint} answers with HTTP {status} for {repo}{': ' + said if said else ''}.",
            mend="run the same command again later\n" + self._instead(),
        )


def _target(endpoint: str) -> tuple[str, int, str]:
    """Host and port that a connection to the hub goes to first: the hub itself, or the proxy before it."""
    url = urllib.parse.urlsplit(endpoint)
    host = url.hostname or endpoint
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(host):
        through = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        return through.hostname or proxy, through.port or 80, f" (the proxy before {host})"
    return host, url.port or (443 if url.scheme == "https" else 80), ""


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Run something that has no time-out of its own, such as a name look-up or a host with eight silent addresses."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001  # carried over to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True, name="hub-reach")
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError
    return outcome[0]


def _close(repo: str) -> list[str]:
    """Aliases that may have been meant, unless the name is one of the catalogue's own."""
    return [] if catalogue.find(repo) else catalogue.near(repo)


def _meant(repo: str) -> str:
    close = _close(repo)
    return f" Did you mean {' or '.join(close[:3])}?" if close else ""


def _reason(error: BaseException) -> str:
    text = _first(error)
    if "CERTIFICATE" in text.upper():
        return f"{text}; a CA of your own is given with SSL_CERT_FILE"
    return text or type(error).__name__


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
