"""What a dump's terminal output says beside the verdict: other threads, breakpoints, pools, names, places to look."""

from __future__ import annotations

import pytest

from harness.cli.hang_steps import fitting, where_values_are
from harness.errors import NobodyAnswered, NothingToSample
from harness.hang.decide import diagnose
from harness.hang.model import Process
from harness.hang.readers.identity import name_all
from harness.hang.show import show
from harness.processes.sampling.model import ProcessEntry, SampleEntry
from harness.settings import load_settings
from tests.unit.hang.build import dump, process, thread

QUEUE = ("wait threading.py:327", "get queue.py:171", "train train.py:4")


def test_the_other_threads_are_named_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    one = process(
        thread(*QUEUE),
        thread("select selectors.py:415", "fetch fetch.py:9", name="prefetch"),
        thread("lock writer.py:7", name="writer-1"),
        thread("lock writer.py:7", name="writer-2"),
        id="driver",
    )
    verdict = diagnose(dump(one))
    show(verdict)
    short = capsys.readouterr().out
    assert "other threads: prefetch in fetch (fetch.py:9); writer-1, writer-2 in lock (writer.py:7)" in short
    show(verdict, everything=True)
    everything = capsys.readouterr().out
    assert "thread prefetch" in everything
    assert "select (selectors.py:415)" in everything
    (group,) = verdict.as_dict()["groups"]
    assert [one["names"] for one in group["threads"]] == ["prefetch", "writer-1, writer-2"]


def test_a_single_thread_has_none_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(diagnose(dump(process(thread(*QUEUE), id="driver"))))
    assert "other threads" not in capsys.readouterr().out


def test_bare_addresses_are_left_out_unless_there_is_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    raw = thread("0x7f19b96a3f16 libc.so.6", "sem_wait libc.so.6", *QUEUE)
    show(diagnose(dump(process(raw, id="driver"))))
    out = capsys.readouterr().out
    assert "0x7f19" not in out
    assert "sem_wait (libc.so.6)" in out
    show(diagnose(dump(process(thread("0x7f19b96a3f16 libc.so.6"), id="driver"))))
    assert "0x7f19b96a3f16" in capsys.readouterr().out


@pytest.mark.parametrize(
    "frames",
    [
        ("block_until_configuration_done pydevd.py:1699", "breakpoint debugpy/public_api.py:32"),
        ("_do_wait_suspend pydevd.py:2100", "trace_dispatch _pydevd_bundle/pydevd_frame.py:5"),
        ("wait_for_client debugpy/server/api.py:9", "wait_for_client debugpy/public_api.py:3"),
        (
            "wait threading.py:331",
            "block_until_configuration_done pydevd.py:981",
            "wait_for_client debugpy/server/api.py:9",
        ),
        ("cmdloop cmd.py:126", "interaction pdb.py:380", "user_line pdb.py:301", "dispatch_line bdb.py:114"),
    ],
)
def test_who_stands_at_a_breakpoint_is_named_with_its_line(frames: tuple[str, ...]) -> None:
    at = process(
        thread(*frames, "score jobs/train_pdb.py:7", "run debugpy/server/cli.py:3"), id="worker:918", role="worker"
    )
    waits = process(thread("get_objects ray/_private/worker.py:949", "main train.py:3"), id="driver", role="driver")
    verdict = diagnose(dump(waits, at))
    assert verdict.next[0].startswith("type `c`" if "pdb.py" in frames[1] else "make breakpoints")
    assert verdict.evidence[0] == ("At a breakpoint, until somebody lets them go on: worker:918 at train_pdb.py:7.")


def test_a_debuggers_helper_thread_is_no_breakpoint() -> None:
    helper = thread(
        "_on_run _pydevd_bundle/pydevd_comm.py:254", "run _pydevd_bundle/pydevd_daemon_thread.py:53", name="r"
    )
    verdict = diagnose(dump(process(thread(*QUEUE), helper, id="driver")))
    assert not any("breakpoint" in text for text in [*verdict.next, *verdict.evidence])


def test_a_pool_has_no_data_workers() -> None:
    driver = process(
        thread("wait multiprocessing/pool.py:765", "map multiprocessing/pool.py:367", "main pool.py:6"), id="driver"
    )
    driver.pid, driver.role = 10, "driver"
    child = process(thread("work pool.py:2", "worker multiprocessing/pool.py:125"), id="worker:11", role="child")
    child.pid, child.ppid, child.owner = 11, 10, "driver"
    verdict = diagnose(dump(driver, child))
    assert verdict.cause == "data-worker"
    said = " ".join([verdict.title, verdict.means, *verdict.evidence, *verdict.next])
    assert "data worker" not in said
    assert "num_workers" not in said


def test_a_data_loader_has() -> None:
    main = process(thread("_try_get_data torch/utils/data/dataloader.py:1275", "train train.py:6"), id="rank0", pid=10)
    child = process(
        thread("read data.py:2", "_worker_loop torch/utils/data/_utils/worker.py:2"), id="rank0", role="child"
    )
    child.pid, child.ppid, child.owner = 11, 10, "rank0"
    verdict = diagnose(dump(main, child))
    assert verdict.cause == "data-worker"
    assert verdict.title == "a data worker is stuck"


def container(name: str, pid: int = 1) -> Process:
    return Process(pid=pid, container=name, host="vm", command="python c.py")


def test_equal_numbers_in_two_containers_are_told_by_the_container() -> None:
    both = [container("one"), container("two"), container("two", 7)]
    name_all(both)
    assert [one.id for one in both] == ["worker:1@one", "worker:1@two", "worker:7"]


def test_the_same_of_children() -> None:
    every = [container("one"), container("two")]
    for one in (container("one", 5), container("two", 5)):
        one.ppid = 1
        every.append(one)
    name_all(every)
    assert len({one.id for one in every}) == 4
    assert {one.id for one in every if one.pid == 5} == {"worker:5@one", "worker:5@two"}


def entry(**changes: object) -> ProcessEntry:
    return ProcessEntry(**{"pid": 1, **changes})  # type: ignore[arg-type]


def test_a_servers_address_is_filled_in() -> None:
    step = "curl -m 5 http://SERVER/health"
    one = entry(role="server", command="python -m vllm.entrypoints.openai.api_server --port 8123")
    assert fitting([step], load_settings({}), [one]) == ["curl -m 5 http://127.0.0.1:8123/health"]
    other = entry(role="server", command="python -m sglang.launch_server --port=9000")
    inside = entry(role="server", command=one.command, container="inference")
    for entries in ([one, other], [inside], [entry()], []):
        assert "SERVER: host:port" in fitting([step], load_settings({}), entries)[0]


def test_where_the_values_of_variables_are() -> None:
    first = entry(id="driver", samples=[SampleEntry(file="driver.json")])
    late = entry(id="rank3", samples=[SampleEntry(file="rank3.json")])
    assert "runs/x/rank3.json" in where_values_are("runs/x", [first, late], ["rank3"])
    assert "runs/x/driver.json" in where_values_are("runs/x", [first, late], [])
    assert "no stack" in where_values_are("runs/x", [], [])


def test_what_is_paused_alone_is_let_go_on_and_not_doctored() -> None:
    paused = {"one": "it is paused: docker unpause one"}
    assert NobodyAnswered.of("", paused).mend == "docker unpause one"
    assert "doctor" in NobodyAnswered.of("", {**paused, "two": "it has ended, with exit code 1"}).mend


def test_candidates_stand_on_lines_of_their_own_and_say_how_many_more() -> None:
    others = [f"python job{number}.py" for number in range(9)]
    error = NothingToSample.of("", [*others, others[0]])
    assert error.consequence.splitlines()[1:] == [
        *(f"  python job{number}.py" for number in range(6)),
        "  and 3 more: ps -eo pid,args",
    ]
    assert "more" not in NothingToSample.of("", others[:6]).consequence
    assert NothingToSample.of("MATCH=x", []).consequence == "There is nothing to sample."
