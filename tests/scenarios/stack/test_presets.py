"""DEBUG= reaches whatever trains, and nothing else is made anew for it."""

from __future__ import annotations

import json

import pytest

from tests.support.harness import Stack

pytestmark = pytest.mark.docker

# In a driver and in a task: the variables, and the files that hooks keep open.
LOOK = """
import json, os, ray
ray.init(log_to_driver=False)
def look():
    links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
             if os.path.lexists(f"/proc/self/fd/{name}")]
    return os.environ.get("TORCH_FR_BUFFER_SIZE"), sum("memfd:drydock-stacks" in link for link in links)
print(json.dumps([look(), ray.get(ray.remote(look).remote())]))
"""


def test_presets_reach_drivers_and_tasks_and_leave_the_server_as_it_was(up: Stack) -> None:
    before = up.ids()
    up.run("up", DEBUG="recorder,faulthandler").ok()
    after = up.ids()
    assert {name for name in after if after[name] != before.get(name)} == {"dev", "ray-head"}
    found = up.execute("dev", "/opt/drydock/with-env", "python", "-c", LOOK).splitlines()[-1]
    assert json.loads(found) == [["2000", 1], ["2000", 1]]
    assert set(up.run("status", "--json").ok().json()["debug"]) == {"recorder", "faulthandler"}
    up.run("run", CMD='test "$DRYDOCK_HOOKS" = recorder,faulthandler').ok()


def test_an_unknown_preset_changes_nothing(up: Stack) -> None:
    before = up.ids()
    refused = up.run("up", DEBUG="recordr")
    assert refused.code == 2
    assert "nccl, detail, recorder, sync, asyncio, faulthandler" in refused.stderr
    assert up.ids() == before
