"""Starts llama.cpp's own HTTP server for one GGUF file (xllamacpp has no command line of its own).

``python llamacpp_server.py --model FILE --alias NAME [--context N] [--slots N] [--threads N] [--set NAME=VALUE ...]``

Runs until SIGTERM or SIGINT, then exits 0. A model that cannot be loaded ends it with code 1 and a sentence on stderr.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

import xllamacpp

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}

# A blocked HTTP thread is all that a waiting request costs. With fewer threads than requests in flight, the rest would
# wait unread in the socket: health and metrics would queue behind them and a cancelled call would not be noticed.
HTTP_THREADS = 640

# Prompts of idle slots are kept in memory; llama.cpp's own limit of 8 GiB is too much beside Ray on a laptop.
PROMPT_CACHE_MIB = 512

# Six lines of timings for every request otherwise (--set verbosity=3 brings them back).
WARNINGS = 2


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop."""
    options = parse_arguments(arguments)
    # Blocked before llama.cpp starts its threads, so that they inherit the mask and only sigwait() below sees a signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        parameters = build_parameters(options)
    except ValueError as error:
        print(f"llamacpp_server: {error}", file=sys.stderr, flush=True)
        return 2
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        print(f"llamacpp_server: {options.model} cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"llamacpp_server: xllamacpp {xllamacpp.__version__} listening on {server.listening_address}", flush=True)
    received = signal.sigwait(STOP_SIGNALS)
    print(f"llamacpp_server: stopped by {signal.Signals(received).name}", flush=True)
    # Tearing the server down would wait for generations in flight; nothing here needs saving.
    os._exit(0)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="llamacpp_server", description="Serve one GGUF file with llama.cpp.")
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--alias", required=True, help="name the model is served under")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--context", type=int, default=2048, help="tokens of a request, prompt and answer together")
    parser.add_argument("--slots", type=int, default=16, help="requests generated at once; more than 16 are slower")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for generation")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="extra",
        help="any other field of xllamacpp.CommonParams that is a number, a boolean or a string",
    )
    return parser.parse_args(arguments)


def build_parameters(options: argparse.Namespace) -> Any:
    """Turn the command line into llama.cpp's parameters. Raises ValueError for a --set that cannot be applied."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(options.model)
    parameters.model_alias = {options.alias}
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_parallel = options.slots
    # llama.cpp divides the context among the slots; a user thinks of it per request.
    parameters.n_ctx = options.context * options.slots
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.n_threads_http = HTTP_THREADS
    parameters.cache_ram_mib = PROMPT_CACHE_MIB
    parameters.use_jinja = True
    parameters.embedding = False
    parameters.endpoint_metrics = True
    parameters.ui = False
    # The sizes asked for are the sizes served; llama.cpp would shrink them to what it believes is free.
    parameters.fit_params = False
    # Browsers never get here: the gateway answers their key-less preflight with 401.
    parameters.cors_origins = ""
    parameters.cors_origins_explicit = True
    parameters.verbosity = WARNINGS
    # What a request leaves out means what it means to OpenAI. llama.cpp's own defaults (0.8, top 40, top-p 0.95,
    # min-p 0.05) would cut off the distribution that an RL user believes to sample from.
    parameters.sampling.temp = 1.0
    parameters.sampling.top_k = 0
    parameters.sampling.top_p = 1.0
    parameters.sampling.min_p = 0.0
    for assignment in options.extra:
        apply_assignment(parameters, assignment)
    return parameters


def apply_assignment(parameters: Any, assignment: str) -> None:
    """Set one plain field of the parameters from ``NAME=VALUE``; the field's present type decides how VALUE is read."""
    name, separator, text = assignment.partition("=")
    if not separator or not hasattr(parameters, name):
        raise ValueError(f"--set {assignment}: not NAME=VALUE with a field of xllamacpp.CommonParams")
    current = getattr(parameters, name)
    if isinstance(current, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"--set {assignment}: {name} is true or false")
        setattr(parameters, name, text.lower() == "true")
    elif isinstance(current, (int, float, str)) and type(current) in (int, float, str):
        setattr(parameters, name, type(current)(text))
    else:
        raise ValueError(f"--set {assignment}: {name} is not a number, a boolean or a string")


if __name__ == "__main__":
    sys.exit(main())
