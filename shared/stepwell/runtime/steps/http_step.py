"""Steps `run: http:METHOD URL`: builds a request from a step's input, sends it, and reads the answer.

Secrets are inserted here and go no further: the answer is searched for them before anybody else sees it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from stepwell.definition.clauses.http_steps import HEADER_NAME, WITH_QUERY, references_of
from stepwell.definition.graph import Json
from stepwell.definition.targets import Hosts, Target, parse_url
from stepwell.errors import PortError
from stepwell.limits import HEADER_CHARACTERS, JSON_DEPTH, SECOND_MS
from stepwell.runtime.steps.failures import MESSAGE_CHARACTERS, CallError
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.retry_after import retry_after_ms
from stepwell.runtime.steps.secrets import MISSING, READ, Secrets, SecretsByKind, without_secrets
from stepwell.values import dataclass

if TYPE_CHECKING:
    from stepwell.runtime.steps.http_call import Answer, Network, Sending

KEPT_HEADERS = ("content-type", "etag", "last-modified", "link", "location", "retry-after", "x-request-id")
THROTTLED = 429
USER_AGENT = "stepwell"
SHARE = 0.95  # share of the step's time: a call ends and closes its connection before it is interrupted
VALUE = re.compile(r"[\x20-\x7e\t]*")
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json", re.ASCII)
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpSteps:
    """Sends the requests. Without `hosts` it sends none."""

    hosts: Hosts = field(default_factory=Hosts)
    secrets: Secrets = field(default_factory=lambda: SecretsByKind({}))
    network: Network | None = None  # None: the real one
    now_seconds: Callable[[], float] = time.monotonic

    def run(self, call: StepCall) -> Json:
        """Returns `{status, headers, body}`. Raises CallError; AttemptTimeoutError when its time is up."""
        from stepwell.runtime.steps import http_call  # noqa: PLC0415 - TLS takes 40 ms, which few workers need

        deadline = http_call.Deadline(self.now_seconds, call.timeout_ms / 1000 * SHARE)
        request = call.request
        target = self.allowed(parse_url(request["url"]))
        secrets = _Secrets(self.secrets)
        sending = _sending(call, target, secrets)
        answer = http_call.send(sending, self.network or http_call.Network(), deadline)
        return _result(sending, answer, secrets)

    def allowed(self, target: Target) -> Target:
        """Returns the target to call. Raises CallError for a host that is not on the list."""
        if (called := self.hosts.called(target)) is not None:
            return called
        message = f"{self.hosts.refusal(target)}; in a test, mock the step"
        raise CallError("http_host", "step", message, {"host": target.host})


class _Secrets:
    """The secrets of one request: read by reference, and removed from the answer."""

    def __init__(self, source: Secrets) -> None:
        self._source, self._read = source, set[str]()

    def first(self, references: Sequence[str]) -> str:
        """Returns the first of these secrets that is available. Raises CallError."""
        missing: list[str] = []
        for reference in references:
            try:
                secret = self._source.get(reference)
            except PortError as error:
                if error.code != MISSING:
                    raise CallError(error.code, "transient", str(error)) from None
                missing.append(str(error))
            else:
                self._read.add(secret)
                READ.add(secret)
                return secret
        raise CallError(MISSING, "step", "; ".join(missing))

    def masked(self, value: Json) -> Json:
        """Returns the value without any of the secrets."""
        return without_secrets(value, self._read)


# -- what is sent


def _sending(call: StepCall, target: Target, secrets: _Secrets) -> Sending:
    from stepwell.runtime.steps.http_call import Sending  # noqa: PLC0415 - see above

    request = call.request
    method, body, content_type = request["method"], None, ""
    if method in WITH_QUERY:
        target = _with_query(target, call.input)
    elif call.input is not None:
        is_form = request["body"] == "form"
        content_type = "application/x-www-form-urlencoded" if is_form else "application/json"
        body = _form(call.input) if is_form else json.dumps(call.input, ensure_ascii=False).encode()
    headers = {"User-Agent": USER_AGENT, "Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity",
               "Connection": "close", "Idempotency-Key": call.key,
               **({"traceparent": call.trace} if call.trace else {})}  # fmt: skip
    if body is not None:
        headers["Content-Type"] = content_type
    if method not in WITH_QUERY:
        headers["Content-Length"] = str(len(body or b""))
    given = dict(_headers(request["headers"], secrets))
    replaced = {name.lower() for name in given}
    kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
    return Sending(method, target, {**kept, **given}, body)


def _headers(written: Mapping[str, Json], secrets: _Secrets) -> Iterator[tuple[str, str]]:
    """Yields the headers, with the secrets in them. An invalid value is refused without being shown."""
    for name, value in written.items():
        text = value
        if isinstance(value, dict):
            text = value.get("prefix", "") + secrets.first(references_of(value))
        elif isinstance(value, bool) or not isinstance(value, str):
            text = json.dumps(value)
        if not HEADER_NAME.fullmatch(name) or not VALUE.fullmatch(text) or len(text) > HEADER_CHARACTERS:
            message = (f"the value of the header {name} has characters that no header may have, such as a line's end, "
                       f"or more than {HEADER_CHARACTERS}; nothing was sent")  # fmt: skip
            raise CallError("bad_header", "validation", message)
        yield name, text.strip()


def _with_query(target: Target, given: Json) -> Target:
    if given is None or given == {}:
        return target
    query = urlencode(_pairs(given, "query"))
    separator = "" if not query else "&" if "?" in target.path else "?"
    return parse_url(f"{target.origin}{target.path}{separator}{query}")


def _form(given: Json) -> bytes:
    return urlencode(_pairs(given, "form")).encode()


def _pairs(given: Json, what: str) -> list[tuple[str, str]]:
    """Returns names and values; a list becomes several of the same name, null none."""
    if not isinstance(given, dict):
        raise CallError("step_input", "validation", f"the input of a {what} must be an object of names and values")
    pairs = []
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, (dict, list)):
                message = f"{name} is nested, and a {what} has no place for that"
                raise CallError("step_input", "validation", message)
            if one is not None:
                pairs.append((name, one if isinstance(one, str) else json.dumps(one)))
    return pairs


# -- what comes back


def _result(sending: Sending, answer: Answer, secrets: _Secrets) -> Json:
    headers = {name: answer.headers[name][:HEADER_CHARACTERS] for name in KEPT_HEADERS if name in answer.headers}
    result = secrets.masked({"status": answer.status, "headers": headers})
    if 200 <= answer.status < 300:
        return {**result, "body": secrets.masked(body_of(answer))}
    try:
        body = body_of(answer)
    except CallError:  # the status says more than the body
        body = None
    after_ms = retry_after_ms(answer.status, answer.headers, time.time_ns() // 1_000_000)
    waits = {"retry_after": after_ms / SECOND_MS} if after_ms else {}
    raise _error(sending, answer.status, {**result, **waits, "body": _short(secrets.masked(body))}, after_ms)


def _error(sending: Sending, status: int, data: Json, after_ms: int) -> CallError:
    phrase = f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""
    aside = "; redirects are not followed" if 300 <= status < 400 else ""
    message = f"{sending.method} {sending.target.origin} answered {status}{phrase}{aside}"
    category = "external" if status >= 500 or status == THROTTLED else "step"
    return CallError(f"http_{status}", category, message, data, after_ms)


def body_of(answer: Answer) -> Json:
    """Returns the body as JSON if its type says so, else as text; None if it is empty."""
    if not answer.body:
        return None
    if answer.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise _unreadable("is compressed, although that was not asked for")
    content_type = answer.headers.get("content-type", "")
    charset = _CHARSET.search(content_type)
    try:
        text = answer.body.decode(charset[1] if charset else "utf-8")
    except (LookupError, ValueError):
        raise _unreadable("is not text") from None
    if not _JSON_TYPE.match(content_type.strip().lower()):
        return text
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _unreadable(f"is not JSON of at most {JSON_DEPTH} levels") from None
    return found


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


def _unreadable(why: str) -> CallError:
    return CallError("bad_answer", "step", f"the answer's body {why}")


def _short(body: Json) -> Json:
    """Shortens the body of an error, which is kept with the run and shown to people."""
    if isinstance(body, str):
        return body[:MESSAGE_CHARACTERS]
    text = json.dumps(body, ensure_ascii=False)
    return body if len(text) <= MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS]
