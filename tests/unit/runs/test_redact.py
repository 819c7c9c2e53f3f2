from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runs import redact
from harness.runs.environment import of_this_process, secrets_of
from harness.runs.redact import Redactor

SHAPED = [
    "sk-proj-abcdefghijklmnopqrstuv",
    "sk-ant-api03-abcdefghijklmnop-xyz",
    "hf_abcdefghijklmnopqrst",
    "ghp_abcdefghijklmnopqrstuvwx",
    "github_pat_11ABCDEFG0abcdefghij_klmn",
    "glpat-abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz12345",
    "nvapi-abcdefghijklmnopqrstuvwxyz",
    "gsk_abcdefghijklmnopqrstuv",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("secret", SHAPED)
def test_what_is_shaped_like_a_key_is_taken_out(secret: str) -> None:
    assert Redactor().text(f"a {secret}, b") == "a [redacted], b"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcDEF123456.xyz", "Authorization: Bearer [redacted]"),
        ("https://me:hunter22@host/x", "https://[redacted]@host/x"),
        ("OPENAI_API_KEY=abcdefgh12345678", "OPENAI_API_KEY=[redacted]"),
        ('{"password": "longenough1"}', '{"password": "[redacted]"}'),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----!", "[redacted]!"),
    ],
)
def test_what_stands_where_a_secret_stands_is_taken_out(text: str, left: str) -> None:
    assert Redactor().text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "prompt_tokens: 43, completion_tokens: 16",
        "a task-force of risk-takers in sk-SK",
        "/usr/lib/python3/dist-packages/key.py:12",
        "http://127.0.0.1:8080/v1",
        "4ac1e77be35d19c2b1b8e31be0b8f8a9e0f1d2c3",
        "max_tokens=16 token:123",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_known_secrets_go_in_each_form_they_take() -> None:
    redactor = Redactor(['pa"ss/word', "prefix-of-another", "prefix-of-another-secret"])
    assert redactor.text('pa"ss/word') == "[redacted]"
    assert redactor.text('"pa\\"ss/word"') == '"[redacted]"'
    assert redactor.text("?k=pa%22ss%2Fword") == "?k=[redacted]"
    assert redactor.text("prefix-of-another-secret") == "[redacted]"


@pytest.mark.parametrize("word", ["", "None", "EMPTY", "  ", None])
def test_words_that_stand_for_no_key_are_not_blacked_out(word: str | None) -> None:
    assert Redactor([word]).text("None of it is EMPTY") == "None of it is EMPTY"


def test_data_is_cleaned_by_value_and_by_name() -> None:
    redactor = Redactor(["a-known-secret"])
    assert redactor.data(
        {
            "api_key": "whatever-it-is",
            "tokens": 5,
            "total_tokens": "many words here",
            "x": ["a-known-secret", None, 1.5],
        }
    ) == {"api_key": "[redacted]", "tokens": 5, "total_tokens": "many words here", "x": ["[redacted]", None, 1.5]}


def test_a_known_secret_is_cleaned_from_keys_too() -> None:
    assert Redactor(["a-known-secret"]).data({"a-known-secret": 1}) == {"[redacted]": 1}


def test_secrets_of_an_environment_are_found_by_name() -> None:
    environment = {
        "OPENAI_API_KEY": "one",
        "HF_TOKEN": "two",
        "MY_PASSWORD": "three",
        "RAY_AUTH_TOKEN_PATH": "/run/secrets/ray_token",
        "SSL_KEY": "/etc/key.pem",
        "PATH": "/bin",
        "MAX_TOKENS": "5",
    }
    assert secrets_of(environment) == ["one", "two", "three"]


PIECES = st.sampled_from(
    [*SHAPED, "Bearer ", "BA\u017fIC ", "bas\u0131c ", "https://", "me:hunter22@", "Api-\u212aey", "TO\u212aEN=",
     "pa\u017f\u017fword: ", "ACCESS_TOKEN=", "\u0130", "auth_token", "-----BEGIN PRIVATE KEY-----", "=", " ", "\n"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=12), max_size=8).map("".join))
def test_what_is_looked_for_first_never_hides_a_secret(text: str) -> None:
    looked_for = [*redact._SHAPES, *redact._AFTER]
    small = redact._small(text)
    for needed, shape in looked_for:
        assert shape.search(text) is None or any(word in small for word in needed)


def test_every_installed_package_is_in_the_fingerprint() -> None:
    packages = of_this_process()["packages"]
    assert packages["pytest"] == pytest.__version__
    assert all(packages.values())
