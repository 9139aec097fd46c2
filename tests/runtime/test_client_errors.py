"""The errors of HTTP and AWS clients are transient or not as their providers mean it, and Retry-After is kept."""

from __future__ import annotations

import datetime
import email.message
import http.client
import socket
import ssl
import urllib.error
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import botocore.exceptions
import httpx
import pytest
import requests

from stepwell import External, Retry, Transient
from stepwell.engine.retry import retry_delay_ms
from stepwell.limits import YEAR_MS
from stepwell.runtime.steps.failures import asked_to_wait, category_of, failure_of

RETRIED = [408, 409, 429, 500, 502, 503, 504, 529]
NEVER = [400, 401, 403, 404, 422]
NOW_MS = 1_700_000_000_000
REQUEST = httpx.Request("POST", "https://api.example.com/v1/messages")


def of_httpx(status: int, **headers: str) -> Exception:
    return httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(status, headers=headers))


def of_requests(status: int, **headers: str) -> Exception:
    response = requests.Response()
    response.status_code, response.headers = status, requests.structures.CaseInsensitiveDict(headers)
    return requests.HTTPError("no", response=response)


def of_urllib(status: int, **headers: str) -> Exception:
    told = email.message.Message()
    for name, value in headers.items():
        told[name] = value
    error = urllib.error.HTTPError("https://api.example.com", status, "no", told, None)
    error.close()
    return error


def of_botocore(status: int, **headers: str) -> Exception:
    told = {"HTTPStatusCode": status, "HTTPHeaders": {name.lower(): value for name, value in headers.items()}}
    response: Any = {"Error": {"Code": "Whatever", "Message": "no"}, "ResponseMetadata": told}
    error: Exception = botocore.exceptions.ClientError(response, "PutItem")
    return error


class APIStatusError(Exception):
    """The shape of openai's and anthropic's, which hold a response of httpx."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("no")
        self.response = httpx.Response(status, headers=headers)
        self.status_code = status


class ClientResponseError(Exception):
    """The shape of aiohttp's."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("no")
        self.status, self.headers = status, headers


class GoogleAPICallError(Exception):
    """The shape of google.api_core's."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("no")
        self.code = status if status == 529 else HTTPStatus(status)
        self.response = httpx.Response(status, headers=headers)


Make = Callable[..., Exception]
MAKES: list[Make] = [of_httpx, of_requests, of_urllib, of_botocore, APIStatusError, ClientResponseError,
                     GoogleAPICallError]  # fmt: skip


def waits_ms(error: Exception) -> int:
    return asked_to_wait(failure_of(error, "n", 1, 1_000), error, NOW_MS).retry_after_ms


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("status", [*RETRIED, *NEVER])
def test_the_status_of_an_answer_decides_whether_its_error_is_transient(make: Make, status: int) -> None:
    failure = failure_of(make(status), "n", 1, 1_000)
    assert failure.category == ("transient" if status in RETRIED else "step")
    assert failure.data == {"status": status}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("20", 20_000),
        ("0.5", 500),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30_000),
        ("99999999999", YEAR_MS),
        ("soon", 0),
        ("-1", 0),
    ],
)
def test_the_retry_after_of_an_answer_is_kept(make: Make, given: str, ms: int) -> None:
    assert waits_ms(make(429, **{"Retry-After": given})) == ms
    assert waits_ms(make(404, **{"Retry-After": given})) == 0


def test_a_retry_after_in_milliseconds_is_the_more_exact_one() -> None:
    assert waits_ms(of_httpx(503, **{"Retry-After": "2", "Retry-After-Ms": "1250"})) == 1_250


def test_the_next_attempt_comes_no_earlier_than_the_answer_asks() -> None:
    error = of_httpx(429, **{"Retry-After": "20"})
    failure = asked_to_wait(failure_of(error, "n", 1, 1_000), error, NOW_MS)
    assert retry_delay_ms(Retry(3).policy(), failure, 1, 0) == 20_000
    assert retry_delay_ms(None, failure, 1, 0) is None


class MyTransportError(httpx.ReadTimeout):
    """A class of the user's that says what httpx says."""


class APIConnectionError(Exception):
    """The name in openai, anthropic, stripe and their like."""


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("no"),
        httpx.ReadError("no"),
        httpx.PoolTimeout("no"),
        httpx.RemoteProtocolError("no"),
        httpx.ProxyError("no"),
        MyTransportError("no"),
        APIConnectionError("no"),
        requests.ConnectionError("no"),
        requests.ReadTimeout("no"),
        requests.exceptions.ChunkedEncodingError("no"),
        botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"),
        botocore.exceptions.ReadTimeoutError(endpoint_url="https://x"),
        botocore.exceptions.ConnectionClosedError(endpoint_url="https://x"),
        urllib.error.URLError(ConnectionRefusedError("no")),
        urllib.error.URLError(socket.gaierror("no such name")),
        http.client.RemoteDisconnected("no"),
        http.client.IncompleteRead(b""),
        socket.gaierror("no such name"),
        ConnectionResetError("no"),
        TimeoutError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_connection_is_transient(error: Exception) -> None:
    assert category_of(error) == "transient"


class Status(Exception):
    """What is named like a status and is none, as far as anybody can tell."""

    def __init__(self, **named: object) -> None:
        super().__init__("no")
        vars(self).update(named)


class Unreadable(Exception):
    @property
    def response(self) -> object:
        raise LookupError("not now")

    status_code = headers = response


@pytest.mark.parametrize(
    "error",
    [
        httpx.UnsupportedProtocol("no"),
        httpx.LocalProtocolError("no"),
        httpx.TooManyRedirects("no"),
        requests.exceptions.SSLError("bad certificate"),
        requests.exceptions.InvalidURL("no"),
        botocore.exceptions.NoCredentialsError(),
        urllib.error.URLError(ssl.SSLCertVerificationError("no")),
        Status(code=503),
        Status(status=503),
        Status(status_code="503"),
        Status(status_code=7_503),
        Status(status_code=True),
        Status(response={"Error": [], "ResponseMetadata": 7}),
        Status(response={"Error": {"Code": []}}),
        Unreadable("no"),
        OSError("disk full"),
    ],
    ids=lambda error: f"{type(error).__name__} {vars(error)}",
)
def test_what_a_second_attempt_does_not_cure_is_not_transient(error: Exception) -> None:
    assert category_of(error) == "step"
    assert waits_ms(error) == 0


@pytest.mark.parametrize("code", ["ThrottlingException", "ProvisionedThroughputExceededException", "SlowDown"])
def test_aws_throttles_with_status_400_too(code: str) -> None:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert category_of(botocore.exceptions.ClientError(response, "PutItem")) == "transient"


def test_an_answer_that_says_never_is_never_retried_whatever_the_error_is() -> None:
    class Lost(ConnectionError):
        status_code = 403

    class Ours(External):
        status_code = 503

    assert (category_of(Lost()), category_of(Ours())) == ("step", "external")


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (None, 0),
        (20, 20_000),
        (0.25, 250),
        (datetime.timedelta(minutes=2), 120_000),
        ("20", 20_000),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30_000),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0),
        (float("inf"), YEAR_MS),
        (float("nan"), 0),
        (-5, 0),
        (datetime.timedelta(days=-1), 0),
        ("soon", 0),
    ],
)
def test_a_step_says_itself_when_to_come_again(given: Any, ms: int) -> None:
    assert waits_ms(Transient("busy", {"n": 1}, retry_after=given)) == ms
