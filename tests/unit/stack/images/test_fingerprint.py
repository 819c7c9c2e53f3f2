"""What the Pythons of an image say of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.stack.images.fingerprint import fingerprint, read_listing


def line(at: str, **packages: str) -> str:
    return json.dumps({"at": at, "version": "3.11.2", "packages": packages, "debian": {"bash": "5.2"}})


def test_every_environment_of_an_image_is_listed_and_none_twice() -> None:
    found = read_listing(
        "\n".join([line("/opt/engine", vllm="1"), line("/opt/gateway", aiohttp="3"), line("/usr")] * 2)
    )
    assert {place: one["packages"] for place, one in found["environments"].items()} == {
        "/opt/engine": {"vllm": "1"},
        "/opt/gateway": {"aiohttp": "3"},
        "/usr": {},
    }
    assert found["debian"] == {"bash": "5.2"}


def test_what_a_python_prints_beside_it_is_no_environment() -> None:
    assert list(read_listing(f"hello\n[]\n{line('/usr')}\n{{}}")["environments"]) == ["/usr"]


def test_what_an_earlier_drydock_kept_is_looked_up_anew_and_once(tmp_path: Path) -> None:
    settings: Any = SimpleNamespace(state_dir=tmp_path)
    image = SimpleNamespace(id="sha256:a", attrs={})
    runs = iter([line("/opt/venv", ray="2.60.0").encode()])
    client = SimpleNamespace(
        images=SimpleNamespace(get=lambda _: image),
        containers=SimpleNamespace(run=lambda *_, **__: next(runs)),
    )
    (tmp_path / "fingerprints").mkdir()
    kept = tmp_path / "fingerprints" / "sha256-a.json"
    kept.write_text(json.dumps({"version": "3.11", "python": {}, "debian": {}}))
    for _ in range(2):
        assert fingerprint(client, settings, "x").environments["/opt/venv"].packages == {"ray": "2.60.0"}
    assert "environments" in json.loads(kept.read_text())
