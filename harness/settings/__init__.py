"""Every value that a user can set: declared and typed in ``values``, found by ``loading``, read by ``reading``."""

from harness.settings.loading import for_delegated, load_settings
from harness.settings.reading import BadValue, Secret
from harness.settings.values import (
    Engine,
    Origin,
    Settings,
    environment_name,
    environment_names,
    settings_fields,
)

__all__ = [
    "BadValue",
    "Engine",
    "Origin",
    "Secret",
    "Settings",
    "environment_name",
    "environment_names",
    "for_delegated",
    "load_settings",
    "settings_fields",
]
