"""Stands in for pydantic within the parcel, as far as the sampler's models use it: they hold, write and read values.

What comes in was checked by whoever asked, what goes out is checked by whoever reads it.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any


class ValidationError(ValueError):
    """Never raised here; there because it is imported."""


def ConfigDict(**config: Any) -> dict[str, Any]:
    """As pydantic's."""
    return config


class _Default:
    def __init__(self, value: Any, factory: Callable[[], Any] | None) -> None:
        self.value, self.factory = value, factory


def Field(default: Any = None, *, default_factory: Callable[[], Any] | None = None, **_: Any) -> Any:
    """As pydantic's, without constraints."""
    return _Default(default, default_factory)


def field_validator(*_: Any, **__: Any) -> Callable[[Any], Any]:
    """As pydantic's, but checks nothing."""
    return lambda function: function


class BaseModel:
    """As pydantic's: fields with defaults, to JSON and back."""

    def __init__(self, **given: Any) -> None:
        for name, default in self._defaults().items():
            setattr(self, name, given.get(name, default))

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        found = {}
        for name in (name for base in reversed(cls.__mro__) for name in getattr(base, "__annotations__", {})):
            value = getattr(cls, name, None)
            if name != "model_config":
                made = value.factory() if isinstance(value, _Default) and value.factory else value
                found[name] = copy.deepcopy(made.value if isinstance(made, _Default) else made)
        return found

    def model_dump(self, *, exclude_defaults: bool = False) -> dict[str, Any]:
        """Its fields, nested models likewise."""
        values = {name: _plain(getattr(self, name), exclude_defaults) for name in self._defaults()}
        defaults = self._defaults()
        return {name: value for name, value in values.items() if not exclude_defaults or value != defaults[name]}

    def model_dump_json(self, *, exclude_defaults: bool = False) -> str:
        """Its fields as JSON, bytes in base64."""
        return json.dumps(self.model_dump(exclude_defaults=exclude_defaults))

    @classmethod
    def model_validate_json(cls, text: str) -> Any:
        """From JSON; fields of plain values only."""
        return cls(**json.loads(text))


def _plain(value: Any, exclude_defaults: bool) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_defaults=exclude_defaults)
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(item, exclude_defaults) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, exclude_defaults) for item in value]
    return value
