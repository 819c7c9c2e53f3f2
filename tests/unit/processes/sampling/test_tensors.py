"""Sizes of tensors are read from memory that looks like PyTorch's, and from nothing else."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

import pytest

from harness.processes.sampling.tensors import Memory, with_sizes


class Fake:
    """A tensor object as it lies in memory.

    Args:
        sizes: of the tensor.
        kind: PyTorch's number of the element type.
        before: words in front of the sizes, which differ between versions.
        pointer: where the object keeps the way to its implementation.
    """

    def __init__(self, sizes: list[int], kind: int = 6, before: int = 7, pointer: int = 16) -> None:
        self.words = (ctypes.c_int64 * 40)()
        for index in range(before):
            self.words[index] = 0x7F00_0000_1000 + index
        self.words[before] = len(sizes)
        self.far = (ctypes.c_int64 * (2 * max(len(sizes), 1)))(*sizes)
        if len(sizes) > 5:
            self.words[before + 1] = ctypes.addressof(self.far)
        else:
            for index, size in enumerate(sizes):
                self.words[before + 1 + index] = size
        count = 1
        for size in sizes:
            count *= size
        self.words[before + 12] = count
        self.words[before + 13] = kind | 0x1FF0000
        self.object = (ctypes.c_int64 * 8)()
        self.object[pointer // 8] = ctypes.addressof(self.words)

    @property
    def address(self) -> int:
        """Where the object lies."""
        return ctypes.addressof(self.object)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (Fake([4]), "float32[4]"),
        (Fake([2, 3, 5], kind=15), "bfloat16[2, 3, 5]"),
        (Fake([]), "float32[]"),
        (Fake([0, 8], kind=4), "int64[0, 8]"),
        (Fake([1, 2, 1, 2, 1, 2], kind=24), "float8_e4m3fn[1, 2, 1, 2, 1, 2]"),
        (Fake([7, 7], before=9, pointer=24), "float32[7, 7]"),
    ],
)
def test_sizes_are_found_wherever_a_version_has_them(tensor: Fake, expected: str) -> None:
    with Memory(os.getpid()) as memory:
        assert memory.tensor(tensor.address) == expected


def test_what_is_no_tensor_stays_as_it_was() -> None:
    wrong = Fake([4])
    wrong.words[19] = 5  # the number of elements doesn't fit
    with Memory(os.getpid()) as memory:
        assert memory.tensor(wrong.address) is None
        assert memory.tensor(8) is None
        assert memory.tensor(2**63) is None


def frame(name: str, file: str, **values: str) -> dict[str, Any]:
    """A frame with locals, all of them arguments."""
    found = [{"name": key, "addr": 1, "arg": True, "repr": value} for key, value in values.items()]
    return {"name": name, "filename": file, "short_filename": file, "line": 1, "locals": found}


def test_the_blocked_call_is_named_with_its_sizes_and_secrets_are_hidden() -> None:
    tensor = Fake([4, 2])
    c10d = "torch/distributed/distributed_c10d.py"
    stack = [
        frame("send", c10d, tensor=f"<Tensor at {tensor.address:#x}>", dst="1", group="<ProcessGroup at 0x7f00>"),
        frame("wrapper", "torch/distributed/c10d_logger.py", args="()"),
        frame("train", "train.py", api_key="sk-abcdefgh", url="http://me:secret99@host/", label="plain"),
    ]
    content, call = with_sizes(json.dumps([{"frames": stack}]).encode(), os.getpid())
    assert call == "send(tensor=float32[4, 2], dst=1)"
    text = content.decode()
    assert "<Tensor float32[4, 2]>" in text
    assert "abcdefgh" not in text
    assert "secret99" not in text
    assert "plain" in text


def test_locals_of_a_process_that_is_gone_stay_as_they_were() -> None:
    content, call = with_sizes(json.dumps([{"frames": [frame("f", "a.py", x="<Tensor at 0x7f001234>")]}]).encode(), 0)
    assert "0x7f001234" in content.decode()
    assert call == ""
