"""What is mounted holds all that the links lead to, no more than needed, and can be read there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.errors import UnusableModel, WeightsUnreadable
from harness.models.mount import check_readable, container_uid, mount_file, mount_tree
from tests.unit.models.conftest import MakeSettings

STRANGER = 54321


def snapshot_of(cache: Path, *, shared: bool = False) -> tuple[Path, Path]:
    """A snapshot with one linked file, as the hub cache lays it out; with ``shared``, its blob is a link again."""
    repo = cache / "models--some--thing"
    snapshot = repo / "snapshots" / ("a" * 40)
    blob = repo / "blobs" / "f00"
    for folder in (snapshot, blob.parent, cache / "blobs" / "ab"):
        folder.mkdir(parents=True)
    if shared:
        (cache / "blobs" / "ab" / "abcd").write_text("weights", encoding="utf-8")
        blob.symlink_to("../../blobs/ab/abcd")
    else:
        blob.write_text("weights", encoding="utf-8")
    (snapshot / "model.safetensors").symlink_to("../../blobs/f00")
    return snapshot, snapshot / "model.safetensors"


def test_a_plain_folder_is_mounted_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.touch()
    mount = mount_tree(tmp_path, [file])
    assert (mount.host_path, mount.target, mount.container_path) == (tmp_path.resolve(), "/models", "/models")


def test_a_snapshot_brings_its_repository_along(tmp_path: Path) -> None:
    snapshot, file = snapshot_of(tmp_path / "hub")
    mount = mount_tree(snapshot, [file])
    assert mount.host_path == snapshot.parent.parent
    assert mount.container_path == f"/models/snapshots/{'a' * 40}"


def test_blobs_shared_by_repositories_bring_the_cache_along(tmp_path: Path) -> None:
    snapshot, file = snapshot_of(tmp_path / "hub", shared=True)
    mount = mount_tree(snapshot, [file])
    assert mount.host_path == tmp_path / "hub"
    assert mount.container_path == f"/models/models--some--thing/snapshots/{'a' * 40}"


def test_a_link_to_elsewhere_is_refused_with_a_way_out(tmp_path: Path) -> None:
    outside = tmp_path / "big-disk" / "model.safetensors"
    outside.parent.mkdir()
    outside.touch()
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(outside)
    with pytest.raises(UnusableModel, match=r"model\.safetensors → ") as caught:
        mount_tree(folder, [folder / "model.safetensors"])
    assert f"cp -rL '{folder}'" in caught.value.mend


def test_an_absolute_link_is_refused_even_if_it_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnusableModel):
        mount_tree(tmp_path, [tmp_path / "link"])


def test_a_cache_below_a_link_is_found(tmp_path: Path) -> None:
    snapshot_of(tmp_path / "disk" / "hub")
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    snapshot = tmp_path / "home" / "hub" / "models--some--thing" / "snapshots" / ("a" * 40)
    mount = mount_tree(snapshot, [snapshot / "model.safetensors"])
    assert mount.host_path == tmp_path / "disk" / "hub" / "models--some--thing"


def test_one_file_is_mounted_alone_and_past_its_links(tmp_path: Path) -> None:
    _, file = snapshot_of(tmp_path / "hub")
    mount = mount_file(file)
    assert mount.host_path == file.resolve()
    assert mount.target == mount.container_path == "/models/model.safetensors"


def test_files_that_only_their_owner_reads_are_refused(make: MakeSettings, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch(mode=0o600)
    with pytest.raises(WeightsUnreadable, match=f"can't be read by user {STRANGER}") as caught:
        check_readable(mount_file(file), [file], STRANGER, make())
    assert caught.value.mend == f"chmod -R a+rX '{file}'"
    check_readable(mount_file(file), [file], os.geteuid() or 0, make())
    assert file.stat().st_mode & 0o777 == 0o600, "somebody else's file was changed"


def test_folders_on_the_way_count_too(make: MakeSettings, tmp_path: Path) -> None:
    snapshot, file = snapshot_of(tmp_path / "hub")
    blobs = snapshot.parent.parent / "blobs"
    blobs.chmod(0o700)
    with pytest.raises(WeightsUnreadable, match="blobs"):
        check_readable(mount_tree(snapshot, [file]), [file], STRANGER, make())


def test_folders_above_the_mount_do_not_count(make: MakeSettings, tmp_path: Path) -> None:
    folder = tmp_path / "private" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").touch(mode=0o644)
    folder.parent.chmod(0o700)
    check_readable(mount_tree(folder, [folder / "config.json"]), [folder / "config.json"], STRANGER, make())


def test_in_our_own_cache_files_are_made_readable(make: MakeSettings, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "models" / "x"
    folder.mkdir(parents=True, mode=0o700)
    file = folder / "config.json"
    file.touch(mode=0o600)
    check_readable(mount_tree(folder, [file]), [file], STRANGER, make())
    assert file.stat().st_mode & 0o777 == 0o644
    assert folder.stat().st_mode & 0o005 == 0o005


def test_the_containers_run_as_the_workspace_owner_but_never_as_root(make: MakeSettings, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    owner = workspace.stat().st_uid
    assert container_uid(make(workspace=workspace)) == (owner or 1000)
    if os.geteuid() == 0:
        shutil.chown(workspace, 1234)
        assert container_uid(make(workspace=workspace)) == 1234
