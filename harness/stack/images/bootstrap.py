"""The base image made from Debian's packages, for machines that no image registry can be reached from.

Bit for bit the same twice from the same packages: every file carries one fixed time, and what differs from run to run
(logs, caches, lists, machine id) is left out. Names of mirrors are left out too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from harness import console, docker_engine
from harness.errors import BaseUnavailable, NoSpace
from harness.settings import Settings
from harness.stack.images import archive
from harness.stack.images.apt_config import AptConfig
from harness.stack.images.catalogue import BaseSpec

PROBE_SECONDS = 10
LOAD_SECONDS = 300
# The system takes some 400 MB; the rest of the machine's memory has other uses.
ROOM_BYTES = 4 << 30
# Part of the tag: a change of what is done below makes another image.
VERSION = "3"
_NOT_KEPT = [
    "etc/resolv.conf",
    "etc/hostname",
    "var/log/*",
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "var/cache/ldconfig/aux-cache",
    "var/cache/debconf/*-old",
    "var/lib/dpkg/*-old",
    # Written by whoever imports it first, in one of two forms; only packages' own scripts use it.
    "usr/share/python3/*/__pycache__",
    "tmp/*",
    "run/*",
]
# A mirror's name is this machine's business. Where mmdebstrap took its own default, the image keeps that.
_MIRROR_NAMES = ["etc/apt/sources.list", "etc/apt/sources.list.d/*"]
_DOCUMENTATION = ["path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright"] + [
    f"path-exclude=/usr/share/{name}/*" for name in ("man", "info", "locale", "lintian", "linda")
]
INSTALL = "scripts/install-docker.sh --with-mmdebstrap"


def facts(spec: BaseSpec) -> list[str]:
    """Everything that decides what comes out, for the tag."""
    return [
        VERSION,
        spec.suite,
        str(spec.source_date_epoch),
        *spec.packages,
        archive.architecture(),
        *_NOT_KEPT,
        *_DOCUMENTATION,
    ]


def ensure_mmdebstrap(clone: Path) -> None:
    """Install mmdebstrap from the distribution's packages where it is missing, after saying so and asking.

    Raises:
        BaseUnavailable: it can't be installed, or nobody agreed to it; the script has said what to do by hand.
    """
    if shutil.which("mmdebstrap") is not None:
        return
    script, *flags = INSTALL.split()
    # Its words go to standard error: standard output may have to carry one JSON document and nothing else.
    subprocess.run([str(clone / script), *flags], stdout=sys.stderr, check=False)
    if shutil.which("mmdebstrap") is None:
        raise BaseUnavailable(
            "No image registry answers, and there is no mmdebstrap to make a base image with.",
            mend=f"{INSTALL}\nmake up IMAGE_MIRROR=HOST/PATH   # or a mirror of the registry",
        )


def make_base(settings: Settings, spec: BaseSpec, apt: AptConfig, reference: str, labels: dict[str, str]) -> None:
    """Make the base image and load it into the engine.

    Raises:
        BaseUnavailable: there is no mmdebstrap, or it failed.
    """
    program = shutil.which("mmdebstrap")
    if program is None:
        raise BaseUnavailable(
            "No image registry answers, and there is no mmdebstrap to make a base image with.", mend=INSTALL
        )
    folder = settings.state_dir / "builds"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="base-", dir=folder) as name,
        console.step("base image, from Debian packages") as step,
    ):
        layer = Path(name) / "layer.tar"
        _debootstrap(program, spec, _with_working_security(apt, spec.suite), layer, folder / "base.log", step)
        config = archive.configuration(
            archive.layer_digest(layer),
            spec.source_date_epoch,
            labels,
            f"mmdebstrap {spec.suite} {' '.join(spec.packages)}",
        )
        step.update("loading it into Docker")
        # The SDK's types know only files here; requests, below it, takes an iterator as well and sends it as it comes.
        blocks: Any = archive.image_archive(layer, config, reference)
        docker_engine.connect(timeout=LOAD_SECONDS).images.load(blocks)


def _debootstrap(program: str, spec: BaseSpec, apt: AptConfig, layer: Path, log_file: Path, step: console.Step) -> None:
    """Run mmdebstrap; its messages become the step's detail and a log file."""
    command = [program, "--variant=minbase", "--format=tar", f"--include={','.join(spec.packages)}"]
    command += [f"--dpkgopt={option}" for option in [*_DOCUMENTATION, "force-unsafe-io"]]
    command += [f"--aptopt={option}" for option in ('APT::Install-Recommends "false"', "Acquire::Retries 3")]
    # Host settings are for this run only: the file that mmdebstrap keeps options in is replaced at the end.
    command += [f'--aptopt={name} "{value}"' for name, value in sorted(apt.settings.items())]
    kept = layer.with_name("keep-apt.conf")
    kept.write_text('APT::Install-Recommends "false";\n', encoding="utf-8")
    command += [f"--customize-hook=copy-in {kept.parent}/keep-apt.conf /etc/apt/apt.conf.d"]
    command += ['--customize-hook=cd "$1" && mv etc/apt/apt.conf.d/keep-apt.conf etc/apt/apt.conf.d/99mmdebstrap']
    left_out = " ".join([*_NOT_KEPT, *(_MIRROR_NAMES if apt.archive else [])])
    command += [f'--customize-hook=cd "$1" && rm -rf {left_out} && : > etc/machine-id']
    command += [spec.suite, str(layer)]
    if apt.archive:
        sources = layer.with_name("sources.list")
        sources.write_text(apt.sources(spec.suite), encoding="utf-8")
        command.append(str(sources))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(spec.source_date_epoch), "LC_ALL": "C.UTF-8"}
    if memory := _memory_to_work_in():
        environment["TMPDIR"] = memory
    lines: list[str] = []
    with (
        log_file.open("w", encoding="utf-8") as written,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                written.write(line)
                lines.append(line.rstrip())
                step.update(line.removeprefix("I: ").strip())
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        _explain(lines, log_file, apt)


def _memory_to_work_in() -> str | None:
    """A place in memory for the half-made system, which saves most of the waiting; None where it wouldn't do."""
    place = "/dev/shm"
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    unfit = found.f_flag & (os.ST_RDONLY | os.ST_NODEV | os.ST_NOEXEC)
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return place if not unfit and room > ROOM_BYTES and os.access(place, os.W_OK) else None


def _explain(lines: list[str], log_file: Path, apt: AptConfig) -> None:
    text = "\n".join(lines)
    if "No space left on device" in text:
        raise NoSpace("The disk became full while the base image was made.")
    said = [line.removeprefix("E: ").strip() for line in lines if line.startswith(("E: ", "Err:", "  "))]
    errors = said or lines[-1:] or ["?"]
    mend = f"less {log_file}   # the whole log"
    if "fetch" in text or "resolve" in text or "Unable to connect" in text:
        mend = "make up DEBIAN_MIRROR=http://MIRROR/debian   # one that this machine reaches" + (
            "" if apt.archive else "\n" + mend
        )
    raise BaseUnavailable(f"The base image could not be made from Debian's packages: {errors[0]}", mend=mend)


def _end(process: subprocess.Popen[str]) -> None:
    """mmdebstrap removes its half-made system when it is told to stop."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def _with_working_security(apt: AptConfig, suite: str) -> AptConfig:
    """Leave security updates out where a mirror set by hand doesn't have them under the usual name; and say so."""
    if not apt.security or not apt.archive or apt.security != f"{apt.archive}-security":
        return apt
    try:
        with urllib.request.urlopen(f"{apt.security}/dists/{suite}-security/InRelease", timeout=PROBE_SECONDS):
            return apt
    except (urllib.error.HTTPError, ValueError):
        console.warn("the Debian mirror has no security updates beside it; the base image is made without them")
        return replace(apt, security=None)
    except OSError:
        return apt  # it may be reachable through apt's own proxy only; apt will tell
