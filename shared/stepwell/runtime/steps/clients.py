"""Reads errors of HTTP and AWS clients for retries, by their shape: no client is imported.

httpx.HTTPStatusError, openai, anthropic, requests      error.status_code, error.response.status_code and .headers
aiohttp, urllib, google                                 error.status or error.code, beside headers or a response
botocore.ClientError                                    error.response["Error"], ["ResponseMetadata"]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stepwell.runtime.steps.retry_after import asked_ms

_RETRIED = frozenset({408, 409, 429})  # and from 500 on
_THROTTLED = frozenset({
    "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "RequestThrottled",
    "RequestThrottledException", "EC2ThrottledException", "ProvisionedThroughputExceededException", "SlowDown",
    "RequestLimitExceeded", "BandwidthLimitExceeded", "ServiceUnavailable", "RequestTimeout", "PriorRequestNotComplete",
    "RequestTimeoutException", "TransactionInProgressException",
})  # fmt: skip
_LOST = re.compile(
    r"(httpx|httpcore)\..*:(TimeoutException|NetworkError|RemoteProtocolError|ProxyError)"
    r"|botocore\..*:(HTTPClientError|ConnectionError)"
    r"|requests\..*:(ConnectionError|Timeout|ChunkedEncodingError)"
    r"|urllib3\..*:(TimeoutError|ProtocolError|NewConnectionError|MaxRetryError)"
    r"|aiohttp\..*:(ClientConnectionError|ClientPayloadError)"
    r"|.*:(APIConnectionError|gaierror|IncompleteRead|RemoteDisconnected)"
)
_REFUSED = frozenset({"SSLError", "ClientSSLError"})  # among the lost connections: a retry changes no certificate


def is_transient(error: BaseException) -> bool:
    """Tells whether a later attempt may succeed: by the answer's status, or because the connection was lost."""
    if _code(error) in _THROTTLED:  # AWS throttles with status 400
        return True
    status = status_of(error)
    if status is not None:
        return status in _RETRIED or status >= 500
    return _is_lost(error) or _is_lost(_look(error, "reason"))


def status_of(error: BaseException) -> int | None:
    """Returns the status of the answer that the error is about."""
    response = _look(error, "response")
    if isinstance(response, Mapping):
        return _status(_get(response.get("ResponseMetadata"), "HTTPStatusCode"))
    found = [_look(error, "status_code"), _look(response, "status_code"), _look(error, "http_status")]
    if response is not None or _look(error, "headers") is not None:  # else these attributes may be anything
        found += [_look(error, "status"), _look(error, "code")]
    return next((status for one in found if (status := _status(one)) is not None), None)


def wait_ms(error: BaseException, now_ms: int) -> int:
    """Returns how long the answer asks to wait before the next attempt. 0: it does not say."""
    response = _look(error, "response")
    if isinstance(response, Mapping):
        headers: Any = _get(response.get("ResponseMetadata"), "HTTPHeaders")
    else:
        headers = _look(response, "headers") or _look(error, "headers")
    try:
        return asked_ms({str(name).lower(): str(value) for name, value in headers.items()}, now_ms) if headers else 0
    except (AttributeError, TypeError, ValueError):  # that attribute holds no headers
        return 0


def _is_lost(error: object) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    classes = type(error).__mro__ if isinstance(error, Exception) else ()
    names = [f"{one.__module__}.:{one.__name__}" for one in classes]
    return any(_LOST.fullmatch(name) for name in names) and not any(one.__name__ in _REFUSED for one in classes)


def _code(error: BaseException) -> str:
    response = _look(error, "response")
    return str(_get(response.get("Error"), "Code")) if isinstance(response, Mapping) else ""


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _status(value: object) -> int | None:
    return int(value) if isinstance(value, int) and 100 <= value <= 599 else None


def _look(value: object, name: str) -> Any:
    """Reads an attribute, which may be a property that raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
