"""What a comparison of Flight Recorders finds, and the rows that people see."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.hang.grouping import ranges


@dataclass
class Row:
    """One line of the table that people see: a group's operation on some ranks."""

    group: str
    sequence: int
    operation: str
    sizes: str
    dtypes: str
    completed: bool
    ranks: list[int] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "group": self.group, "sequence": self.sequence, "operation": self.operation, "sizes": self.sizes,
            "dtypes": self.dtypes, "completed": self.completed, "ranks": ranges(self.ranks),
        }  # fmt: skip


@dataclass
class Finding:
    """What the recorders say.

    Attributes:
        kind: ``type``, ``size``, ``dtype`` mismatch; ``behind`` when ranks never came; ``cycle`` when two groups wait
            for each other's; ``order`` when senders and receivers wait in a circle; ``late`` when a send or receive
            lacks its other side; ``same`` when all ranks are in the same operation of the same size; ``done``.
        ranks: the odd ones, or those that never came.
    """

    kind: str
    text: str
    ranks: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
