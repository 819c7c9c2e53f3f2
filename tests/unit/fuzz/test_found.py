"""Inputs that a parser once answered with an error of Python's, and what they are examples of."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.unit.fuzz.all import PARSERS
from tests.unit.fuzz.formats import GGUF
from tests.unit.fuzz.kept import TAPE
from tests.unit.fuzz.parser import held

ENDLESS = b"9" * 5000
FOUND: list[tuple[str, bytes]] = [
    ("GGUF", GGUF.replace(struct.pack("<IIQ", 9, 8, 2), struct.pack("<IIQQ", 9, 8, 2, 2**64 - 1))),
    ("GGUF", GGUF.replace(struct.pack("<IIQ", 9, 8, 2), struct.pack("<IIQQ", 9, 8, 2, 2**63 - 1))),
    ("recording, the calls of a run", TAPE.replace(b'["content-type", "text/event-stream"]', b'["content-type", []]')),
    ("Docker's config.json, its proxies", b'{"proxies": {"default": {"httpProxy": 7}}}'),
    ("Docker's config.json, its proxies", b'{"proxies": {"default": "x"}}'),
    ("Docker's config.json", b"[]"),
    ("a Docker context", b'{"Name": "mine", "Endpoints": {"docker": "x"}}'),
    ("local variables", b'[{"frames": 7}]'),
    ("conversations to compare", b'{"prompt": "x", "output_ids": NaN}\n'),
    ("samples of an earlier comparison", b'{"id": 0, "line": 1, "nobody": "knows"}\n'),
    ("samples of an earlier comparison", b'{"id": 0}\n'),
    ("conversations to compare", b'{"messages": [{"role": "user", "content": 7}]}\n'),
    ("conversations to compare", b'{"messages": [{"role": "user", "content": {"type": "text"}}]}\n'),
    (
        "training configuration",
        b"gconfig: {n_samples: 1}\nrollout:\n  x: 1\n  max_concurrent_rollouts: '${oc.select:a.b,%8}'\n",
    ),
    (
        "py-spy, faulthandler, pystack, gdb, Ray: text",
        b"Process " + ENDLESS + b': python train.py\nThread 1 (idle): "x"\n    f (a.py:1)\n',
    ),
    (
        "py-spy, faulthandler, pystack, gdb, Ray: text",
        b"== rank 0 (pid " + ENDLESS + b') ==\nThread 1 (idle): "x"\n    f (a.py:' + ENDLESS + b")\n",
    ),
    ("a saved stack, its checksums", b"8a" * 32 + b"  man\0ifest.json\n"),
    ("samples", b'{"n": ' + ENDLESS + b"}\n"),
    ("docker/images.lock", b"images: [" + ENDLESS + b"]"),
    ("docker/images.yaml", b"base: {image: [x]}"),
    ("the gateway's settings", b'ENGINE=x\nENGINE_START={"command": ["y"]}\nMODEL_PATH=/m\nMODEL_NAMES=' + b"[" * 3000),
    (
        "the gateway's settings",
        b'ENGINE=x\nENGINE_START={"command": ["y"]}\nMODEL_PATH=/m\nMODEL_NAMES=["m"]\nCONTEXT=' + ENDLESS,
    ),
    ("the gateway's settings", b"ENGINE=x\nENGINE_START=" + b"[" * 3000),
    ("tar.gz archive", b"\x1f\x8b\x08"),
    ("index of a model's shards", b'{"weight_map": {"a": "' + b"9" * 400 + b'"}}'),
    ("index of a model's shards", b'{"weight_map": {"a": "../../etc/passwd"}}'),
    ("config.json of a model", b'{"architectures": {"x": 1}}'),
    ("index of a model's shards", b'{"weight_map": {"a": 7}}'),
    ("what the last `up` found", b'{"names": [1, "a"], "watched": {"/x": [1]}}'),
    ("steps of builds", b'{"steps": 0}'),
    ("steps of builds", b'{"shift": 0, "steps": [{"name": 1, "started": [], "completed": 2}]}'),
    ("numbers of paused workers", b'{"a": [{}]}'),
    ("/proc/net/route", b"x\na b c d e f g Mask\n"),
    ("nvidia-smi, who holds memory", b"4711, python, " + ENDLESS + b"\n" + ENDLESS + b", python, 1\n"),
    ("nvidia-smi topo", b"\tGPU0x\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n"),
    ("answers of Ray and of the server", b'{"data": {"summary": [{"raylet": []}]}}'),
    ("address pools of Docker", b'"x"'),
    ("os-release", b"ID\xd6=x"),
]


@pytest.mark.parametrize(("name", "data"), FOUND, ids=[f"{name} {number}" for number, (name, _) in enumerate(FOUND)])
def test_it_is_refused_or_read_now(name: str, data: bytes, tmp_path: Path) -> None:
    held(PARSERS[name], data, tmp_path)
