"""What users write, as pydantic models: the shape of a definition, and the source of the published JSON Schema.

Keys are snake_case; `shape` also takes the camelCase spelling. Durations and expressions stay as written: the compiler
reads them. Workers do not import this module: what is stored has been checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from stepwell.definition.graph import Json
from stepwell.errors import UserError
from stepwell.limits import APPROVERS, EVENT_PENDING, HISTORY_WINDOW_MAX


def written(name: str) -> str:
    """The key of a field: Python's reserved words carry an underscore behind them."""
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


def _policy(value: object, inner: ValidatorFunctionWrapHandler) -> object:
    try:
        return inner(value)
    except ValidationError:  # of a union, it would speak of every alternative
        raise PydanticCustomError("bad_policy", "Input should be a policy") from None


def _names(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        return value
    raise PydanticCustomError("names_type", "Input should be a list of names")


def _action_id(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("action_id_type", "Input should be an id")


def _schema(value: object) -> object:
    if isinstance(value, (dict, bool)):
        return value
    raise PydanticCustomError("schema_type", "Input should be a schema")


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
ActionId = Annotated[
    Any,
    PlainValidator(_action_id),
    WithJsonSchema({"type": ["string", "integer"], "description": "an action's id, or its number"}),
]
SchemaDef = Annotated[
    Any, PlainValidator(_schema), WithJsonSchema({"type": ["object", "boolean"], "description": "a JSON Schema"})
]
RUN = "python:module.function, a name given by @step(name=…), http:METHOD URL, or lambda:NAME"
_KNOWN_TYPES = ("send_message", "wait_for_response", "trigger_agent", "request_document", "request_signature",
                "assign_test", "wait_for_event", "delay")  # fmt: skip
RUN_OR_CHILD = f"{RUN}; or workflow:name, a child run"
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]


class Written(BaseModel):
    """Base of all: unknown keys are refused, values are not converted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=AliasGenerator(alias=written),
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class RetryDef(Written):
    """How a failed attempt is tried again."""

    max_retries: Count = 3
    backoff: Literal["constant", "linear", "exponential"] = "exponential"
    initial_delay: Duration = "1s"
    max_delay: Duration = "60s"
    jitter: Literal["none", "full"] = "none"
    on: list[str] = Field(default=[], description="error categories and error types that are retried")


class HttpDef(Written):
    """What an HTTP step sends beside its input."""

    headers: dict[str, Any] | None = Field(
        default=None, description="by name: text with templates, or {secret: ssm:NAME, prefix: …}"
    )
    body: Literal["json", "form"] | None = Field(default=None, description="how the input is written; default: json")


class CallDef(Written):
    """How the user's code is called."""

    input: Json = Field(default=None, description="any JSON with templates; default: the run's input and state")
    http: HttpDef | None = Field(default=None, description="of a step whose `run` begins with `http:`")
    timeout: Duration | None = None
    retry: RetryDef | None = None
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    at_most_once: bool | None = None
    pool: str | None = None


class StepDef(CallDef):
    """How the user's code is run, and what becomes of its result."""

    output: dict[str, Any] | None = Field(default=None, description="what is written into the state")
    on_failure: Literal["abort", "skip", "compensate", "propagate", "isolate", "return"] | None = Field(
        default=None, description="propagate, isolate and return: what a failed child run does to its node"
    )


class ActionDef(CallDef):
    """A step that runs when a wait times out; its result goes nowhere."""

    run: str = Field(description=RUN)


class ApproversDef(Written):
    """Who may end an approval, and how many of them have to agree."""

    need: Annotated[int, Field(ge=1, le=APPROVERS)] | None = None
    of: Names | None = None


class EscalateDef(Written):
    """Who may end an approval too when it has waited for so long."""

    after: Duration
    to: Names


class WaitDef(Written):
    """A wait: for one thing, for the first of several (`any`), or for each of several (`all`)."""

    for_: Literal["approval", "response", "event", "document", "signature", "test", "callback", "delay"] | None = None
    name: str | None = Field(default=None, description="of `event`: its name; default: EVENT_COMPLETED")
    type: str | None = Field(default=None, description="the kind of approval")
    key: str | None = None
    match: Condition | None = Field(default=None, description="a condition over `event`")
    data: Json = Field(default=None, description="shown as waiting_data")
    timeout: Duration | None = None
    on_timeout: Literal["fail", "continue", "retry"] | None = None
    max_retries: Count | None = None
    timeout_actions: list[ActionDef] | None = None
    on_reject: Literal["fail", "route"] | None = None
    documents: Names | None = Field(default=None, description="of `document`: those asked for; default: one, any")
    approvers: ApproversDef | None = Field(default=None, description="of `approval`; default: anybody")
    escalate: EscalateDef | None = Field(default=None, description="of `approval`")
    heartbeat: Duration | None = Field(default=None, description="of `callback`: it fails when none comes for so long")
    any: list[WaitDef] | None = Field(default=None, description="the first of these that ends, ends the wait")
    all: list[WaitDef] | None = Field(default=None, description="the wait ends when each of these has ended")


class CompensateDef(CallDef):
    """A step that undoes what a node has done."""

    run: str = Field(description=RUN)


class CompensationDef(CallDef):
    """The same in a DAG's list of compensations."""

    step: str = Field(description="the step that it undoes")
    run: str | None = Field(default=None, description=RUN)
    agent: str | None = Field(default=None, description="the same as run")
    action: str | None = Field(default=None, description="the same as run")


class ChildDef(Written):
    """One of several child runs that a node starts together."""

    workflow: str
    name: str | None = Field(default=None, description="of its result; default: the workflow's name")
    input: Json = Field(default=None, description="any JSON with templates; default: the run's input and state")


class PlaceDef(StepDef):
    """What a node does: run a step, start child runs, wait, sleep, or nothing."""

    run: str | None = Field(default=None, description=RUN_OR_CHILD)
    children: list[ChildDef] | None = None
    wait: WaitDef | None = None
    sleep: Duration | None = None
    description: str | None = None
    compensate: CompensateDef | None = None
    siblings: Literal["cancel", "finish"] | None = Field(
        default=None, description="what becomes of the other children when one fails"
    )
    parent_close: Literal["cancel", "abandon"] | None = Field(
        default=None, description="what becomes of children that still run when nobody waits for them any more"
    )
    detached: bool | None = Field(default=None, description="true: an independent run; the result is its id")
    inherit_artifacts: bool | None = None


class DivergeRule(Written):
    """Looked at first, after every attempt that ended."""

    when: Condition | None = None
    back_to: str | None = None
    skip_to: str | None = None
    fail: str | None = None
    continue_: bool | None = None
    max: AtLeastOne | None = None


class BranchRule(DivergeRule):
    """Looked at after diverge, on business results."""


class EntryDef(PlaceDef):
    """One entry of a timeline."""

    name: str
    max_visits: AtLeastOne | None = None
    diverge: list[DivergeRule] | None = None
    branch: list[BranchRule] | None = None


class TransitionDef(Written):
    """One way on from a node of a graph."""

    to: str
    when: Condition | None = None
    priority: int | None = None
    max: AtLeastOne | None = None
    foreach: Collection | None = Field(default=None, description="a branch for each item of this list or object")
    as_: str | None = Field(default=None, description="the item's name in the state of its branch")
    max_concurrency: AtLeastOne | None = None


class EnoughDef(Written):
    """A join that fires when so many branches have arrived."""

    m_of_n: AtLeastOne


class TolerateDef(Written):
    """How many failed branches a join takes: a count, or a share of the fork."""

    count: Count | None = None
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None


class FanInDef(Written):
    """Where the branches of a fork meet."""

    policy: Annotated[Literal["all", "any"] | EnoughDef, WrapValidator(_policy)] | None = None
    merge: Literal["append", "merge_object", "keyed_by_branch", "last_wins"] | None = None
    target: str | None = Field(default=None, description="the name of the outputs in the state; default: the node's")
    tolerate: TolerateDef | None = None
    on_branch_failure: Literal["fail", "collect"] | None = None
    on_early_complete: Literal["cancel", "abandon"] | None = None


class NodeDef(PlaceDef):
    """One node of a graph."""

    max_visits: AtLeastOne | None = None
    transitions: list[TransitionDef] | None = None
    fan_out: Literal["first_match", "all"] | None = None
    fan_in: FanInDef | None = None


class DagStepDef(PlaceDef):
    """One step of a DAG: it begins when all that it depends on have ended."""

    name: str
    agent: str | None = Field(default=None, description="the same as run")
    action: str | None = Field(default=None, description="the same as run")
    depends_on: list[str] | None = None


class AgentActionDef(Written):
    """One action of an agent: of a known type, or the name of a function."""

    action_type: str = Field(description=f"{', '.join(_KNOWN_TYPES)}, or a name given by @step(name=…)")
    id: ActionId | None = Field(default=None, description="default: its number and its type, as 1-send_message")
    parameters: dict[str, Any] | None = Field(default=None, description="with templates; default: every variable")
    next_action_id: ActionId | None = Field(default=None, description="what follows, or `end`; default: the next one")
    next_when: Condition | None = Field(default=None, description="`next_action_id` follows only where this holds")
    description: str | None = None
    timeout: Duration | None = None
    retry: RetryDef | None = None
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    at_most_once: bool | None = None
    pool: str | None = None
    on_failure: Literal["abort", "skip", "compensate"] | None = None
    compensate: CompensateDef | None = None
    max_visits: AtLeastOne | None = None

    @field_validator("parameters", mode="wrap")
    @classmethod
    def _of_its_type(cls, value: object, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        model = PARAMETERS.get(info.data.get("action_type", ""))
        return inner(value if model is None else model.model_validate(value).model_dump(exclude_unset=True))


class TimeoutParameters(Written):
    """How long an action waits, and what its time being up means."""

    timeout: Duration | None = None
    on_timeout: Literal["fail", "continue", "retry"] | None = None
    max_retries: Count | None = None
    timeout_actions: list[AgentActionDef] | None = None


class WaitParameters(TimeoutParameters):
    """Of an action that waits for an event."""

    key: str | None = None
    thread_id: str | None = Field(default=None, description="the same as key")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class ResponseParameters(WaitParameters):
    """Of `wait_for_response`."""

    expected_from: str | None = Field(default=None, description="what the event's `from` has to be")


class DocumentParameters(WaitParameters):
    """Of `request_document`."""

    documents: Names | None = Field(default=None, description="those asked for; default: one, any")


class SignatureParameters(WaitParameters):
    """Of `request_signature`."""

    document: Json = Field(default=None, description="what is to be signed, shown as a part of waiting_data")


class TestParameters(WaitParameters):
    """Of `assign_test`."""

    test: Json = Field(default=None, description="which one, shown as a part of waiting_data")


class EventParameters(WaitParameters):
    """Of `wait_for_event`."""

    name: str | None = Field(default=None, description="the event's name; default: EVENT_COMPLETED")


class DelayParameters(Written):
    """Of `delay`."""

    duration: Duration | None = None
    timeout: Duration | None = Field(default=None, description="the same as duration")
    data: dict[str, Any] | None = Field(default=None, description="shown as waiting_data")


class TriggerParameters(TimeoutParameters):
    """Of `trigger_agent`."""

    agent: str | None = Field(default=None, description="the workflow's name")
    wait_for_completion: bool | None = Field(default=None, description="false: an independent run; default: true")
    input: Json = Field(default=None, description="any JSON with templates; default: every variable")
    parameters: Json = Field(default=None, description="the same as input")
    on_failure: Literal["return", "propagate"] | None = Field(
        default=None, description="return (default): childExecutionSuccess tells; propagate: the action fails too"
    )
    parent_close: Literal["cancel", "abandon"] | None = None


PARAMETERS: dict[str, type[Written]] = {
    "wait_for_response": ResponseParameters,
    "trigger_agent": TriggerParameters,
    "request_document": DocumentParameters,
    "request_signature": SignatureParameters,
    "assign_test": TestParameters,
    "wait_for_event": EventParameters,
    "delay": DelayParameters,
}


class EventDef(Written):
    """What becomes of the events of one name."""

    consume_on_read: bool | None = Field(default=None, description="true: one waiter gets it; false: every waiter")
    delivery: Literal["first", "broadcast", "targeted"] | None = None
    expire_after: Duration | None = Field(default=None, description="0: for those who wait already")
    max_pending: Annotated[int, Field(ge=1, le=EVENT_PENDING)] | None = Field(
        default=None, description="kept for each key"
    )


class TriggerDef(Written):
    """What starts a run: an event, or a schedule."""

    event: str | None = Field(default=None, description="the event's name")
    key: str | None = Field(default=None, description="one run for each value; default: one for each event")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    schedule: str | None = Field(default=None, description="cron(0 9 * * ? *), rate(5 minutes) or 0 9 * * *")
    timezone: str | None = Field(default=None, description="a name of the IANA database; default: UTC")
    overlap: Literal["skip", "allow"] | None = None
    catch_up: Duration | None = Field(default=None, description="how late a firing is made up for")
    input: Json = Field(default=None, description="any JSON with templates over `event`; default: the event")


class WorkflowDef(Written):
    """A definition. Exactly one of `nodes`, `timeline`, `steps` and `actions` is there."""

    workflow: str | None = Field(default=None, description="the name; default: the file's name")
    agent: str | None = Field(default=None, description="of `actions`: the same as workflow")
    description: str | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    state_schema: SchemaDef | None = None
    timeout: Duration | None = None
    failure_policy: Literal["fail", "compensate"] | None = None
    compensate_on: list[Literal["timeout", "cancel"]] | None = Field(
        default=None, description="what leads to compensation besides a failure"
    )
    internal: bool | None = Field(default=None, description="true: only another run may start it")
    retention: Duration | None = None
    priority: int | None = None
    snapshot: Literal["none", "on_end", "on_wait"] | None = Field(
        default=None, description="when the run's state and history are kept as a file in the bucket"
    )
    events: dict[str, EventDef] | None = Field(default=None, description="settings of events, by the event's name")
    triggers: list[TriggerDef] | None = Field(default=None, description="what starts runs")
    start: str | None = Field(default=None, description="auto or manual; in `nodes` also the name of the first node")
    timeline: list[EntryDef] | None = None
    nodes: dict[str, NodeDef] | None = None
    steps: list[DagStepDef] | None = None
    actions: list[AgentActionDef] | None = None
    history_window: Annotated[int, Field(ge=0, le=HISTORY_WINDOW_MAX)] | None = Field(
        default=None, description="of `actions`: how many messages of the conversation are kept"
    )
    compensation: list[CompensationDef] | None = Field(default=None, description="of `steps`: what undoes which step")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a definition, for editors; both spellings of each key are in it."""
    schema = WorkflowDef.model_json_schema(by_alias=True)
    _add_parameters(schema)
    for model in (schema, *schema["$defs"].values()):
        properties = model["properties"]
        for name, shape in list(properties.items()):
            if shape.get("default", 0) is None:  # it says no more than that the key may be left out
                del shape["default"]
            properties[to_camel(name)] = shape
            if name in model.get("required", ()) and to_camel(name) != name:
                model["required"].remove(name)
                model["oneOf"] = [{"required": [name]}, {"required": [to_camel(name)]}]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Stepwell workflow"
    schema["oneOf"] = [{"required": [name]} for name in ("timeline", "nodes", "steps", "actions")]
    return schema


def _add_parameters(schema: dict[str, Any]) -> None:
    """What the known types of actions take."""
    found: dict[str, Any] = schema["$defs"]
    for model in PARAMETERS.values():
        made = model.model_json_schema(by_alias=True)
        found |= made.pop("$defs", {})
        found[model.__name__] = made
    found["AgentActionDef"]["allOf"] = [
        {
            "if": {"properties": {key: {"const": kind}}, "required": [key]},
            "then": {"properties": {"parameters": {"$ref": f"#/$defs/{model.__name__}"}}},
        }
        for kind, model in PARAMETERS.items()
        for key in ("action_type", "actionType")
    ]
