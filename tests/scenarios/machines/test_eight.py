"""Eight machines: what is seen of them together while one is cut off, one was killed and one is slow, and after it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.harness import docker, own_project, wait_for
from tests.support.machines import Cluster, cluster_of

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = 8


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head, and seven machines that have joined."""
    with cluster_of(own_project("eight"), tmp_path_factory.mktemp("eight")) as cluster:
        for _ in range(COUNT - 1):
            cluster.worker(cluster.machine()).ok()
        yield cluster


def test_a_dump_of_eight_says_what_it_has_of_each_whatever_became_of_three(eight: Cluster) -> None:
    cut, killed, slow = eight.lan.machines[:3]
    with eight.acting("wait_for_weights", COUNT):
        whole = eight.dump().json()
        assert len(eight.waiting_on(whole)) == COUNT
        assert whole["state"] == "hung"
        slow.slow("8mbit", loss=0.02)
        cut.cut_off()
        docker("kill", eight.nodes[killed.name].container("node"))
        began = time.monotonic()
        answer = eight.dump().json()
        took = time.monotonic() - began
        assert len(eight.waiting_on(answer)) == COUNT - 2
        for machine in (cut, killed):
            assert [note for note in answer["notes"] if machine.host in note], (machine.host, answer["notes"])
        assert not [note for note in answer["notes"] if slow.host in note], answer["notes"]
        # Ray itself takes a minute and more to notice that a machine is gone.
        assert took < 60
    eight.worker(killed).ok()
    wait_for("all to be back", lambda: list(eight.states().values()).count("alive") == COUNT, 300)


def test_breakpoints_of_eight_are_listed_and_one_that_is_cut_off_is_named(eight: Cluster) -> None:
    with eight.acting("stop_here", COUNT):
        wait_for("all to be paused", lambda: len(eight.paused()) == COUNT, 120)
        cut = eight.joined[-1]
        cut.cut_off()
        known = {one["node"] for one in eight.paused() if one["file"].endswith("ranks.py") and one["line"]}
        assert len(known) == COUNT - 1
        assert cut.address not in known
        assert f"{cut.address} can't be reached" in " ".join(eight.head.run("breakpoints").stdout.split())
