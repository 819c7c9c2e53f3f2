"""A saved folder is loaded whole or not at all, and nothing in it leads elsewhere."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from harness.errors import BadSetting, NoSpace, SavedUnusable
from harness.models import carrying
from harness.settings import load_settings
from harness.stack import loading, saved, saving
from harness.stack.images import BuiltImage

MANIFEST = saved.Manifest(
    format=saved.FORMAT,
    made="2026-11-30T12:00:00+00:00",
    version="0.1.0",
    settings={"ENGINE": "vllm"},
    images={"drydock/dev:1": "sha256:1"},
    commit=None,
    architecture="amd64",
    python="3.11",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `save` leaves it, without what the tests don't need."""
    made = tmp_path / "saved"
    (made / "wheels").mkdir(parents=True)
    texts = {saved.MANIFEST: MANIFEST.model_dump_json(), saved.IMAGES: "images", "wheels/x.whl": "wheel"}
    sums = {}
    for name, text in texts.items():
        with (made / name).open("wb") as file:
            hashed = saved.Hashed(file)
            hashed.write(text.encode())
        sums[name] = hashed.sha256
    saved.write_sums(made, sums)
    return made


def test_a_whole_folder_is_whole(folder: Path) -> None:
    assert saved.read(folder) == MANIFEST
    saved.check(folder, lambda _: None)


def test_what_is_missing_and_what_changed_is_named(folder: Path) -> None:
    (folder / saved.IMAGES).write_text("imagez")
    (folder / "wheels" / "x.whl").unlink()
    with pytest.raises(SavedUnusable) as caught:
        saved.check(folder, lambda _: None)
    assert "missing: wheels/x.whl" in caught.value.what
    assert f"changed: {saved.IMAGES}" in caught.value.what


def test_a_folder_that_save_did_not_end_is_no_saved_stack(folder: Path) -> None:
    (folder / saved.SUMS).unlink()
    with pytest.raises(SavedUnusable, match="didn't end"):
        saved.read(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "\x00"])
def test_a_manifest_that_cannot_be_read_is_told(folder: Path, text: str) -> None:
    (folder / saved.MANIFEST).write_text(text)
    with pytest.raises(SavedUnusable, match=r"manifest\.json can't be read"):
        saved.read(folder)


def test_what_a_newer_drydock_wrote_comes_with_that_drydock(folder: Path) -> None:
    newer = MANIFEST.model_copy(update={"format": saved.FORMAT + 1})
    (folder / saved.MANIFEST).write_text(newer.model_dump_json())
    with pytest.raises(SavedUnusable) as caught:
        saved.read(folder)
    assert saved.SOURCE in caught.value.mend


@pytest.mark.parametrize("line", ["0" * 64 + "  ../x", "0" * 64 + "  /etc/passwd", "short  x", "0" * 64])
def test_a_list_of_sums_names_files_of_its_folder_only(folder: Path, line: str) -> None:
    (folder / saved.SUMS).write_text(line + "\n")
    with pytest.raises(SavedUnusable, match="no checksum of a file in it"):
        saved.check(folder, lambda _: None)


def tar(path: Path, *members: tuple[str, str, bytes]) -> Path:
    """A tar file of members: name, what it links to ("" for a file), content."""
    with tarfile.open(path, "w") as archive:
        for name, link, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if link:
                member.type, member.linkname, member.size = tarfile.SYMTYPE, link, 0
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    return {"models": tmp_path / "cache" / "models", "hub": tmp_path / "hub"}


def test_weights_come_to_their_places_and_only_once(tmp_path: Path, places: dict[str, Path]) -> None:
    snapshot = "hub/models--a--b/snapshots/c0/model.safetensors"
    path = tar(
        tmp_path / "weights.tar",
        ("models/m/1/m.gguf", "", b"gguf"),
        ("hub/models--a--b/blobs/x", "", b"weights"),
        (snapshot, "../../blobs/x", b""),
    )
    assert loading._place_weights(path, places) == 3
    assert (places["models"] / "m/1/m.gguf").read_bytes() == b"gguf"
    assert (places["hub"] / "models--a--b/snapshots/c0/model.safetensors").read_bytes() == b"weights"
    assert loading._place_weights(path, places) == 0
    assert not list(tmp_path.rglob(f"*{loading.PART}"))


@pytest.mark.parametrize(
    "member",
    [
        ("hub/../../x", "", b"x"),
        ("/etc/x", "", b"x"),
        ("elsewhere/x", "", b"x"),
        ("hub", "", b"x"),
        ("hub/a", "/etc/passwd", b""),
        ("hub/a", "../../x", b""),
    ],
)
def test_nothing_leads_out_of_its_place(
    tmp_path: Path, places: dict[str, Path], member: tuple[str, str, bytes]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    path = tar(tmp_path / "weights.tar", member)
    with pytest.raises(SavedUnusable):
        loading._place_weights(path, places)
    assert [item for item in sorted(tmp_path.rglob("*")) if item not in (*before, path)] == []


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_hard_links_and_devices_are_refused(tmp_path: Path, places: dict[str, Path], kind: bytes) -> None:
    path = tmp_path / "weights.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("hub/a")
        member.type, member.linkname = kind, "../../../etc/passwd"
        archive.addfile(member)
    with pytest.raises(SavedUnusable, match="no weight"):
        loading._place_weights(path, places)
    assert not places["hub"].exists()


def test_a_file_is_not_put_behind_a_link_that_leads_out(tmp_path: Path, places: dict[str, Path]) -> None:
    places["hub"].mkdir()
    (places["hub"] / "a").symlink_to(tmp_path)
    with pytest.raises(SavedUnusable, match="leads out"):
        loading._place_weights(tar(tmp_path / "weights.tar", ("hub/a/x", "", b"x")), places)
    assert not (tmp_path / "x").exists()


def test_half_a_tar_is_told(tmp_path: Path, places: dict[str, Path]) -> None:
    path = tar(tmp_path / "weights.tar", ("hub/a", "", b"x" * 100_000))
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises((SavedUnusable, NoSpace)):
        loading._place_weights(path, places)
    assert [item for item in places["hub"].rglob("*")] == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BadSetting, match="isn't empty"):
        saving.save(load_settings(environ={}), tmp_path)
    assert (tmp_path / "mine").read_text() == "x"


def test_too_small_a_disk_is_known_before_anything_is_written(tmp_path: Path) -> None:
    class Client:
        class images:
            @staticmethod
            def get(_: str) -> object:
                return type("Image", (), {"attrs": {"Size": 10**18}})

    with pytest.raises(NoSpace, match="GB free"):
        saving._room(Client, tmp_path / "out", {"a": BuiltImage("a", "1", fresh=False)}, None)


def test_only_what_was_set_has_to_be_typed_again() -> None:
    settings = load_settings(environ={"ENGINE": "vllm", "PORT": "9"})
    assert saving.settings_names(settings) == {"ENGINE": "vllm"}


def test_the_two_places_are_this_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    settings = load_settings(environ={"DRYDOCK_CACHE": str(tmp_path / "c")})
    assert carrying.places(settings) == {"models": tmp_path / "c" / "models", "hub": tmp_path / "hf"}
