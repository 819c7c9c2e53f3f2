"""May a node join? The decisions, and the meeting itself over this machine's loopback."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.stack.machines import join, meeting
from harness.stack.machines.meeting import Facts, Refused
from harness.stack.machines.serve import Place, Server, closed
from harness.stack.ray_ports import Ports
from tests.support.harness import CLONE

HEAD = Facts(
    image="drydock/dev:1234",
    ray="2.60.0",
    python="3.11.2",
    packages={"ray": "2.60.0", "httpx": "1.0"},
    told={"OPENAI_BASE_URL": "http://10.0.0.1:8080/v1"},
    time=1000.0,
)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A meeting place whose token is ``right``."""
    monkeypatch.setattr(Place, "token", "right")
    server = Server(("127.0.0.1", 0), Place)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def refusal(call: object) -> Refused:
    with pytest.raises(Refused) as caught:
        call()  # type: ignore[operator]
    return caught.value


def test_whoever_knows_the_token_learns_what_the_head_is_made_of(port: int) -> None:
    facts = Facts.read(meeting.ask("127.0.0.1", port, "right", "/facts"))
    assert facts.packages["pytest"] == pytest.__version__
    assert not meeting.differences(facts, meeting.own_facts())


def test_another_token_is_refused_and_says_so(port: int) -> None:
    found = refusal(lambda: meeting.ask("127.0.0.1", port, "wrong", "/facts"))
    assert found.kind == "token"
    assert "TOKEN_FILE=" in found.mend


def test_nobody_there_and_no_way_there_are_told_apart() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = refusal(lambda: meeting.ask("127.0.0.1", taken.getsockname()[1], "right", "/facts"))
    assert found.kind == "unreachable"
    assert "Nobody listens" in found.what
    assert "firewall" in meeting.nobody("10.0.0.1", 6380, TimeoutError())[0]


def test_an_answer_without_proof_is_not_believed(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(
        "harness.stack.machines.serve.proof", lambda *parts: meeting.proof(*parts[:4]) if len(parts) == 4 else "?"
    )
    assert refusal(lambda: meeting.ask("127.0.0.1", port, "right", "/facts")).kind == "stranger"


def test_a_question_is_not_passed_off_as_another(port: int) -> None:
    assert meeting.proof("right", "/facts", "1", "null") != meeting.proof("right", "/nodes", "1", "null")
    # Neither can parts be moved from one to the next.
    assert meeting.proof("right", "a", "b\nc") != meeting.proof("right", "a\nb", "c")


def test_only_ports_of_whoever_asks_are_tried(port: int) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        free = server.getsockname()[1]
        asked = {"ports": [port, free], "host": "10.0.0.9"}
        assert meeting.ask("127.0.0.1", port, "right", "/reach", asked) == {"closed": [free]}


def test_what_is_no_question_breaks_nothing(port: int) -> None:
    for path, body in (("/reach", {"ports": ["x"]}), ("/reach", None), ("/nothing", None)):
        assert (
            refusal(lambda path=path, body=body: meeting.ask("127.0.0.1", port, "right", path, body)).kind == "stranger"
        )
    assert meeting.ask("127.0.0.1", port, "right", "/facts")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"ray": "2.61.0"}, "Ray 2.61.0 here, 2.60.0 on the head"),
        ({"python": "3.12.1"}, "Python 3.12.1 here, 3.11.2 on the head"),
        ({"image": "drydock/dev:5678"}, "image drydock/dev:5678 here"),
        ({"packages": {"ray": "2.60.0", "httpx": "1.1"}}, "httpx 1.1 / 1.0"),
        ({"packages": {"ray": "2.60.0"}}, "httpx none / 1.0"),
    ],
)
def test_a_node_of_another_version_is_refused_with_the_difference(change: dict[str, object], word: str) -> None:
    found = refusal(lambda: meeting.same_version(HEAD, replace(HEAD, **change)))  # type: ignore[arg-type]
    assert found.kind == "version"
    assert word in found.what
    assert "docker save drydock/dev:1234" in found.mend


def test_the_same_image_under_another_name_is_the_same() -> None:
    meeting.same_version(HEAD, replace(HEAD, image="mirror/drydock/dev:1234"))


@pytest.mark.parametrize(
    ("asked", "answered", "expected"), [(999.5, 1000.5, 0.0), (1004.0, 1004.2, 4.0), (900.0, 901.0, -99.0)]
)
def test_the_way_there_is_not_taken_for_a_clock_that_differs(asked: float, answered: float, expected: float) -> None:
    assert meeting.skew(HEAD, asked, answered) == expected


def test_clocks_a_little_apart_are_told_and_far_apart_refused() -> None:
    assert not meeting.clock_fit(0.4)
    assert "4.0 s ahead" in meeting.clock_fit(4.0)
    assert "99.0 s behind" in refusal(lambda: meeting.clock_fit(-99.0)).what


def test_a_closed_port_is_named_with_its_direction() -> None:
    meeting.ports_open([], "from here to the head")
    found = refusal(lambda: meeting.ports_open([6381, 6379], "from here to the head"))
    assert "from here to the head: 6379, 6381" in found.what
    assert "make ports" in found.mend


def test_ports_are_listened_at_only_while_they_are_tried() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with join.listening("127.0.0.1", [free]) as heard:
        assert (heard, closed("127.0.0.1", heard)) == ([free], [])
    assert closed("127.0.0.1", [free]) == [free]


@pytest.mark.parametrize(("up", "kind"), [(False, "unreachable"), (True, "ports")])
def test_a_head_that_is_still_starting_is_not_taken_for_a_firewall(
    monkeypatch: pytest.MonkeyPatch, port: int, up: bool, kind: str
) -> None:
    monkeypatch.setattr(join, "closed", lambda host, ports: [6379])  # as seen from the node
    monkeypatch.setattr("harness.stack.machines.serve.closed", lambda host, ports: [] if up else list(ports))
    assert refusal(lambda: join.check("127.0.0.1", Ports(port - 1), "right")).kind == kind


def test_without_a_token_nobody_is_asked() -> None:
    assert refusal(lambda: join.check("10.0.0.1", Ports(6379), "")).kind == "token"


def test_a_node_is_told_every_address_and_key_that_dev_has(tmp_path: Path) -> None:
    """A name that is new in compose.yaml or env.sh has to be known to both ends of the meeting, or a node lacks it."""
    rendered = yaml.safe_load((CLONE / "compose.yaml").read_text())["services"]["dev"]["environment"]
    exported = re.findall(r"^\s*export (.+)$", (CLONE / "docker" / "dev" / "env.sh").read_text(), re.MULTILINE)
    names = {*rendered, *" ".join(exported).split()}
    of_the_server = {name for name in names if name.startswith(("OPENAI_", "ANTHROPIC_"))}
    assert {"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} < of_the_server
    assert set(join.NAMES) == of_the_server | {"DRYDOCK_NODE_ADDRESS"}
    key = tmp_path / "key"
    key.write_text("sesame")
    told = meeting.own_facts({**dict.fromkeys(of_the_server, "there"), "DRYDOCK_API_KEY_FILE": str(key)}).told
    assert set(told) == of_the_server
