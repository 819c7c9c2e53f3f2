"""Every value that a user can set, with its default, in one typed place.

A value is looked for in this order, and the first hit wins:

1. a flag of the command (``harness up --model …``) or a variable on make's command line (``make up MODEL=…``);
2. the environment (``MODEL=… harness up``);
3. the file ``drydock.env`` in the clone (``NAME=value`` lines);
4. the default below.

``harness settings`` prints each value and where it came from, because an exported ``MODEL`` that nobody remembers
is a common reason why the wrong thing runs.
"""

# ruff: noqa: RUF009  # ``field`` makes what dataclasses.field makes

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from harness import engines
from harness.places import home, runs_dir
from harness.settings.reading import MADE_ABSOLUTE, Secret, as_meant, field

# One of `engines.names()`, or `external`.
Engine = str
ENGINES = (*engines.names(), "external")
Origin = Literal["flag", "make", "environment", "drydock.env", "default"]


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
    engine: Engine = field(
        "llamacpp", choices=ENGINES, description=f"inference engine: {', '.join(ENGINES[:-1])} or external"
    )
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
            if value is own.default and own.type is not float and name not in MADE_ABSOLUTE:
                continue  # it is as it should be
            object.__setattr__(self, name, None if value is None else as_meant(own, value))

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
        """A value as text, as one types it; secrets are starred."""
        value = getattr(self, name)
        if isinstance(value, bool):
            return "1" if value else "0"
        return "" if value is None else str(value)

    @property
    def runs_dir(self) -> Path:
        """Where results are kept; ``RUNS`` is set in the containers, where the clone isn't."""
        return runs_dir()

    @property
    def state_dir(self) -> Path:
        """What `up` keeps for itself in the clone: secrets, locks, logs of builds; one folder a Compose project."""
        return home() / ".drydock" / self.project


@lru_cache(maxsize=1)
def settings_fields() -> dict[str, "dataclasses.Field[Any]"]:
    """The fields that are settings; ``metadata`` has each one's ``description``, ``alias`` and ``limits``."""
    return {own.name: own for own in dataclasses.fields(Settings) if own.metadata}


def environment_name(field: str) -> str:
    """The name under which the environment carries a field."""
    return settings_fields()[field].metadata["alias"] or field.upper()


def environment_names() -> dict[str, str]:
    """Field name to environment name, for all fields."""
    return {field: environment_name(field) for field in settings_fields()}
