"""A training configuration with the line of each of its values; read without the framework, and without trusting it.

The file is composed to nodes and never to objects: aliases stay one node each, so a file of nested aliases costs what
it costs to read, and tags that would construct something are only names. ``${section.key}`` is followed within the
file; every other interpolation makes a value unknown, and rules say nothing on what is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.checks.lint.program import ignores_in
from harness.checks.lint.rule import Hit
from harness.errors import BadConfig

Framework = Literal["areal", "verl", "plain"]

MAX_BYTES = 1024 * 1024
_REFERENCE = re.compile(r"\$\{(\.*)([\w.]+)\}")
_SELECT = re.compile(r"\$\{oc\.select:\s*([\w.]+)\s*(?:,([^{}]*))?\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*(\w+)\s*(?:,([^{}]*))?\}")
_FLOAT = re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+")


class Unknown:
    """A value that can't be known from the file."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Entry:
    """One value.

    Args:
        value: the scalar; ``UNKNOWN`` for what can't be known here; a list or dict node as its node.
        line: counts from 1; 0 where the value is not in the file.
        given: it is in the file.
    """

    value: Any
    line: int = 0
    given: bool = True

    @property
    def number(self) -> float | None:
        """The value, where it is a number."""
        plain = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        return self.value if plain else None

    @property
    def text(self) -> str | None:
        """The value, where it is a text."""
        return self.value if isinstance(self.value, str) else None


ABSENT = Entry(None, given=False)


@dataclass(frozen=True, eq=False)
class Config:
    """A training configuration.

    Args:
        framework: whose it is; ``plain`` where it is neither's.
        composed: it has a list ``defaults``, so that more values come from other files.
    """

    path: Path
    root: yaml.MappingNode = field(repr=False)
    framework: Framework
    composed: bool
    lines: tuple[str, ...] = field(default=(), repr=False)
    ignored: dict[int, frozenset[str]] = field(default_factory=dict, repr=False)

    def get(self, path: str, default: Any = None) -> Entry:
        """The value at ``section.key``.

        Args:
            default: the framework's own, taken where the file says nothing; where the file is put together from
                others, what it says nothing about is unknown.
        """
        entry = self._follow(path, 10)
        if entry.given:
            return entry
        return Entry(UNKNOWN if self.composed else default, given=False)

    def section(self, path: str) -> bool:
        """Whether there is a mapping with something in it."""
        node = self._node(path)
        return isinstance(node, yaml.MappingNode) and bool(node.value)

    def line(self, path: str) -> int:
        """The line of a key, or of the nearest section above it that is there; 1 where none is."""
        parts = path.split(".")
        while parts:
            node = self._node(".".join(parts))
            if node is not None:
                return self._key_lines.get(id(node), node.start_mark.line + 1)
            parts.pop()
        return 1

    def hit(self, path: str, detail: str, status: Literal["fail", "warn"] | None = None) -> Hit:
        """A hit at a key, or at the nearest section above it."""
        line = self.line(path)
        source = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        return Hit(detail, self.path, line, line, "", hide_secret(source), status)

    def everything(self) -> Iterator[tuple[str, Entry]]:
        """Every key anywhere in the file, with its value; each node once, however many aliases lead to it."""
        waiting: list[yaml.Node] = [self.root]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if isinstance(key, yaml.ScalarNode):
                        yield key.value, Entry(_scalar(value), key.start_mark.line + 1)
                    waiting.append(value)
            elif isinstance(node, yaml.SequenceNode):
                waiting.extend(node.value)

    @cached_property
    def _key_lines(self) -> dict[int, int]:
        found: dict[int, int] = {}
        waiting: list[yaml.Node] = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if id(value) not in found:
                        found[id(value)] = key.start_mark.line + 1
                        waiting.append(value)
            elif isinstance(node, yaml.SequenceNode):
                for value in node.value:
                    if id(value) not in found:
                        found[id(value)] = value.start_mark.line + 1
                        waiting.append(value)
        return found

    def _node(self, path: str) -> yaml.Node | None:
        node: yaml.Node | None = self.root
        for part in path.split("."):
            if isinstance(node, yaml.SequenceNode) and part.isdigit():
                node = node.value[int(part)] if int(part) < len(node.value) else None
            elif isinstance(node, yaml.MappingNode):
                node = _child(node, part)
            else:
                return None
        return node

    def _follow(self, path: str, depth: int) -> Entry:
        node = self._node(path)
        if node is None:
            return ABSENT
        value = _scalar(node)
        line = self.line(path)
        if not isinstance(value, str) or "${" not in value:
            return Entry(UNKNOWN if value == "???" else value, line)
        return Entry(self._interpolated(value.strip(), path, depth), line)

    def _interpolated(self, text: str, path: str, depth: int) -> Any:
        if not depth:
            return UNKNOWN
        if found := _REFERENCE.fullmatch(text):
            target = found[2]
            if found[1]:  # one dot is the value's own section, each further one the section above
                above = path.split(".")[: -len(found[1])]
                target = ".".join([*above, target])
            entry = self._follow(target, depth - 1)
            return entry.value if entry.given else UNKNOWN
        if found := _SELECT.fullmatch(text):
            entry = self._follow(found[1], depth - 1)
            return entry.value if entry.given else _default(found[2], self.composed)
        if found := _ENVIRONMENT.fullmatch(text):
            return os.environ.get(found[1]) or _default(found[2], False)
        return UNKNOWN


def _default(text: str | None, unknown: bool) -> Any:
    if unknown or text is None:
        return UNKNOWN
    try:
        node = yaml.compose(text.strip(), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return UNKNOWN  # whatever the framework makes of it
    return _scalar(node or yaml.ScalarNode("", "null"))


def _child(node: yaml.MappingNode, name: str, depth: int = 8) -> yaml.Node | None:
    """A mapping's value; the last where a key stands twice, and what ``<<`` merges in where it doesn't stand at all."""
    merged: list[yaml.Node] = []
    found: yaml.Node | None = None
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value == name:
            found = value
        elif key.tag == "tag:yaml.org,2002:merge":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    if found is None and depth:
        for one in merged:
            if isinstance(one, yaml.MappingNode) and (found := _child(one, name, depth - 1)) is not None:
                break
    return found


def _scalar(node: yaml.Node) -> Any:
    """A scalar as Python has it; the node itself for everything else."""
    if not isinstance(node, yaml.ScalarNode):
        return node
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind in ("int", "float", "bool", "null"):
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except (ValueError, yaml.YAMLError):
            return UNKNOWN
    if kind == "str":
        # 1e12 is a float for OmegaConf, and a text for YAML 1.1.
        return float(node.value) if node.style is None and _FLOAT.fullmatch(node.value) else node.value
    return UNKNOWN


def hide_secret(line: str) -> str:
    """A line of a configuration without the key or token in it."""
    name, colon, value = line.partition(":")
    secret = any(word in name.lower() for word in ("api_key", "token", "password", "secret"))
    return f"{name}: [redacted]" if colon and value.strip() and secret and "tokenizer" not in name.lower() else line


def read(path: Path) -> Config:
    """Read a training configuration of AReaL or verl.

    Raises:
        BadConfig: it can't be read, is no YAML mapping, or is neither framework's.
    """
    config = read_any(path)
    if config.framework == "plain":
        raise BadConfig(
            f"CONFIG={path} is neither AReaL's nor verl's",
            consequence="AReaL's has a section rollout and actor or gconfig, verl's has actor_rollout_ref.",
        )
    return config


def read_any(path: Path) -> Config:
    """Read a configuration, whosever it is.

    Raises:
        BadConfig: it can't be read, or is no YAML mapping.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadConfig(f"CONFIG={path} has more than {MAX_BYTES // 1024} KiB: that is no training configuration")
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise BadConfig(f"CONFIG={path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"CONFIG={path} is no text: byte {error.start + 1} is no UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"CONFIG={path}{line} is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadConfig(f"CONFIG={path} is no YAML: {' '.join(str(error).split())[:200]}") from None
    except RecursionError:
        raise BadConfig(f"CONFIG={path} is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode):
        raise BadConfig(f"CONFIG={path} holds no mapping")
    names = {key.value for key, _ in root.value if isinstance(key, yaml.ScalarNode)}
    return Config(path, root, _framework(names), "defaults" in names, tuple(text.splitlines()), _ignores(text))


def _framework(names: set[str]) -> Framework:
    if "actor_rollout_ref" in names or "async_training" in names:
        return "verl"
    if "allocation_mode" in names or ("rollout" in names and names & {"gconfig", "actor", "experiment_name", "sglang"}):
        return "areal"
    # One that lost its rollout is still told from something else altogether.
    if "gconfig" in names and names & {"actor", "experiment_name"}:
        return "areal"
    return "plain"


_COMMENT = re.compile(r"(?:^|\s)#.*$")


def _ignores(text: str) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (comment := _COMMENT.search(line)) is not None:
            for codes in ignores_in(comment[0].strip()).values():
                found[number] = codes
    return found
