"""The gateway's settings: read once from the environment, checked, then handed around as one frozen object."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_KEY_FILE = Path("/run/secrets/api_key")
DEFAULT_PORT = 8080


class ConfigError(Exception):
    """The container was started with settings it cannot serve with. The text says which and what to do."""


@dataclass(frozen=True)
class Start:
    """How this engine is started and seen to work, as its file in harness/engines says."""

    command: tuple[str, ...]  # words with placeholders: {python} {model} {name} {port} {context} {threads}
    environment: Mapping[str, str] = field(default_factory=dict)
    with_threads: Mapping[str, str] = field(default_factory=dict)  # set as well where threads were asked for
    counters: tuple[str, ...] = ()  # metric names whose sum grows while the engine works
    distributions: tuple[str, ...] = ()  # installed Python packages that may carry its version


@dataclass(frozen=True)
class Config:
    """Everything the gateway was told."""

    engine: str
    start: Start
    model_path: str
    model_names: tuple[str, ...]  # the first is the name the engine itself serves under
    api_key: str
    context: int | None = None  # tokens of a request, prompt and answer together; None: the engine's own default
    threads: int | None = None  # CPU threads for generation; None: the engine's own default
    engine_args: tuple[str, ...] = ()  # the user's own additions to the engine's command line
    image_args: tuple[str, ...] = ()  # additions of the image (a CPU build's --enforce-eager) and for its GPUs
    engine_python: str = "python3"
    host: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    engine_port: int = 8000
    health_seconds: float = 15.0  # how long /health waits for a sign of progress
    stop_seconds: float = 8.0  # how long the engine may take to stop; Docker kills after 10

    @property
    def served_name(self) -> str:
        """The name the engine serves the model under."""
        return self.model_names[0]

    @property
    def engine_url(self) -> str:
        """Where the engine listens, inside the container only."""
        return f"http://127.0.0.1:{self.engine_port}"


def load_config(environment: Mapping[str, str]) -> Config:
    """Build the settings from environment variables. Raises ConfigError with the variable's name."""
    engine = environment.get("ENGINE", "")
    if not engine:
        raise ConfigError("ENGINE is not set; it names what ENGINE_START starts.")
    model_path = environment.get("MODEL_PATH", "")
    if not model_path:
        raise ConfigError("MODEL_PATH is not set; it names the weights inside the container, under /models.")
    return Config(
        engine=engine,
        start=_start(environment.get("ENGINE_START", "")),
        model_path=model_path,
        model_names=_model_names(environment.get("MODEL_NAMES", "")),
        api_key=read_key(key_file(environment)),
        context=_optional_integer(environment, "CONTEXT", least=16),
        threads=_optional_integer(environment, "THREADS", least=1),
        engine_args=_words(environment, "ENGINE_ARGS"),
        image_args=(*_words(environment, "ENGINE_IMAGE_ARGS"), *_words(environment, "ENGINE_GPU_ARGS")),
        engine_python=environment.get("ENGINE_PYTHON") or "python3",
        host=environment.get("GATEWAY_HOST") or "0.0.0.0",
        port=_optional_integer(environment, "GATEWAY_PORT", least=1) or DEFAULT_PORT,
        engine_port=_optional_integer(environment, "ENGINE_PORT", least=1) or 8000,
        health_seconds=float(_optional_integer(environment, "HEALTH_SECONDS", least=1) or 15),
    )


def key_file(environment: Mapping[str, str]) -> Path:
    """Where the key lies."""
    return Path(environment.get("API_KEY_FILE") or DEFAULT_KEY_FILE)


def read_key(path: Path) -> str:
    """Read the API key. Raises ConfigError: without a key nothing is served."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"The API key cannot be read from {path}: {error.strerror}. Without a key nothing is served; "
            "mount it there, readable for the container's user, or name another file in API_KEY_FILE."
        ) from error
    if not key:
        raise ConfigError(f"The API key file {path} is empty. Without a key nothing is served.")
    return key


def _start(text: str) -> Start:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("ENGINE_START is not JSON; it says how the engine is started.") from error
    if not isinstance(raw, dict):
        raise ConfigError("ENGINE_START is not a JSON object.")
    command = _texts(raw, "command")
    if not command:
        raise ConfigError("ENGINE_START has no command.")
    return Start(
        command=command,
        environment=_variables(raw, "environment"),
        with_threads=_variables(raw, "with_threads"),
        counters=_texts(raw, "counters"),
        distributions=_texts(raw, "distributions"),
    )


def _texts(raw: dict[str, Any], name: str) -> tuple[str, ...]:
    found = raw.get(name, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ConfigError(f"ENGINE_START: {name} is not a list of texts.")
    return tuple(found)


def _variables(raw: dict[str, Any], name: str) -> dict[str, str]:
    found = raw.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ConfigError(f"ENGINE_START: {name} has other values than texts.")
    return found


def _model_names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"MODEL_NAMES={text!r} is not a JSON list of names.") from error
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"MODEL_NAMES={text!r} must be a JSON list of at least one name; the first is the alias.")
    return tuple(dict.fromkeys(names))


def _optional_integer(environment: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 18 or int(text) < least:
        raise ConfigError(f"{name}={text!r} must be a whole number of at least {least}.")
    return int(text)


def _words(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(environment.get(name, "")))
    except ValueError as error:
        raise ConfigError(f"{name}={environment[name]!r} cannot be split into words: {error}.") from error
