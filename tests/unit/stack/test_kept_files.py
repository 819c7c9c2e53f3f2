"""What `up` keeps in .drydock may be gone, cut short or not ours: it is then as if there was none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.settings import load_settings
from harness.stack import keys
from harness.stack.already import Record
from harness.stack.expected import Expected
from harness.stack.plan import make_plan
from harness.stack.status import gone_back, recall

NO_RECORDS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b"\xff\xfe",
    b'{"settings": 5}',
    b'{"settings": {"port": "9"}}',
    b'{"settings": {"port": "no port"}, "names": []}',
    b'{"settings": {"no setting": "1"}, "names": ["smollm2-135m"]}',
]


@pytest.mark.parametrize("content", NO_RECORDS)
def test_a_record_of_the_last_up_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "examples").mkdir()
    settings = load_settings(environ={})
    settings.state_dir.mkdir(parents=True)
    for name in ("up.json", "already.json"):
        (settings.state_dir / name).write_bytes(content)
    plan, names = recall(settings)
    assert (plan.settings.port, names) == (8080, ("smollm2-135m",))
    gone_back(settings)
    assert Record.read(settings.state_dir / "already.json") is None


def test_a_key_that_is_no_text_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    plan = make_plan(load_settings(environ={}))
    place = keys.ensure(plan)
    for name in ("generated_key", "api_key", "ray_token"):
        (place / name).write_bytes(b"\xff\xfe")
    asked = Expected("drydock", {}, 2, 8080, 8265, str(place))
    assert asked.key("api_key") == ""
    keys.ensure(plan)
    assert len(asked.key("api_key")) == len(asked.key("ray_token")) == 64
