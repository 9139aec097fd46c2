"""Compiles HTTP and Lambda steps: `run: http:METHOD URL` and `run: lambda:NAME`.

Template values in a URL are percent-encoded and cannot change its host. Secrets stay references here; the sender of
the request resolves them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stepwell.definition.compiled import Expression
from stepwell.definition.expressions import compile_template, members_read, state_read, steps_read, template_pieces
from stepwell.definition.graph import Json, Step
from stepwell.definition.patterns import lazy
from stepwell.definition.targets import BadUrlError, Target, parse_url
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import ExpressionError
from stepwell.limits import HEADERS

if TYPE_CHECKING:
    from stepwell.definition.formats.common import Context

METHODS = ("GET", "HEAD", "DELETE", "POST", "PUT", "PATCH")
WITH_QUERY = frozenset({"GET", "HEAD", "DELETE"})  # the methods whose input is the query instead of the body
REFERENCE = lazy(r"env:[A-Za-z_]\w*|ssm:[\w/.:@+=-]+|secretsmanager:[\w/.:@+=-]+(#[\w.-]+)?", re.ASCII)
REFERENCE_HINT = "write {secret: env:NAME}, {secret: ssm:NAME}, {secret: secretsmanager:NAME#field} or a list of such"
HEADER_NAME = lazy(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)

_RUN = lazy(r"http:([A-Za-z]+) (.+)", re.DOTALL)
_AUTHORITY = lazy(r"[a-zA-Z]+://[^/?#]*[/?]")  # complete: nothing after it can be part of the host
_PREFIX = lazy(r"[\x20-\x7e]*")
_LAMBDA = lazy(
    r"lambda:(?:arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:)?[A-Za-z0-9_-]{1,140}(?::[A-Za-z0-9_-]{1,128})?",
    re.ASCII,
)
# Headers that describe the message itself, which the sender sets.
RESERVED = frozenset({
    "host", "content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "upgrade", "expect",
    "te", "trailer", "accept-encoding", "proxy-authorization", "proxy-connection",
})  # fmt: skip
_SECRET = frozenset({"authorization", "cookie", "x-api-key", "api-key", "x-auth-token"})
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_EXAMPLE = 'run: "http:POST https://api.example.com/refunds/{{ input.id }}"'


class Request:
    """The request of an HTTP step, as an expression: `{method, url, headers, body}`."""

    __slots__ = (
        "_body", "_headers", "_method", "_pieces", "members", "names", "origin", "reads_error", "state", "steps",
        "text",
    )  # fmt: skip

    def __init__(self, method: str, url: str, pieces: Sequence[str | Expression], headers: _Headers, body: str) -> None:
        """Raises BadUrlError. The first of the URL's `pieces` is a literal with the whole host."""
        self.text, self.origin = f"{method} {url}", _target(pieces).origin
        self._method, self._pieces, self._headers, self._body = method, tuple(pieces), headers, body
        parts = [piece for piece in (*pieces, headers) if not isinstance(piece, str)]
        self.names = frozenset[str]().union(*(part.names for part in parts))
        self.steps = frozenset[str]().union(*(steps_read(part) for part in parts))
        self.state = frozenset[str]().union(*(state_read(part) for part in parts))
        self.members = frozenset[tuple[str, ...]]().union(*(members_read(part) for part in parts))
        self.reads_error = any(part.reads_error for part in parts)

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        """Builds the request. Raises ExpressionError, also for a value that is not allowed in its place."""
        url = "".join(self._encoded(names))
        try:
            parse_url(url)
        except BadUrlError as error:
            raise ExpressionError(f"{error.message}, in `{self.text}`", code=error.code, hint=error.hint) from None
        headers = self._headers.evaluate(names)
        return {"method": self._method, "url": url, "headers": headers, "body": self._body}

    def references(self) -> Iterator[str]:
        """Yields the secret references of the headers."""
        for value in self._headers.secrets.values():
            yield from references_of(value)

    def _encoded(self, names: Mapping[str, Json]) -> Iterator[str]:
        is_query = False
        for piece in self._pieces:
            if isinstance(piece, str):
                is_query = is_query or "?" in piece
                yield piece
            else:
                yield _encoded(piece.evaluate(names), piece.text, is_query)


class _Headers:
    """Headers by name. A reference to a secret stays unresolved."""

    __slots__ = ("_values", "members", "names", "reads_error", "secrets", "state", "steps", "text")

    def __init__(self, secrets: Mapping[str, Json], values: Expression) -> None:
        self.secrets, self._values, self.text = secrets, values, values.text
        self.names, self.reads_error = values.names, values.reads_error
        self.steps, self.state, self.members = steps_read(values), state_read(values), members_read(values)

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        return {**self.secrets, **self._values.evaluate(names)}


def check_lambda(context: Context, run: str, path: str) -> None:
    """Checks a function's name or ARN. It cannot be a template, because the worker's permissions name it."""
    if not _LAMBDA.fullmatch(run):
        hint = "write lambda:my-function, lambda:my-function:live, or its whole ARN; a template is not allowed there"
        context.add("bad_run", f"`{run[:80]}` does not name a Lambda function", path, hint)


def check_not_http(context: Context, data: Mapping[str, Json], path: str) -> None:
    """Reports `http:` on another kind of step, where it would have no effect."""
    if "http" in data:
        context.add("misplaced_key", "`http` is for a step that begins with `run: http:`", f"{path}/http", "remove it")


def http_of(context: Context, data: Mapping[str, Json], path: str) -> Request | None:
    """Compiles the request of an HTTP step; None, and problems, if it has mistakes."""
    run = _RUN.fullmatch(data["run"])
    if run is None or run[1] not in METHODS:
        hint = f"write {_EXAMPLE}, with one of {', '.join(METHODS)}"
        context.add("bad_run", f"`{data['run'][:80]}` does not name a method and a URL", f"{path}/run", hint)
        return None
    method, url = run[1], run[2]
    pieces = _pieces(context, url, f"{path}/run")
    options = data.get("http", {})
    headers = _headers(context, options.get("headers", {}), f"{path}/http/headers")
    body = options.get("body", "json")
    if "body" in options and method in WITH_QUERY:
        hint = "remove it: the input is the query"
        context.add("misplaced_key", f"a {method} has no body", f"{path}/http/body", hint)
    return Request(method, url, pieces, headers, body) if pieces and headers else None


def references_of(value: Mapping[str, Json]) -> Sequence[str]:
    """Returns the references of a header's `{secret: …}`; of several, the first readable one counts."""
    named: Json = value.get("secret")
    return named if isinstance(named, list) else [named]


def calls_of(step: Step) -> Iterator[tuple[str, str]]:
    """Yields the external calls of a step as (kind, name).

    The kind is `lambda`, `http` (an origin), `secret`, `aws` (an action and its resource), or `aws_own` (a call whose
    permissions the user gives).
    """
    yield from step.uses
    scheme, _, name = step.run.partition(":")
    if scheme == "lambda":
        yield "lambda", name
    if isinstance(step.http, Request):
        yield "http", step.http.origin
        yield from (("secret", reference) for reference in step.http.references())


def _pieces(context: Context, url: str, path: str) -> Sequence[str | Expression]:
    """Splits a URL into literals and templates; none, and a problem, if its host is not a literal."""
    try:
        pieces = template_pieces(url)
    except ExpressionError as error:
        context.add_error(error, path)
        return ()
    head = pieces[0]
    if len(pieces) > 1 and not (isinstance(head, str) and _AUTHORITY.match(head)):
        hint = "write the host out and put templates after its `/`, or write a step for each host"
        context.add("bad_url", "a URL's host cannot contain a template", path, hint)
        return ()
    try:
        _target(pieces)
    except BadUrlError as error:
        context.add_error(error, path)
        return ()
    for piece in pieces:
        if not isinstance(piece, str):
            context.seen(piece, path)
    return pieces


def _target(pieces: Sequence[str | Expression]) -> Target:
    """Returns the target of a URL, which does not depend on the template values. Raises BadUrlError."""
    return parse_url("".join(piece if isinstance(piece, str) else "x" for piece in pieces))


def _headers(context: Context, written: Json, path: str) -> _Headers | None:
    """Compiles the headers; None if one has a mistake."""
    if not isinstance(written, dict) or len(written) > HEADERS:
        context.add("wrong_type", f"`headers` must be a mapping of at most {HEADERS} names", path)
        return None
    before = len(context.problems)
    given: set[str] = set()
    for name, value in written.items():
        place, small = f"{path}/{pointer_part(name)}", name.lower()
        if not HEADER_NAME.fullmatch(name) or small in RESERVED or small in given:
            why = (
                "is given twice"
                if small in given
                else "cannot be given"
                if small in RESERVED
                else "is not a header name"
            )
            context.add("bad_header", f"`{name[:80]}` {why}", place, "remove it")
        elif isinstance(value, dict):
            _check_secret(context, name, value, place)
        elif not isinstance(value, str):
            context.add("wrong_type", f"`{name}` must be text or {{secret: …}}", place, "put it in quotes")
        elif small in _SECRET and "{{" not in value:
            message = f"`{name}` is written in plain text"
            context.add("plain_secret", message, place, f"if it is a secret, {REFERENCE_HINT}", severity="warning")
        given.add(small)
    plain = {name: value for name, value in written.items() if isinstance(value, str)}
    values = context.template_of(plain, path)
    if values is None or any(problem.severity == "error" for problem in context.problems[before:]):
        return None
    return _Headers({name: value for name, value in written.items() if isinstance(value, dict)}, values)


def _check_secret(context: Context, name: str, value: Mapping[str, Json], path: str) -> None:
    """What is no reference is not repeated: it may be the secret itself."""
    for key in value:
        if key not in ("secret", "prefix"):
            hint = closest(str(key), ("secret", "prefix"))
            context.add("unknown_key", f"unknown key `{key}`", f"{path}/{pointer_part(key)}", hint)
    references, prefix = references_of(value), value.get("prefix", "")
    if not references or not all(isinstance(one, str) and REFERENCE.fullmatch(one) for one in references):
        context.add("bad_secret", f"`{name}` does not say where its secret is kept", path, REFERENCE_HINT)
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix) or "{{" in prefix:
        context.add("bad_header", f"the prefix of `{name}` must be plain text", path, 'for example prefix: "Bearer "')


def _encoded(value: Json, text: str, is_query: bool) -> str:
    """Encodes a value as part of a URL, so that it cannot change the rest of the URL."""
    if isinstance(value, bool):
        value = str(value).lower()
    if value is None or isinstance(value, (dict, list)):
        what = "null" if value is None else "a list" if isinstance(value, list) else "an object"
        raise ExpressionError(f"`{text}` is {what}, which a URL cannot contain", code="bad_url", hint="use text")
    written = str(value)
    if not is_query and (not written or any(part in (".", "..") for part in re.split(r"[/\\]", written))):
        raise ExpressionError(f"`{text}` is empty, or leads to another path", code="bad_url",
                              hint="the value would change the request")  # fmt: skip
    try:
        octets = written.encode()
    except UnicodeEncodeError:
        raise ExpressionError(f"`{text}` cannot be encoded", code="bad_url") from None
    return "".join(chr(one) if one in _UNRESERVED else f"%{one:02X}" for one in octets)


def empty_input() -> Expression:
    """Returns the input of an HTTP step without `input`, which sends nothing."""
    return compile_template(None)
