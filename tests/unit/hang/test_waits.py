"""The table of known waits: sound as data, and read as meant."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from harness.hang import causes, decide, standing, waits
from harness.hang.model import Frame
from tests.unit.hang.build import C10D, stack, thread


def test_every_row_has_a_source_and_known_kinds() -> None:
    table = yaml.safe_load(resources.files("harness.hang").joinpath("waits.yaml").read_text())
    for part in ("waits", "phases", "wrappers", "helpers"):
        assert [row for row in table[part] if not row.get("source")] == []
    kinds = {kind for row in table["waits"] for kind in row["calls"]}
    assert kinds <= set(waits.WEIGHTS)
    files = [row["file"] for row in table["waits"]]
    assert len(files) == len(set(files))


def test_every_kind_that_a_rule_asks_for_is_in_the_table() -> None:
    table = yaml.safe_load(resources.files("harness.hang").joinpath("waits.yaml").read_text())
    in_table = {kind for row in table["waits"] for kind in row["calls"]}
    assert in_table | {"sleep"} >= waits.COMMUNICATION | waits.IDLE


def test_every_cause_has_its_words() -> None:
    for code, cause in causes.CAUSES.items():
        assert cause.title, code
        if code not in ("none", "unknown"):
            assert cause.means, code
            assert cause.next, code
            assert cause.elsewhere, code
        assert set(cause.apart) <= set(causes.CAUSES), code
    assert len(causes.RULES) == len(set(causes.RULES))
    assert decide.CERTAIN > decide.WORTH_SAYING


def test_every_file_of_rules_is_taken_and_gives_codes_that_have_words() -> None:
    folder = Path(causes.__file__).parent
    given, written = set(), []
    for file in folder.glob("*.py"):
        text = file.read_text()
        given |= set(re.findall(r'Finding\(\s*"([a-z0-9-]+)"', text))
        written += re.findall(r'Cause\(\s*"([a-z0-9-]+)"', text)
        assert file.stem in ("__init__", "finding", "awaited") or re.search(r"^(CAUSES|RULES) = ", text, re.MULTILINE)
    assert given <= set(causes.CAUSES)
    assert sorted(written) == sorted(causes.CAUSES), "twice the same code, or a file that isn't taken"


@pytest.mark.parametrize(
    ("frames", "kind", "place"),
    [
        (["recv C10D:1", "recv_object_list C10D:2", "step run.py:4"], "p2p-recv recv", "step"),
        (
            ["recv C10D:1", "_shape_inference torch/distributed/pipelining/stage.py:3", "go a.py:4"],
            "p2p-recv recv",
            "go",
        ),
        (["all_reduce distributed_c10d.py:1", "f a.py:2"], "collective all_reduce", "f"),
        (["wait threading.py:1", "get queue.py:2", "collect a.py:3"], "queue get", "collect"),
        (["select selectors.py:1", "get multiprocessing/queues.py:3", "main a.py:5"], "mp-queue get", "main"),
        (["get multiprocessing/queues.py:3", "_get_data DATALOADER:4", "main a.py:5"], "dataloader _get_data", "main"),
        (["wait threading.py:1", "new_group a.py:2"], "lock wait", "new_group"),
        (["_new_process_group_helper C10D:1", "new_group C10D:2"], "new-group _new_process_group_helper", None),
        (["c10d::Work::wait libtorch_cpu.so", "all_reduce C10D:2", "main a.py:3"], "collective all_reduce", "main"),
        (["ncclLocalOpAppend libnccl.so.2", "all_gather C10D:2", "main a.py:3"], "nccl ncclLocalOpAppend", "main"),
        (["acquire filelock/_core/_lock.py:195", "load a.py:3"], "file-lock acquire", "load"),
        (["f a.py:1", "all_reduce C10D:2"], "running f", "f"),
        (["get worker.py:1", "main a.py:2"], "running get", "get"),
    ],
)
def test_a_stack_is_read_as_a_wait_at_a_place(frames: list[str], kind: str, place: str | None) -> None:
    places = {"C10D": C10D, "DATALOADER": "torch/utils/data/dataloader.py"}
    for short, file in places.items():
        frames = [text.replace(f"{short}:", f"{file}:") for text in frames]
    wait = waits.read_stack(stack(*frames))
    assert f"{wait.kind} {wait.operation}" == kind
    assert (wait.place and wait.place.function) == place


def test_own_code_above_a_known_call_is_what_runs() -> None:
    wait = waits.read_stack(stack("handler app.py:1", "_run_once asyncio/base_events.py:2", "run uvicorn/server.py:3"))
    assert (wait.kind, wait.on_loop) == ("running", True)


def test_a_helper_that_communicates_after_all_is_no_helper() -> None:
    assert waits.is_helper(thread("wait threading.py:1", name="pt_autograd_0"))
    assert not waits.is_helper(thread(f"all_reduce {C10D}:1", name="pt_autograd_0"))
    assert not waits.is_helper(thread("wait threading.py:1", name="MainThread"))


def test_names_are_compared_without_their_classes() -> None:
    assert waits.call_kind(Frame("Queue.get", "queue.py", 1)) == waits.call_kind(Frame("get", "queue.py", 1)) == "queue"


def test_a_thread_that_sleeps_with_the_interpreter_s_lock() -> None:
    found = standing.of_threads((thread("native a.py:1", gil=True),))
    assert found is not None
    assert found.gil_holder is not None
    found = standing.of_threads((thread("python a.py:1", active=True, gil=True),))
    assert found is not None
    assert found.gil_holder is None


def test_what_a_script_is_called_says_nothing_of_what_it_does() -> None:
    """The same lost await was another cause in `agents_wait.py` than in `lost_reward.py`."""
    assert "user-code" not in waits.phases_of(Frame("<module>", "lost_reward.py", 40))
    assert "user-code" in waits.phases_of(Frame("compare", "math_verifier.py", 40))
