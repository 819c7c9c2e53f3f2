"""Three machines: this one is the head, two others have networks of their own and can be cut off, slowed and killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.harness import own_project
from tests.support.machines import Cluster, cluster_of


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head, and two machines that have joined."""
    with cluster_of(own_project("machines"), tmp_path_factory.mktemp("machines")) as cluster:
        for _ in range(2):
            cluster.worker(cluster.machine()).ok()
        yield cluster
