"""Whom AWS takes the caller for, and what is said about credentials that do not work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stepwell.aws.alarm_states import alarm_states
from stepwell.aws.identity import BOOTSTRAP, Identity, identity, stack_outputs
from stepwell.errors import StepwellError, UserError

ENDPOINT = "https://sts.eu-west-1.amazonaws.com"
HERE = Identity("111122223333", "eu-west-1", "arn:aws:iam::111122223333:user/ana", bootstrapped=True)


class Session:
    """boto3's, with answers that the test has laid down."""

    def __init__(self, region_name: str | None = "eu-west-1") -> None:
        self.region_name = region_name
        made = {name: boto3.client(name, "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
                for name in ("sts", "ssm")}  # fmt: skip
        self.stubs = {name: Stubber(client) for name, client in made.items()}
        self.client = made.__getitem__
        for stub in self.stubs.values():
            stub.activate()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(boto3, "Session", lambda **_: made)
    return made


@pytest.mark.parametrize(("error", "prepared"), [(None, True), ("ParameterNotFound", False), ("AccessDenied", True)])
def test_an_account_is_prepared_when_the_bootstrap_has_left_its_version_or_nobody_may_look(
    session: Session, error: str | None, prepared: bool
) -> None:
    session.stubs["sts"].add_response("get_caller_identity", {"Account": HERE.account, "Arn": HERE.arn, "UserId": "u"})
    if error is None:
        session.stubs["ssm"].add_response("get_parameter", {"Parameter": {"Value": "27"}}, {"Name": BOOTSTRAP})
    else:
        session.stubs["ssm"].add_client_error("get_parameter", error)
    assert identity("", "") == Identity(HERE.account, "eu-west-1", HERE.arn, prepared, ENDPOINT)


@pytest.mark.parametrize(
    ("error", "code"), [("ExpiredToken", "credentials_expired"), ("InvalidClientTokenId", "bad_credentials")]
)
def test_credentials_that_aws_refuses_are_told_with_what_to_do(session: Session, error: str, code: str) -> None:
    session.stubs["sts"].add_client_error("get_caller_identity", error)
    with pytest.raises(UserError, match="AWS credentials") as told:
        identity("", "")
    assert told.value.code == code
    assert "aws sso login" in (told.value.hint or "")


def test_a_deployment_without_a_region_is_told(session: Session) -> None:
    session.region_name = None
    with pytest.raises(UserError, match="no AWS region is chosen") as told:
        identity("", "")
    assert told.value.code == "no_region"


@pytest.mark.parametrize("ask", [stack_outputs, alarm_states])
def test_a_command_without_a_region_is_told_the_same(monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any]) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(UserError) as told:
        ask("", "", "Shop")
    assert told.value.code == "no_region"


def test_a_profile_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(UserError, match="nobody") as told:
        identity("nobody", "eu-west-1")
    assert told.value.code == "bad_credentials"


def test_an_aws_that_cannot_be_reached_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StepwellError, match="AWS did not answer") as told:
        identity("", "eu-west-1")
    assert told.value.code == "unavailable"
