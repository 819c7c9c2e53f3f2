"""Brings files of a repository into the hub cache, going on where an interrupted download stopped.

``huggingface_hub`` 2.4 throws a file away that it couldn't finish, so the bytes are fetched here: into
``blobs/<id>.drydock.incomplete``, checked against size and checksum, then renamed to ``blobs/<id>``. The library
finds the blob there and only puts its links in place, so the cache looks as if it had done everything itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DownloadFailed, HubFaulty, HubUnreachable
from harness.models.cache import hub_cache, need_space, repo_folder
from harness.models.hub import Hub, HubFile, Listing
from harness.models.progress import Meter, readable

if TYPE_CHECKING:
    from hashlib import _Hash

INCOMPLETE = ".drydock.incomplete"

_CHUNK = 1024 * 1024
_ATTEMPTS = 5
_FIRST_PAUSE = 1.0


def fetch_files(hub: Hub, listing: Listing, files: Sequence[HubFile], meter: Meter) -> Path:
    """Bring files into the hub cache; returns the folder of the snapshot.

    Ctrl-C leaves what has arrived; the next call goes on from there.

    Raises:
        NoSpace: they don't fit; said before anything is downloaded.
        DownloadFailed: a file didn't arrive whole after several attempts.
    """
    library = hub.library()
    folder = repo_folder(listing.repo)
    missing = [file for file in files if not _is_there(folder, file)]
    total = sum(file.size or 0 for file in missing)
    started = sum(_partial(folder, file).stat().st_size for file in missing if _partial(folder, file).is_file())
    if missing:
        need_space(folder, max(0, total - started), listing.repo)
        meter.start(f"{listing.repo} ({len(missing)} file{'s' if len(missing) > 1 else ''})", total, started)
    for file in missing:
        # Without an id there is no name to keep the blob under; the library then does it alone, without going on.
        if _blob_name(file) and file.size is not None:
            _fetch_one(hub, listing, file, folder, meter)
    snapshot = folder / "snapshots" / listing.commit
    for file in files:
        with hub.translated(listing.repo, listing.commit):
            library.hf_hub_download(
                listing.repo,
                file.path,
                revision=listing.commit,
                cache_dir=hub_cache(),
                endpoint=hub.endpoint,
                token=hub.token,
                library_name="drydock",
            )
    return snapshot


def _is_there(folder: Path, file: HubFile) -> bool:
    name = _blob_name(file)
    if not name:
        return False
    blob = folder / "blobs" / name
    # A blob of another size was cut off by whatever wrote it; it is fetched again.
    return blob.is_file() and file.size in (None, blob.stat().st_size)


def _blob_name(file: HubFile) -> str | None:
    return file.sha256 or file.blob


def _partial(folder: Path, file: HubFile) -> Path:
    return folder / "blobs" / f"{_blob_name(file)}{INCOMPLETE}"


def _fetch_one(hub: Hub, listing: Listing, file: HubFile, folder: Path, meter: Meter) -> None:
    partial = _partial(folder, file)
    partial.parent.mkdir(parents=True, exist_ok=True)
    failures, best = 0, -1
    while True:
        before = partial.stat().st_size if partial.is_file() else 0
        try:
            with hub.translated(listing.repo, listing.commit):
                _append(hub, listing, file, partial, meter)
            break
        except (HubUnreachable, HubFaulty) as error:
            reached = partial.stat().st_size if partial.is_file() else 0
            # An attempt that brought something is a hiccup; only those that bring nothing are counted.
            failures = failures + 1 if reached <= max(best, before) else 1
            best = max(best, reached)
            if failures >= _ATTEMPTS:
                raise DownloadFailed(
                    f"{file.path} of {listing.repo} stopped at {readable(reached)} of {readable(file.size or 0)}: "
                    f"{error.what}",
                    consequence="What has arrived is kept; nothing half-written will be served.",
                    mend="run the same command again: it goes on from there",
                ) from None
            meter.say(f"{file.path}: {error.what} Trying again.")
            time.sleep(min(_FIRST_PAUSE * 2 ** (failures - 1), 8.0))
    _check(listing, file, partial, meter)
    partial.chmod(0o644)
    partial.replace(folder / "blobs" / str(_blob_name(file)))


def _append(hub: Hub, listing: Listing, file: HubFile, partial: Path, meter: Meter) -> None:
    """Fetch what is missing of one file, from where it stopped."""
    import httpx2

    library = hub.library()
    have = partial.stat().st_size if partial.is_file() else 0
    size = file.size or 0
    if have > size:
        meter.add(-have)
        partial.unlink()
        have = 0
    if have == size:
        partial.touch()
        return
    url = library.hf_hub_url(listing.repo, file.path, revision=listing.commit, endpoint=hub.endpoint)
    headers: dict[str, Any] = library.utils.build_hf_headers(token=hub.token, library_name="drydock")
    headers["Accept-Encoding"] = "identity"
    if have:
        headers["Range"] = f"bytes={have}-"
    timeout = httpx2.Timeout(connect=10.0, read=30.0, write=10.0, pool=10.0)
    # The token doesn't follow a redirect to another host: the client drops it there.
    with library.get_session().stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
        library.utils.hf_raise_for_status(response)
        if have and response.status_code != 206:
            meter.add(-have)
            have = 0
        with partial.open("ab" if have else "wb") as out:
            # As they come in: what a larger buffer holds would be lost when the connection breaks.
            for chunk in response.iter_bytes():
                out.write(chunk)
                meter.add(len(chunk))
    arrived = partial.stat().st_size
    if arrived < size:
        raise httpx2.RemoteProtocolError(f"the connection was closed at {arrived:,} of {size:,} bytes")


def _check(listing: Listing, file: HubFile, partial: Path, meter: Meter) -> None:
    """Compare a finished file with what the hub says of it; a wrong one is thrown away."""
    size = partial.stat().st_size
    digest: _Hash
    if file.sha256:
        digest, wanted = hashlib.sha256(), file.sha256
        meter.say(f"checking {file.path}")
    else:
        # git's id of a file: SHA-1 over a header and the content.
        digest, wanted = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False), str(file.blob)
    with partial.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    if size != file.size or digest.hexdigest() != wanted:
        partial.unlink()
        raise DownloadFailed(
            f"{file.path} of {listing.repo} arrived with another content than the hub announced "
            f"({size:,} bytes, checksum {digest.hexdigest()[:12]}… instead of {wanted[:12]}…).",
            consequence="The file was thrown away.",
            mend="run the same command again; if it happens twice, suspect a proxy or mirror in between",
        )
