"""What a command line and an environment tell of a process."""

from __future__ import annotations

import pytest

from harness.agent import runner
from harness.checks import gather, stage3_gather
from harness.processes.sampling.roles import Place, is_checked_agent, is_own, is_python, place, role_by_command

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node0",
            "MASTER_PORT": "29500"}  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (TORCHRUN, Place(5, 1, 8, 4, "node0:29500")),
        # torchrun below srun: its own numbers win over the task's.
        ({**TORCHRUN, "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, Place(5, 1, 8, 4, "node0:29500")),
        (
            {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2",
             "SLURM_JOB_ID": "77"},
            Place(3, 1, 4, 2, "77"),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Place(1, None, 2, None, "")),
        # A shell in a job of one task is no rank; nor is a world without a place in it, or a rank that is no number.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, Place()),
        ({"WORLD_SIZE": "8"}, Place()),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, Place()),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Place(0, None, 1, None, "")),
    ],
)  # fmt: skip
def test_a_place_comes_from_whoever_launched_it(environ: dict[str, str], expected: Place) -> None:
    assert place(environ) == expected


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("ray::RewardActor.score", "worker"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "server"),
        ("/venv/bin/python /venv/bin/torchrun --nproc-per-node 2 train.py", "launcher"),
        ("mpirun -np 4 python train.py", "launcher"),
        ("python train.py", ""),
    ],
)
def test_some_roles_stand_on_the_command_line(command: str, role: str) -> None:
    assert role_by_command(command) == role


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("/venv/bin/python /venv/bin/harness hang-dump", True),
        ("/venv/bin/py-spy dump --pid 7", True),
        ("python -m harness.cli.entry sample", True),
        ("python train.py --config harness.yaml", False),
        ("python /home/me/harness_tests/train.py", False),
    ],
)
def test_the_harness_is_never_part_of_what_hangs(command: str, own: bool) -> None:
    assert is_own(command.split()) is own


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        ("/opt/venv/bin/python3.11 train.py", "python3.11", True),
        ("ray::IDLE", "ray::IDLE", False),
        ("train", "pt_main_thread", True),
        ("sleep 100", "sleep", False),
    ],
)
def test_an_interpreter_is_known_by_its_name(command: str, name: str, expected: bool) -> None:
    assert is_python(command.split(), name) is expected


@pytest.mark.parametrize("child", [gather.CHILD, stage3_gather.CHILD])
def test_an_agent_that_a_check_runs_is_what_people_look_for(child: str) -> None:
    """So a dump has it although it neither trains nor serves."""
    command = ["/venv/bin/python", "-u", "-c", runner._START.format(program=child), "11", "12"]
    assert is_checked_agent(command)
    assert not is_own(command)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "--note", "from harness.checks.child"],
        ["python", "-c", "from harness.openai_api.simulated.process import main; main()"],
    ],
)
def test_others_are_no_agents_of_a_check(command: list[str]) -> None:
    assert not is_checked_agent(command)
