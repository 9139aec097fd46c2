"""What goes wrong with a call to AWS, for the thin client and boto3 alike. It loads nothing of boto3.

An error of botocore's exists only where botocore is loaded, so it is looked up there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
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
        told = response["Error"]
        super().__init__(f"{told['Code']}: {told['Message']}")
        self.response = response


def botocore_errors() -> ModuleType | None:
    """Returns the module of botocore's exceptions, if anything has loaded it."""
    return sys.modules.get("botocore.exceptions")


def response_of(error: BaseException | None) -> Answer | None:
    """Returns the service's answer that the error is about; None if no answer came."""
    theirs = botocore_errors()
    if isinstance(error, ServiceError) or (theirs is not None and isinstance(error, theirs.ClientError)):
        response: Answer = error.response
        return response
    return None


def code_of(error: BaseException | None) -> str:
    """Returns the service's error code; nothing for an error without an answer."""
    return str((response_of(error) or {}).get("Error", {}).get("Code", ""))
