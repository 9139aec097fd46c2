"""A call as data: what to send, how to read the answer, and whether it may be sent again. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx

from stepwell.client.errors import JsonObject
from stepwell.errors import UserError
from stepwell.values import dataclass

T = TypeVar("T")
U = TypeVar("U")
Moment: TypeAlias = str | datetime  # as text with its offset, in RFC 3339


def keyed(key: str) -> dict[str, str]:
    """The header with the Idempotency-Key; none for "". Raises UserError for a key that no header carries."""
    return headed("Idempotency-Key", key, "key")


def headed(name: str, value: str, what: str) -> dict[str, str]:
    """A header; none for "". Raises UserError for a value that no header carries."""
    if not is_carried(value):
        raise UserError(f"the {what} {value!r} has characters that an HTTP header cannot carry", code="bad_key",
                        hint="take printable ASCII characters, for example a hash of it")  # fmt: skip
    return {name: value} if value else {}


def is_carried(value: object) -> bool:
    """Whether a header can have this value. Spaces at its ends would be lost, so the sender refuses them."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip()


def once(given: str | None, what: str) -> str:
    """Returns the key or id by which repeated calls count as one; "" for None.

    Raises UserError for an empty one: where a caller's variable is empty, each call would count.
    """
    if given == "":
        raise UserError(f"the {what} is empty", code="bad_key", hint=f"give one, or leave the {what} out")
    return given or ""


def several(given: str | Iterable[str], what: str) -> list[str]:
    """Returns the names that are given as one text or as several. Raises UserError for another type."""
    if isinstance(given, str):
        return [given] if given else []
    try:
        return list(given)
    except TypeError as error:
        raise UserError(f"`{what}` is a text or a list of texts, not {given!r}", code="bad_value",
                        hint='for example "a", or ["a", "b"]') from error  # fmt: skip


class NotOurs(Exception):
    """The answer is not one of a Stepwell API."""


def object_of(answer: httpx.Response) -> JsonObject:
    """Returns the answer's JSON object. Raises NotOurs."""
    try:
        value = answer.json()
    except ValueError as error:
        raise NotOurs from error
    if not isinstance(value, dict):
        raise NotOurs
    return value


def object_with(answer: httpx.Response, *keys: str) -> JsonObject:
    """Returns the answer's JSON object, which a Stepwell API sends with these keys. Raises NotOurs."""
    found = object_of(answer)
    if not found.keys() >= {*keys}:
        raise NotOurs
    return found


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One call. `repeatable`: a second one has no further effect, so it is sent again if the answer was lost."""

    method: str
    path: str  # or a whole URL
    read: Callable[[httpx.Response], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    is_open: bool = False  # called without credentials
    until: float | None = None  # of time.monotonic: when its caller gives up
    gone: Any = None  # what a deletion reads if it took effect and its answer was lost

    def reading(self, read: Callable[[httpx.Response], U]) -> Request[U]:
        """The same call with another reading of its answer."""
        same = self.query, self.body, self.content, self.headers, self.repeatable, self.is_open, self.until, self.gone
        return Request(self.method, self.path, read, *same)

    def then(self, change: Callable[[T], U]) -> Request[U]:
        """The same call with a change to what it reads."""
        return self.reading(lambda answer: change(self.read(answer)))


Flow = Generator[Request[Any], Any, T]
"""Several calls that make one: a generator that yields requests and receives what they read."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list, as the API sent it."""

    document: JsonObject

    @property
    def items(self) -> list[JsonObject]:
        return self.document.get("items") or []

    @property
    def next_cursor(self) -> str | None:
        return self.document.get("next_cursor") or None


def get(path: str, **query: Any) -> Request[JsonObject]:
    """A call that only reads. Empty values are left out of the query."""
    return Request("GET", path, object_of, filled(query))


def listed(path: str, **query: Any) -> Request[Page]:
    """A call that reads a page of a list."""
    return get(path, **query).then(Page)


def post(
    path: str,
    body: Mapping[str, Any],
    *,
    repeatable: bool = False,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request[JsonObject]:
    """A call that acts."""
    return Request("POST", path, object_of, query or {}, body, headers=headers or {}, repeatable=repeatable)


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], (), {})}


def moment(given: Moment) -> str:
    """Returns a time as the API reads it, which refuses one without an offset."""
    return given.isoformat() if isinstance(given, datetime) else given


def tagged(tag: str | Mapping[str, str]) -> str:
    """Returns the filter by a tag, `name=value`; "" for none. Raises UserError for several."""
    if not isinstance(tag, Mapping):
        return tag
    if len(tag) > 1:
        raise UserError(f"runs are listed by one tag, not by {len(tag)}", code="bad_tag",
                        hint='for example tag={"team": "shop"}, or tag="team=shop"')  # fmt: skip
    return next((f"{name}={value}" for name, value in tag.items()), "")


def part(text: str) -> str:
    """Quotes a name as one path segment. A name of dots only would otherwise change the path.

    Raises UserError for an empty one, which would name another route.
    """
    if text and not isinstance(text, str):
        raise UserError(f"a name or id is text, not {text!r}", code="bad_key",
                        hint="give the one that the API answered with")  # fmt: skip
    if not text:
        raise UserError("the name or id is empty", code="bad_key", hint="give the one that the API answered with")
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if not text.strip(".") else quoted


def event(path: str, name: str, payload: Any, more: JsonObject, event_id: str | None) -> Request[JsonObject]:
    """An event of one id has one effect, so it can be sent again. Raises UserError for an empty id."""
    body = {"name": name, "payload": payload, **more, "id": once(event_id, "event's id") or str(uuid4())}
    return post(path, body, repeatable=True)
