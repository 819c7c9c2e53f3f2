"""`verify` on a stack that runs: nothing has drifted; then one container is of another image, and it says which."""

from __future__ import annotations

import pytest

from tests.support.harness import Stack, docker

pytestmark = pytest.mark.docker


def test_a_container_of_another_image_is_a_drift_with_the_difference(up: Stack) -> None:
    whole = up.run("verify", "--json").ok().json()["findings"]
    assert {one["state"] for one in whole} <= {"ok", "note"}
    mine, other = (
        docker("inspect", "--format", "{{.Config.Image}}", up.container(name)).strip() for name in ("dev", "inference")
    )
    labels = {"project": up.project, "service": "dev"}
    foreign = docker(
        "run", "--detach", "--network", "none", "--entrypoint", "sleep",
        *(part for name, value in labels.items() for part in ("--label", f"com.docker.compose.{name}={value}")),
        other, "infinity",
    ).strip()  # fmt: skip
    try:
        ended = up.run("verify", "--json")
        assert ended.code == 1
        [drift] = [one for one in ended.json()["findings"] if one["state"] == "drift"]
        assert (drift["text"], drift["expected"], drift["found"]) == ("runs another image", mine, other)
        shown = up.run("verify").stdout
        assert f"expected {mine}" in shown
        assert f"found    {other}" in shown
    finally:
        docker("rm", "--force", foreign)
    up.run("verify").ok()
