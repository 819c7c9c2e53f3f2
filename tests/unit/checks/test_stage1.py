from __future__ import annotations

import httpx2
import pytest

from harness.checks import stage1
from harness.checks.findings import Finding, StageResult
from harness.openai_api.http import Endpoint
from tests.support.fake_model import KEY, MODEL, FakeModel

REQUIRED = {"server.reachable", "server.key", "server.chat"}


def run(model: FakeModel, *, key: str = KEY, base_url: str = "http://fake/v1") -> StageResult:
    return stage1.run(Endpoint.parse(base_url, key), model="", transport=model.transport())[1]


def by_id(result: StageResult) -> dict[str, Finding]:
    found = {finding.id: finding for finding in result.findings}
    assert len(found) == len(result.findings), "an id stands for one thing"
    return found


def test_a_server_that_has_all_passes_all() -> None:
    result = run(FakeModel())
    assert {finding.status for finding in result.findings} == {"pass"}
    assert len(result.findings) == 25
    assert result.figures["model"] == MODEL
    assert "Paris is the capital of France." in by_id(result)["server.chat"].detail


@pytest.mark.parametrize(
    ("feature", "id_"),
    [
        ("messages", "server.messages"),
        ("messages", "server.messages-streaming"),
        ("responses", "server.responses"),
        ("logprobs", "server.logprobs"),
        ("tools", "server.tools"),
        ("tools", "server.tools-required"),
        ("json-schema", "server.json-schema"),
        ("token-ids", "server.token-ids"),
        ("prompt-logprobs", "server.prompt-logprobs"),
        ("return-token-ids", "server.return-token-ids"),
        ("generate", "server.generate"),
        ("tokenize", "server.tokenize"),
        ("health", "server.health"),
        ("metrics", "server.metrics"),
    ],
)
def test_what_a_server_refuses_is_absent_and_no_failure(feature: str, id_: str) -> None:
    result = run(FakeModel(without={feature}))
    finding = by_id(result)[id_]
    assert finding.status == "absent"
    assert finding.consequence
    assert "HTTP 4" in finding.detail
    assert not result.failed


@pytest.mark.parametrize(
    ("feature", "id_"),
    [
        ("unknown-model", "server.unknown-model"),
        ("streaming", "server.streaming"),
        ("logprobs", "server.logprobs"),
        ("tools", "server.tools-required"),
        ("json-schema", "server.json-schema"),
        ("token-ids", "server.token-ids"),
        ("prompt-logprobs", "server.prompt-logprobs"),
        ("return-token-ids", "server.return-token-ids"),
    ],
)
def test_what_a_server_accepts_and_does_not_do_is_a_warning(feature: str, id_: str) -> None:
    finding = by_id(run(FakeModel(ignoring={feature})))[id_]
    assert finding.status == "warn"
    assert finding.facts["state"] == "ignored"
    assert finding.consequence


@pytest.mark.parametrize("route", ["messages", "responses", "generate", "metrics"])
def test_what_breaks_is_a_warning_where_it_is_not_required(route: str) -> None:
    result = run(FakeModel(broken={route}))
    assert by_id(result)[f"server.{route}"].status == "warn"
    assert "HTTP 500: it broke" in by_id(result)[f"server.{route}"].detail
    assert not result.failed


def test_without_a_chat_the_check_fails_and_the_rest_is_not_asked() -> None:
    found = by_id(run(FakeModel(broken={"completions"})))
    assert found["server.chat"].status == "fail"
    assert found["server.chat"].mend
    later = {id_: finding for id_, finding in found.items() if id_ not in {*REQUIRED, "server.asks-for-key"}}
    assert {finding.status for id_, finding in later.items() if id_ != "server.models"} == {"skip"}
    assert "chat: HTTP 500" in found["server.messages"].detail


def test_a_refused_key_fails_and_says_what_to_set() -> None:
    found = by_id(run(FakeModel(), key="some-other-key"))
    assert found["server.reachable"].status == "pass"
    assert found["server.key"].status == "fail"
    assert "401" in found["server.key"].detail
    assert "OPENAI_API_KEY" in found["server.key"].mend
    assert "server.asks-for-key" in found
    assert found["server.chat"].status == "skip"


def test_a_server_without_key_is_told() -> None:
    found = by_id(run(FakeModel(key="")))
    assert found["server.asks-for-key"].status == "absent"
    assert not run(FakeModel(key="")).failed


def test_ids_of_a_text_are_found_under_either_name() -> None:
    for name in ("prompt", "content"):
        model = FakeModel(tokenizes=name)
        assert name in by_id(run(model))["server.tokenize"].detail
    assert by_id(run(FakeModel(tokenizes="neither")))["server.tokenize"].status == "absent"


def test_a_base_url_without_v1_is_told() -> None:
    found = by_id(run(FakeModel(), base_url="http://fake"))
    assert found["server.models"].status == "warn"
    assert "lacks /v1" in found["server.models"].detail


def test_a_server_that_is_not_there_fails_at_once() -> None:
    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no") from ConnectionRefusedError(111, "refused")

    endpoint = Endpoint.parse("http://127.0.0.1:9/v1", "")
    _, result = stage1.run(endpoint, model="", transport=httpx2.MockTransport(handle))
    found = by_id(result)
    assert found["server.reachable"].status == "fail"
    assert "nothing listens on 127.0.0.1:9" in found["server.reachable"].detail
    assert result.count("skip") == len(found) - 1
    assert result.failed


def test_a_server_that_goes_away_is_told_with_the_request_at_which_it_went() -> None:
    result = run(FakeModel(dies_at="/responses"))
    found = by_id(result)
    assert found["server.messages"].status == "pass"
    assert found["server.responses"].status == "warn"
    assert found["server.completions"].status == "skip"
    assert found["server.survives"].status == "fail"
    assert "it went away at the request “responses” (nothing listens on fake)" in found["server.survives"].detail
    assert result.failed


def test_a_single_answer_that_breaks_off_is_not_taken_for_the_servers_end() -> None:
    model = FakeModel().transport()

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/responses"):
            raise httpx2.ReadError("reset")
        return model.handle_request(request)

    _, result = stage1.run(Endpoint.parse("http://fake/v1", KEY), model="", transport=httpx2.MockTransport(handle))
    assert by_id(result)["server.responses"].status == "warn"
    assert by_id(result)["server.metrics"].status == "pass"
    assert by_id(result)["server.survives"].status == "pass"


def test_a_cut_stream_is_broken() -> None:
    finding = by_id(run(FakeModel(break_streams=True)))["server.streaming"]
    assert finding.status == "warn"
    assert "the stream ends without its last event" in finding.detail


def test_a_limit_on_tokens_that_is_not_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.fake_model.usage", lambda: {"prompt_tokens": 3, "completion_tokens": 900})
    finding = by_id(run(FakeModel()))["server.usage"]
    assert finding.status == "warn"
    assert "max_tokens=8 gave 900 tokens" in finding.detail


def test_an_empty_answer_is_no_healthy_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.fake_model.usage", lambda: {"prompt_tokens": 3, "completion_tokens": 0})
    result = run(FakeModel(text=""))
    assert by_id(result)["server.chat"].status == "fail"
    assert "empty" in by_id(result)["server.chat"].detail


def test_what_a_proxy_says_instead_of_a_model_is_no_model() -> None:
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, text="<html>Welcome</html>"))
    _, result = stage1.run(Endpoint.parse("http://fake/v1", KEY), model="", transport=transport)
    found = by_id(result)
    assert found["server.models"].status == "warn"
    assert found["server.chat"].status == "fail"
    assert "no JSON object" in found["server.chat"].detail


def test_nothing_with_the_key_in_it_is_in_the_result() -> None:
    assert KEY not in run(FakeModel()).model_dump_json()
