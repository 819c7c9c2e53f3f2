from __future__ import annotations

from harness.openai_api import probes
from harness.openai_api.http import Endpoint, Server
from tests.support.fake_model import KEY, MODEL, FakeModel


def ask(model: FakeModel, *, key: str = KEY, wanted: str = "") -> tuple[str, probes.Answers]:
    endpoint = Endpoint.parse("http://fake/v1", key)
    with Server(endpoint, transport=model.transport()) as server:
        return probes.ask(server, wanted)


def test_everything_is_asked_of_a_server_that_answers() -> None:
    told: list[str] = []
    model = FakeModel()
    with Server(Endpoint.parse("http://fake/v1", KEY), transport=model.transport()) as server:
        name, answers = probes.ask(server, "", tell=told.append)
    assert name == MODEL
    assert {probe.name for probe in probes.FEATURES} <= answers.keys()
    assert told[0] == "models"
    assert set(told) == answers.keys()


def test_a_refused_key_ends_the_asking() -> None:
    _, answers = ask(FakeModel(), key="wrong-key-altogether")
    assert list(answers) == ["models"]


def test_without_a_chat_no_feature_is_asked_for() -> None:
    _, answers = ask(FakeModel(broken={"completions"}))
    assert list(answers) == ["models", "models-without-key", "chat"]


def test_the_wanted_model_is_asked_for_also_where_another_is_listed() -> None:
    model = FakeModel(ignoring={"unknown-model"})
    name, _ = ask(model, wanted="mine")
    assert name == "mine"
    assert {body["model"] for path, body in model.requests if path.endswith("/messages")} == {"mine"}


def test_areals_probe_names_no_model() -> None:
    model = FakeModel()
    ask(model)
    bodies = [body for path, body in model.requests if path == "/v1/completions"]
    assert [("model" in body) for body in bodies if "return_tokens_as_token_ids" in body] == [False]


def test_where_no_list_is_one_is_looked_for_below_v1() -> None:
    model = FakeModel()
    with Server(Endpoint.parse("http://fake", KEY), transport=model.transport()) as server:
        _, answers = probes.ask(server, "")
    assert probes.served_models(answers["models"]) == []
    assert probes.served_models(answers["models-below-v1"]) == [MODEL]
