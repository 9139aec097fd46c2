"""The sources of webhooks: their signature schemes, and the mapping of deliveries to events or runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

from stepwell.api.exchange import Call
from stepwell.api.parsing import read_json
from stepwell.api.webhooks.claims import BadSignature, form_fields, header_of, is_form
from stepwell.definition.compiled import Expression
from stepwell.definition.durations import parse_duration
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Json
from stepwell.definition.webhook_schemes import Signing, signings_of
from stepwell.definition.webhooks import EXPRESSION_NAMES
from stepwell.errors import ExpressionError, InvalidInput, NotFound, UserError
from stepwell.runtime.steps.secrets import Secrets
from stepwell.values import dataclass

_NOT_FOR_EXPRESSIONS = frozenset({"authorization", "cookie"})  # because results of expressions are stored

_SENT_AS_FORM = (
    "the body looks like JSON, and its content type says that it is a form: send content-type: application/json"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One source of webhooks. An empty expression was not given."""

    name: str
    signings: tuple[Signing, ...]
    references: tuple[str, ...]
    secrets: Secrets = field(repr=False)
    event: str = ""
    key: str = ""
    payload: str = ""
    workflow: str = ""
    input: str = ""
    id: str = ""
    url: str = ""  # the URL that the sender calls, without a query
    match: str = ""
    keep_ms: int = 0  # how long deliveries are stored; 0: not at all


@dataclass(frozen=True, slots=True)
class Meaning:
    """The event or run that a delivery maps to."""

    content: Json  # the event's payload or the run's input
    event: str = ""
    key: str = ""


def sources_of(document: Mapping[str, Json] | None, secrets: Secrets) -> dict[str, Source]:
    """Builds the sources of a checked `webhooks.yaml` by name; None means no file."""
    given: Mapping[str, Mapping[str, Json]] = document["sources"] if document else {}
    words = ("match", "event", "key", "payload", "workflow", "input", "id", "url")
    return {
        name: Source(
            name,
            signings_of(one),
            tuple(one["secret"]),
            secrets,
            keep_ms=parse_duration(one.get("keep", 0)),
            **{word: one[word] for word in words if word in one},
        )
        for name, one in given.items()
    }


def source_named(sources: Mapping[str, Source], name: str) -> Source:
    """Returns the source of this name. Raises NotFound."""
    if name not in sources:
        raise NotFound("there is no such webhook source", code="unknown_source",
                       hint="webhooks.yaml lists the sources")  # fmt: skip
    return sources[name]


def meaning_of(source: Source, call: Call, body: Json) -> Meaning | None:
    """Maps a delivery; None if the source's `match` is false. `body` is the result of `body_of`.

    Raises UserError if an expression fails.
    """
    try:
        return _meaning(source, call, body)
    except UserError as error:
        if error.code == "unmappable" and is_form(call) and call.raw_body.lstrip()[:1] in (b"{", b"["):
            error.hint = _SENT_AS_FORM
        raise


def _meaning(source: Source, call: Call, body: Json) -> Meaning | None:
    names = _names(call, body)
    if source.match and not _is_match(source.match, names):
        return None
    content = source.input if source.workflow else source.payload
    return Meaning(
        content=_value("input" if source.workflow else "payload", content, names) if content else body,
        event=_text("event", source.event, names) if source.event else "",
        key=_text("key", source.key, names) if source.key else "",
    )


def body_of(signing: Signing, call: Call) -> Json:
    """Parses a form (or the JSON inside it) or JSON. Raises UserError."""
    if not is_form(call):
        return read_json(call.raw_body)
    try:
        fields = _fields(call.raw_body.decode(), "form")
    except UnicodeDecodeError as error:
        raise _unmappable(f"the form is not UTF-8: {error}") from error
    inner = fields.get(signing.json_field) if signing.json_field else None
    return read_json(inner.encode(errors="surrogatepass")) if isinstance(inner, str) else fields


def _fields(text: str, what: str) -> dict[str, Json]:
    """Maps names to text, or to a list of texts if a name is repeated."""
    try:
        pairs = form_fields(text)
    except ValueError as error:
        raise _unmappable(f"the {what} cannot be read: {error}") from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _names(call: Call, body: Json) -> Mapping[str, Json]:
    """Returns the names that expressions can read."""
    headers = {name: value for name, value in call.headers.items() if name not in _NOT_FOR_EXPRESSIONS}
    return {"body": body, "headers": headers, "query": _fields(call.query, "query string")}


def _is_match(text: str, names: Mapping[str, Json]) -> bool:
    value = _value("match", text, names)
    if not isinstance(value, bool):
        raise _unmappable(f"`match` gave {type(value).__name__}, not true or false")
    return value


def delivery_id(source: Source, signing: Signing, call: Call, body: Json) -> str:
    """Returns the delivery's id: the source's `id`, else the scheme's id, else a hash of the content.

    It is the same in each retry. Raises UserError.
    """
    if source.id:
        return _text("id", source.id, _names(call, body))
    if signing.id_field and isinstance(body, dict) and isinstance(found := body.get(signing.id_field), str) and found:
        return found
    if not signing.id_header or (signing.id_optional and signing.id_header not in call.headers):
        return f"sha256:{hashlib.sha256(_repeated(signing, call.raw_body, body)).hexdigest()}"
    try:
        return header_of(call, signing.id_header)
    except BadSignature as error:
        raise _unmappable(f"the delivery has no id: {error}") from error


def _repeated(signing: Signing, raw: bytes, body: Json) -> bytes:
    """Returns the part of the body that is the same in each retry."""
    if not isinstance(body, dict) or signing.counter not in body:
        return raw
    same = {name: value for name, value in body.items() if name != signing.counter}
    return json.dumps(same, sort_keys=True).encode()


def _text(what: str, text: str, names: Mapping[str, Json]) -> str:
    """Returns text, or a whole number as text, as for the key of a wait."""
    value = _value(what, text, names)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise _unmappable(f"`{what}` gave {type(value).__name__ if value != '' else 'an empty text'}, not a text")
    return str(value)


def _value(what: str, text: str, names: Mapping[str, Json]) -> Json:
    try:
        return _compiled(text).evaluate(names)
    except ExpressionError as error:
        raise _unmappable(f"`{what}` fails for this delivery: {error.message}") from error


@lru_cache(maxsize=1_000)
def _compiled(text: str) -> Expression:
    """Compiles an expression on first use, to keep cold starts fast."""
    return compile_expression(text, EXPRESSION_NAMES)


def _unmappable(message: str) -> UserError:
    return UserError(message, code="unmappable", hint="check the source's expressions in webhooks.yaml")


def as_unmappable(error: InvalidInput) -> UserError:
    """Turns the engine's refusal into the error `unmappable`."""
    return UserError(error.message, code=error.code, hint=error.hint, problems=error.problems)
