"""What the doctor starts from: settings, also where they can't be used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from harness.doctor.context import Context
from harness.errors import BadSetting
from harness.settings import Settings, environment_name, load_settings


def make_context(flags: Mapping[str, Any]) -> Context:
    """The context for a run; a setting that can't be used is a finding like any other, not the end."""
    try:
        return Context(load_settings(flags))
    except BadSetting as error:
        # Without a home folder there are no defaults either; below one that isn't there everything counts as missing.
        os.environ.setdefault("HOME", "/nonexistent")
        # What the call itself asks for is needed whatever the other settings are.
        topic = flags.get("topic") or os.environ.get(environment_name("topic"), "")
        as_json = flags.get("json_output") or os.environ.get(environment_name("json_output"), "") not in ("", "0")
        return Context(Settings(topic=topic, json_output=as_json), problem=error)
