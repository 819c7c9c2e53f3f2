"""A report for a bug: what goes in, what is taken out, and that nothing is written over."""

from __future__ import annotations

import base64
import json
import os
import tarfile
from pathlib import Path

import pytest

from harness.doctor.bundle import packing, run_files
from harness.doctor.bundle.choosing import ALL_BYTES, FILE_BYTES, RECORDING_BYTES, Candidate, LeftOut, choose
from harness.doctor.bundle.cleaning import Cleaner, known_secrets, without_locals
from harness.doctor.bundle.packing import Entry, archive, plain, write
from harness.doctor.bundle.sources import summary
from harness.errors import ReportExists, ReportNotWritable

LOGIN = base64.b64encode(b"me:canary-docker").decode()
CANARY = "canary-0123456789abcdef"


# --- choosing


def names(files: list[Candidate], room: int = ALL_BYTES) -> tuple[list[str], dict[str, str]]:
    chosen, left = choose(files, room)
    return [one.name for one in chosen], {one.name: one.reason for one in left}


def test_small_texts_go_in_and_pages_weights_and_pickles_do_not() -> None:
    chosen, left = names(
        [
            Candidate("1-check/result.json", 1000),
            Candidate("1-check/report.html", 1000),
            Candidate("1-check/model.safetensors", 1000),
            Candidate("1-check/model.gguf", 1000),
            Candidate("1-hang/trace_0", 1000),
            Candidate("1-hang/weights.bin", 10),
        ]
    )
    assert chosen == ["1-check/result.json", "1-hang/trace_0"]
    assert left["1-check/report.html"].startswith("a page")
    assert left["1-check/model.safetensors"] == left["1-hang/weights.bin"] == "not a text"


def test_of_a_long_log_the_end_goes_in_and_a_long_document_stays_out() -> None:
    chosen, left = choose([Candidate("1-run/output.log", 10**9), Candidate("1-hang/rank0.json", 10**9)])
    assert [(one.name, one.most) for one in chosen] == [("1-run/output.log", FILE_BYTES)]
    assert [one.name for one in left] == ["1-hang/rank0.json"]


@pytest.mark.parametrize(("size", "goes_in"), [(1000, True), (RECORDING_BYTES + 1, False)])
def test_a_recording_goes_in_whole_or_not_at_all(size: int, goes_in: bool) -> None:
    chosen, left = names([Candidate("1-check/tape/recording.json", 100), Candidate("1-check/tape/run-1.jsonl", size)])
    assert bool(chosen) is goes_in
    assert ("1-check/tape/" in left) is not goes_in


def test_the_whole_has_a_limit_and_the_first_have_the_first_call() -> None:
    chosen, left = names([Candidate("2-check/a.json", 600), Candidate("1-check/a.json", 600)], room=1000)
    assert chosen == ["2-check/a.json"]
    assert "1-check/a.json" in left


# --- cleaning


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.log", f"called with {CANARY}\n"),
        ("a.json", json.dumps({"deep": [{"env": {"X": f"a{CANARY}b"}}]})),
        ("a.jsonl", json.dumps({CANARY: 1}) + "\nnot json " + CANARY),
        ("a.json", "{ broken " + CANARY),
        ("a.txt", f"http://user:{CANARY}@host/"),
    ],
)
def test_known_secrets_are_nowhere(name: str, text: str) -> None:
    cleaner = Cleaner([CANARY])
    cleaned = cleaner.clean(name, text)
    assert CANARY not in cleaned
    assert not cleaner.leaks(cleaned)
    assert cleaner.leaks(text)


@pytest.mark.parametrize(
    "text",
    [
        "hf_abcdefghijklmnopqrstuvwx",
        "sk-abcdefghijklmnop1234567890",
        "Authorization: Bearer abcdefghijklmnopqrstuvwx",
        '{"api_key": "abcdefghijkl"}',
        "https://me:p4ssw0rd-long@index.example/simple",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_too(text: str) -> None:
    assert "[redacted]" in Cleaner([]).clean("x.json" if text.startswith("{") else "x.log", text)


def test_local_variables_are_taken_out_of_dumps() -> None:
    document = {"threads": [{"frames": [{"name": "f", "line": 3, "locals": [{"name": "prompt", "repr": "private"}]}]}]}
    cleaned = Cleaner([]).clean("rank0.json", json.dumps(document))
    assert "private" not in cleaned
    assert json.loads(cleaned)["threads"][0]["frames"][0] == {"name": "f", "line": 3}
    assert "private" not in Cleaner([]).clean("rank0.jsonl", json.dumps(document))


def test_local_variables_are_taken_out_of_what_py_spy_prints() -> None:
    text = (
        "Thread 7 (active)\n    f (a.py:3)\n        Arguments:\n            prompt: 'private'\n"
        "        Locals:\n            x: 'private'\n    g (a.py:9)\n"
    )
    assert without_locals(text) == "Thread 7 (active)\n    f (a.py:3)\n    g (a.py:9)\n"


def test_the_home_folder_has_no_name() -> None:
    assert Cleaner([], "/home/you").clean("a.log", "/home/you/x /home/younger /home/you") == "~/x /home/younger ~"
    assert Cleaner([], "/").clean("a.log", "/a") == "/a"


def test_secrets_are_known_from_everywhere_that_has_them(tmp_path: Path) -> None:
    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    put("clone/.drydock/drydock/secrets/api_key", "canary-api-key\n")
    put("clone/.drydock/other/secrets/ray_token", "canary-ray-token")
    put(".cache/huggingface/token", "canary-hub-token")
    put(".ray/auth_token", "canary-ray-home")
    put(".netrc", "machine x login me password canary-netrc\n")
    put(".docker/config.json", json.dumps({"auths": {"x": {"auth": LOGIN}}}))
    environ = {"HOME": str(tmp_path), "WANDB_API_KEY": "canary-wandb", "MY_TOKEN": "canary-mine", "PATH": "/bin"}
    found = known_secrets(environ, [tmp_path / "clone"], ["canary-given", None])
    wanted = ["api-key", "ray-token", "hub-token", "ray-home", "netrc", "docker", "wandb", "mine", "given"]
    assert {f"canary-{name}" for name in wanted} <= set(found)
    assert LOGIN in found
    assert "/bin" not in found


def test_of_a_container_no_environment_is_told() -> None:
    told = summary(
        {
            "Name": "/drydock-dev-1",
            "Config": {"Env": [f"KEY={CANARY}"], "Image": "drydock/dev:1", "Cmd": [CANARY], "Labels": {"x": CANARY}},
            "State": {"Status": "exited", "ExitCode": 137, "Pid": 0},
            "Mounts": [{"Type": "bind", "Source": "/a", "Destination": "/workspace", "RW": True, "Propagation": ""}],
        }
    )
    assert CANARY not in json.dumps(told)
    assert (told["name"], told["state"]) == ("drydock-dev-1", {"Status": "exited", "ExitCode": 137})


# --- files of runs, which agents can write


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    for number in range(1, 8):
        folder = root / f"2026113{number}-120000-check"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}")
    (root / "latest").symlink_to("20261137-120000-check")
    (root / "not-a-run").mkdir()
    (root / "drydock-report-1.tar.gz").write_text("x")
    return root


def test_the_newest_runs_are_taken(runs: Path) -> None:
    newest = run_files.newest(runs)
    assert newest == [f"2026113{number}-120000-check" for number in (7, 6, 5, 4, 3)]
    assert [one.name for one in run_files.candidates(runs, newest)] == [f"{name}/result.json" for name in newest]
    assert run_files.newest(runs / "nowhere") == []


def test_no_link_pipe_or_device_is_read(runs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text(CANARY)
    folder = runs / "20261137-120000-check"
    (folder / "link.json").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    assert [one.name for one in run_files.candidates(runs, [folder.name])] == [f"{folder.name}/result.json"]
    for name in ("link.json", "pipe.json", "folder/id_rsa", "../../id_rsa"):
        # Also where a file or folder is replaced by a link between the look and the reading.
        assert run_files.read(runs, f"{folder.name}/{name}", 100) is None


def test_of_a_long_file_the_end_is_read(runs: Path) -> None:
    (runs / "20261137-120000-check" / "output.log").write_text("begin" + "x" * 1000 + "end")
    assert run_files.read(runs, "20261137-120000-check/output.log", 3) == b"end"


# --- packing


def test_names_lead_nowhere_and_do_nothing_to_a_terminal() -> None:
    assert plain("runs/../../etc/passwd") == "runs/_/_/etc/passwd"
    assert plain("/abs/\x1b[31mred\n.json") == "abs/_31mred_.json"


def test_the_archive_says_what_is_in_it_and_what_is_not(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.tar.gz"
    write(target, archive([Entry("doctor.json", "{}\n")], [LeftOut("runs/x", "not a text")], "drydock-report-1"))
    with tarfile.open(target) as tar:
        assert tar.getnames() == ["drydock-report-1/what-is-in-here.json", "drydock-report-1/doctor.json"]
        listing = json.loads(tar.extractfile(tar.getmembers()[0]).read())  # type: ignore[union-attr]
    assert listing == {
        "files": [{"name": "doctor.json", "bytes": 3}],
        "left_out": [{"name": "runs/x", "reason": "not a text"}],
    }
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["report.tar.gz"]


def test_nothing_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.tar.gz"
    target.write_text("all that I have")
    with pytest.raises(ReportExists):
        write(target, b"new")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ReportExists):
        packing.refuse_existing(tmp_path / "link")

    def no_links(*_: object) -> None:
        raise OSError(1, "not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(ReportExists):
        write(target, b"new")
    assert target.read_text() == "all that I have"
    write(tmp_path / "other", b"new")
    assert (tmp_path / "other").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 3


def test_where_nothing_can_be_written_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportNotWritable):
        write(tmp_path / "file" / "report.tar.gz", b"x")
