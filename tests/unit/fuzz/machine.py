"""Parsers of what this machine says: /proc, the driver, Docker's own files, other programs' output."""

# ruff: noqa: E501  # examples as they are

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from harness import docker_engine
from harness.doctor import engine
from harness.doctor.topics import docker_networks, gpu_cards, network_proxies, training
from harness.processes import stat
from harness.processes.sampling import gpu as sampling_gpu
from harness.stack import observe
from harness.stack.expected import Expected
from harness.stack.gpu import machine
from harness.stack.images import apt_config
from tests.unit.fuzz.parser import Parser, in_file, of_text

STAT = (
    b"4711 (python (x)) S 1 4711 4711 0 -1 4194304 100 0 0 0 12 3 0 0 20 0 5 0 12345 1000 200 18446744073709551615 "
    b"1 1 0 0 0 0 0 16781312 2 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
)
ROUTES = (
    b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    b"eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    b"eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
)
LISTING = b"0, GPU-1, NVIDIA H100 80GB HBM3, 81559, 580.65.06\n1, GPU-2, NVIDIA H100 80GB HBM3, 81559, 580.65.06\n"
HEADER = b"| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0     |\n"
CARDS = b"0, NVIDIA H100, Enabled, Enabled, 0, Disabled, Default, 120, 81559, 41\n1, x, [N/A], [N/A], [N/A], [N/A], Default, 1, 2, 3\n"
HOLDERS = b"4711, /usr/bin/python, 1200\n4712, [N/A], [N/A]\n"
LINKS = b"\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tCNS\tX\n\nLegend:\n"
SUMMARY = b'{"data": {"summary": [{"raylet": {"state": "ALIVE"}}]}}'
STATE = b'{"result": true, "data": {"result": {"result": [{"actor_id": "ab", "state": "ALIVE"}]}}}'
DOCKER = b'{"currentContext": "mine", "proxies": {"default": {"httpProxy": "http://p.example.com:1"}}}'
META = b'{"Name": "mine", "Endpoints": {"docker": {"Host": "unix:///run/mine.sock"}}}'
EXPECTED = Expected("p", {"dev": 1}, 2, 1, 2, "/nowhere")


def _configured(folder: Path) -> Any:
    return mock.patch.dict("os.environ", {"DOCKER_CONFIG": str(folder), "DOCKER_HOST": "", "DOCKER_CONTEXT": ""})


def _context(data: bytes, folder: Path) -> Any:
    (folder / "config.json").write_bytes(data)
    with _configured(folder):
        return docker_engine.context_name(), docker_engine._context_host()


def _meta(data: bytes, folder: Path) -> Any:
    (folder / "config.json").write_bytes(DOCKER)
    place = folder / "contexts/meta/x"
    place.mkdir(parents=True, exist_ok=True)
    (place / "meta.json").write_bytes(data)
    with _configured(folder):
        return docker_engine._context_host()


def _doctors_context(data: bytes, folder: Path) -> Any:
    (folder / "config.json").write_bytes(data)
    with _configured(folder), mock.patch.object(engine, "ask"):
        return engine._address()


def _asked(data: bytes, folder: Path) -> Any:
    with mock.patch.object(observe, "_get", return_value=(200, data, "")):
        ray = observe.ask_ray(EXPECTED)
    with mock.patch.object(observe, "_get", return_value=(503, data, "")):
        return ray, observe.ask_server(EXPECTED)


def _pools(data: bytes, folder: Path) -> Any:
    return docker_networks.pools_of(json.loads(data))


PARSERS = (
    Parser("/proc/PID/stat", lambda data, _: stat.parse_stat(data), (STAT,), (ValueError,)),
    Parser("/proc/PID/cmdline", lambda data, _: stat.parse_command(data), (b"python\0-m\0x\0",)),
    Parser("/proc/PID/environ", lambda data, _: training.read_environment(data), (b"NCCL_TIMEOUT=1\0A=b\0",)),
    Parser("/proc/net/route", of_text(docker_networks.read_routes), (ROUTES,)),
    Parser("nvidia-smi, the cards", of_text(machine.read_listing), (LISTING,)),
    Parser("nvidia-smi, its header", of_text(machine.read_cuda), (HEADER,)),
    Parser("nvidia-smi, conditions", of_text(gpu_cards.read_cards), (CARDS,)),
    Parser("nvidia-smi, who holds memory", of_text(gpu_cards.read_holders), (HOLDERS,)),
    Parser("nvidia-smi topo", of_text(gpu_cards.read_links), (LINKS,)),
    Parser("nvidia-smi, how busy", of_text(lambda text: sampling_gpu.busiest(text, text)), (b"GPU-1, 97\n4711, GPU-1\n",)),
    Parser("what CUDA an image wants", of_text(lambda text: machine.cuda_missing({"NVIDIA_REQUIRE_CUDA": text},
           machine.Machine(cuda="12.4"))), (b"cuda>=12.8 brand=tesla,driver>=535", b"cuda>=12.8 cuda>=13.0")),
    Parser("Docker's config.json", _context, (DOCKER,)),
    Parser("Docker's config.json, for the doctor", _doctors_context, (DOCKER,)),
    Parser("Docker's config.json, its proxies", of_text(lambda text: network_proxies.decide_proxies(network_proxies.gather_proxies({}, text))), (DOCKER,)),
    Parser("a Docker context", _meta, (META,)),
    Parser("answers of Ray and of the server", _asked, (SUMMARY, b'{"error": {"message": "x"}, "reason": "y"}')),
    Parser("address pools of Docker", _pools, (b'[{"Base": "10.0.0.0/8", "Size": 24}]',), (ValueError, RecursionError)),
    Parser("os-release", in_file("os-release", apt_config.read_os_release), (b'ID=debian\nVERSION_ID="12"\n',)),
)  # fmt: skip
