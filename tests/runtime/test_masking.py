"""What errors and logs do not say: credentials that nobody told Stepwell of, and whose place says what they are."""

from __future__ import annotations

import json

import pytest

from stepwell.runtime.steps.secrets import masking, without_credentials, without_secrets

MASKED = masking(())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("host=db password=hunter2 failed", "host=db password=[secret] failed"),
        ("Driver={X};Password=p@ss;Server=db", "Driver={X};Password=[secret];Server=db"),
        ("https://x/?api_key=12345&page=1", "https://x/?api_key=[secret]&page=1"),
        ("password = 'two words', then", "password = '[secret]', then"),
        ('{"client_secret": "two words", "id": 7}', '{"client_secret": "[secret]", "id": 7}'),
        ("https://app:hunter2@db/x", "https://app:[secret]@db/x"),
        ("""password="it's 'x'", then""", """password="[secret]", then"""),
        (r"password='it\'s two', then", "password='[secret]', then"),
        (json.dumps({"password": 'say "a" \\ it\'s', "id": 7}), '{"password": "[secret]", "id": 7}'),
        ("Driver={X};Uid=sa;Pwd=hunter2;", "Driver={X};Uid=sa;Pwd=[secret];"),
        ("sent Bearer abcdefghijklmnop, refused", "sent Bearer [secret], refused"),
        ("sent Bearer tok_12, refused", "sent Bearer [secret], refused"),
        ("Bearer abc", "Bearer [secret]"),
        ("{'Authorization': 'Basic abc', 'n': 1}", "{'Authorization': 'Basic [secret]', 'n': 1}"),
        (
            json.dumps(json.dumps({"authorization": "Bearer abc"})),
            json.dumps(json.dumps({"authorization": "Bearer [secret]"})),
        ),
        ("authorization: Bearer abc", "authorization: Bearer [secret]"),
    ],
)
def test_what_is_given_as_a_password_is_masked(said: str, shown: str) -> None:
    assert MASKED(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "the password is too short",
        "api_key=None",
        "idempotency_key=order-7",
        '{"password": 12}',
        "secret missing: env:KEY",
        "HOME=/root PWD=/srv/app",
        "Basic authentication failed",
        "the bearer of this is ana",
    ],
)
def test_what_only_speaks_of_one_stays(said: str) -> None:
    assert MASKED(said) == said


@pytest.mark.parametrize(
    "said",
    [
        {"message": 'dsn "host=db password=hunter2" refused'},
        {"message": 'password="two words" and "more"'},
        {"message": "password=hunter2\nnext line"},
        {"message": json.dumps({"password": "hunter2"})},
        {"message": json.dumps({"password": 'x"y hunter2'})},
        {"message": """password="it's hunter2" and 'more'"""},
        {"client_secret": "hunter2", "password": 12},
    ],
)
def test_a_line_of_json_is_masked_and_stays_json(said: dict[str, object]) -> None:
    shown = json.loads(MASKED(json.dumps(said)))
    assert shown.keys() == said.keys()
    assert "hunter2" not in str(shown)
    assert "two words" not in str(shown)
    assert str(shown).endswith("next line'}") == str(said).endswith("next line'}")


def test_the_data_of_an_error_has_no_credentials_and_no_text_of_a_field_that_is_named_one() -> None:
    data = {"url": "postgres://app:hunter2@db", "sent": [{"api_key": "k-1", "password": 12}, "Bearer abcdefgh12345678"]}
    assert without_credentials(data, ()) == {
        "url": "postgres://app:[secret]@db",
        "sent": [{"api_key": "[secret]", "password": 12}, "Bearer [secret]"],
    }


def test_data_that_steps_return_loses_only_what_is_known_to_be_a_secret() -> None:
    data = {"password": "of the user", "text": "password=abc and s3cret-s3cret"}
    assert without_secrets(data, ("s3cret-s3cret",)) == {"password": "of the user", "text": "password=abc and [secret]"}
