"""Secrets from Secrets Manager and the Parameter Store, on an emulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ministack.services import secretsmanager, ssm

from stepwell.aws.secrets import AwsSecrets
from stepwell.cli.folder.emulate import missing_secrets
from stepwell.errors import PortError
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.steps.secrets import MISSING
from tests.contract.emulated import NO_WAIT, Cloud, answer

SECRET = "whsec_c2VjcmV0"  # noqa: S105


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    yield Cloud()
    secretsmanager.reset()
    ssm.reset()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_800_000_000_000)


@pytest.fixture
def secrets(cloud: Cloud, clock: VirtualClock) -> AwsSecrets:
    manager, parameters = cloud.connect("secretsmanager"), cloud.connect("ssm")
    manager.create_secret(Name="shop/github", SecretString=SECRET)
    manager.create_secret(Name="shop/fields", SecretString=f'{{"github": "{SECRET}", "port": 1, "none": ""}}')
    manager.create_secret(Name="shop/bytes", SecretBinary=b"\x00")
    parameters.put_parameter(Name="/shop/slack", Value=f"{SECRET}\n", Type="SecureString")
    cloud.calls.clear()
    return AwsSecrets(cloud.clients.secretsmanager, cloud.clients.ssm, clock, NO_WAIT)


@pytest.mark.parametrize(
    "reference", ["secretsmanager:shop/github", "secretsmanager:shop/fields#github", "ssm:/shop/slack"]
)
def test_a_secret_is_read_by_its_reference(secrets: AwsSecrets, reference: str) -> None:
    assert secrets.get(reference) == SECRET


def test_a_secret_is_read_by_its_arn(secrets: AwsSecrets, cloud: Cloud) -> None:
    arn = cloud.connect("secretsmanager").describe_secret(SecretId="shop/fields")["ARN"]
    assert secrets.get(f"secretsmanager:{arn}#github") == SECRET


def test_a_secret_is_remembered_for_five_minutes_whatever_field_is_asked_for(
    secrets: AwsSecrets, cloud: Cloud, clock: VirtualClock
) -> None:
    assert secrets.get("secretsmanager:shop/fields#github") == SECRET
    cloud.connect("secretsmanager").put_secret_value(SecretId="shop/fields", SecretString='{"github": "new"}')
    cloud.calls.clear()
    clock.advance(299_999)
    assert secrets.get("secretsmanager:shop/fields#github") == SECRET
    assert cloud.calls == []
    clock.advance(1)
    assert secrets.get("secretsmanager:shop/fields#github") == "new"
    assert cloud.calls == ["GetSecretValue"]


def test_only_the_service_that_is_asked_gets_a_client(cloud: Cloud, clock: VirtualClock) -> None:
    fresh = Cloud()
    AwsSecrets(fresh.clients.secretsmanager, fresh.clients.ssm, clock)
    assert fresh.clients._made == {}
    fresh.connect("ssm").put_parameter(Name="one", Value="two", Type="String")
    assert AwsSecrets(fresh.clients.secretsmanager, fresh.clients.ssm, clock).get("ssm:one") == "two"
    assert list(fresh.clients._made) == ["ssm"]


@pytest.mark.parametrize(
    "reference",
    [
        "secretsmanager:shop/nothing",
        "secretsmanager:shop/bytes",
        "secretsmanager:shop/github#field",  # not JSON
        "secretsmanager:shop/fields#nothing",
        "secretsmanager:shop/fields#port",
        "secretsmanager:shop/fields#none",
        "ssm:/shop/nothing",
        "vault:shop",
    ],
)
def test_what_cannot_be_read_is_told_by_its_reference_and_never_by_its_content(
    secrets: AwsSecrets, reference: str
) -> None:
    with pytest.raises(PortError) as refusal:
        secrets.get(reference)
    chain: list[BaseException | None] = [refusal.value, refusal.value.__cause__]
    told = " ".join(f"{error!r} {error} {getattr(error, 'doc', '')}" for error in chain)
    assert SECRET not in told
    assert reference.partition(":")[0] in str(refusal.value)


@pytest.mark.parametrize(
    ("reference", "command"),
    [
        ("secretsmanager:shop/none", "secretsmanager create-secret --name shop/none"),
        ("ssm:/shop/none", "ssm put-parameter --type SecureString --name /shop/none"),
    ],
)
def test_a_secret_that_is_not_there_is_told_with_how_to_make_it(
    secrets: AwsSecrets, reference: str, command: str
) -> None:
    with pytest.raises(PortError) as refusal:
        secrets.get(reference)
    assert (refusal.value.code, refusal.value.message) == (MISSING, f"there is no secret {reference}")
    assert command in str(refusal.value.hint)


def test_dev_on_an_emulator_tells_which_webhooks_have_no_secret(secrets: AwsSecrets, cloud: Cloud) -> None:
    document = {
        "sources": {
            "there": {"secret": ["env:NONE", "ssm:/shop/slack"]},
            "gone": {"secret": ["env:NONE", "secretsmanager:gone"]},
            "open": {"secret": []},
        },
        "out": {"crm": {"secret": ["ssm:/crm"]}},
    }
    gone, crm = missing_secrets(document, cloud.connect)
    assert gone.startswith("webhook gone: env:NONE cannot be read here")
    assert "there is no secret secretsmanager:gone (aws secretsmanager create-secret --name gone" in gone
    assert "webhook crm: there is no secret ssm:/crm" in crm
    assert list(missing_secrets(None, cloud.connect)) == []


def test_a_throttled_call_is_made_again(secrets: AwsSecrets, cloud: Cloud) -> None:
    tries: list[str] = []

    def throttled(operation: str, request: Any) -> Any:
        tries.append(operation)
        if len(tries) < 3:
            return answer(400, '{"__type": "ThrottlingException"}', {"content-type": "application/x-amz-json-1.1"})
        return None

    cloud.before = throttled
    assert secrets.get("ssm:/shop/slack") == SECRET
    assert tries == ["GetParameter"] * 3


def test_a_failed_read_is_not_remembered(secrets: AwsSecrets, cloud: Cloud) -> None:
    with pytest.raises(PortError):
        secrets.get("ssm:/shop/late")
    cloud.connect("ssm").put_parameter(Name="/shop/late", Value="here", Type="String")
    assert secrets.get("ssm:/shop/late") == "here"


def well(*_: Any) -> None:
    """The service answers."""


def test_a_secret_that_was_read_counts_for_an_hour_while_its_service_does_not_answer(
    secrets: AwsSecrets, cloud: Cloud, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def down(operation: str, _: Any) -> Any:
        return answer(503, "{}", {"content-type": "application/x-amz-json-1.1"})

    assert secrets.get("ssm:/shop/slack") == SECRET
    cloud.before = down
    clock.advance(300_000)
    cloud.calls.clear()
    assert [secrets.get("ssm:/shop/slack") for _ in range(3)] == [SECRET] * 3
    asked = len(cloud.calls)
    clock.advance(60_000)
    assert secrets.get("ssm:/shop/slack") == SECRET
    assert len(cloud.calls) == 2 * asked  # once a minute, however many ask
    assert SECRET not in caplog.text
    assert "the secret of 6 minutes ago still counts: the secret ssm:/shop/slack: GetParameter" in caplog.text
    clock.advance(3_540_000)
    with pytest.raises(PortError, match="attempts failed"):
        secrets.get("ssm:/shop/slack")
    cloud.before = well
    assert secrets.get("ssm:/shop/slack") == SECRET


def test_a_secret_that_was_deleted_or_denied_counts_no_longer(
    secrets: AwsSecrets, cloud: Cloud, clock: VirtualClock
) -> None:
    for reference, code in (("ssm:/shop/slack", "ParameterNotFound"), ("secretsmanager:shop/github", "AccessDenied")):
        cloud.before = well
        assert secrets.get(reference) == SECRET
        clock.advance(300_000)
        body = json.dumps({"__type": f"{code}Exception".replace("NotFoundException", "NotFound")})
        cloud.before = lambda *_, body=body: answer(400, body, {"content-type": "application/x-amz-json-1.1"})
        with pytest.raises(PortError):
            secrets.get(reference)


def test_its_repr_shows_no_secret(secrets: AwsSecrets) -> None:
    secrets.get("ssm:/shop/slack")
    assert SECRET not in repr(secrets)
