"""The types of routes: a call, an answer, and a row of the route table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TypeVar

from pydantic import BaseModel

from stepwell.api.identity import Identity
from stepwell.api.parsing import parse_body, parse_query
from stepwell.definition.graph import Json
from stepwell.runtime.assembly import Assembly
from stepwell.values import dataclass

M = TypeVar("M", bound=BaseModel)

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP call, with path parameters percent-decoded and header names in lower case."""

    parts: Assembly
    path: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw_body: bytes = b""
    identity: Identity = field(default_factory=Identity)

    def body(self, model: type[M]) -> M:
        """Parses the body. Raises UserError if it is too large, not JSON, or does not fit the model."""
        return parse_body(self.raw_body, model)

    def who(self, named: str) -> str:
        """Returns who acts: the authenticated caller if the gateway names one, otherwise the name in the body."""
        return self.identity.name or named

    def also_named(self, named: str) -> str:
        """Returns the name in the body, if the gateway names the caller otherwise: many people may share one role."""
        return named if self.identity.name not in {"", named} else ""

    def told(self, named: str) -> str:
        """Returns who acts, for people to read: with the name in the body before the caller's own."""
        also = self.also_named(named)
        return f"{also} ({self.identity.name})" if also else self.who(named)

    def asked(self, model: type[M]) -> M:
        """Parses the query string. Raises UserError."""
        return parse_query(self.query, model)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call. A `body` that is not a string is sent as JSON."""

    status: int
    body: Json
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


Handle = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the route table: the handler, and its description for the OpenAPI document."""

    method: str
    path: str  # /runs/{run_id}
    handle: Handle
    summary: str
    answers: Mapping[int, str]  # the meaning of each status, without the problems of every route
    shape: str = ""  # the name of the answer's schema, for the statuses below 300
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # the request headers it reads, with their meanings
    media: str = JSON_TYPE  # the content type of the answer
    refused: Callable[[Exception], Answer] | None = None  # answers for errors; None: with problem documents
