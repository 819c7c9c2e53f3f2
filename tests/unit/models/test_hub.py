"""A hub that doesn't give what is asked for: within seconds, one error that says why and what else can be done."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import DrydockError, HubFaulty, HubRefused, HubUnreachable, UnknownModel
from harness.models import hub as hub_module
from harness.models.hub import Hub as Client
from harness.models.plan import resolve
from harness.models.weights import ensure_weights
from tests.support.hub import QWEN, QWEN_COMMIT, Hub
from tests.unit.models.conftest import MakeSettings

SECONDS = 5.0


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address that takes a connection's first packet and never answers: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            held.append(client)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        for client in held:
            client.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def fetch(make: MakeSettings, endpoint: str, **values: object) -> DrydockError:
    """The error that fetching qwen2.5-0.5b ends with; and it must come soon."""
    settings = make(**{"model": "qwen2.5-0.5b", "engine": "vllm", "hf_endpoint": endpoint, **values})
    started = time.monotonic()
    with pytest.raises(DrydockError) as caught:
        ensure_weights(resolve(settings), settings.engine, settings)
    assert time.monotonic() - started < SECONDS
    return caught.value


def test_a_refused_connection_names_what_can_be_used_instead(make: MakeSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses, and nobody else gets the port
        error = fetch(make, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert isinstance(error, HubUnreachable)
    assert error.exit_code == 3
    assert "refuses connections" in error.what
    for instead in ("MODEL=smollm2-135m", "MODEL=/path/to/", "HF_ENDPOINT=", "HF_HUB_OFFLINE=1"):
        assert instead in error.mend


def test_a_name_that_cannot_be_resolved_is_named(make: MakeSettings) -> None:
    error = fetch(make, "https://hub.invalid")
    assert isinstance(error, HubUnreachable)
    assert "the name hub.invalid can't be resolved" in error.what


def test_a_black_hole_is_given_up_within_seconds(make: MakeSettings, black_hole: str) -> None:
    error = fetch(make, black_hole)
    assert isinstance(error, HubUnreachable)
    assert "doesn't answer within 4 s" in error.what


def test_a_server_that_says_nothing_is_given_up(
    make: MakeSettings, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "ANSWER_SECONDS", 0.3)
    assert isinstance(fetch(make, silent), HubUnreachable)


def test_a_dead_proxy_is_named_instead_of_the_hub(make: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{taken.getsockname()[1]}")
        error = fetch(make, "https://hub.invalid")
    assert isinstance(error, HubUnreachable)
    assert "(the proxy before hub.invalid)" in error.what


def test_models_that_are_here_are_offered_first(make: MakeSettings, hub: Hub) -> None:
    settings = make(model="qwen2.5-0.5b", engine="vllm", hf_endpoint=hub.url)
    ensure_weights(resolve(settings), "vllm", settings)
    error = fetch(make, "https://hub.invalid", model="qwen3-0.6b")
    assert error.mend.splitlines()[0].startswith("make up MODEL=qwen2.5-0.5b ")


def test_a_gated_model_without_a_token_says_what_to_do(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add(QWEN, tiny / "hf", QWEN_COMMIT, gated=True, token="hf_good")
    error = fetch(make, hub.url)
    assert isinstance(error, HubRefused)
    assert "HF_TOKEN is not set" in error.what
    assert f"{hub.url}/{QWEN}" in error.mend
    assert "HF_TOKEN=" in error.mend


def test_a_token_that_may_not_is_told_from_none(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add(QWEN, tiny / "hf", QWEN_COMMIT, gated=True, token="hf_good")
    error = fetch(make, hub.url, hf_token="hf_secret_and_wrong")
    assert isinstance(error, HubRefused)
    assert "may not download it" in error.what
    assert "hf_secret" not in f"{error.what}{error.consequence}{error.mend}"


def test_a_gated_model_with_the_right_token_arrives(make: MakeSettings, hub: Hub, tiny: Path) -> None:
    hub.add(QWEN, tiny / "hf", QWEN_COMMIT, gated=True, token="hf_good")
    settings = make(model="qwen2.5-0.5b", engine="vllm", hf_endpoint=hub.url, hf_token="hf_good")
    assert ensure_weights(resolve(settings), "vllm", settings).revision == QWEN_COMMIT


def test_an_unknown_repository_gets_a_guess(make: MakeSettings, hub: Hub) -> None:
    error = fetch(make, hub.url, model="Qwen/Qwen2.5-0.5b-Instruckt", hf_token="hf_any")
    assert isinstance(error, UnknownModel)
    assert error.exit_code == 2
    assert "Did you mean qwen2.5-0.5b" in error.what


def test_without_a_token_unknown_and_private_look_the_same(make: MakeSettings, hub: Hub) -> None:
    error = fetch(make, hub.url, model="nobody/nothing")
    assert isinstance(error, HubRefused)
    assert "private, gated, or doesn't exist" in error.what


def test_an_unknown_revision_is_named(make: MakeSettings, hub: Hub) -> None:
    error = fetch(make, hub.url, model=f"{QWEN}@v9")
    assert isinstance(error, UnknownModel)
    assert "no revision v9" in error.what


def test_a_broken_hub_is_told_from_an_absent_one(make: MakeSettings, hub: Hub) -> None:
    hub.fault("500", "/api/models/")
    error = fetch(make, hub.url)
    assert isinstance(error, HubFaulty)
    assert "HTTP 500" in error.what
    assert "MODEL=smollm2-135m" in error.mend


def test_a_hiccup_is_forgiven(make: MakeSettings, hub: Hub) -> None:
    hub.fault("502", "/api/models/", times=2)
    assert Client(make(hf_endpoint=hub.url)).listing(QWEN, None).commit == QWEN_COMMIT


def test_a_login_page_is_no_hub(make: MakeSettings, hub: Hub) -> None:
    hub.fault("garbage", "/api/models/")
    error = fetch(make, hub.url)
    assert isinstance(error, HubFaulty)
    assert "isn't a model hub's answer" in error.what


def test_a_web_server_that_knows_nothing_is_no_hub(make: MakeSettings, hub: Hub) -> None:
    hub.fault("404", "/api/models/")
    error = fetch(make, hub.url)
    assert isinstance(error, HubFaulty)
    assert "no model hub" in error.what


def test_an_empty_endpoint_in_the_environment_means_the_real_hub(
    make: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert Client(make(hf_endpoint=None)).endpoint == "https://huggingface.co"


def test_the_listing_spells_the_repository_as_the_hub_does(make: MakeSettings, hub: Hub) -> None:
    listing = Client(make(hf_endpoint=hub.url)).listing(QWEN.lower(), None)
    assert (listing.repo, listing.commit) == (QWEN, QWEN_COMMIT)
    sizes = {file.path: file.size for file in listing.files}
    assert sizes["config.json"]
