"""The rules of a call, without I/O: build it, read its answer, and decide whether and when to send it again.

A sender (sync or async) drives the generator of `Api.steps`:

    Request   it sends this, and gives back the answer or the transport's error
    Pause     it waits
    return    the value of the call; a refusal is raised
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator, Mapping
from typing import Any, NoReturn, TypeVar

import httpx

from stepwell.client.access import LOOK, Access, gateway_refusal, parts_of
from stepwell.client.errors import Unreachable, problem_of
from stepwell.client.requests import Flow, NotOurs, Request
from stepwell.errors import InvalidInput, StepwellError
from stepwell.limits import WAIT_ANSWER_SECONDS
from stepwell.settings import DEFAULT_PORT
from stepwell.values import dataclass

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = WAIT_ANSWER_SECONDS + 10.0
GRACE_SECONDS = 2.0  # that an answer may be late when its caller gives up
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 30.0
_DOUBLINGS = 8  # of the pause, until it is the longest
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
AGAIN = frozenset({429, 500, 502, 503, 504})
# What OpenSSL says, depending on its version, of an answer that is not TLS; `stepwell dev` speaks http alone.
_NO_TLS = ("WRONG_VERSION_NUMBER", "[SSL] record layer failure")
_CHECK = "check --url or STEPWELL_URL"
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # the API has seen nothing of the call
_NO_ANSWER_BEHIND = frozenset({502, 503, 504})  # a gateway or proxy says these, of an API that does not answer it
_GATEWAY_REFUSES = frozenset({401, 403, 429, 500}) | _NO_ANSWER_BEHIND


@dataclass(frozen=True, slots=True)
class Pause:
    """What the sender waits for."""

    seconds: float


Answer = httpx.Response | httpx.HTTPError | httpx.InvalidURL
Steps = Generator[Request[Any] | Pause, Answer | None, T]


class Api:
    """An API at a URL, as one caller sees it."""

    read_seconds: float | None = None  # how long the retries of a read go on; None: for as long as they take

    def __init__(self, url: str, access: Access, retries: int) -> None:
        parts = parts_of(url)
        host = parts.hostname or ""
        self.url, self.access, self._retries = url.rstrip("/"), access, retries
        named = host.endswith(".localhost")  # names this machine, but not every resolver knows it
        self.local = named or host in LOOPBACK
        self._base = self.url.replace(host, "127.0.0.1", 1) if named else self.url
        self._headers = {"Host": parts.netloc} if named else {}

    @property
    def options(self) -> dict[str, Any]:
        """The options of the httpx client. A proxy from the environment cannot reach this machine's loopback.

        A call waits for a free connection as long as it takes: a hundred calls that wait for a result have all of them.
        """
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, pool=None)
        return {"base_url": self._base, "timeout": timeout, "trust_env": not self.local}

    def arguments(self, request: Request[Any]) -> dict[str, Any]:
        """The arguments of httpx's `request`. Raises InvalidInput for a body that JSON cannot hold."""
        body = {"content": request.content if request.body is None else _json(request.body)}
        kind = {} if request.body is None else {"Content-Type": "application/json"}
        own = {} if request.path.startswith(("http://", "https://")) else self._headers
        return {
            "method": request.method,
            "url": request.path,
            "params": dict(request.query) or None,
            "headers": {**kind, **request.headers, **own},
            "auth": None if request.is_open else self.access.auth,
            **self._timeout(request),
            **(body if request.method != "GET" else {}),
        }

    def steps(self, asked: Request[T] | Flow[T]) -> Steps[T]:
        """Makes one call, or the calls of a flow, which sees their refusals."""
        if isinstance(asked, Request):
            return (yield from self._call(asked))
        value: Any = None
        refusal: StepwellError | None = None
        while True:
            try:
                request = asked.send(value) if refusal is None else asked.throw(refusal)
            except StopIteration as end:
                result: T = end.value
                return result
            value, refusal = None, None
            try:
                value = yield from self._call(request)
            except StepwellError as error:
                refusal = error

    def _call(self, request: Request[T]) -> Steps[T]:
        """Sends a call, again if that is safe and may help.

        A deletion that is sent again, and finds nothing, was done by the call whose answer was lost.
        """
        attempt, is_lost, begun = 0, False, time.monotonic()
        while True:
            answer = yield request
            if answer is None:
                raise TypeError("a sender answers each request")
            if link := _link_of(answer):
                request = Request("GET", link, request.read, is_open=True)
                continue
            is_over = attempt >= self._retries or self._is_late(request, begun)
            if is_over or not self._may_repeat(request, answer):
                is_gone = is_lost and _is_gone(request, answer)
                return request.gone if is_gone else self._read(request, answer)
            is_lost = is_lost or _may_have_acted(answer)
            pause = _pause_seconds(answer, attempt)
            if request.until is not None and (left := request.until - time.monotonic()) <= pause:
                yield Pause(max(left, 0))
                self._give_up(request, answer)
            yield Pause(pause)
            attempt += 1

    def _is_late(self, request: Request[Any], begun: float) -> bool:
        """Whether a read has been tried for long enough."""
        return self._limits(request) and time.monotonic() - begun >= (self.read_seconds or 0)

    def _limits(self, request: Request[Any]) -> bool:
        """Whether `read_seconds` limits a call: one that only reads, and answers at once."""
        return self.read_seconds is not None and request.method == "GET" and not longest_wait(request)

    def _timeout(self, request: Request[Any]) -> dict[str, Any]:
        """The time limit of a read, or of a call whose caller gives up at a time. Other calls have that of all."""
        if request.until is not None:
            left = max(request.until - time.monotonic(), 0) + GRACE_SECONDS
            timeout = httpx.Timeout(min(left, ANSWER_SECONDS), connect=min(left, CONNECT_SECONDS), pool=left)
            return {"timeout": timeout}
        if self._limits(request):
            return {"timeout": httpx.Timeout(self.read_seconds, connect=CONNECT_SECONDS)}
        return {}

    def _give_up(self, request: Request[Any], answer: Answer) -> NoReturn:
        """Raises TimeoutError: the caller's time is over before the call may be sent again."""
        try:
            self._read(request, answer)
        except StepwellError as error:
            raise TimeoutError(f"there was no answer in the time given: {error}") from error
        raise TimeoutError("there was no answer in the time given")

    def _may_repeat(self, request: Request[Any], answer: Answer) -> bool:
        """Tells whether to send the call again: if it is not repeatable, only if the API did nothing about it."""
        if isinstance(answer, httpx.Response):
            return answer.status_code == httpx.codes.TOO_MANY_REQUESTS or (
                request.repeatable and answer.status_code in AGAIN
            )
        if isinstance(answer, httpx.PoolTimeout):
            return True  # all connections are taken
        if isinstance(answer, _NOT_SENT):
            return not self.local  # nothing listens at this machine's port: waiting does not help
        return request.repeatable and isinstance(answer, httpx.TransportError)

    def _read(self, request: Request[T], answer: Answer) -> T:
        if isinstance(answer, httpx.TimeoutException):
            raise Unreachable(f"{self.url} did not answer in time", hint=self._hint(request, answer)) from answer
        if not isinstance(answer, httpx.Response):
            raise Unreachable(f"cannot reach {self.url}: {answer}", hint=self._hint(request, answer)) from answer
        try:
            if answer.is_success:
                return request.read(answer)
            raise self._refusal(request, answer)
        except NotOurs as error:
            said = f"it answered {answer.status_code} to {answer.request.url.path}"
            message = f"the server at {self.url} is not a Stepwell API: {said}"
            raise Unreachable(message, code="not_stepwell", hint=_CHECK) from error

    def _refusal(self, request: Request[Any], answer: httpx.Response) -> StepwellError:
        """The exception for an answer that is no success. Raises NotOurs."""
        status = answer.status_code
        try:
            problem = answer.json()
        except ValueError:
            problem = None
        body = problem if isinstance(problem, dict) else {}
        if "title" in body or "detail" in body:
            return problem_of(status, body)
        if status in _NO_ANSWER_BEHIND or ("message" in body and status in _GATEWAY_REFUSES):
            said = str(body.get("message") or httpx.codes.get_reason_phrase(status))
            return gateway_refusal(status, said, self.access.kind, acts=request.method != "GET")
        raise NotOurs

    def _hint(self, request: Request[Any], answer: httpx.HTTPError | httpx.InvalidURL) -> str:
        """What to do without an answer. A call that was sent and acts may have been taken, whatever became of it."""
        if request.method != "GET" and isinstance(answer, httpx.TransportError) and not isinstance(answer, _NOT_SENT):
            return LOOK
        if any(words in str(answer) for words in _NO_TLS):
            return "the server answers without TLS there: write http:// in --url or STEPWELL_URL"
        if isinstance(answer, httpx.TimeoutException) and not isinstance(answer, _NOT_SENT):
            return f"try again, since a server is there; if it never answers, {_CHECK}"
        if not self.local:
            return _CHECK
        port = parts_of(self.url).port  # the dev server is at its own, unless it is given another one
        if port == DEFAULT_PORT:
            return f"start it with: stepwell dev; for another API, {_CHECK}"
        option = f" --port {port}" if port else ""
        return f"{_CHECK}; or start it with: stepwell dev{option}"


def _may_have_acted(answer: Answer) -> bool:
    """Whether the API may have done what it was asked, of a call that is sent again."""
    if isinstance(answer, httpx.Response):
        return answer.status_code != httpx.codes.TOO_MANY_REQUESTS
    return not isinstance(answer, _NOT_SENT)


def _is_gone(request: Request[Any], answer: Answer) -> bool:
    """Whether the API says that what is to be deleted is not there."""
    if not isinstance(answer, httpx.Response) or answer.status_code != httpx.codes.NOT_FOUND:
        return False
    return request.method == "DELETE" and b'"code"' in answer.content


def longest_wait(request: Request[Any]) -> float:
    """Returns for how many seconds the API may hold back the answer, because the caller asked it to; else 0."""
    return float(request.query.get("wait", 0))


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # such as a set, NaN, or half a character
        hint = "give dicts, lists, text, finite numbers, booleans and None"
        raise InvalidInput(f"the call cannot be sent as JSON: {error}", code="not_storable", hint=hint) from error


def _link_of(answer: Answer) -> str:
    """Returns the signed link to an answer that was too large to be sent; else ""."""
    if not isinstance(answer, httpx.Response) or answer.status_code != httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        return ""
    try:
        told = answer.json()
    except ValueError:
        return ""
    match told:
        case {"large": {"link": str(link)}}:
            return link
        case _:
            return ""


def _pause_seconds(answer: Answer, attempt: int) -> float:
    """Exponential, with jitter; what Retry-After says, if it is seconds."""
    said = answer.headers.get("retry-after", "") if isinstance(answer, httpx.Response) else ""
    if said.isdecimal():
        return min(float(said), LONGEST_PAUSE_SECONDS)
    longest = min(FIRST_PAUSE_SECONDS * (1 << min(attempt, _DOUBLINGS)), LONGEST_PAUSE_SECONDS)
    return random.uniform(longest / 2, longest)  # noqa: S311 - it spreads callers, and hides nothing
