"""The main process maps the dataset first, which takes long, and the others wait to read its cache.

`with main_process_first()`, as most training scripts have it.

---
ranks: 3
needs: [torch]
state: slow
accept: [none, straggler]
"""

import hashlib
from contextlib import contextmanager

import torch.distributed as dist


@contextmanager
def main_process_first():
    if dist.get_rank() != 0:
        dist.barrier()
    yield
    if dist.get_rank() == 0:
        dist.barrier()


def tokenize(row):
    return [sum(map(ord, word)) % 32000 for word in row["text"].split()]


def chunk(tokens, size=16):
    return [tokens[start : start + size] for start in range(0, len(tokens), size)]


def fingerprint(chunks):
    digest = hashlib.sha256()
    for part in chunks:
        digest.update(repr(part).encode())
    return digest.hexdigest()


def map_rows(rows):
    return {number: fingerprint(chunk(tokenize({"text": f"row {number} " * 40}))) for number in rows}


dist.init_process_group("gloo")
print("ready", flush=True)
with main_process_first():
    map_rows(range(1_000_000_000) if dist.get_rank() == 0 else [])
