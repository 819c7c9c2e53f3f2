"""What checks share: the settings, and one look at the Docker engine and at the model, taken by whoever asks first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.doctor.engine import Engine, gather_engine
from harness.doctor.model import Model, gather_model
from harness.doctor.probing import Once
from harness.errors import BadSetting
from harness.places import home
from harness.settings import Settings


@dataclass
class Context:
    """What every check is given.

    Attributes:
        settings: as the user set them; the defaults where they can't be used, and then ``problem`` says why.
        clone: the folder with ``compose.yaml``, or where we are.
        engine: the Docker engine; gathered once.
        model: what ``MODEL=`` needs; gathered once.
    """

    settings: Settings
    problem: BadSetting | None = None
    clone: Path = field(default_factory=home)

    def __post_init__(self) -> None:
        self.engine: Once[Engine] = Once(lambda: gather_engine(self.settings))
        self.model: Once[Model] = Once(lambda: gather_model(self.settings))

    @property
    def asked(self) -> frozenset[str]:
        """Topics that were asked for by name."""
        return frozenset(topic.strip().lower() for topic in self.settings.topic.split(",") if topic.strip())

    @property
    def runs_stacks(self) -> bool:
        """Whether a stack can be started from here at all; a pod or a Slurm node has the package but no clone."""
        return (self.clone / "compose.yaml").is_file()
