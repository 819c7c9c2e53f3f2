"""The model: are its files whole and the right ones, has it a chat template, does its context suffice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.filesize import decimal

from harness import engines
from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, mended, note, of_error, ok, warn
from harness.errors import DrydockError
from harness.settings import Settings

if TYPE_CHECKING:
    from harness.models import ModelFiles

# Reading goes on for so long where nobody asked for this topic alone; a gigabyte takes about a second.
HASH_SECONDS = 2.0
HASH_SECONDS_ON_REQUEST = 1800.0
# An agent's system prompt with tools alone takes more.
SHORT_CONTEXT = 2048


@dataclass(frozen=True)
class Sums:
    """How far files were compared with what they should be.

    Attributes:
        wrong: files whose content is not what its name in the cache, or the catalogue, says.
        right: how many are.
        unknown: how many of which nobody knows what they should be.
        unread: bytes that were not read, for want of time.
    """

    wrong: tuple[Path, ...] = ()
    right: int = 0
    unknown: int = 0
    unread: int = 0


@dataclass(frozen=True)
class Facts:
    """What the weights say of themselves.

    Attributes:
        files: paths of all files.
        template: it has a chat template; None where that can't be seen.
        context: tokens that it can attend to; None where it doesn't say.
        half: files of a download that was broken off, with their sizes.
    """

    name: str
    origin: str
    size: int
    files: tuple[Path, ...]
    template: bool | None
    context: int | None
    half: tuple[tuple[Path, int], ...] = field(default=())


def gather(settings: Settings) -> ModelFiles | None:
    """The weights as far as they are here; asks no network.

    Raises:
        DrydockError: they are here and can't be used.
    """
    from harness import models

    offline = settings.but(hf_hub_offline=True)
    return models.here(models.resolve(offline), settings.engine, offline)


def facts_of(files: ModelFiles) -> Facts:
    """Read headers and small files of the weights."""
    from harness.models.sums import files_of

    paths = tuple(path for _, path in files_of(files))
    return Facts(files.names[0], files.origin, files.size, paths, has_template(paths), files.context, half_done(paths))


def has_template(paths: tuple[Path, ...]) -> bool | None:
    """Whether there is a chat template: in a GGUF's header, in a file of its own, or with the tokenizer."""
    from harness.models.gguf import read_header

    by_name = {path.name: path for path in paths}
    ggufs = [path for path in paths if path.suffix.lower() == ".gguf"]
    try:
        if ggufs:
            return read_header(ggufs[0]).has_chat_template
        if "chat_template.jinja" in by_name or "chat_template.json" in by_name:
            return True
        if "tokenizer_config.json" not in by_name:
            return False
        return bool(json.loads(by_name["tokenizer_config.json"].read_text(encoding="utf-8")).get("chat_template"))
    except (OSError, ValueError, AttributeError, DrydockError):
        return None


def half_done(paths: tuple[Path, ...]) -> tuple[tuple[Path, int], ...]:
    """What a broken-off download left beside these files in the hub's cache."""
    folders = {path.resolve().parent for path in paths}
    return tuple(
        (left, left.stat().st_size)
        for folder in sorted(folders)
        if folder.name == "blobs"
        for left in sorted(folder.glob("*.incomplete"))
    )


def compare_sums(files: ModelFiles, seconds: float) -> Sums:
    """Read files, the smallest first, and compare them, for as long as there is time."""
    from harness.models.sums import check_sum, files_of, is_known

    started = time.monotonic()
    wrong: list[Path] = []
    right = unknown = unread = 0
    for name, path in sorted(files_of(files), key=lambda item: item[1].stat().st_size):
        if not is_known(path, files):
            unknown += 1
            continue
        left = seconds - (time.monotonic() - started)
        found = check_sum(name, path, files, left) if left > 0 else None
        if found is None:
            unread += path.stat().st_size
        elif found.good is False:
            wrong.append(path)
        else:
            right += 1
    return Sums(tuple(wrong), right, unknown, unread)


def decide_files(facts: Facts) -> list[Finding]:
    """All files are there and whole, or they would have been refused; what is left over takes room."""
    count = f"{len(facts.files)} file{'s' * (len(facts.files) != 1)}"
    findings = [ok(f"{facts.name}: {count}, {decimal(facts.size)}, whole ({facts.origin})")]
    if facts.half:
        size = decimal(sum(size for _, size in facts.half))
        findings.append(
            warn(
                f"{len(facts.half)} files of a download that was broken off lie beside them ({size}).",
                "They take room; nothing serves them.",
                "\n".join(f"rm {path}" for path, _ in facts.half[:3]),
            )
        )
    return findings


def decide_sums(sums: Sums, model: str, cache: Path) -> list[Finding]:
    """A file with another content is damaged or somebody else's: it answers, and answers something else.

    Args:
        cache: our own, in which nobody keeps anything else; a file there may be removed without a second thought.
    """
    findings = []
    for path in sums.wrong:
        file = path.resolve()
        found = bad(
            f"{path} is not the file that it should be: its checksum is another.",
            "A damaged disk or download, or somebody changed it: the server may crash, or answer nonsense.",
            f"rm {file}\nmake up   # fetches it anew",
        )
        findings.append(mended(found, "rm", "--", str(file)) if file.is_relative_to(cache.resolve()) else found)
    if sums.unread:
        findings.append(
            note(
                f"{decimal(sums.unread)} of the weights were not compared with their checksums: that takes longer.",
                mend="make doctor TOPIC=model   # reads all of them",
            )
        )
    if sums.right and not sums.wrong:
        plural = "s" if sums.right > 1 else ""
        findings.append(ok(f"{sums.right} file{plural} of {model} compared: the checksum{plural} fit"))
    if sums.unknown:
        findings.append(note(f"{sums.unknown} files of {model} are your own: nobody knows what their checksums are."))
    return findings


def decide_template(facts: Facts, engine: str) -> list[Finding]:
    """Without a chat template an engine refuses chats, or takes another model's."""
    if facts.template is None:
        return [
            warn(
                f"Whether {facts.name} has a chat template can't be read.",
                "Chats may be refused.",
                "make check STAGE=1   # tries one",
            )
        ]
    if facts.template:
        return [ok("chat template: there")]
    what = "refuses every chat" if engine != "llamacpp" else "takes another model's, and answers get worse"
    return [
        warn(
            f"{facts.name} has no chat template: a base model, or a file that is missing.",
            f"The engine {what}; agents and trainers that bring no template of their own disagree with it.",
            "make up MODEL=…   # the model's -Instruct sister, or add its chat_template.jinja",
        )
    ]


def decide_context(facts: Facts, asked: int) -> list[Finding]:
    """The context that was asked for, against what the model can attend to."""
    if facts.context is None:
        return []
    if asked > facts.context:
        return [
            warn(
                f"CONTEXT={asked:,} is more than the {facts.context:,} tokens that {facts.name} was trained for.",
                "vLLM and SGLang refuse to start; llama.cpp serves it, and answers turn to nonsense.",
                f"make up CONTEXT={facts.context}",
            )
        ]
    if 0 < asked < SHORT_CONTEXT or facts.context < SHORT_CONTEXT:
        short = min(facts.context, asked or facts.context)
        return [
            warn(
                f"One request may use {short:,} tokens in all.",
                "An agent with tools or several turns runs into that: answers are cut, or refused with HTTP 400.",
                f"make up CONTEXT={min(facts.context, 8192)}"
                if facts.context >= SHORT_CONTEXT
                else "make up MODEL=…   # a model with a longer context",
            )
        ]
    said = f"{asked:,} of {facts.context:,}" if asked else f"{facts.context:,}"
    return [ok(f"context: {said} tokens")]


# --- the checks


def _settings(context: Context) -> Settings | None:
    """What the running stack, else the next `up`, serves; None where nothing is served from here."""
    if not context.runs_stacks or context.problem is not None:
        return None
    try:
        from harness.stack.status import recall

        settings = recall(context.settings)[0].settings
    except (DrydockError, ImportError):
        settings = context.settings
    return None if settings.engine == "external" else settings


def _files(context: Context) -> list[Finding]:
    settings = _settings(context)
    if settings is None:
        return [note("No model is served from here.")]
    try:
        files = gather(settings)
    except ImportError:
        return [note("Not looked at: the Python packages that `up` needs aren't installed.")]
    except DrydockError as error:
        return [of_error(error)]
    if files is None:
        return [note(f"The weights of MODEL={settings.model} aren't here yet; `make up` fetches them.")]
    facts = facts_of(files)
    return [
        *decide_files(facts),
        *decide_template(facts, settings.engine),
        *decide_context(facts, settings.context or _unasked(settings.engine, facts)),
    ]


def _unasked(engine: str, facts: Facts) -> int:
    """The context that an engine gives a request of its own accord; 0: the model's."""
    return min(engines.load(engine).context, facts.context or 0)


def _sums(context: Context) -> list[Finding]:
    settings = _settings(context)
    if settings is None:
        return []
    try:
        files = gather(settings)
    except (DrydockError, ImportError):
        return []  # said among the files
    if files is None:
        return []
    seconds = HASH_SECONDS_ON_REQUEST if "model" in context.asked else HASH_SECONDS
    return decide_sums(compare_sums(files, seconds), files.names[0], settings.cache)


CHECKS = (
    Check("model.files", _files),
    Check("model.checksums", _sums, limit=3.8, limit_on_request=HASH_SECONDS_ON_REQUEST + 60),
)
