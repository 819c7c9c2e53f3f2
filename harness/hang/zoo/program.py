"""A program of the zoo as its own header describes it; ``examples/hangs/README.md`` has the format."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UsageError


class Program(BaseModel):
    """How a program is started, and the truth of it.

    Attributes:
        about: the docstring without its YAML part.
        ranks: processes that are ranks of one job.
        processes: names of further processes, each started as ``python FILE NAME``.
        computes: who uses a core for ever, so that nobody waits for them to stand still.
        accept, tie, laggards, state: as in ``tests/hang_cases/README.md``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    about: str
    ranks: int = Field(0, ge=0, le=64)
    processes: tuple[str, ...] = ()
    needs: tuple[Literal["torch", "ray"], ...] = ()
    computes: tuple[str, ...] = ()
    state: Literal["hung", "slow", "idle", "done"]
    accept: tuple[str, ...] = Field(min_length=1)
    tie: tuple[str, ...] = ()
    laggards: tuple[str, ...] = ()
    quick: bool = False

    @property
    def name(self) -> str:
        """What ``CASE=`` calls it."""
        return self.path.stem.replace("_", "-")

    @property
    def title(self) -> str:
        """What happens, in one line."""
        return self.about.splitlines()[0]


def read(path: Path) -> Program:
    """The program in a file.

    Raises:
        UsageError: the file has no such header, or one that can't be used.
    """
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        about, found, header = text.partition("\n---\n")
        if not found:
            raise ValueError("its docstring has no line `---`")
        fields = yaml.safe_load(header)
        if not isinstance(fields, dict):
            raise ValueError("below `---` there are no keys")
        return Program.model_validate({**fields, "path": path, "about": about.strip()})
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except RecursionError:
        problem = "its header is nested too deeply"
    except (OSError, SyntaxError, ValueError, yaml.YAMLError) as error:
        problem = str(error)
    raise UsageError(
        f"{path} can't be used as a program of the zoo: {problem}",
        mend="examples/hangs/README.md   # the format",
    )


# Folders below the zoo's, whose programs are scored apart.
APART = ("ten", "second_ten", "third_ten", "from_issues", "fourth_ten")


def programs(folder: Path) -> list[Program]:
    """All programs of a folder, those of folders below not."""
    return [read(path) for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
