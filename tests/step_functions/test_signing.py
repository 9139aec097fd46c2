"""What callers of a deployment have boto3 send, as docs/state-machines.md has it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from stepwell.credentials import credential_of
from tests.step_functions.kit import REGION, Sent, machine_arn, sfn


class Spy:
    """Keeps the requests of a client, and answers them."""

    def __init__(self, client: Any) -> None:
        self.requests: list[AWSPreparedRequest] = []
        client.meta.events.register("before-send.sfn", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        self.requests.append(request)
        return Sent(request.url, {"statusCode": 200, "headers": {}, "body": "{}"})

    @property
    def authorization(self) -> str:
        found: str = self.requests[-1].headers["Authorization"].decode()
        return found


def test_the_access_keys_id_is_sent_as_it_is() -> None:
    client = sfn("https://api.example.com", "a key/with, odd = parts")
    spy = Spy(client)
    client.list_state_machines()
    found = credential_of(spy.authorization)
    assert found is not None
    assert (found.key_id, found.region) == ("a key/with, odd = parts", REGION)
    assert "odd" not in repr(found)


@pytest.mark.parametrize("text", ["", "Bearer abc", "AWS4-HMAC-SHA256 Credential=", "AWS4-HMAC-SHA256 Credential=a/b,"])
def test_another_header_has_no_credential(text: str) -> None:
    assert credential_of(text) is None


def test_a_handler_has_a_client_sign_for_api_gateway() -> None:
    def sign_for_api_gateway(request: Any, **_: Any) -> None:
        request.context["signing"] = {"signing_name": "execute-api"}

    client = sfn("https://api.example.com")
    client.meta.events.register("before-sign.sfn", sign_for_api_gateway)
    spy = Spy(client)
    client.list_state_machines()
    assert f"/{REGION}/execute-api/aws4_request" in spy.authorization


def test_a_token_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_STATES", "abc")
    client = sfn("https://api.example.com", signature_version="bearer")
    spy = Spy(client)
    client.list_state_machines()
    assert spy.authorization == "Bearer abc"


@pytest.mark.parametrize(("disabled", "host"), [("true", "api.example.com"), ("false", "sync-api.example.com")])
def test_a_variable_keeps_the_host_of_a_sync_execution(
    monkeypatch: pytest.MonkeyPatch, disabled: str, host: str
) -> None:
    monkeypatch.setenv("AWS_DISABLE_HOST_PREFIX_INJECTION", disabled)
    client = sfn("https://api.example.com", inject_host_prefix=None)
    spy = Spy(client)
    client.start_sync_execution(stateMachineArn=machine_arn("quick"))
    assert spy.requests[-1].url == f"https://{host}/aws/states"
