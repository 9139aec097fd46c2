"""Generates the OpenAPI 3.1 document from the route table, the request models and the answer types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from stepwell.api.examples import EXAMPLES
from stepwell.api.exchange import JSON_TYPE, Route
from stepwell.api.problems import PROBLEM_TYPE
from stepwell.api.requests import HEADER_KEY, NAME_PATTERN, PRINTABLE, RUN_ID_PATTERN
from stepwell.api.shapes import SHAPES

Schema = dict[str, Any]

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
_IN_PATH: dict[str, Schema] = {
    "run_id": {"pattern": RUN_ID_PATTERN},
    "name": {"pattern": NAME_PATTERN},
    "update_id": {**PRINTABLE, "pattern": PRINTABLE["pattern"].replace("[^", "[^/").replace("*", "+")},
}
_IN_HEADER: dict[str, Schema] = {"Idempotency-Key": HEADER_KEY}
_EVERY_ROUTE = {
    422: "what was sent is wrong: `errors` says where",
    429: "too many calls at once, or too many events are pending; `Retry-After` may say when to try again",
    503: "the store or queue did not answer",
}
_EVERY_BODY = {400: "the body is not JSON"}
_EVERY_CHANGE = {413: "the body is too large"}  # also of calls that read none


def document(routes: Iterable[Route], version: str) -> Schema:
    """Builds the whole document."""
    schemas: Schema = {}
    for shape in SHAPES:
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
            "schema": {"type": "string", **_IN_PATH.get(name, {"pattern": "^[^/]+$"})},
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
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": {"type": "string", **_IN_HEADER.get(name, {})},
        }
        for name, text in route.headers.items()
    ]


def _responses(route: Route) -> Schema:
    may_be_too_large = route.method != "GET" and route.refused is None
    of_body = {**(_EVERY_BODY if route.body else {}), **(_EVERY_CHANGE if may_be_too_large else {})}
    answers = {**_EVERY_ROUTE, **of_body, **route.answers}
    return {str(status): _response(route, status, text) for status, text in sorted(answers.items())}


def _shape(names: str) -> Schema:
    """Of an answer that has one of several shapes, `A|B`, any of them."""
    found: list[Schema] = [{"$ref": _REF.format(model=name)} for name in names.split("|")]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _response(route: Route, status: int, text: str) -> Schema:
    refusal: Schema = {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(model="ProblemView")}}}
    if route.refused is not None:
        content: Schema = {route.media: {"schema": {"type": "object"}}}
    elif route.media == "text/html":
        content = {route.media: {"schema": {"type": "string"}}, **(refusal if status >= 400 else {})}
    elif status < 300:
        content = {JSON_TYPE: {"schema": _shape(route.shape)}} if route.shape else {}
        if route.media != JSON_TYPE:
            content[route.media] = {"schema": {"type": "string"}}
            content["text/plain"] = {"schema": {"type": "string"}}
    elif route.shape == "HealthView" and status == 503:
        content = {JSON_TYPE: {"schema": {"$ref": _REF.format(model=route.shape)}}}
    else:
        content = refusal
    return {"description": text, "content": content}
