"""What did not change is not built; what was built goes without a trace, and what others built stays."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.processes.leaving import leaving_on_signals
from harness.stack.images import remove_build_cache, remove_images
from harness.stack.images.build import existing
from harness.stack.images.ledger import read_records
from tests.scenarios.images.conftest import Workshop
from tests.support.package_servers import write_wheel

# Images, cache records and the base are shared by all that build.
pytestmark = pytest.mark.alone

OTHER = "somebody-elses/image:1"


@pytest.fixture(autouse=True)
def _small_image_without_packages(workshop: Workshop) -> None:
    """Steps of each sort, and none that fetches anything; new each time, for what is in the cache makes no record."""
    (workshop.clone / "docker/locks/small.txt").write_text("")
    (workshop.clone / "docker/small/Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\nARG WORD=x\n"
        "RUN --mount=type=bind,source=build,target=/mnt/build ls /mnt/build && echo ${WORD} "
        f"{uuid.uuid4().hex} >/word\n"
        "COPY note.txt /note.txt\nWORKDIR /some/where\n"
    )


@pytest.fixture
def other_build(workshop: Workshop, tmp_path: Path) -> Iterator[set[str]]:
    """An image that somebody else builds on the same base; gives the ids of its cache records."""
    before = {record.id for record in read_records(workshop.client)}
    folder = tmp_path / "other"
    folder.mkdir()
    # New each time: of a build that an earlier run has left in the cache there would be no new record.
    word = f"theirs-{uuid.uuid4().hex}"
    (folder / "note.txt").write_text(word)
    (folder / "Dockerfile").write_text(
        f"FROM {workshop.base.reference}\nRUN echo {word} >/theirs\nCOPY note.txt /note.txt\n"
    )
    subprocess.run(
        ["docker", "buildx", "--builder", "default", "build", "--load", "-t", OTHER, str(folder)],
        check=True,
        capture_output=True,
    )
    made = {record.id for record in read_records(workshop.client)} - before
    yield made
    workshop.client.images.remove(OTHER)
    while (
        made and workshop.client.api.prune_builds(filters={"id": [f"^({'|'.join(made)})$"]}, all=True)["CachesDeleted"]
    ):
        made &= {record.id for record in read_records(workshop.client)}


def test_a_change_makes_another_tag_and_the_old_image_is_found_again(workshop: Workshop) -> None:
    first = workshop.build()
    assert existing(workshop.client, workshop.recipe().tag(workshop.settings.namespace)) is not None
    (workshop.clone / "docker/small/note.txt").write_text("second")
    assert existing(workshop.client, workshop.recipe().tag(workshop.settings.namespace)) is None
    second = workshop.build()
    assert second.reference != first.reference
    (workshop.clone / "docker/small/note.txt").write_text("first")
    found = existing(workshop.client, workshop.recipe().tag(workshop.settings.namespace))
    assert found is not None
    assert found.id == first.id


def test_clean_removes_our_images_and_all_our_cache_and_nothing_of_anybody_elses(
    workshop: Workshop, other_build: set[str]
) -> None:
    client, settings = workshop.client, workshop.settings
    before = {record.id for record in read_records(client)}
    assert other_build
    image = workshop.build()
    made = {record.id for record in read_records(client)} - before
    assert len(made) >= 5  # definition, context, command, file, working directory

    assert remove_images(client, settings) == [image.reference]
    removed = remove_build_cache(client, settings)

    after = {record.id for record in read_records(client)}
    assert made & after == set()
    assert before - after == set()
    assert (removed.records, removed.undecided) == (len(made), 0)
    assert client.images.list(filters={"label": f"dev.drydock.namespace={settings.namespace}"}) == []
    assert client.images.get(OTHER)
    assert client.images.get(workshop.base.id)


def test_a_second_clean_has_nothing_to_do(workshop: Workshop) -> None:
    workshop.build()
    remove_images(workshop.client, workshop.settings)
    remove_build_cache(workshop.client, workshop.settings)
    assert remove_images(workshop.client, workshop.settings) == []
    assert remove_build_cache(workshop.client, workshop.settings).records == 0


def test_wheels_lie_in_the_context_but_not_in_the_image(workshop: Workshop, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "smalllib", "1", "ANSWER = 42\n")
    dockerfile = workshop.clone / "docker/small/Dockerfile"
    dockerfile.write_text(
        dockerfile.read_text() + "RUN --mount=type=bind,source=wheels,target=/wheels ls /wheels >/list; rm -rf /tmp/*\n"
    )
    image = workshop.build_with([wheel])
    assert workshop.client.containers.run(image.id, ["cat", "/list"], remove=True).decode().split() == [wheel.name]
    assert workshop.client.containers.run(image.id, ["ls", "/wheels"], remove=True) == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_a_build_that_is_broken_off_ends_and_leaves_nothing_in_the_way(workshop: Workshop, number: int) -> None:
    dockerfile = workshop.clone / "docker/small/Dockerfile"
    whole = dockerfile.read_text()
    dockerfile.write_text(whole + "RUN echo now it waits; exec sleep 600\n")
    reference = workshop.recipe().tag(workshop.settings.namespace)
    builds = workshop.settings.state_dir / "builds"
    log = builds / f"small-{reference.rpartition(':')[2]}.log"

    def interrupt() -> None:
        while not (log.is_file() and "\nnow it waits\n" in log.read_text()):
            time.sleep(0.05)
        # To this process alone; a terminal would send it to the build as well.
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt), leaving_on_signals(lambda _: KeyboardInterrupt()):  # as every verb does
        workshop.build()
    assert [child.name() for child in psutil.Process().children(recursive=True) if "docker" in child.name()] == []
    assert list(builds.glob("context-*")) == []
    assert list(Path("/dev/shm").glob(f"drydock-secrets-{os.getpid()}-*")) == []
    assert existing(workshop.client, reference) is None
    dockerfile.write_text(whole)
    assert workshop.build().fresh
