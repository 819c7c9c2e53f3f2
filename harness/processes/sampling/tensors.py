"""Sizes of tensors in another process, read from its memory without stopping it or running anything in it.

py-spy tells a local variable's type and address only. A Python tensor object leads to PyTorch's TensorImpl, in which
sizes, strides and number of elements lie behind each other. Where exactly depends on PyTorch's version, so the place is
found by what must hold there: the product of the sizes is the number of elements. What doesn't fit stays as it was.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import struct
from typing import Any

from harness.processes.redact import HIDDEN, is_secret_name, redact_command
from harness.processes.sampling import reach

# c10::ScalarType, whose order PyTorch keeps.
_TYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
          "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16")  # fmt: skip
_LATER_TYPES = {23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz"}
_ADDRESS = re.compile(r"<(?P<type>Tensor|Parameter|Buffer) at 0x(?P<address>[0-9a-f]{4,16})>")
_INLINE, _WORDS = 5, 32
_POINTERS = (16, 24)
# Where sizes and strides begin in a TensorImpl, in words: behind its reference counts, storage and version.
_PLACES = range(5, 15)
_LONGEST = 300


class Memory(reach.Memory):
    """Another process's memory, as tensors."""

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Signed 64-bit words; () where nothing is mapped."""
        content = self.read(address, 8 * count)
        return struct.unpack(f"{len(content) // 8}q", content[: len(content) // 8 * 8])

    def tensor(self, address: int) -> str | None:
        """``float32[4, 8]`` for the tensor object at an address; None where that isn't one."""
        head = self.words(address, 4)
        for place in _POINTERS:
            pointer = head[place // 8] if len(head) == 4 else 0
            if pointer > 4096:
                found = self._implementation(self.words(pointer, _WORDS))
                if found is not None:
                    return found
        return None

    def _implementation(self, words: tuple[int, ...]) -> str | None:
        if len(words) < _WORDS:
            return None
        for place in _PLACES:
            rank, count = words[place], words[place + 12]
            if not 0 <= rank <= 64 or count < 0:
                continue
            sizes = words[place + 1 : place + 1 + rank] if rank <= _INLINE else self.words(words[place + 1], rank)
            kind = _type(words[place + 13] & 0xFFFF)
            if kind is None or len(sizes) != rank or any(not 0 <= size < 2**48 for size in sizes):
                continue
            if math.prod(sizes) == count:
                return f"{kind}[{', '.join(map(str, sizes))}]"
        return None


def _type(code: int) -> str | None:
    return _TYPES[code] if code < len(_TYPES) else _LATER_TYPES.get(code)


def with_sizes(content: bytes, pid: int) -> tuple[bytes, str]:
    """py-spy's dump with its tensors' sizes and without secrets; and the blocked call with its tensors, in words.

    Args:
        content: what ``py-spy dump --json --locals`` printed.

    Returns:
        The dump, and ``all_reduce(tensor=float32[4])`` for a thread that is in a call of torch.distributed, or "".
    """
    threads = json.loads(content)
    with contextlib.ExitStack() as stack:
        try:
            memory: Memory | None = stack.enter_context(Memory(pid))
        except OSError:
            memory = None
        for thread in threads:
            for frame in thread.get("frames") or ():
                for local in frame.get("locals") or ():
                    local["repr"] = _shown(local, memory)
    calls = [call for thread in threads if (call := _blocked_call(thread.get("frames") or []))]
    return json.dumps(threads, indent=1).encode(), calls[0] if calls else ""


def _shown(local: dict[str, Any], memory: Memory | None) -> str | None:
    text = local.get("repr")
    if not isinstance(text, str):
        return None
    if is_secret_name(str(local.get("name"))):
        return HIDDEN

    def sized(match: re.Match[str]) -> str:
        found = None if memory is None else memory.tensor(int(match["address"], 16))
        return match[0] if found is None else f"<{match['type']} {found}>"

    return redact_command(_ADDRESS.sub(sized, text)[:_LONGEST])


def _blocked_call(frames: list[dict[str, Any]]) -> str:
    """The outermost of the innermost calls into torch.distributed: what the program itself has called."""
    call = ""
    for frame in frames:
        name = str(frame.get("short_filename") or "")
        if not name.startswith("torch/distributed/"):
            break
        if name.startswith("torch/distributed/distributed_c10d"):
            arguments = [
                f"{local['name']}={local['repr']}"
                for local in frame.get("locals") or ()
                if local.get("arg") and local.get("name") not in ("group", "async_op") and _tells(local.get("repr"))
            ]
            call = f"{str(frame.get('name')).rpartition('.')[2]}({', '.join(arguments)})"
    return re.sub(r"<(?:Tensor|Parameter|Buffer) ([^>]*)>", r"\1", call)


def _tells(text: object) -> bool:
    """Whether a value says something of what is sent: a tensor, tensors, or a rank."""
    return isinstance(text, str) and (re.search(r"<(?:Tensor|Parameter|Buffer) ", text) is not None or text.isdecimal())
