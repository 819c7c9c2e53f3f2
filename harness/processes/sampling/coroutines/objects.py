"""Python's objects in another process's memory: types, strings, dictionaries, sets, modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from harness.processes.sampling.coroutines.layouts import LAYOUTS, Layout
from harness.processes.sampling.coroutines.lines import line_at
from harness.processes.sampling.coroutines.peek import Peek, Unreadable
from harness.processes.sampling.coroutines.symbols import Symbol, exported

# The same in all versions: of an object its type, of a type its name and size, of a module its names, of a weak
# reference what it refers to, of whatever wraps one object that object.
_TYPE, TYPE_NAME, TYPE_SIZE, _MODULE_NAMES, WRAPPED = 8, 24, 32, 16, 16
_DICT_USED, _DICT_KEYS, _DICT_VALUES = 16, 32, 40
_SET_USED, _SET_MASK, _SET_TABLE = 24, 32, 40
# The type of the mark that a member leaves when it is taken out of a set.
_TAKEN_OUT = "<dummy key> type"
_LIST_SIZE, _LIST_ITEMS = 16, 24
_BYTES_SIZE, _BYTES = 16, 32
_LONGEST_NAME, _MOST_ENTRIES = 1024, 1 << 20
# What a class written in Python has beyond what every type has.
_CLASS_PART = range(400, 960)
# Before Python 3.11 the interpreter's state is not a part of the runtime's, but led to from there.
_STATE_WORDS = 512


class Place(TypedDict):
    """Where a frame stands."""

    name: str
    file: str
    line: int


class Objects:
    """What lies in the memory of one process, as Python's objects.

    Attributes:
        layout: where fields lie in its version.
        true: the address of ``True``.
    """

    def __init__(self, peek: Peek, pid: int, version: tuple[int, int]) -> None:
        """Find the interpreter.

        Args:
            version: major and minor.

        Raises:
            Unreadable: there is none of a version that is known.
        """
        if version not in LAYOUTS:
            raise Unreadable(f"objects of Python {version[0]}.{version[1]} aren't known")
        self.layout: Layout = LAYOUTS[version]
        self.peek = peek
        self._version = version
        self._names: dict[int, str] = {}
        self._attributes: dict[int, dict[str, int]] = {}
        self._places: dict[tuple[int, int], Place] = {}
        self._runtime = self._exported(pid, "_PyRuntime")
        self._dict_type = self._exported(pid, "PyDict_Type").address
        self.true = self._exported(pid, "_Py_TrueStruct").address

    def _exported(self, pid: int, name: str) -> Symbol:
        found = exported(self.peek, pid, name)
        if found is None:
            raise Unreadable("no interpreter is found in it")
        return found

    def type_name(self, address: int) -> str:
        """The name of an object's type."""
        kind = self.peek.word(address + _TYPE)
        if kind not in self._names:
            self._names[kind] = self.peek.text(self.peek.word(kind + TYPE_NAME))
        return self._names[kind]

    def size(self, address: int) -> int:
        """Bytes of an object whose type has no variable part."""
        return self.peek.number(self.peek.word(address + _TYPE) + TYPE_SIZE, 8)

    def text(self, address: int) -> str:
        """A string's value, its beginning if it is long; for other objects ""."""
        if self.type_name(address) != "str":
            return ""
        length, state = self.peek.word(address + 16), self.peek.number(address + 32)
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not is_compact or width not in (1, 2, 4):
            return ""
        start = address + (self.layout.text if is_ascii else self.layout.text_wide)
        content = self.peek.read(start, min(length, _LONGEST_NAME) * width)
        return content.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width], "replace")

    def modules(self) -> dict[str, int]:
        """``sys.modules``.

        Raises:
            Unreadable: it isn't found.
        """
        for address in self._in_states():
            try:
                if not self._is_dict(address) or self.peek.word(address + _DICT_USED) < 10:
                    continue
                found = dict(self.items(address))
                if {"sys", "builtins"} <= found.keys() and self.type_name(found["sys"]) == "module":
                    return found
            except Unreadable:
                continue
        raise Unreadable("its modules aren't found")

    def _in_states(self) -> Iterator[int]:
        """Addresses that stand in the runtime's state, then those in what these lead to."""
        own = range(self._runtime.address, self._runtime.address + self._runtime.size)
        first = [at for at in dict.fromkeys(self.peek.words(own.start, len(own) // 8)) if _is_place(at, own)]
        yield from first
        if self._version < (3, 11):
            for address in first:
                try:
                    yield from (at for at in self.peek.words(address, _STATE_WORDS) if _is_place(at, own))
                except Unreadable:
                    continue

    def names_of(self, module: int) -> dict[str, int]:
        """What a module has."""
        return dict(self.items(self.peek.word(module + _MODULE_NAMES)))

    def place(self, code: int, instruction: int) -> Place:
        """The function of a code object, and the line of one of its instructions, bytes from the first.

        Raises:
            Unreadable: it isn't one.
        """
        known = self._places.get((code, instruction))
        if known is not None:
            return known
        layout, table = self.layout, self.peek.word(code + self.layout.lines)
        if self.type_name(code) != "code" or self.type_name(table) != "bytes":
            raise Unreadable("a frame without code")
        content = self.peek.read(table + _BYTES, min(self.peek.word(table + _BYTES_SIZE), _MOST_ENTRIES))
        first = self.peek.number(code + layout.first_line)
        found: Place = {
            "name": self.text(self.peek.word(code + layout.names)),
            "file": self.text(self.peek.word(code + layout.filename)),
            "line": line_at(content, first, instruction, old=self._version < (3, 11)),
        }
        self._places[code, instruction] = found
        return found

    def items(self, address: int) -> Iterator[tuple[str, int]]:
        """A dictionary's entries whose keys are strings."""
        values = self.peek.word(address + _DICT_VALUES)
        for place, (name, value) in enumerate(self._entries(self.peek.word(address + _DICT_KEYS))):
            held = self.peek.word(values + self.layout.values + 8 * place) if values else value
            if name and held:
                yield name, held

    def _entries(self, keys: int) -> Iterator[tuple[str, int]]:
        """Keys and values of a dictionary's table in order; "" for a key that is no string, or was taken out."""
        if self._version < (3, 11):
            size, step = self.peek.word(keys + 8), 24
            width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4
            count, start = self.peek.word(keys + 32), keys + 40 + size * width
        else:
            _, index, kind = self.peek.read(keys + 8, 3)
            step = 16 if kind else 24
            count, start = self.peek.word(keys + 24), keys + 32 + (1 << min(index, 40))
        if count > _MOST_ENTRIES:
            raise Unreadable(f"a dictionary of {count}")
        for number in range(count):
            key, value = self.peek.words(start + number * step + step - 16, 2)
            yield self.text(key) if key else "", value

    def members(self, address: int) -> Iterator[int]:
        """What is in a set."""
        mask, table = self.peek.word(address + _SET_MASK), self.peek.word(address + _SET_TABLE)
        if mask >= _MOST_ENTRIES:
            raise Unreadable(f"a set of {mask + 1}")
        left = self.peek.word(address + _SET_USED)
        for number in range(mask + 1):
            if left <= 0:
                return
            member = self.peek.word(table + 16 * number)
            if member and self.type_name(member) != _TAKEN_OUT:
                left -= 1
                yield member

    def elements(self, address: int) -> tuple[int, ...]:
        """What is in a list."""
        count = self.peek.word(address + _LIST_SIZE)
        if count > _MOST_ENTRIES:
            raise Unreadable(f"a list of {count}")
        return self.peek.words(self.peek.word(address + _LIST_ITEMS), count) if count else ()

    def length(self, dictionary: int) -> int:
        """How many entries a dictionary has."""
        return self.peek.word(dictionary + _DICT_USED)

    def weak_members(self, address: int) -> Iterator[int]:
        """What is in a ``WeakSet`` and still there.

        Raises:
            Unreadable: it has no set within.
        """
        inner = self.attribute(address, "data")
        if inner is None or self.type_name(inner) != "set":
            raise Unreadable("a WeakSet without its set")
        for reference in self.members(inner):
            if self.type_name(reference) in ("weakref", "weakref.ReferenceType"):
                referent = self.peek.word(reference + WRAPPED)
                if self.type_name(referent) != "NoneType":
                    yield referent

    def attribute(self, address: int, name: str) -> int | None:
        """An attribute that an instance of a class written in Python has itself; None where it has none of that name.

        An instance has a dictionary, or an array of values whose names its class knows. Where these lie depends on the
        version and on the class: in front of the instance, within it, behind it.
        """
        kind = self.peek.word(address + _TYPE)
        size = self.size(address)
        near = [*self.peek.words(address, size // 8), *self.peek.words(address - 32, 2)]
        for word in near:
            if word and self._is_dict(word) and (found := dict(self.items(word)).get(name)) is not None:
                return found
        place = self._shared(kind).get(name)
        if place is None:
            return None
        # Python 3.12 marks in the lowest bit of the word that these are values and no dictionary; 3.13 has them behind.
        starts = (address + size,) if self._version >= (3, 13) else tuple(word + (word & 1) for word in near[-2:])
        for start in starts:
            try:
                value = self.peek.word(start + self.layout.values + 8 * place)
                if value and self.type_name(value):
                    return value
            except Unreadable:
                continue
        return None

    def _is_dict(self, address: int) -> bool:
        try:
            return self.peek.word(address + _TYPE) == self._dict_type
        except Unreadable:
            return False

    def _shared(self, kind: int) -> dict[str, int]:
        """Names of a class's attributes, with their places in an array of values."""
        if kind not in self._attributes:
            found: dict[str, int] = {}
            # Somewhere in the class's own part lie the keys that its instances share.
            for word in self.peek.words(kind + _CLASS_PART.start, len(_CLASS_PART) // 8):
                try:
                    found = {name: place for place, (name, _) in enumerate(self._entries(word)) if name}
                except (Unreadable, ValueError):
                    continue
                if found:
                    break
            self._attributes[kind] = found
        return self._attributes[kind]


def _is_place(address: int, but: range) -> bool:
    """Whether this may be where an object lies that was allocated."""
    return address % 8 == 0 and 0x10000 < address < 1 << 47 and address not in but
