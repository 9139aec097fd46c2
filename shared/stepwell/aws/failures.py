"""What goes wrong with a call to AWS, for the thin client and boto3 alike. It loads nothing of boto3.

An error of botocore's exists only where botocore is loaded, so it is looked up there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from stepwell.aws.protocols import Answer


class AwsError(Exception):
    """A call that the thin client could not make, and that no repetition mends: no credentials, a bad certificate."""


class BadRequest(AwsError):
    """A request that is not JSON. Nothing was sent."""


class NotSent(AwsError):
    """There was no connection, so nothing happened."""


class NoAnswer(AwsError):
    """The connection broke, or the answer is damaged: the request may have been carried out."""


class ServiceError(AwsError):
    """A service's answer that is an error. `response` has the shape that botocore gives to one of its own."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        error = response["Error"]
        super().__init__(f"{error['Code']}: {error['Message']}")
        self.response = response


class _Nobody(Exception):
    """Stands for an error of botocore's where there is none yet."""


def _theirs(name: str) -> type[Exception]:
    """Returns botocore's error of this name, if anything has loaded it; another thread may be about to."""
    found: type[Exception] = getattr(sys.modules.get("botocore.exceptions"), name, _Nobody)
    return found


def is_of_botocore(error: BaseException, *names: str) -> bool:
    """Tells whether an error is one of botocore's of these names."""
    return any(isinstance(error, _theirs(name)) for name in names)


def response_of(error: BaseException | None) -> Answer | None:
    """Returns the service's answer that the error is about; None if no answer came."""
    if isinstance(error, ServiceError | _theirs("ClientError")):
        response: Answer = getattr(error, "response")  # noqa: B009 - botocore is untyped
        return response
    return None


def code_of(error: BaseException | None) -> str:
    """Returns the service's error code; nothing for an error without an answer."""
    return str((response_of(error) or {}).get("Error", {}).get("Code", ""))
