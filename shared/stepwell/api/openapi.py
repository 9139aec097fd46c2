"""Generates the OpenAPI 3.1 document from the route table, the request models and the answer types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from stepwell.api.branches import BranchView
from stepwell.api.checked import CheckView
from stepwell.api.deliveries import DeliveryPage, ReplayView
from stepwell.api.examples import EXAMPLES
from stepwell.api.exchange import JSON_TYPE, Route
from stepwell.api.explain import Explanation
from stepwell.api.failures import FailureView
from stepwell.api.graphs import GraphView, WorkflowSummary, WorkflowView
from stepwell.api.limits import InLineView, LimitPage, LimitView, LineView, RateView
from stepwell.api.moments import StateView
from stepwell.api.pauses import WorkflowPauseView
from stepwell.api.problems import PROBLEM_TYPE
from stepwell.api.requests import NAME_PATTERN, RUN_ID_PATTERN
from stepwell.api.schedules import SchedulePage, ScheduleView
from stepwell.api.stats import StatsView
from stepwell.api.steps import StepResult
from stepwell.api.versions import AliasView, VersionsView, VersionView
from stepwell.api.views import RunSummary, RunView, StartedView
from stepwell.api.waiting import LinksView
from stepwell.definition.graph import Json

Schema = dict[str, Any]

EntryView = TypedDict(
    "EntryView",
    {
        "id": str,
        "at": str,
        "type": str,
        "token": str,
        "step": str | None,
        "attempt": int | None,
        "from": str | None,
        "to": str | None,
        "trigger": str | None,
        "by": str | None,
        "data": Json,
    },
)


class RunPage(TypedDict):
    items: list[RunSummary]
    next_cursor: str | None


class FailurePage(TypedDict):
    """The groups of a page of failed runs: the same fingerprint may be in the next page again."""

    items: list[FailureView]
    next_cursor: str | None


class HistoryPage(TypedDict):
    items: list[EntryView]
    next_cursor: str | None


class EmittedView(TypedDict):
    cursor: str
    at: str
    token: str
    step: str
    attempt: int
    first: bool
    data: Json


class OutputPage(TypedDict):
    items: list[EmittedView]
    next_cursor: str | None


class StreamView(TypedDict):
    """`url`: of the WebSocket, absolute or relative to the API's; to be opened before `expires_at`."""

    url: str
    expires_at: str


class ExportLine(TypedDict, total=False):
    """The first line has `format`, `run` and `definition`; each further one a record of a token."""

    format: str
    run: dict[str, Json]
    definition: Json
    token: str
    record: dict[str, Json]


class ExportPage(TypedDict):
    items: list[ExportLine]
    next_cursor: str | None


class BranchPage(TypedDict):
    items: list[BranchView]
    next_cursor: str | None


class WorkflowPage(TypedDict):
    items: list[WorkflowSummary]
    next_cursor: str | None


class ResultView(TypedDict):
    run_id: str
    status: str
    result: Json


class AnswerView(TypedDict):
    run_id: str
    name: str
    value: Json


class UpdateView(TypedDict):
    run_id: str
    name: str
    update_id: str
    pending: bool
    output: Json
    error: dict[str, Json] | None


class EndedView(TypedDict, total=False):
    run_id: str
    status: str
    cancelled: bool
    terminated: bool


class LetterEvent(TypedDict):
    name: str
    key: str
    id: str


class LetterView(TypedDict, total=False):
    id: str
    queue: str
    type: str
    run_id: str | None
    token: str | None
    event: LetterEvent | None
    why: str
    sent_at: str | None
    deliveries: int
    sent_again: int
    message: dict[str, Json]


class LetterPage(TypedDict):
    items: list[LetterView]
    next_cursor: str | None


class SentBackView(TypedDict):
    sent: list[str]
    left: list[str]


class RecoveredView(TypedDict):
    run_id: str
    why: str


class RecoveryView(TypedDict):
    looked: int
    woken: dict[str, int]
    first: list[RecoveredView]
    rearmed: int
    next_cursor: str | None


class ErasedView(TypedDict):
    run_id: str
    deleted_runs: int
    deleted_items: int


class ForetoldStep(TypedDict):
    slot: int
    step: str
    by: str  # what answered it: log, caller, or nothing, because nothing had to
    output: Json
    to: str  # where the run goes next


class ForetoldView(TypedDict):
    """The way that a fork of a run would take, as far as the run's log has the results."""

    run_id: str
    workflow: str
    version: str
    at: int
    kept: int
    steps: list[ForetoldStep]
    stops: str  # end, step, wait, fork, function or limit: why it is told no further
    stops_at: str | None
    status: str | None
    state: dict[str, Json]


class SentView(TypedDict):
    event_id: str


class TakenView(TypedDict, total=False):
    event_id: str
    run_id: str
    duplicate: bool  # the delivery was accepted before
    ignored: bool  # the source's `match` is false


class TakenCallbackView(TypedDict):
    status: str


class HealthView(TypedDict):
    status: str
    version: str
    dependencies: dict[str, str]


class RunGraph(GraphView):
    """`taken`: how often each edge was taken, by its id, also by branches of forks of up to 500."""

    states: dict[str, str]
    steps: dict[str, StepResult]
    taken: dict[str, int]


class FieldProblem(TypedDict):
    path: str
    message: str


class ProblemView(TypedDict):
    """RFC 9457. `code`, the end of `type`, is stable, so programs can match on it."""

    type: str
    code: str
    title: str
    status: int
    detail: str
    hint: str | None
    errors: list[FieldProblem]


_SHAPES: tuple[Any, ...] = (
    RunView,
    StartedView,
    RunPage,
    FailurePage,
    HistoryPage,
    OutputPage,
    StreamView,
    ExportPage,
    BranchPage,
    ResultView,
    AnswerView,
    UpdateView,
    EndedView,
    ErasedView,
    RecoveryView,
    LetterPage,
    LetterView,
    SentBackView,
    ForetoldView,
    SentView,
    TakenView,
    DeliveryPage,
    ReplayView,
    TakenCallbackView,
    LinksView,
    Explanation,
    RunGraph,
    WorkflowPage,
    WorkflowView,
    WorkflowPauseView,
    VersionView,
    VersionsView,
    AliasView,
    CheckView,
    StateView,
    StatsView,
    ScheduleView,
    SchedulePage,
    RateView,
    LimitView,
    LimitPage,
    InLineView,
    LineView,
    HealthView,
    ProblemView,
)
_REF = "#/components/schemas/{model}"
SERVERS: tuple[Schema, ...] = (
    {"url": "/", "description": "the server that answers with this document"},
    {"url": "http://127.0.0.1:8787", "description": "stepwell dev"},
    {
        "url": "https://{api}.execute-api.{region}.amazonaws.com",
        "description": "a deployment: the output ApiUrl",
        "variables": {"api": {"default": "abc123"}, "region": {"default": "us-east-1"}},
    },
)
_SECURITY: Schema = {  # a deployment has one of them: its property `auth`
    "iam": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`auth: iam`: AWS Signature Version 4 for the service execute-api",
        "x-amazon-apigateway-authtype": "awsSigv4",
    },
    "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "`auth: jwt`"},
    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "`auth: api_key`"},
}
_OPEN = ("/callbacks/", "/approvals/", "/webhooks/")  # they have signatures of their own
_PATTERNS = {"run_id": RUN_ID_PATTERN, "name": NAME_PATTERN}
_EVERY_ROUTE = {422: "what was sent is wrong: `errors` says where", 503: "the store or queue did not answer"}
_EVERY_BODY = {400: "the body is not JSON", 413: "the body is too large"}


def document(routes: Iterable[Route], version: str) -> Schema:
    """Builds the whole document."""
    schemas: Schema = {}
    for shape in _SHAPES:
        _collect(TypeAdapter(shape).json_schema(ref_template=_REF), shape.__name__, schemas)
    paths: Schema = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stepwell",
            "version": version,
            "description": "Durable workflows: start, watch, answer.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [*SERVERS],
        "security": [*({name: []} for name in _SECURITY), {}],  # {}: on this machine
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _SECURITY},
    }


def _collect(schema: Schema, name: str, schemas: Schema) -> None:
    """Adds a schema and the schemas it refers to."""
    for inner, found in schema.pop("$defs", {}).items():
        schemas[inner] = _with_example(inner, found)
    schemas[name] = _with_example(name, schema)


def _with_example(name: str, schema: Schema) -> Schema:
    return {**schema, "examples": [EXAMPLES[name]]} if name in EXAMPLES else schema


def _operation(route: Route, schemas: Schema) -> Schema:
    operation: Schema = {
        "operationId": route.handle.__name__,
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route.query), *_header_parameters(route)],
        "responses": _responses(route),
        **({"security": []} if route.path.startswith(_OPEN) else {}),
    }
    if route.body is not None:
        _collect(route.body.model_json_schema(ref_template=_REF), route.body.__name__, schemas)
        content = {JSON_TYPE: {"schema": {"$ref": _REF.format(model=route.body.__name__)}}}
        operation["requestBody"] = {"content": content, "required": bool(_required(route.body))}
    return operation


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, info in model.model_fields.items() if info.is_required()]


def _path_parameters(route: Route) -> list[Schema]:
    names = re.findall(r"\{(\w+)\}", route.path)
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": _PATTERNS.get(name, "^[^/]+$")},
        }
        for name in names
    ]


def _query_parameters(model: type[BaseModel] | None) -> list[Schema]:
    if model is None:
        return []
    schema = model.model_json_schema(ref_template=_REF)
    inlined = schema.get("$defs", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": part.pop("description", ""),
            "schema": _inline(part, inlined),
        }
        for name, part in schema["properties"].items()
    ]


def _inline(part: Schema, definitions: Schema) -> Schema:
    """Returns a parameter's schema with its enum inlined, so that it refers to nothing."""
    if isinstance(items := part.get("items"), dict) and "$ref" in items:
        return {**part, "items": definitions[items["$ref"].rpartition("/")[2]]}
    return part


def _header_parameters(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in route.headers.items()
    ]


def _responses(route: Route) -> Schema:
    answers = {**_EVERY_ROUTE, **(_EVERY_BODY if route.body else {}), **route.answers}
    return {str(status): _response(route, status, text) for status, text in sorted(answers.items())}


def _shape(names: str) -> Schema:
    """Of an answer that has one of several shapes, `A|B`, any of them."""
    found: list[Schema] = [{"$ref": _REF.format(model=name)} for name in names.split("|")]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _response(route: Route, status: int, text: str) -> Schema:
    if route.media == "text/html":
        content: Schema = {route.media: {"schema": {"type": "string"}}}
    elif status < 300:
        content = {JSON_TYPE: {"schema": _shape(route.shape)}} if route.shape else {}
        if route.media != JSON_TYPE:
            content[route.media] = {"schema": {"type": "string"}}
            content["text/plain"] = {"schema": {"type": "string"}}
    elif route.shape == "HealthView":
        content = {JSON_TYPE: {"schema": {"$ref": _REF.format(model=route.shape)}}}
    else:
        content = {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(model="ProblemView")}}}
    return {"description": text, "content": content}
