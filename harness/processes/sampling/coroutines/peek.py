"""Another process's memory, a page at a time, with a bound on how much of it is looked at."""

from __future__ import annotations

import struct

from harness.processes.sampling.reach import Memory

_PAGE = 4096
# Enough for some ten thousand tasks; what goes in circles or leads through all of a heap ends here.
_MOST_PAGES = 16_384


class Unreadable(Exception):
    """An address that isn't mapped, is not for us, or comes after too many others."""


class Peek:
    """Pages of a process's memory as they were when first looked at."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pages: dict[int, bytes] = {}

    def read(self, address: int, length: int) -> bytes:
        """So many bytes.

        Raises:
            Unreadable: not all of them can be had.
        """
        if not 0 <= length <= _MOST_PAGES * _PAGE:
            raise Unreadable(f"{length} bytes at {address:#x}")
        page, offset = divmod(address, _PAGE)
        if offset + length <= _PAGE:
            return self._page(page)[offset : offset + length]
        pages = range(page, (address + length - 1) // _PAGE + 1)
        return b"".join(map(self._page, pages))[offset : offset + length]

    def word(self, address: int) -> int:
        """Eight bytes as a number without a sign, or as an address.

        Raises:
            Unreadable: they can't be had.
        """
        return int.from_bytes(self.read(address, 8), "little")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """``count`` times eight bytes.

        Raises:
            Unreadable: they can't be had.
        """
        return struct.unpack(f"<{max(0, count)}Q", self.read(address, 8 * count))

    def number(self, address: int, size: int = 4) -> int:
        """A number with a sign.

        Raises:
            Unreadable: it can't be had.
        """
        return int.from_bytes(self.read(address, size), "little", signed=True)

    def text(self, address: int, most: int = 256) -> str:
        """What is written there up to a zero byte.

        Raises:
            Unreadable: it can't be had.
        """
        found = b""
        while len(found) < most and b"\0" not in found:
            at = address + len(found)
            found += self.read(at, min(most - len(found), _PAGE - at % _PAGE))
        return found.partition(b"\0")[0].decode("utf-8", "replace")

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) >= _MOST_PAGES or not 0 < number < 1 << 51:
                raise Unreadable(f"page {number:#x}")
            page = self._pages[number] = self._memory.read(number * _PAGE, _PAGE)
        if len(page) < _PAGE:
            raise Unreadable(f"page {number:#x}")
        return page
