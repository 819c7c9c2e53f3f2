"""Every value that a user can set, with its default, in one typed place.

A value is looked for in this order, and the first hit wins:

1. a flag of the command (``harness up --model …``) or a variable on make's command line (``make up MODEL=…``);
2. the environment (``MODEL=… harness up``);
3. the file ``drydock.env`` in the clone (``NAME=value`` lines);
4. the default below.

``harness settings`` prints each value and where it came from, because an exported ``MODEL`` that nobody remembers
is a common reason why the wrong thing runs.

Every verb reads them first, so what they are made of is light: a dataclass, and click's types to read a text by.
"""

# ruff: noqa: RUF009  # ``field`` makes what dataclasses.field makes

import dataclasses
import json
import math
import os
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from harness.errors import BadSetting, nearest
from harness.places import home as home
from harness.places import in_container as in_container

# How a command was typed that was handed on into a container: JSON of names and texts.
TYPED = "DRYDOCK_TYPED"

Engine = Literal["llamacpp", "vllm", "sglang", "external"]
Origin = Literal["flag", "make", "environment", "drydock.env", "default"]


class BadValue(ValueError):
    """A value that a setting can't have.

    Attributes:
        field: the setting.
        reason: why, in a few words.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class Secret:
    """A text that isn't shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return "**********" if self._text else ""

    __repr__ = __str__


def field(default: Any, *, description: str, alias: str = "", **limits: float) -> Any:
    """A setting.

    Args:
        alias: its name in the environment, where that isn't its own in capitals.
        limits: ``ge``, ``gt``, ``le``, ``lt``: least and largest value.
    """
    return dataclasses.field(default=default, metadata={"description": description, "alias": alias, "limits": limits})


@dataclass(frozen=True)
class Settings:
    """All settings; a field's environment name is its own name in capitals unless it has an alias.

    Attributes:
        given: the fields that somebody set, and those that were changed since.
        origins: where these come from, as far as it is known.
        texts: how they were typed, for commands that repeat them.

    Raises:
        BadValue: a field's value can't be read, or is out of its limits.
    """

    model: str = field("smollm2-135m", description="alias, hub id (with @revision), folder or GGUF file")
    engine: Engine = field("llamacpp", description="inference engine: llamacpp, vllm, sglang or external")
    context: int = field(
        0, ge=0, description="tokens one request may use in all; 0: what suits the model and the engine"
    )
    threads: int = field(0, ge=0, description="threads the engine computes with; 0: all cores but one")
    engine_args: str = field("", description="further flags for the engine, as its own command line takes them")
    openai_base_url: str | None = field(None, description="ENGINE=external: where the server is, with /v1")
    openai_api_key: Secret | None = field(None, description="ENGINE=external: its key")

    gpus_inference: str = field("", description="GPUs that serve: 0,1 or all or none; default: half of them")
    gpus_train: str = field("", description="GPUs of the Ray nodes: 2,3 or all or none; default: the other half")
    tp: int = field(0, ge=0, le=1024, description="GPUs over which each layer is split; 0: as few as hold the model")
    pp: int = field(0, ge=0, le=1024, description="GPUs over which the layers are dealt out; 0: one")
    dp: int = field(0, ge=0, le=1024, description="copies of the model; 0: as many as the GPUs that serve allow")
    memory_fraction: float = field(
        0, ge=0, lt=1, description="of a GPU's memory that the engine takes; 0: what suits, less beside training"
    )

    workspace: Path = field(Path("examples"), description="your project; mounted as /workspace in every container")
    requirements: Path | None = field(None, description="default: your requirements.txt or pyproject.toml")
    framework: str | None = field(None, description="areal, verl, slime, or any image with Python, to stand on")
    framework_src: Path | None = field(
        None, description="a checkout of a framework, installed editable in every Ray node"
    )
    workers: int = field(0, ge=0, le=64, description="Ray nodes beside the head")
    share: str = field("", description="address of this machine at which others join its Ray cluster; default: none")
    ray_port: int = field(
        6379, ge=1024, le=65525, description="SHARE: first of ten ports for Ray; `ports` lists what else is used"
    )
    head: str = field("", description="`worker`: HOST:PORT of the machine whose cluster this one joins")
    token_file: Path | None = field(None, description="`worker`: file with that cluster's token")
    node_network: str = field(
        "host", description="`worker`: the node's network: host, or container:NAME for that container's own"
    )
    memory_limit: str = field(
        "", description="memory of `dev` and each Ray node: 12g or none; default: leaves room for machine and server"
    )
    pids_limit: int = field(0, ge=0, description="processes and threads of each of them; 0: 8192, more on many cores")
    cpu_limit: float = field(0, ge=0, description="cores of each of them; 0: all, with half the server's weight")

    debug: str = field(
        "", description="what training containers tell: nccl, detail, recorder, sync, asyncio, faulthandler, patient"
    )

    port: int = field(8080, ge=1, le=65535, description="port of the inference server on 127.0.0.1")
    ray_auth: Literal["token", "off"] = field(
        "token", description="off: Ray and its dashboard ask nobody for a token; `up` says what that opens"
    )
    dashboard_port: int = field(8265, ge=1, le=65535, description="port of Ray's dashboard on 127.0.0.1")
    project: str = field("drydock", description="Compose project; another name gives a second, separate stack")
    wait: float = field(600, gt=0, description="seconds `up` waits for a service to be healthy")

    base: Literal["auto", "registry", "bootstrap"] = field(
        "auto", description="base image: pulled, or made from Debian packages"
    )
    namespace: str = field("drydock", description="first part of our images' names")
    image_mirror: str | None = field(None, description="prefix for every image pulled (a mirror of registries)")
    update: bool = field(False, description="`lock` takes what tags lead to now, instead of only showing it")
    diff: Path | None = field(None, description="`fingerprint` shows what differs from this one of a colleague's")
    debian_mirror: str | None = field(
        None, description="Debian mirror for a base image made here; default: this machine's"
    )
    cache: Path = field(Path("~/.cache/drydock"), alias="DRYDOCK_CACHE", description="weights that no hub cache holds")

    hf_endpoint: str | None = field(None, description="mirror of the model hub")
    hf_token: Secret | None = field(None, description="token for gated models")
    hf_hub_offline: bool = field(False, description="never ask the hub; use what is there")

    agent: str = field("agents/single_turn.py:SingleTurn", description="module:Class, module.Class or file.py:Class")
    data: str = field("data/capitals.jsonl", description="samples for the agent, one JSON object a line")
    stage: str = field("1,2", description="stages of the check, with commas between")
    seed: int | None = field(None, description="seed of the random sample; default: a new one each time, printed")
    timeout: float = field(120, gt=0, description="seconds that one run of an agent may take")
    server: Literal["real", "simulated"] = field("real", description="stage 3: the server, or one of ours in its place")
    faults: str = field("", description="what SERVER=simulated does wrong: 429:0.1,slow-first-token:2s; or all")
    latency: float = field(0.1, ge=0, le=600, description="seconds that an answer of SERVER=simulated takes")
    config: str = field("", description="training configuration of AReaL or verl, as YAML; found like AGENT")
    pause: bool = field(
        False, alias="BREAK", description="stage 4: the framework's worker waits for a debugger before it runs"
    )
    areal_python: Path | None = field(None, description="stage 4: an interpreter that has AReaL; default: this one")
    verl_python: Path | None = field(None, description="stage 4: an interpreter that has verl; default: this one")
    global_bs: int = field(
        256, ge=1, le=1_000_000, description="stages 3, 4: prompts of a training step over all ranks"
    )
    group_size: int = field(8, ge=1, le=10_000, description="stages 3 and 4: runs for each prompt")
    rollout_dp_size: int = field(4, ge=1, le=10_000, description="stage 3: ranks that share the prompts")
    in_flight: int = field(0, ge=0, le=100_000, description="stage 3: most runs at once; 0: all of them")

    out: Path | None = field(None, description="`save` writes the stack into this new folder; `report` this new file")
    from_folder: Path | None = field(None, alias="FROM", description="`load` brings in what `save` wrote there")

    reference: str = field(
        "", description="`compare`: the trainer's model, a folder, GGUF file or name as MODEL; default: MODEL"
    )
    compare_python: str = field(
        "", description="`compare`: Python with torch and transformers; default: this one, or one made from a lock"
    )
    limits: str = field("verl", description="`compare`: whose decide: verl, nemo-rl, prime-rl, slime, skyrl or all")
    dtype: str = field(
        "bfloat16,float32", description="`compare`: dtype of the reference, and one to tell rounding from weights"
    )
    device: str = field("", description="`compare`: where the reference computes: cpu, cuda:1; default: a GPU if any")
    batch_tokens: int = field(1024, ge=16, description="`compare`: tokens of one forward pass; bounds the memory")
    max_tokens: int = field(64, ge=1, description="`compare`: tokens of one sample")
    temperature: float = field(1.0, ge=0, le=10, description="`compare`: as your rollout samples; 1: the model's own")
    top_p: float = field(1.0, gt=0, le=1, description="`compare`: likewise")
    top_k: int = field(0, ge=0, description="`compare`: likewise; 0: all tokens")
    reward: str = field(
        "",
        description="stage 4 and `compare`: file.py:function that gives a reward, as AReaL or verl would call it",
    )

    record: Path | None = field(None, description="`check` keeps every call of every run in this new folder")
    replay: Path | None = field(None, description="`check` takes the answers from this recording, without any server")
    against: str = field(
        "",
        description="what is compared with: an earlier run; for `compare` also batch, cache or a second server's URL",
    )
    run: int | None = field(None, ge=0, description="which run of the recording stage 2 replays; default: the first")

    cmd: str = field("", description="command for `run`, as you would type it in a shell")
    background: bool = field(False, description="`run` returns at once and leaves the command running")
    grace: float = field(
        5, ge=0, description="seconds that processes of `run` may go on after the command itself has ended"
    )
    s: str = field("", description="service whose logs are shown; default: all")
    follow: bool = field(False, description="`logs` goes on until Ctrl-C")
    dir: Path | None = field(None, description="a project of your own for `init`")
    dump: str = field("", description="stacks for `diagnose`: a folder, an archive or a text file")
    pids: str = field("", description="processes for `hang-dump`, with commas between; with what they have started")
    containers: str = field("", description="containers for `hang-dump`, names or patterns (*) with commas between")
    match: str = field("", description="the same by a regular expression that is found in their command lines")
    logs: str = field("", description="log files whose ends `hang-dump` takes, with commas between; * is a pattern")
    locals: bool = field(False, description="`hang-dump` takes local variables, redacted: sizes of the blocked call")
    native: bool = field(False, description="`hang-dump` takes C and C++ frames; stops torch for a second or more")
    tasks: bool = field(False, description="`hang-dump` takes await chains of asyncio tasks; stops for a moment")
    ray_address: str = field(
        "", description="a Ray cluster whose nodes `hang-dump` samples: HOST:PORT of its head, or ray://HOST:PORT"
    )
    via: str = field("", description="`hang-dump` on other machines: a command that leads to {host}, as ssh {host}")
    hosts: str = field("", description="VIA's hosts: a,b or node[1-4] or @FILE with one on each line")
    remote: str = field("harness sample", description="VIA: what samples over there")
    gap: float = field(2, ge=0, le=600, description="seconds between the two samples of `hang-dump`")
    after: str = field("10m", description="`hang-watch`: dump when nothing gets on for so long: 90s, 10m, 1h")
    step: str = field(
        "",
        description="step counter for `hang-watch`: a regular expression in the log, or TensorBoard's or W&B's file",
    )
    notify: str = field("", description="`hang-watch` runs this shell command on a hang; HANG_TEXT says what")
    webhook: str = field("", description="`hang-watch` posts to this address when something hangs, as JSON with `text`")
    case: str = field("", description="program of examples/hangs for `hang-demo`; default: list them")
    session: int = field(0, ge=0, description="paused worker that `attach` is for, as `breakpoints` numbers them")
    pid: int = field(0, ge=0, description="process for `attach` and `trace`, paused or not")
    tui: bool = field(False, description="`attach` debugs here in the terminal instead of in VS Code")
    watch: bool = field(False, description="`breakpoints` goes on and tells of each new one until Ctrl-C")
    at: str = field("", description="line for `trace`: reward.py:42, or with as much of the path as it takes")
    condition: str = field("", alias="IF", description="expression that decides which hits of `trace` count")
    log: str = field("", description="what `trace` notes, as in an f-string: {reward:.3f} {prompt[:80]}")
    hits: int = field(
        20, alias="N", ge=1, le=1_000_000, description="hits that `trace` collects in all; samples of `compare` (64)"
    )
    actor: str = field("", description="actor class, or an actor's name, whose workers `trace` looks at; default: all")
    role: str = field("", description="worker, driver or areal: processes that `trace` looks at; default: all")
    topic: str = field("", description="topics of `doctor`, with commas between; default: all")
    fix: bool = field(
        False, description="`doctor` offers to run what mends, where that is safe; DRYDOCK_YES=1: runs it"
    )
    json_output: bool = field(False, alias="JSON", description="answer as one JSON document")
    yes: bool = field(False, alias="DRYDOCK_YES", description="don't ask before something is installed or removed")

    given: frozenset[str] = frozenset()
    origins: Mapping[str, Origin] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, own in settings_fields().items():
            value = getattr(self, name)
            if value is own.default and own.type is not float and name not in _MADE_ABSOLUTE:
                continue  # it is as it should be
            try:
                object.__setattr__(self, name, None if value is None else _as_meant(own, value))
            except click.BadParameter as error:
                raise BadValue(name, error.message.removesuffix(".")) from None
            except ValueError as error:
                raise BadValue(name, str(error)) from None

    def but(self, **values: Any) -> "Settings":
        """The same settings with other values for some."""
        return dataclasses.replace(self, **values, given=self.given | values.keys())

    def origin(self, name: str) -> Origin:
        """Where the value of a field came from."""
        return self.origins.get(name, "default")

    def changed(self) -> dict[str, str]:
        """The fields that are not at their default, as text that may be printed."""
        return {name: self.shown(name) for name in settings_fields() if self.origin(name) != "default"}

    def typed(self) -> dict[str, str]:
        """What came from the person with this command, by field, as it was typed; no secrets.

        What lies in ``drydock.env`` holds for the next command as well, and isn't among it.
        """
        return {
            name: text
            for name, text in self.texts.items()
            if self.origin(name) not in ("default", "drydock.env") and not isinstance(getattr(self, name), Secret)
        }

    def shown(self, name: str) -> str:
        """A value as text; secrets are starred."""
        value = getattr(self, name)
        return "" if value is None else str(value)

    @property
    def runs_dir(self) -> Path:
        """Where results are kept; ``RUNS`` is set in the containers, where the clone isn't."""
        return _runs_dir()

    @property
    def state_dir(self) -> Path:
        """What `up` keeps for itself in the clone: secrets, locks, logs of builds; one folder a Compose project."""
        return home() / ".drydock" / self.project


@lru_cache(maxsize=1)
def settings_fields() -> dict[str, "dataclasses.Field[Any]"]:
    """The fields that are settings; ``metadata`` has each one's ``description``, ``alias`` and ``limits``."""
    return {own.name: own for own in dataclasses.fields(Settings) if own.metadata}


def _as_meant(own: "dataclasses.Field[Any]", value: Any) -> Any:
    """A value as its field has it, out of a text or as it is.

    Raises:
        ValueError, click.BadParameter: it can't be read so.
    """
    kind, limits = own.type, own.metadata["limits"]
    if isinstance(kind, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not types.NoneType)
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind)).convert(value, None, None)
    if kind is bool:
        return click.BOOL.convert(value, None, None)
    if kind is int:
        return click.IntRange(limits.get("ge"), limits.get("le")).convert(value, None, None)
    if kind is float:
        number = click.FLOAT.convert(value, None, None)
        if math.isnan(number):
            raise ValueError("not a number")
        open_ends = {"min_open": "gt" in limits, "max_open": "lt" in limits}
        least, most = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
        return click.FloatRange(least, most, **open_ends).convert(number, None, None)
    if kind is Secret:
        return value if isinstance(value, Secret) else Secret(str(value))
    if kind is Path:
        return _path(own.name, Path(value))
    if not isinstance(value, str):
        raise ValueError("a text is meant")
    return _plain_name(value) if own.name in ("project", "namespace") else value


_MADE_ABSOLUTE = frozenset(
    {"workspace", "requirements", "framework_src", "cache", "dir", "diff", "out", "from_folder", "token_file"}
)


def _path(field: str, value: Path) -> Path:
    # ``runs/tape`` lies among the runs, wherever these are kept: on this machine, or in a container.
    if field in ("record", "replay") and value.parts[:1] == ("runs",):
        return _runs_dir().joinpath(*value.parts[1:]).absolute()
    if field not in _MADE_ABSOLUTE and field not in ("record", "replay"):
        return value
    # Paths are taken from the clone, so that make and the harness read them alike wherever they are called.
    try:
        return (home() / value.expanduser()).absolute()
    except RuntimeError:
        raise ValueError("no home folder of this user is known; set HOME") from None


def _plain_name(value: str) -> str:
    if not value or not all(c.isascii() and (c.islower() or c.isdigit() or c in "-_") for c in value):
        raise ValueError("small letters, digits, - and _ only")
    # Docker wants both of the names that begin with it, and 63 characters are the most that a network name takes.
    if value[0] in "-_" or len(value) > 40:
        raise ValueError("40 characters at most, the first a letter or a digit")
    return value


def _runs_dir() -> Path:
    return Path(os.environ.get("RUNS") or home() / "runs")


def environment_name(field: str) -> str:
    """The name under which the environment carries a field."""
    return settings_fields()[field].metadata["alias"] or field.upper()


def for_delegated(settings: Settings) -> dict[str, str]:
    """What tells a command that is run for this one, in a container, how this one was typed: for its environment."""
    names = environment_names()
    return {TYPED: json.dumps({names[field]: text for field, text in settings.typed().items()})}


def environment_names() -> dict[str, str]:
    """Field name to environment name, for all fields."""
    return {field: environment_name(field) for field in settings_fields()}


def load_settings(flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read all settings.

    Args:
        flags: values given as flags of the command, by field name; None values are as good as absent.
        environ: the environment, by default the process's own.

    Raises:
        BadSetting: a value can't be used; the message names the setting, the value's origin and the reason.
    """
    environment = os.environ if environ is None else environ
    from_make = set(environment.get("DRYDOCK_MAKE_VARS", "").split())
    file_values = _read_env_file(home() / "drydock.env")
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for field, name in environment_names().items():
        given = (flags or {}).get(field)
        if given is not None:
            values[field], origins[field] = given, "flag"
        # An empty value is as good as none: `make up MODEL=` means the default.
        elif environment.get(name):
            values[field], origins[field] = environment[name], "make" if name in from_make else "environment"
        elif file_values.get(name):
            values[field], origins[field] = file_values[name], "drydock.env"
    try:
        texts = _as_typed(values, environment)
        return Settings(**values, given=frozenset(values), origins=origins, texts=texts)
    except BadValue as error:
        raise BadSetting(
            f"{environment_name(error.field)}={values.get(error.field)!s} (from {origins.get(error.field, 'default')}) "
            f"can't be used: {error.reason}"
        ) from None


def _as_typed(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Values as text; where another command handed them on, only what was typed there, with the paths of there."""
    texts = {
        field: ("1" if value else "0") if isinstance(value, bool) else str(value) for field, value in values.items()
    }
    try:
        there = json.loads(environment[TYPED])
        return {field: str(there[name]) for field, name in environment_names().items() if name in there}
    except (KeyError, ValueError, TypeError):
        return texts


def _read_env_file(path: Path) -> dict[str, str]:
    """``NAME=value`` lines; ``#`` opens a comment line; one pair of quotes around a value is taken off."""
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadSetting(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise BadSetting(f"{path.name}, line {number}: not UTF-8") from None
    known = set(environment_names().values())
    values: dict[str, str] = {}
    for number, text in enumerate(lines, start=1):
        stripped = text.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not equals or name not in known:
            near = nearest(name.upper(), sorted(known)) if equals else ""
            reason = (
                f"{name} is no setting{f'; did you mean {near}=?' if near else ''}"
                if equals and name
                else "not NAME=value"
            )
            raise BadSetting(f"{path.name}, line {number}: {reason}")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[name] = value
    return values
