"""Inference engines, a file each: ``NAME.yaml`` is what ``ENGINE=NAME`` means.

Everything that differs between engines and isn't code stands there: which weights one reads, where it can serve from,
its image, its command line, its counters. The gateway gets its part from there, too (``ENGINE_START``), so that one
more engine is one more file: CONTRIBUTING.md shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal

from harness.errors import EngineUnreadable

FOLDER = Path(__file__).parent
TO_START = frozenset({"python", "model", "name", "port", "context", "threads"})
OF_CARDS = frozenset({"tensor", "pipeline", "data", "memory"})

Format = Literal["gguf", "safetensors"]


@dataclass(frozen=True)
class Start:
    """How the gateway starts an engine and sees it work.

    Words may have placeholders (``TO_START``): {model} is a path, {name} what it serves under.

    Attributes:
        command: the words; flags of the image, of the GPUs and of the user come behind them.
        environment: set for the engine.
        with_threads: set as well where ``THREADS=`` was asked for.
        counters: metrics of its Prometheus page whose sum grows while it works.
        distributions: Python packages that may carry its version.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    with_threads: dict[str, str] = field(default_factory=dict)
    counters: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()


@dataclass(frozen=True)
class OnCpu:
    """Serving without a GPU, from an image of ours.

    Attributes:
        image: as an entry of ``images`` in docker/images.yaml: ``folder``, ``locks``, ``contexts``.
        disk_gb: what that image takes while it is built.
    """

    image: dict[str, Any]
    disk_gb: float = 1.0


@dataclass(frozen=True)
class OnGpu:
    """Serving from GPUs, in its project's own image.

    Attributes:
        image: by tag; ``why`` that one. Its digest is in docker/images.lock, which ``make lock`` writes.
        flags: how cards are used: {tensor}, {pipeline}, {data} parallel, {memory} (fraction of a card's).
    """

    image: str
    why: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class InferenceEngine:
    """One engine.

    Attributes:
        title: what people call it.
        weights: the format that it reads.
        memory_gb: what it holds beside the weights.
        context: tokens of a request where nobody says how many; 0: as many as the model can attend to.
    """

    name: str
    title: str
    weights: Format
    memory_gb: float
    start: Start
    cpu: OnCpu | None = None
    gpu: OnGpu | None = None
    context: int = 0


def names(folder: Path = FOLDER) -> tuple[str, ...]:
    """What ``ENGINE=`` can be, beside ``external``; reads no file."""
    return tuple(sorted(file.stem for file in folder.glob("*.yaml")))


@lru_cache(maxsize=64)
def load(name: str, folder: Path = FOLDER) -> InferenceEngine:
    """One engine by its name.

    Raises:
        EngineUnreadable: its file isn't what it should be.
    """
    # Settings need no more than the names, and are read by every verb.
    import yaml

    path = folder / f"{name}.yaml"
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _engine(name, raw)
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__} {error}" if isinstance(error, LookupError) else " ".join(str(error).split())
        raise EngineUnreadable(f"{path} describes no engine: {what[:300]}.") from None


def every(folder: Path = FOLDER) -> dict[str, InferenceEngine]:
    """All of them."""
    return {name: load(name, folder) for name in names(folder)}


def reading(weights: str) -> tuple[str, ...]:
    """Names of those that read this format; first those that need no GPU."""
    found = [engine for engine in every().values() if engine.weights == weights]
    return tuple(engine.name for engine in sorted(found, key=lambda engine: engine.cpu is None))


def weights_of(name: str) -> Format:
    """The format that ``ENGINE=NAME`` reads; safetensors for ``external``, as most do."""
    return load(name).weights if name in names() else "safetensors"


def _engine(name: str, raw: dict[str, Any]) -> InferenceEngine:
    start, cpu, gpu = raw["start"], raw.get("cpu"), raw.get("gpu")
    if raw["weights"] not in ("gguf", "safetensors"):
        raise ValueError(f"weights: {raw['weights']} is neither gguf nor safetensors")
    if not cpu and not gpu:
        raise ValueError("neither `cpu` nor `gpu` says where it serves from")
    if more := raw.keys() - {"title", "weights", "memory_gb", "context", "start", "cpu", "gpu"}:
        raise ValueError(f"unknown: {', '.join(sorted(map(str, more)))}")
    return InferenceEngine(
        name=name,
        title=str(raw["title"]),
        weights=raw["weights"],
        memory_gb=float(raw["memory_gb"]),
        start=Start(
            command=_words(start["command"], TO_START),
            environment=_texts(start.get("environment", {})),
            with_threads=_texts(start.get("with_threads", {})),
            counters=_words(start.get("counters", ())),
            distributions=_words(start.get("distributions", ())),
        ),
        cpu=OnCpu(dict(cpu["image"]), float(cpu.get("disk_gb", 1.0))) if cpu else None,
        gpu=OnGpu(str(gpu["image"]), str(gpu["why"]), _words(gpu.get("flags", ()), OF_CARDS)) if gpu else None,
        context=int(raw.get("context", 0)),
    )


def _words(raw: Any, placeholders: frozenset[str] = frozenset()) -> tuple[str, ...]:
    if not isinstance(raw, (list, tuple)):
        raise TypeError(f"{raw!r} is no list of words")
    words = tuple(map(str, raw))
    if placeholders:
        _check(words, placeholders)
    return words


def _texts(raw: Any) -> dict[str, str]:
    texts = {str(name): str(text) for name, text in raw.items()}
    _check(texts.values(), TO_START)
    return texts


def _check(texts: Iterable[str], placeholders: frozenset[str]) -> None:
    asked = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}
    if asked - placeholders:
        unknown, known = (", ".join(sorted(some)) for some in (asked - placeholders, placeholders))
        raise ValueError(f"there is no placeholder {unknown}; there are {known}")
