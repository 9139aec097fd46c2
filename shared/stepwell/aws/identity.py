"""The caller's AWS identity: account and region, with hints for bad credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
)

from stepwell.aws.failures import code_of
from stepwell.errors import PortError, StepwellError, UserError
from stepwell.values import dataclass

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"  # the parameter that the CDK's bootstrap creates
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


@dataclass(frozen=True, slots=True)
class Identity:
    """The target account and region of a deployment."""

    account: str
    region: str
    arn: str
    bootstrapped: bool
    endpoint: str = ""  # of AWS, or of an emulator


def identity(profile: str, region: str) -> Identity:
    """Asks AWS; empty values leave the choice to boto3. Raises UserError `no_region`, or a credentials error."""
    import boto3  # noqa: PLC0415 - signing needs none of it

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
        if not session.region_name:
            raise no_region()
        sts = session.client("sts")
        caller = sts.get_caller_identity()
        endpoint = str(sts.meta.endpoint_url)
        return Identity(caller["Account"], session.region_name, caller["Arn"], _bootstrapped(session), endpoint)
    except (BotoCoreError, ClientError) as error:
        raise credentials_error(error) from error


def stack_outputs(profile: str, region: str, stack: str) -> Mapping[str, str]:
    """Returns the outputs of a deployed stack by name; none if there is no such stack. Raises a credentials error."""
    import boto3  # noqa: PLC0415 - as above

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
        (found,) = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if code_of(error) == "ValidationError":  # there is none
            return {}
        raise credentials_error(error) from error
    except BotoCoreError as error:
        raise credentials_error(error) from error
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}


def concurrent_functions(profile: str, region: str) -> int:
    """Returns how many functions of the account may run at once. Raises a credentials error."""
    import boto3  # noqa: PLC0415 - signing needs none of it

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region)
        limits = session.client("lambda").get_account_settings()["AccountLimit"]
        return int(limits["ConcurrentExecutions"])
    except (BotoCoreError, ClientError) as error:
        raise credentials_error(error) from error


def no_region() -> UserError:
    """Returns the error for a missing region."""
    return UserError("no AWS region is chosen", code="no_region", hint="set AWS_REGION, such as eu-west-1")


def credentials_error(error: Exception | None) -> StepwellError:
    """Translates botocore's error to a hint; None means no credentials."""
    renew = "aws sts get-caller-identity tells whether they work; aws sso login renews a login"
    if error is None or isinstance(error, NoCredentialsError):
        hint = "run aws sso login, or set AWS_PROFILE, or an access key; then: stepwell doctor"
        return UserError("there are no AWS credentials", code="no_credentials", hint=hint)
    if isinstance(error, NoRegionError):
        return no_region()
    if isinstance(error, ClientError) and code_of(error) in EXPIRED:
        return UserError("the AWS credentials have expired", code="credentials_expired", hint=renew)
    if isinstance(error, EndpointConnectionError | HTTPClientError):
        return PortError(f"AWS did not answer: {error}", hint="check the network, the region and AWS_ENDPOINT_URL")
    return UserError(f"the AWS credentials cannot be used: {error}", code="bad_credentials", hint=renew)


def _bootstrapped(session: Any) -> bool:
    """Returns whether the CDK is bootstrapped; assumes so without permission, because the CDK checks too."""
    try:
        session.client("ssm").get_parameter(Name=BOOTSTRAP)
    except ClientError as error:
        return code_of(error) != "ParameterNotFound"
    return True
