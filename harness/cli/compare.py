"""``harness compare``: do an inference engine and the trainer's model agree, token by token?"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import re
import shutil
from pathlib import Path
from typing import Any

import click

from harness import console
from harness.agent.source import AgentSource, locate_function
from harness.cli.options import json_option, setting_option
from harness.compare import limits
from harness.compare.checkpoint import Store, key
from harness.compare.conversations import find
from harness.compare.interpreter import python_for
from harness.compare.job import Job
from harness.compare.model import Sampling
from harness.errors import BadSetting, NoServerNamed, NoSuchRun, UnknownModel, UnusableModel
from harness.models import ModelFiles, abandon_conversion, ensure_weights, here, resolve
from harness.openai_api.http import Endpoint
from harness.runs import Redactor, RunFolder, index, shown
from harness.runs.environment import of_this_process, secrets_of
from harness.settings import Engine, Settings, load_settings

_SAMPLES, _AT_ONCE = 64, 64
_MODEL = re.compile(r"(make up )?\bMODEL=")


@click.command("compare")
@setting_option("model")
@setting_option("data")
@setting_option("hits")
@setting_option("reference")
@setting_option("compare_python")
@setting_option("limits")
@setting_option("dtype")
@setting_option("device")
@setting_option("batch_tokens")
@setting_option("max_tokens")
@setting_option("temperature")
@setting_option("top_p")
@setting_option("top_k")
@setting_option("seed")
@setting_option("in_flight")
@setting_option("reward")
@setting_option("against")
@setting_option("timeout")
@click.option("--base-url", "openai_base_url", help="the server, with /v1; default: the stack's")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="file with the server's key")
@json_option
def command(api_key_file: Path | None, **flags: Any) -> int:
    """Say whether an inference server and the trainer's model agree, token by token, and why not.

    The server samples; then it reads its own tokens, and so does the reference, teacher-forced with transformers. An
    interrupted comparison goes on where it was. Exit code 0: within the limits, on the same tokens; 1: not;
    2: wrong usage; 3: the environment is not fit.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    job = _job(settings, api_key_file)
    store_path = settings.runs_dir / f".compare-{key(job.key())}"
    store = Store(store_path)
    if len(store.samples):
        console.note(f"going on with {len(store.samples)} samples of an interrupted comparison ({store_path})")

    from harness.compare.against import compare_against
    from harness.compare.page import NAME, build
    from harness.compare.run import compare
    from harness.compare.show import Teller, show

    with Teller() as tell:
        outcome = asyncio.run((compare_against if job.against else compare)(job, store, tell))
    redactor = Redactor([job.endpoint.api_key, *secrets_of(dict(os.environ))])
    with RunFolder.create(settings.runs_dir, "compare", redactor) as folder:
        answer = outcome.as_dict()
        worst = [row for number in outcome.profile.worst if (row := _both(store, job, number)) is not None]
        made = datetime.datetime.now().isoformat(" ", "seconds")
        folder.write_text(NAME, build(outcome, worst, redactor, name=folder.path.name, made=made))
        _keep(store, folder.path)
        folder.finish(answer, fingerprint=of_this_process)
    index.write_page(settings.runs_dir)
    show(outcome)
    console.note(f"report: {shown(folder.path)}/{NAME}")
    if settings.json_output:
        console.emit_json({**redactor.data(answer), "folder": shown(folder.path)})
    return outcome.verdict.exit_code


def _job(settings: Settings, api_key_file: Path | None) -> Job:
    endpoint = _endpoint(settings, api_key_file)
    data = find(settings.data if settings.origin("data") != "default" else "", (Path.cwd(), settings.workspace))
    chosen = limits.chosen(settings.limits)
    dtypes = tuple(part.strip() for part in settings.dtype.split(",") if part.strip())
    known = ("bfloat16", "float32", "float64", "float16")
    if not 1 <= len(dtypes) <= 2 or any(one not in known for one in dtypes):
        raise BadSetting(f"DTYPE={settings.dtype} can't be used: one or two of {', '.join(known)}")
    path, size = _weights(settings)
    against, second, earlier = _against(settings, endpoint)
    reward = _reward(settings, against)
    return Job(
        endpoint=endpoint,
        model=settings.model,
        data=data,
        count=settings.hits if settings.origin("hits") != "default" else _SAMPLES,
        sampling=Sampling(
            max_tokens=settings.max_tokens,
            # Two runs of one server can only be held against each other where neither draws lots.
            temperature=0.0 if against in ("batch", "cache") else settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            seed=settings.seed,
        ),
        in_flight=settings.in_flight or _AT_ONCE,
        timeout=max(settings.timeout, 600.0) if settings.origin("timeout") == "default" else settings.timeout,
        reference=path,
        python=python_for(settings.compare_python),
        dtypes=dtypes,
        device=settings.device,
        batch_tokens=settings.batch_tokens,
        weights=size,
        limits=chosen,
        against=against,
        second=second,
        earlier=earlier,
        reward=reward,
    )


def _reward(settings: Settings, against: str) -> AgentSource | None:
    """The function that ``REWARD`` names, if one is named and there is a trainer's model to answer.

    Raises:
        AgentNotFound, AgentUnreadable: there is no such function.
    """
    if not settings.reward:
        return None
    found = locate_function(settings.reward, (Path.cwd(), settings.workspace))
    if against:
        console.note("REWARD= judges the engine and the trainer's model; AGAINST= compares without it")
        return None
    return found


def _against(settings: Settings, endpoint: Endpoint) -> tuple[str, Endpoint | None, Path | None]:
    """What ``AGAINST`` means: a way, a second server, or an earlier run.

    Raises:
        BadSetting: nothing.
    """
    given = settings.against.strip()
    if not given or given in ("batch", "cache"):
        return given, None, None
    if given.startswith(("http://", "https://")):
        return "server", Endpoint.parse(given, endpoint.api_key), None
    try:
        return "run", None, index.find(settings.runs_dir, given)
    except NoSuchRun as error:
        raise BadSetting(
            f"AGAINST={given} is neither a way, nor a server, nor a finished run. {error.consequence}".strip(),
            mend="AGAINST=batch, cache, http://HOST:PORT/v1, or a run's folder (make runs lists them)",
        ) from None


def _weights(settings: Settings) -> tuple[str, int]:
    """Where the reference's weights are on this machine, fetched if need be, and their bytes.

    Raises:
        UnknownModel, UnusableModel, WeightsMissing, HubUnreachable …: there are none.
    """
    if not settings.reference:
        return _weights_of(settings, settings.model)
    try:
        return _weights_of(settings, settings.reference)
    except (UnknownModel, UnusableModel) as error:
        # Its names are looked up like MODEL's, and it is REFERENCE that was typed.
        what, mend = (_MODEL.sub("REFERENCE=", text) for text in (error.what, error.mend))
        raise type(error)(what, mend=mend) from None


def _weights_of(settings: Settings, name: str) -> tuple[str, int]:
    folder = (Path.cwd() / Path(name).expanduser()).absolute()
    if folder.is_dir() and (folder / "config.json").is_file():
        return str(folder), sum(
            file.stat().st_size for kind in ("safetensors", "bin") for file in folder.glob(f"*.{kind}")
        )
    files = _here(settings, name)
    if files is None:
        # A server that isn't ours knows its model by any name; the reference is one of ours all the same.
        engine: Engine = "llamacpp" if settings.engine == "llamacpp" else "vllm"
        wanted = settings.but(model=name, engine=engine)
        files = ensure_weights(resolve(wanted), engine, wanted)
    if files.conversion is not None:
        # The GGUF is there; transformers reads it as well, so nothing has to be converted.
        abandon_conversion(files)
        return str(files.conversion.source), 0
    inside = Path(files.container_path).relative_to(files.mount_target)
    path = files.host_path / inside if inside.parts else files.host_path
    return str(path), files.size if path.is_dir() else 0


def _here(settings: Settings, name: str) -> ModelFiles | None:
    """Weights that are here already, safetensors before GGUF; asks no network."""
    engines: tuple[Engine, ...] = ("vllm", "llamacpp")
    for engine in engines:
        wanted = settings.but(model=name, engine=engine)
        try:
            found = here(resolve(wanted), engine, wanted)
        except UnusableModel:  # a GGUF file for vLLM, say
            continue
        if found is not None:
            return found
    return None


def _endpoint(settings: Settings, api_key_file: Path | None) -> Endpoint:
    if settings.openai_base_url is not None:
        key_text = settings.openai_api_key.get_secret_value() if settings.openai_api_key else ""
        if api_key_file is not None:
            key_text = _read(api_key_file)
        return Endpoint.parse(settings.openai_base_url, key_text)
    own = settings.state_dir / "secrets" / "api_key"
    if not own.is_file():
        raise NoServerNamed(
            "no server is named, and this stack has never been up",
            consequence="There is nothing to compare.",
            mend="make up ENGINE=vllm compare   # or OPENAI_BASE_URL=http://HOST:PORT/v1",
        )
    return Endpoint.parse(f"http://127.0.0.1:{settings.port}/v1", _read(own))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} can't be read: {error}") from None


def _both(store: Store, job: Job, number: int) -> tuple[int, int, list[float], list[float]] | None:
    """A sample's log-probs by both sides."""
    sample, theirs = store.sample(number), store.score(job.trainer, number)
    return None if theirs is None else (number, sample.line, sample.decode, theirs.logprobs)


def _keep(store: Store, folder: Path) -> None:
    """What was gathered becomes part of the run."""
    store.close()
    for file in sorted(store.folder.iterdir()):
        shutil.move(str(file), folder / file.name)
    with contextlib.suppress(OSError):  # the same comparison has begun anew there
        store.folder.rmdir()
