"""What a route is: the call it gets, the answer it gives, and the row that describes both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from stepwell.api.requests import Identity, parse_body, parse_query
from stepwell.definition.graph import Json
from stepwell.runtime.assembly import Assembly

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
        """The body as this model. Raises UserError for one that is too large, no JSON, or something else."""
        return parse_body(self.raw_body, model)

    def who(self, named: str) -> str:
        """Who does it: the caller, where the gateway knows them by name, whatever the body says; else who it names."""
        return self.identity.name or named

    def asked(self, model: type[M]) -> M:
        """The query string as this model. Raises UserError."""
        return parse_query(self.query, model)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. A `body` that is no string goes as JSON."""

    status: int
    body: Json
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


Handle = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the route table: what is served, and what the OpenAPI document says of it."""

    method: str
    path: str  # /runs/{run_id}
    handle: Handle
    summary: str
    answers: Mapping[int, str]  # status to what it means; problems that every route has are not repeated
    shape: str = ""  # the name of the answer's schema, for the statuses below 300
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # request headers it reads, and what for
    media: str = JSON_TYPE  # of the answer
