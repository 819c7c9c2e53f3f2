"""What ``MODEL=`` and ``ENGINE=`` come down to, without any network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.errors import UnknownModel, UnusableModel
from harness.models.plan import resolve, want
from tests.support.hub import QWEN, QWEN_COMMIT, QWEN_GGUF, QWEN_GGUF_COMMIT, QWEN_GGUF_FILE
from tests.unit.models.conftest import MakeSettings


@pytest.mark.parametrize("given", ["qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", "qwen/qwen2.5-0.5b-instruct"])
def test_alias_and_hub_id_mean_the_same_pinned_weights(make: MakeSettings, given: str) -> None:
    plan = resolve(make(model=given))
    assert plan.names == ("qwen2.5-0.5b", QWEN)
    for engine in ("vllm", "sglang"):
        wanted = want(plan, engine)
        assert (wanted.format, wanted.repos, wanted.revision) == ("safetensors", (QWEN,), QWEN_COMMIT)
    wanted = want(plan, "llamacpp")
    assert (wanted.repos, wanted.revision, wanted.file) == ((QWEN_GGUF,), QWEN_GGUF_COMMIT, QWEN_GGUF_FILE)


def test_a_revision_of_its_own_is_taken_over(make: MakeSettings) -> None:
    wanted = want(resolve(make(model=f"{QWEN}@main", engine="vllm")), "vllm")
    assert (wanted.repos, wanted.revision) == ((QWEN,), "main")


def test_a_revision_that_says_nothing_about_the_gguf_is_refused_for_llama_cpp(make: MakeSettings) -> None:
    with pytest.raises(UnusableModel, match="holds safetensors") as caught:
        resolve(make(model=f"{QWEN}@main"))
    assert f"make up ENGINE=vllm MODEL={QWEN}@main" in caught.value.mend


def test_the_pinned_revision_itself_is_no_contradiction(make: MakeSettings) -> None:
    wanted = want(resolve(make(model=f"{QWEN}@{QWEN_COMMIT}")), "llamacpp")
    assert wanted.revision == QWEN_GGUF_COMMIT


def test_a_gguf_repository_is_for_llama_cpp(make: MakeSettings) -> None:
    wanted = want(resolve(make(model=f"{QWEN_GGUF}@main")), "llamacpp")
    assert (wanted.repos, wanted.revision) == ((QWEN_GGUF,), "main")
    with pytest.raises(UnusableModel) as caught:
        resolve(make(model=QWEN_GGUF, engine="vllm"))
    assert f"MODEL={QWEN}" in caught.value.mend


def test_the_default_comes_out_of_a_package(make: MakeSettings) -> None:
    plan = resolve(make())
    assert plan.names == ("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct")
    assert want(plan, "llamacpp").source == want(plan, "vllm").source == "package"


def test_the_default_with_a_revision_comes_from_the_hub(make: MakeSettings) -> None:
    wanted = want(resolve(make(model="smollm2-135m@main", engine="vllm")), "vllm")
    assert (wanted.source, wanted.repos, wanted.revision) == ("hub", ("HuggingFaceTB/SmolLM2-135M-Instruct",), "main")


def test_an_unknown_hub_id_is_left_to_the_hub(make: MakeSettings) -> None:
    plan = resolve(make(model="Some-One/Thing-7B"))
    assert plan.names == ("thing-7b", "Some-One/Thing-7B")
    assert want(plan, "llamacpp").repos == ("Some-One/Thing-7B", "Some-One/Thing-7B-GGUF")
    assert want(plan, "vllm").repos == ("Some-One/Thing-7B",)


def test_an_unknown_alias_gets_a_guess_and_the_list(make: MakeSettings) -> None:
    with pytest.raises(UnknownModel, match=r"Did you mean qwen2\.5-0\.5b") as caught:
        resolve(make(model="qwen2.5"))
    assert caught.value.exit_code == 2
    assert "make up MODEL=qwen2.5-0.5b" in caught.value.mend
    assert "gemma-3-4b" in caught.value.mend


def test_a_folder_is_checked_and_named_after_itself(make: MakeSettings, tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "My Model"
    shutil.copytree(tiny / "hf", folder)
    plan = resolve(make(model=str(folder), engine="vllm"))
    assert plan.names == ("my-model", str(folder))
    assert want(plan, "vllm").path == folder


def test_a_relative_folder_is_taken_from_the_clone(make: MakeSettings, tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny / "hf", tmp_path / "clone" / "models" / "tiny")
    for given in ("models/tiny", "./models/tiny"):
        plan = resolve(make(model=given, engine="vllm"))
        assert plan.path == tmp_path / "clone" / "models" / "tiny"


def test_a_folder_that_is_not_there_is_said_to_be(make: MakeSettings) -> None:
    with pytest.raises(UnknownModel, match="no such folder or file"):
        resolve(make(model="./nowhere"))
    with pytest.raises(UnknownModel, match="no such file"):
        resolve(make(model="nowhere.gguf"))


def test_a_folder_without_a_model_is_refused(make: MakeSettings, tmp_path: Path) -> None:
    for engine in ("llamacpp", "vllm"):
        with pytest.raises(UnusableModel, match="without a model"):
            resolve(make(model=str(tmp_path / "clone"), engine=engine))


def test_each_engine_is_told_of_the_other_format(make: MakeSettings, tiny: Path) -> None:
    file = tiny / "gguf" / QWEN_GGUF_FILE
    with pytest.raises(UnusableModel) as caught:
        resolve(make(model=str(file), engine="vllm"))
    assert f"make up ENGINE=llamacpp MODEL={file}" in caught.value.mend
    with pytest.raises(UnusableModel) as caught:
        resolve(make(model=str(tiny / "hf")))
    assert f"make up ENGINE=vllm MODEL={tiny / 'hf'}" in caught.value.mend


def test_a_folder_with_one_gguf_serves_it_and_with_two_asks(make: MakeSettings, tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ggufs"
    folder.mkdir()
    shutil.copy(tiny / "gguf" / QWEN_GGUF_FILE, folder / "one.gguf")
    assert want(resolve(make(model=str(folder))), "llamacpp").path == folder / "one.gguf"
    shutil.copy(folder / "one.gguf", folder / "two.gguf")
    with pytest.raises(UnusableModel, match="2 GGUF files") as caught:
        resolve(make(model=str(folder)))
    assert f"make up MODEL={folder / 'two.gguf'}" in caught.value.mend


def test_an_external_server_may_have_models_that_nobody_here_can_check(make: MakeSettings) -> None:
    assert resolve(make(model="gpt-whatever", engine="external")).names == ("gpt-whatever",)
