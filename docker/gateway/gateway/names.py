"""Which model names are answered to, and what the engine calls them."""

from __future__ import annotations

from collections.abc import Iterable


class ModelNames:
    """The names of the one model (alias, hub id, path), in any letter case, and the names the engine added itself.

    An engine adds names of its own when it serves LoRA adapters; those map to themselves.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._configured = tuple(names)
        self._engine_own: tuple[str, ...] = ()
        self._served = {name.casefold(): self._configured[0] for name in self._configured}

    @property
    def served(self) -> str:
        """The name under which the engine serves the model."""
        return self._configured[0]

    @property
    def all(self) -> tuple[str, ...]:
        """Every name that is answered to, as written in the settings or by the engine."""
        return self._configured + self._engine_own

    def resolve(self, name: str) -> str | None:
        """The engine's name for `name`, or None for a model that is not served."""
        return self._served.get(name.casefold())

    def learn(self, engine_names: Iterable[str]) -> None:
        """Take the names the engine lists now; those it no longer lists are forgotten."""
        configured = {name.casefold() for name in self._configured}
        self._engine_own = tuple(name for name in engine_names if name.casefold() not in configured)
        self._served = {name.casefold(): self.served for name in self._configured}
        self._served.update((name.casefold(), name) for name in self._engine_own)

    def unknown_message(self, name: str) -> str:
        """The sentence for a model that is not served."""
        return f"The model {name!r} is not served here. Served: {', '.join(self.all)} (in any letter case)."
