"""The building blocks of the definition models: the types of values, and the base of all models.

Workers do not import this module, because stored definitions have been checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from stepwell.definition.graph import Json
from stepwell.definition.wait_schemas import written_kinds
from stepwell.errors import UserError
from stepwell.limits import LOCKS


def written(name: str) -> str:
    """Returns the key of a field; a field named after a reserved word of Python ends with an underscore."""
    return name.removesuffix("_")


def _duration(value: object) -> object:
    from stepwell.definition.durations import parse_duration  # noqa: PLC0415

    if not (isinstance(value, str) and "{{" in value):
        try:
            parse_duration(value)
        except UserError as error:
            raise PydanticCustomError(
                "bad_duration", "{message}", {"message": error.message, "hint": error.hint}
            ) from None
    return value


def _condition(value: object) -> object:
    if isinstance(value, (str, bool)):
        return value
    raise PydanticCustomError("condition_type", "Input should be an expression")


def _expression(value: object) -> object:
    if isinstance(value, str):
        return value
    raise PydanticCustomError("condition_type", "Input should be an expression")


def _names(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        return value
    raise PydanticCustomError("names_type", "Input should be a list of names")


def _lock(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and value and all(isinstance(one, str) for one in value)):
        return value
    raise PydanticCustomError("lock_type", "Input should be a name, or a list of names")


def _id(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("id_type", "Input should be an id")


def _wait_kind(value: object) -> object:
    if value in written_kinds():
        return value
    raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{kind}'" for kind in written_kinds())})


def _schema(value: object) -> object:
    if isinstance(value, (dict, bool)):
        return value
    raise PydanticCustomError("schema_type", "Input should be a schema")


def _or_template(value: object, inner: ValidatorFunctionWrapHandler) -> object:
    return value if isinstance(value, str) and "{{" in value else inner(value)


Duration = Annotated[
    Any,
    PlainValidator(_duration),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
            "description": "30s, 5m, 24h, 7d, ISO 8601 (PT5M), seconds as a number, or a template",
        }
    ),
]
Condition = Annotated[
    Any,
    PlainValidator(_condition),
    WithJsonSchema({"type": ["string", "boolean"], "description": "a CEL expression; {{ }} around it is allowed"}),
]
Collection = Annotated[
    Any,
    PlainValidator(_expression),
    WithJsonSchema({"type": "string", "description": "a CEL expression; its value is a list or an object"}),
]
Names = Annotated[
    Any,
    PlainValidator(_names),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 100, "uniqueItems": True},
                {"type": "string", "pattern": r"^\s*\{\{[\s\S]*\}\}\s*$"},
            ],
            "description": "a list of names, or a template whose value is one",
        }
    ),
]
LockDef = Annotated[
    Any,
    PlainValidator(_lock),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": LOCKS},
            ],
            "description": "a name, or a list of names, with templates; only one run holds a lock of that name",
        }
    ),
]
ActionId = Annotated[
    Any,
    PlainValidator(_id),
    WithJsonSchema({"type": ["string", "integer"], "description": "an action's id, or its number"}),
]
KeyDef = Annotated[
    Any,
    PlainValidator(_id),
    WithJsonSchema({"type": ["string", "integer"], "description": "text with templates, or a whole number"}),
]
WaitFor = Annotated[Any, PlainValidator(_wait_kind), WithJsonSchema({"enum": written_kinds(), "type": "string"})]
SchemaDef = Annotated[
    Any, PlainValidator(_schema), WithJsonSchema({"type": ["object", "boolean"], "description": "a JSON Schema"})
]
RUN = "python:module.function, a name given by @step(name=…), http:METHOD URL, or lambda:NAME"
RUN_OR_CHILD = f"{RUN}; or workflow:name, a child run"
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtOnce = Annotated[
    AtLeastOne,
    WrapValidator(_or_template),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"\{\{"}],
            "description": "a number, or a template",
        }
    ),
]


class Written(BaseModel):
    """The base of all models: unknown keys are refused, values are not converted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=AliasGenerator(alias=written),
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class RetryDef(Written):
    """A retry policy."""

    max_retries: Count = 3
    backoff: Literal["constant", "linear", "exponential"] = "exponential"
    initial_delay: Duration = "1s"
    max_delay: Duration = "60s"
    jitter: Literal["none", "full"] = "none"
    on: list[str] = Field(default=[], description="error categories and error types that are retried")


class HttpDef(Written):
    """The headers and the encoding of an HTTP step."""

    headers: dict[str, Any] | None = Field(
        default=None, description="by name: text with templates, or {secret: ssm:NAME, prefix: …}"
    )
    body: Literal["json", "form"] | None = Field(default=None, description="how the input is written; default: json")


class CallDef(Written):
    """A call of user code."""

    input: Json = Field(default=None, description="any JSON with templates; default: the run's input and state")
    http: HttpDef | None = Field(default=None, description="for a step whose `run` begins with `http:`")
    timeout: Duration | None = None
    retry: RetryDef | None = None
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    at_most_once: bool | None = None
    pool: str | None = None


class CompensateDef(CallDef):
    """A step that undoes a node."""

    run: str = Field(description=RUN)
