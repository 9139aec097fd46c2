"""Tasks `http:invoke` of state machines: the request of the task's parameters, and what it makes of the answer.

The hosts, addresses and limits are those of HTTP steps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from stepwell.definition.clauses.http_steps import HEADER_NAME, METHODS, RESERVED
from stepwell.definition.graph import Json
from stepwell.definition.targets import Target, parse_url
from stepwell.limits import HEADER_CHARACTERS
from stepwell.runtime.steps import http_call
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.http_step import SHARE, THROTTLED, USER_AGENT, VALUE, HttpSteps, body_of
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.retry_after import retry_after_ms

_FORM = "application/x-www-form-urlencoded"
_SOCKET = "States.Http.Socket"
_LOST = frozenset({"http_connection", "http_certificate"})


def invoke(steps: HttpSteps, call: StepCall) -> Json:
    """Returns `{Headers, ResponseBody, StatusCode, StatusText}`. Raises CallError, named as in Step Functions."""
    deadline = http_call.Deadline(steps.now_seconds, call.timeout_ms / 1000 * SHARE)
    sending = _sending(steps, call)
    try:
        answer = http_call.send(sending, steps.network or http_call.Network(), deadline)
    except CallError as error:
        if error.kind not in _LOST:
            raise
        raise CallError(_SOCKET, error.category, str(error)) from error
    return _result(sending, answer)


def _sending(steps: HttpSteps, call: StepCall) -> http_call.Sending:
    given = call.input if isinstance(call.input, dict) else {}
    method = given.get("Method")
    if method not in (*METHODS, "OPTIONS"):
        raise _refused(f"`Method` cannot be {method!r}")
    target = steps.allowed(_target(given))
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close",
               "Content-Type": "application/json", "Idempotency-Key": call.key,
               **({"traceparent": call.trace} if call.trace else {})}  # fmt: skip
    own = dict(_headers(given.get("Headers") or {}))
    replaced = {name.lower(): name for name in own}
    body, content_type = _body(given, own.get(replaced.get("content-type", ""), ""))
    headers |= {"Content-Type": content_type, **({} if body is None else {"Content-Length": str(len(body))})}
    kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
    return http_call.Sending(method, target, {**kept, **own}, body)


def _target(given: Mapping[str, Json]) -> Target:
    endpoint, query = given.get("ApiEndpoint"), given.get("QueryParameters") or {}
    if not isinstance(endpoint, str) or not isinstance(query, dict):
        raise _refused("`ApiEndpoint` is to be a URL, and `QueryParameters` an object")
    pairs = [(name, _text(one)) for name, value in query.items() for one in _each(value)]
    separator = "" if not pairs else "&" if "?" in endpoint else "?"
    return parse_url(f"{endpoint}{separator}{urlencode(pairs)}")


def _headers(written: Json) -> Iterator[tuple[str, str]]:
    if not isinstance(written, dict):
        raise _refused("`Headers` is to be an object")
    for name, value in written.items():
        text = ", ".join(_text(one) for one in _each(value))
        if name.lower() in RESERVED or not HEADER_NAME.fullmatch(name):
            raise _refused(f"the header {name[:80]} cannot be given", "bad_header")
        if not VALUE.fullmatch(text) or len(text) > HEADER_CHARACTERS:
            raise _refused(f"the value of the header {name} has characters that no header may have", "bad_header")
        yield name, text.strip()


def _body(given: Mapping[str, Json], content_type: str) -> tuple[bytes | None, str]:
    """Returns the body, and its type: JSON, or a form where `Transform` asks for one."""
    body, transform = given.get("RequestBody"), given.get("Transform") or {}
    encoding = transform.get("RequestBodyEncoding", "NONE") if isinstance(transform, dict) else transform
    if encoding not in ("NONE", "URL_ENCODED"):
        raise _refused(f"`RequestBodyEncoding` cannot be {encoding!r}")
    kind = content_type or ("application/json" if encoding == "NONE" else _FORM)
    if body is None:
        return None, kind
    if encoding == "URL_ENCODED":
        form = (transform.get("RequestEncodingOptions") or {}).get("ArrayFormat", "INDICES")
        return urlencode(list(_pairs("", body, form))).encode(), kind
    if isinstance(body, str) and "json" not in kind.lower():
        return body.encode(), kind
    return json.dumps(body, ensure_ascii=False).encode(), kind


def _pairs(name: str, value: Json, form: str) -> Iterator[tuple[str, str]]:
    """Yields the names and values of a form; what is nested has its place in brackets."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _pairs(f"{name}[{key}]" if name else key, one, form)
    elif not name:
        raise _refused("the `RequestBody` of a form is to be an object")
    elif not isinstance(value, list):
        yield name, _text(value)
    elif form == "COMMAS":
        yield name, ",".join(map(_text, value))
    elif form in _PLACES:
        for at, one in enumerate(value):
            yield from _pairs(_PLACES[form].format(name=name, at=at), one, form)
    else:
        raise _refused(f"`ArrayFormat` cannot be {form!r}; it is INDICES, REPEAT, COMMAS or BRACKETS")


_PLACES = {"INDICES": "{name}[{at}]", "REPEAT": "{name}", "BRACKETS": "{name}[]"}


def _each(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _result(sending: http_call.Sending, answer: http_call.Answer) -> Json:
    phrase = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else ""
    told = {"StatusCode": answer.status, "StatusText": phrase,
            "Headers": {name: [value] for name, value in answer.headers.items()}}  # fmt: skip
    if 200 <= answer.status < 300:
        body = body_of(answer)
        return {**told, "ResponseBody": "" if body is None else body}
    after_ms = retry_after_ms(answer.status, answer.headers, time.time_ns() // 1_000_000)
    message = f"{sending.method} {sending.target.origin} answered {answer.status} {phrase}".rstrip()
    category = "external" if answer.status >= 500 or answer.status == THROTTLED else "step"
    raise CallError(f"States.Http.StatusCode.{answer.status}", category, message, {"status": answer.status}, after_ms)


def _refused(message: str, code: str = "bad_parameters") -> CallError:
    return CallError(code, "validation", f"{message}; nothing was sent")
