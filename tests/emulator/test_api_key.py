"""`auth: api_key` on the emulator: the template's authorizers, for the API's own calls and for those of boto3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from botocore import UNSIGNED
from botocore.exceptions import ClientError

from stepwell.aws.emulation.deployment import deploy
from stepwell.cli.deploying.synthesis import synthesise
from stepwell.cli.folder.emulate import api_key_of, gateway_to
from stepwell.client import Client
from stepwell.client.errors import AccessProblem
from tests.emulator.conftest import serving
from tests.emulator.kit import DEADLINE_SECONDS, ROOT, World, until
from tests.step_functions.kit import machine_arn, sfn

KEY = "x-api-key"
HELLO = "workflow: hello\ntimeline:\n  - {name: greet, run: python:words.greet}\n"
WORDS = "def greet():\n    return 'hello'\n"


@dataclass(frozen=True, slots=True)
class Keyed:
    """An API that lets in who has its key."""

    url: str
    key: str

    def near(self) -> str:
        """Returns a key that is wrong in its last character alone."""
        return self.key[:-1] + ("a" if self.key[-1] != "a" else "b")


@pytest.fixture(scope="module")
def keyed(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A stack of its own beside the one of the other tests."""
    made = tmp_path_factory.mktemp("keyed")
    folder = made / "workflows"
    folder.mkdir()
    (folder / "hello.yaml").write_text(HELLO)
    (folder / "words.py").write_text(WORDS)
    context = {"emulator": True, "stack_name": "Keyed", "auth": "api_key", "folder": str(folder), "live": False}
    synthesise(ROOT, context, made / "cdk.out")
    (stack,) = deploy(world.emulator, made / "cdk.out")
    with gateway_to(world.emulator, stack) as gateway, serving(gateway) as url:
        yield Keyed(url, api_key_of(stack, world.emulator.client))


def test_boto3_is_let_in_with_the_key_as_the_access_keys_id(keyed: Keyed) -> None:
    client = sfn(keyed.url, keyed.key)
    arn = client.start_execution(stateMachineArn=machine_arn("hello"), name="h-1")["executionArn"]
    until(lambda: client.describe_execution(executionArn=arn)["status"] != "RUNNING", "the execution ends")
    shown = client.describe_execution(executionArn=arn)
    assert (shown["status"], json.loads(shown["output"])) == ("SUCCEEDED", "hello")
    with Client(keyed.url, api_key=keyed.key) as own:
        assert [(run["workflow"], run["status"]) for run in own.runs()] == [("hello", "completed")]


@pytest.mark.parametrize("wrong", ["near", "any", "longer"])
def test_boto3_is_refused_with_another_key(keyed: Keyed, wrong: str) -> None:
    client: Any = sfn(keyed.url, {"near": keyed.near(), "any": "AKIDEXAMPLE", "longer": keyed.key + "a"}[wrong])
    assert sfn(keyed.url, keyed.key).list_state_machines()["stateMachines"]  # which is not remembered for others
    assert status_of(client) == 403


def test_boto3_is_refused_without_a_key(keyed: Keyed) -> None:
    assert status_of(sfn(keyed.url, signature_version=UNSIGNED)) == 401


def test_a_key_in_a_signature_opens_the_calls_of_step_functions_alone(keyed: Keyed) -> None:
    """The other routes take it from their own header, and that one from the signature, as the template has them."""
    signed = {"authorization": f"AWS4-HMAC-SHA256 Credential={keyed.key}/20260101/eu-west-1/states/aws4_request"}
    called: Any = {"url": f"{keyed.url}/runs", "timeout": DEADLINE_SECONDS, "trust_env": False}
    assert httpx.get(**called, headers=signed).status_code == 401
    assert httpx.get(**called, headers={KEY: keyed.near()}).status_code == 403
    assert httpx.get(**called, headers={KEY: keyed.key}).status_code == 200
    with Client(keyed.url) as own, pytest.raises(AccessProblem) as refused:
        list(own.runs())
    assert refused.value.status == 401


def status_of(client: Any) -> int:
    """The status of a call that is refused."""
    with pytest.raises(ClientError) as refused:
        client.list_state_machines()
    return int(refused.value.response["ResponseMetadata"]["HTTPStatusCode"])
