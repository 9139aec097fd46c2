"""Makes one call to AWS, classifies its error, and retries it.

    busy      throttled, a conflicting transaction        nothing happened      again, with full jitter
    unknown   time-out, broken connection, 5xx            it may have happened  again, and remembered as unsure
    refused   a condition did not hold                    an answer             Refused, Cancelled
    bad value something DynamoDB cannot hold              nothing happened      InvalidInput
    defect    a request that cannot be right              nothing happened      EngineFault
    broken    no permission, no such table                nothing happened      PortError, at once

An answer after an unknown outcome may concern the caller's own write; `Refused.unsure` marks it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeVar

from stepwell.aws.failures import (
    AwsError,
    BadRequest,
    NoAnswer,
    NotSent,
    code_of,
    is_of_botocore,
    response_of,
)
from stepwell.aws.protocols import Answer, Item
from stepwell.errors import EngineFault, InvalidInput, PortError
from stepwell.values import dataclass

T = TypeVar("T")

jitter = random.SystemRandom().random  # processes from one snapshot share the state of any other

THROTTLES = frozenset(
    {
        "KMS.ThrottlingException",  # of a queue under the stack's own key
        "KmsThrottled",
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",  # as a transaction's reason
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingError",  # as a transaction's reason
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
CONFLICTS = frozenset({"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"})
BUSY = THROTTLES | CONFLICTS
TIMED_OUT = frozenset({"RequestTimeout", "RequestTimeoutException"})  # S3's has the status 400
_CUT_OFF = ("HTTPClientError", "ConnectionError", "IncompleteReadError", "FlexibleChecksumError")  # of botocore
CONDITION = frozenset({"ConditionalCheckFailed", "ConditionalCheckFailedException"})
BAD_VALUES = frozenset(
    {
        "ItemCollectionSizeLimitExceeded",  # as a transaction's reason
        "ItemCollectionSizeLimitExceededException",
        "ValidationError",  # as a transaction's reason
        "InvalidMessageContents",
        "InvalidParameterValue",
        "RequestEntityTooLarge",
    }
)


class Refused(Exception):
    """A condition did not hold. `item` is the existing item; `unsure`: it may be an earlier attempt's own write."""

    def __init__(self, item: Item | None, unsure: bool) -> None:
        super().__init__("a condition did not hold")
        self.item, self.unsure = item, unsure


class Cancelled(Exception):
    """A transaction was refused. `reasons` has a code for each item, "None" for an accepted one."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


class Meaning(Enum):
    BUSY = "busy"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    BAD_VALUE = "bad value"
    BROKEN = "broken"
    DEFECT = "defect"


def reasons_of(response: Answer) -> list[str]:
    """Returns the code of each item of a cancelled transaction."""
    return [str(reason.get("Code", "None")) for reason in response.get("CancellationReasons", ())]


def meaning_of(error: Exception) -> Meaning | None:
    """Classifies an error of a client. None: it is no client's."""
    response = response_of(error)
    if response is not None:
        return _of_answer(error, response)
    match error:
        case NotSent():
            return Meaning.BUSY
        case NoAnswer():
            return Meaning.UNKNOWN
        case BadRequest():
            return Meaning.DEFECT
        case AwsError():
            return Meaning.BROKEN
        case UnicodeError():
            return Meaning.BAD_VALUE  # half a surrogate pair
        case _:
            return _of_botocore(error)


def _of_botocore(error: Exception) -> Meaning | None:
    if not is_of_botocore(error, "BotoCoreError"):
        return None
    if is_of_botocore(error, "ParamValidationError"):
        return Meaning.DEFECT
    if is_of_botocore(error, "ConnectTimeoutError", "EndpointConnectionError"):
        return Meaning.BUSY  # nothing was sent
    return Meaning.UNKNOWN if is_of_botocore(error, *_CUT_OFF) else Meaning.BROKEN


def _of_answer(error: Exception, response: Answer) -> Meaning:
    code = code_of(error)
    if code == "TransactionCanceledException":
        return _of_reasons(reasons_of(response))
    if code in CONDITION:
        return Meaning.REFUSED
    if code in BUSY:
        return Meaning.BUSY
    if code in TIMED_OUT:
        return Meaning.UNKNOWN
    if code in BAD_VALUES:
        return Meaning.BAD_VALUE
    if code == "ValidationException":  # only the size depends on the caller's values; anything else is a defect
        return Meaning.BAD_VALUE if "size" in str(error).lower() else Meaning.DEFECT
    if code == "SerializationException":
        return Meaning.DEFECT
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500 or code.startswith("Internal"):
        return Meaning.UNKNOWN
    return Meaning.BROKEN


def _of_reasons(reasons: Sequence[str]) -> Meaning:
    """Classifies a transaction: the first item's condition decides; a later one only if no earlier item was busy."""
    for reason in reasons:
        if reason in CONDITION:
            return Meaning.CANCELLED
        if reason in BUSY:
            return Meaning.BUSY
        if reason in BAD_VALUES:
            return Meaning.BAD_VALUE
    return Meaning.BUSY


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries with full jitter: the n-th wait is between 0 and `base * 2**n`, at most `most`."""

    attempts: int = 6
    base_seconds: float = 0.05
    most_seconds: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = jitter

    def call(self, what: str, send: Callable[[], T]) -> T:
        """Calls `send` and returns its result. Raises only Refused, Cancelled, InvalidInput, EngineFault, PortError."""
        unsure = False
        for attempt in range(self.attempts):
            try:
                return send()
            except Exception as error:
                meaning = meaning_of(error)
                if meaning is None:
                    raise
                if meaning not in (Meaning.BUSY, Meaning.UNKNOWN):
                    _raise(what, meaning, error, unsure)
                unsure = unsure or meaning is Meaning.UNKNOWN
                if attempt + 1 == self.attempts:
                    raise PortError(f"{what}: {self.attempts} attempts failed, the last: {error}") from error
                self.wait(attempt)
        raise PortError(f"{what}: no attempts were allowed")

    def wait(self, attempt: int) -> None:
        """Sleeps after this attempt, counted from 0."""
        self.sleep(self.random() * min(self.most_seconds, self.base_seconds * 2**attempt))

    def until_all(self, what: str, send: Callable[[Any], tuple[T, Any]], left: Any) -> list[T]:
        """Sends a batch and retries the unprocessed rest that `send` returns. Returns all results."""
        done: list[T] = []
        for attempt in range(self.attempts):
            result, left = send(left)
            done.append(result)
            if not left:
                return done
            if attempt + 1 < self.attempts:
                self.wait(attempt)
        raise PortError(f"{what}: parts were left undone {self.attempts} times")


def _raise(what: str, meaning: Meaning, error: Exception, unsure: bool) -> NoReturn:
    response = response_of(error) or {}
    match meaning:
        case Meaning.REFUSED:
            raise Refused(response.get("Item") or None, unsure) from error
        case Meaning.CANCELLED:
            raise Cancelled(reasons_of(response)) from error
        case Meaning.BAD_VALUE:
            raise InvalidInput(f"{what}: {error}", code="cannot_be_stored") from error
        case Meaning.DEFECT:
            raise EngineFault(f"{what}: {error}") from error
        case _:
            raise PortError(f"{what}: {error}") from error
