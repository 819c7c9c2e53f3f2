"""Environment variables that do nothing, or harm: every rule has a value that it is about, and one that is fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doctor.topics.training import of_here, of_processes, read_environment
from harness.doctor.topics.training_rules import RULES, Place, decide, decide_addresses

# Variable to a value that does nothing or harm, what else has to be set for that, and a value that is fine.
CASES: dict[str, tuple[str, dict[str, str], str | None]] = {
    "NCCL_TIMEOUT": ("300", {}, None),
    "RAY_DEBUG_POSTMORTEM": ("1", {}, None),
    "RAY_DEBUG_POST_MORTEM": ("true", {}, "1"),
    "RAY_DEBUG": ("0", {}, "1"),
    "PYTHONBREAKPOINT": ("0", {}, "ipdb.set_trace"),
    "HF_HUB_ENABLE_HF_TRANSFER": ("1", {}, "0"),
    "TORCH_NCCL_DUMP_ON_TIMEOUT": ("1", {"TORCH_NCCL_ENABLE_MONITORING": "0"}, "1"),
    "TORCH_NCCL_ENABLE_MONITORING": ("0", {}, "1"),
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": ("10", {}, "86400"),
    "TORCH_NCCL_BLOCKING_WAIT": ("1", {}, "0"),
    "NCCL_BLOCKING_WAIT": ("1", {}, "0"),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": ("0", {}, "3"),
    "NCCL_P2P_DISABLE": ("1", {}, "0"),
    "NCCL_SHM_DISABLE": ("1", {}, "0"),
    "NCCL_IB_DISABLE": ("1", {}, "0"),
    "CUDA_LAUNCH_BLOCKING": ("1", {}, "0"),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", {}, "OFF"),
    "PYTHONASYNCIODEBUG": ("1", {}, ""),
    "PYTHONOPTIMIZE": ("1", {}, "0"),
    "PYTORCH_CUDA_ALLOC_CONF": ("expandable_segments:True", {}, "max_split_size_mb:512"),
    "RAY_memory_monitor_refresh_ms": ("0", {}, "250"),
    "VLLM_SERVER_DEV_MODE": ("1", {}, "false"),
    "AREAL_ALLOW_DEFAULT_ADMIN_KEY": ("1", {}, "0"),
}
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.variable)


@EACH
def test_each_rule_applies_to_a_value_and_not_to_another(rule) -> None:  # type: ignore[no-untyped-def]
    wrong, others, fine = CASES[rule.variable]
    found = [
        finding
        for finding in decide([Place("this shell", {rule.variable: wrong, **others})])
        if finding.text.startswith(f"{rule.variable}={wrong} ")
    ]
    assert [finding.sign for finding in found] == [rule.sign]
    assert found[0].consequence
    assert found[0].mend
    assert "this shell" in found[0].text
    variables = {} if fine is None else {rule.variable: fine}
    assert [finding.sign for finding in decide([Place("this shell", variables)])] == ["ok"]


def test_every_rule_has_a_case_of_its_own() -> None:
    assert list(CASES) == [rule.variable for rule in RULES]


def test_the_places_that_share_a_value_are_told_together() -> None:
    places = [Place(f"PID {number} (python train.py)", {"NCCL_TIMEOUT": "300"}) for number in range(5)]
    (finding,) = decide(places)
    assert "and 2 more" in finding.text


@pytest.mark.parametrize(
    ("variables", "sign"),
    [
        ({"NCCL_SOCKET_IFNAME": "eth"}, "ok"),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, "bad"),
        ({"NCCL_SOCKET_IFNAME": "=eth0"}, "ok"),
        ({"NCCL_SOCKET_IFNAME": "^docker"}, "ok"),
        ({"NCCL_SOCKET_IFNAME": "ib0,bond0"}, "bad"),
        ({"GLOO_SOCKET_IFNAME": "eth0"}, "ok"),
        ({"GLOO_SOCKET_IFNAME": "eth"}, "bad"),
        ({"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "bad"),
        ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, "ok"),
        ({"MASTER_ADDR": "10.0.0.1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "ok"),
        ({"RANK": "0", "WORLD_SIZE": "8"}, "warn"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "ok"),
    ],
)
def test_addresses(variables: dict[str, str], sign: str) -> None:
    findings = decide_addresses([Place("this shell", variables, here=True)], frozenset({"lo", "eth0"}))
    assert [finding.sign for finding in findings] == [sign]


def test_interfaces_of_another_network_are_not_ours_to_judge() -> None:
    place = Place("PID 7 (python)", {"NCCL_SOCKET_IFNAME": "ib0"}, here=False)
    assert [finding.sign for finding in decide_addresses([place], frozenset({"lo"}))] == ["ok"]


def test_a_rank_of_a_launcher_is_not_an_export() -> None:
    place = Place("PID 7 (python)", {"RANK": "0", "WORLD_SIZE": "8"}, here=True)
    assert [finding.sign for finding in decide_addresses([place], frozenset({"lo"}))] == ["ok"]


def make_process(proc: Path, pid: int, command: str, environment: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    (folder / "environ").write_bytes(environment.replace(" ", "\0").encode() + b"\0")


def test_training_processes_are_found_and_others_left_alone(tmp_path: Path) -> None:
    make_process(tmp_path, 999_901, "/usr/bin/python3.12 train.py", "NCCL_TIMEOUT=300 API_KEY=canary")
    make_process(tmp_path, 999_902, "ray::Actor.step", "NCCL_TIMEOUT=300")
    make_process(tmp_path, 999_903, "bash", "NCCL_TIMEOUT=300")
    make_process(tmp_path, 999_904, "python3 /x/.venv/bin/harness up", "NCCL_TIMEOUT=300")
    make_process(tmp_path, 999_905, "python3 quiet.py", "HOME=/root")
    places = of_processes(tmp_path)
    assert [place.name.split()[1] for place in places] == ["999901", "999902"]
    assert "canary" not in repr(places)


def test_only_what_rules_are_about_is_read() -> None:
    assert read_environment(b"NCCL_TIMEOUT=1\0HF_TOKEN=canary\0X\0") == {"NCCL_TIMEOUT": "1"}
    assert of_here({"NCCL_TIMEOUT": "1", "HF_TOKEN": "canary"}).variables == {"NCCL_TIMEOUT": "1"}
