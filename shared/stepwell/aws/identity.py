"""Who a person is at AWS, and where: the account, the region, and what to do when the credentials are no good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, HTTPClientError, NoCredentialsError

from stepwell.aws.calls import code_of
from stepwell.errors import PortError, StepwellError, UserError

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"  # the parameter that the CDK's bootstrap leaves behind
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


@dataclass(frozen=True, slots=True)
class Identity:
    """The account and region that a deployment would go to."""

    account: str
    region: str
    arn: str
    bootstrapped: bool


def identity(profile: str, region: str) -> Identity:
    """Asks AWS; empty: what boto3 finds. Raises UserError `no_region`, and what `credentials_error` makes of errors."""
    import boto3  # noqa: PLC0415 - signing needs none of it

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
        if not session.region_name:
            raise no_region()
        caller = session.client("sts").get_caller_identity()
        return Identity(caller["Account"], session.region_name, caller["Arn"], _bootstrapped(session))
    except (BotoCoreError, ClientError) as error:
        raise credentials_error(error) from error


def no_region() -> UserError:
    """For whoever has not said where."""
    return UserError("no AWS region is chosen", code="no_region", hint="set AWS_REGION, such as eu-west-1")


def credentials_error(error: Exception | None) -> StepwellError:
    """What a person is told of botocore's error; None: there were no credentials."""
    renew = "aws sts get-caller-identity tells whether they work; aws sso login renews a login"
    if error is None or isinstance(error, NoCredentialsError):
        hint = "aws sso login, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return UserError("there are no AWS credentials", code="no_credentials", hint=hint)
    if isinstance(error, ClientError) and code_of(error) in EXPIRED:
        return UserError("the AWS credentials have expired", code="credentials_expired", hint=renew)
    if isinstance(error, EndpointConnectionError | HTTPClientError):
        return PortError(f"AWS did not answer: {error}", hint="look at the network, the region and AWS_ENDPOINT_URL")
    return UserError(f"the AWS credentials cannot be used: {error}", code="bad_credentials", hint=renew)


def _bootstrapped(session: Any) -> bool:
    """Whether the CDK has been here. Who may not look is not held up: the CDK looks too."""
    try:
        session.client("ssm").get_parameter(Name=BOOTSTRAP)
    except ClientError as error:
        return code_of(error) != "ParameterNotFound"
    return True
