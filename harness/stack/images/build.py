"""Builds one image with BuildKit, unless an image of that content is there already.

By ``docker buildx build`` and not through the SDK, which knows neither BuildKit nor its secrets.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psutil

from harness import console, docker_engine
from harness.settings import Settings
from harness.stack.images import context, failures, ledger
from harness.stack.images.context import Entry
from harness.stack.images.host_config import HostConfig
from harness.stack.images.solve_log import SolveLog

IMAGE_LABEL = "dev.drydock.image"
NAMESPACE_LABEL = "dev.drydock.namespace"
# Part of every tag: a change of how images are built, not of what from, makes other images.
BUILDER_VERSION = "1"
STOP_SECONDS = 10


@dataclass(frozen=True)
class Recipe:
    """All that decides what an image will be.

    Attributes:
        kind: name in the catalogue.
        base: reference of the image to build on, in this engine.
        base_id: that image's id.
        entries: the files of its build context.
        args: further build arguments.
        uncounted: files that are there for the build but do not make another image when they change.
    """

    kind: str
    base: str
    base_id: str
    entries: list[Entry]
    args: dict[str, str] = field(default_factory=dict)
    uncounted: list[Entry] = field(default_factory=list)

    def tag(self, namespace: str) -> str:
        """``<namespace>/<kind>:<content hash>``."""
        facts = [BUILDER_VERSION, self.kind, self.base_id, *(f"{name}={self.args[name]}" for name in sorted(self.args))]
        return f"{namespace}/{self.kind}:{context.digest(self.entries, *facts)}"


@dataclass(frozen=True)
class BuiltImage:
    """An image in this engine.

    Attributes:
        reference: its name and tag.
        id: its id.
        fresh: whether it was made just now.
    """

    reference: str
    id: str
    fresh: bool


def existing(client: Any, reference: str) -> BuiltImage | None:
    """The image of that name, None where there is none."""
    found = docker_engine.image_id(client, reference)
    return BuiltImage(reference, found, fresh=False) if found else None


def build(
    client: Any, settings: Settings, recipe: Recipe, host: HostConfig, wheels: list[Path], title: str
) -> BuiltImage:
    """Build an image; the tag appears only when it is whole.

    Args:
        wheels: files of this machine that go into the build, already chosen by hash.
        title: what a person reads while it lasts.

    Raises:
        BuildFailed, NoSpace, RequirementsConflict, FrameworkRefused: by the cause that the log shows.
    """
    reference = recipe.tag(settings.namespace)
    log_file = settings.state_dir / "builds" / f"{recipe.kind}-{reference.rsplit(':', 1)[1]}.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with _folders(log_file.parent) as (files, secrets):
        context.stage([*recipe.entries, *recipe.uncounted], wheels, files)
        command = _command(recipe, settings, host, reference, files, _write_secrets(host, secrets))
        with (
            console.step(title) as step,
            ledger.recording(client, settings, recipe.kind) as record,
        ):
            log = _run(command, host, log_file, step, record)
            if log is not None:
                raise failures.explain(recipe.kind, log.lines, str(log_file))
    built = client.images.get(reference)
    return BuiltImage(reference, built.id, fresh=True)


def _run(
    command: list[str], host: HostConfig, log_file: Path, step: console.Step, record: ledger.Recorder
) -> SolveLog | None:
    """Run a build to its end; returns its log where it failed."""
    log = SolveLog()
    environment = {**os.environ, **host.proxies}
    with (
        log_file.open("w", encoding="utf-8") as written,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        ) as process,
    ):
        assert process.stderr is not None
        try:
            for text in _chunks(process.stderr):
                _tell(log.feed(text), log, written, step)
                record.update(log)
            _tell(log.finish(), log, written, step)
            record.update(log)
        except BaseException:
            # Ctrl-C reaches the child too; it cancels the build and ends by itself.
            _end(process)
            raise
        return None if process.wait() == 0 else log


def _tell(lines: list[str], log: SolveLog, written: TextIO, step: console.Step) -> None:
    if lines:
        written.write("\n".join(lines) + "\n")
        written.flush()
    if log.current:
        step.update(log.current)


def _chunks(stream: Any) -> Iterator[str]:
    """Output as it comes, without waiting for the end of a line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while block := stream.read1(65536):
        yield decoder.decode(block)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a build to stop as Ctrl-C does, and end it if it doesn't."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _folders(parent: Path) -> Iterator[tuple[Path, Path]]:
    """Two empty folders, for files and for secrets, that are gone afterwards.

    Files lie beside the logs, on the clone's disk: they may be large. Secrets lie in memory where that can be had.
    Their names have our process's number, so that those of one that was killed can be told and removed.
    """
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    for folder, prefix in ((parent, "context-"), (memory, "drydock-secrets-")):
        _remove_left_over(folder, prefix)
    with (
        tempfile.TemporaryDirectory(prefix=f"context-{os.getpid()}-", dir=parent) as files,
        tempfile.TemporaryDirectory(prefix=f"drydock-secrets-{os.getpid()}-", dir=memory) as secrets,
    ):
        yield Path(files), Path(secrets)


def _remove_left_over(folder: Path, prefix: str) -> None:
    """Remove folders of processes that are no more."""
    for path in folder.glob(f"{prefix}*"):
        number = path.name.removeprefix(prefix).partition("-")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _write_secrets(host: HostConfig, folder: Path) -> dict[str, Path]:
    paths = {}
    for name, text in host.secrets.items():
        paths[name] = folder / name
        paths[name].touch(mode=0o600)
        paths[name].write_text(text, encoding="utf-8")
    return paths


def _command(
    recipe: Recipe, settings: Settings, host: HostConfig, reference: str, files: Path, secrets: dict[str, Path]
) -> list[str]:
    # The builder that works inside the engine: another one would not see the images that ours stand on.
    command = ["docker", "buildx", "--builder", docker_engine.context_name(), "build", "--load", "--progress=rawjson"]
    command += ["--tag", reference, "--build-arg", f"BASE={recipe.base}"]
    for name, value in recipe.args.items():
        command += ["--build-arg", f"{name}={value}"]
    for name in host.proxies:
        command += ["--build-arg", name]  # without a value: it is taken from the environment
    for name, path in secrets.items():
        command += ["--secret", f"id={name},src={path}"]
    for name, value in ((IMAGE_LABEL, recipe.kind), (NAMESPACE_LABEL, settings.namespace)):
        command += ["--label", f"{name}={value}"]
    if host.needs_host_network:
        command += ["--network", "host"]
    return [*command, str(files)]
