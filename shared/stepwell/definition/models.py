"""What users write, as pydantic models: the shape of a definition, and the source of the published JSON Schema.

Keys are snake_case; `shape` also takes the camelCase spelling. Durations and expressions stay as written: the compiler
reads them. Workers do not import this module: what is stored has been checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from stepwell.definition.agent_models import PARAMETERS, AgentActionDef
from stepwell.definition.graph import Json
from stepwell.definition.model_parts import (
    RUN,
    RUN_OR_CHILD,
    AtLeastOne,
    CallDef,
    Collection,
    CompensateDef,
    Condition,
    Count,
    Duration,
    KeyDef,
    LockDef,
    Names,
    RetryDef,
    SchemaDef,
    WaitFor,
    Written,
)
from stepwell.limits import APPROVERS, EVENT_PENDING, HISTORY_WINDOW_MAX

_ACTION = "the same as run; beside `agent`: what the agent is asked to do, a part of its input"


def _policy(value: object, inner: ValidatorFunctionWrapHandler) -> object:
    try:
        return inner(value)
    except ValidationError:  # of a union, it would speak of every alternative
        raise PydanticCustomError("bad_policy", "Input should be a policy") from None


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

    for_: WaitFor | None = None
    name: str | None = Field(default=None, description="of `event`: its name; default: EVENT_COMPLETED")
    type: str | None = Field(default=None, description="the kind of approval")
    key: KeyDef | None = None
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


class CompensationDef(CallDef):
    """The same in a DAG's list of compensations."""

    step: str = Field(description="the step that it undoes")
    run: str | None = Field(default=None, description=RUN)
    agent: str | None = Field(default=None, description="the same as run")
    action: str | None = Field(default=None, description=_ACTION)


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
    lock: LockDef | None = None
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
    action: str | None = Field(default=None, description=_ACTION)
    depends_on: list[str] | None = None


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
    key: KeyDef | None = Field(default=None, description="one run for each value; default: one for each event")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    schedule: str | None = Field(default=None, description="cron(0 9 * * ? *), rate(5 minutes) or 0 9 * * *")
    timezone: str | None = Field(default=None, description="a name of the IANA database; default: UTC")
    overlap: Literal["skip", "allow"] | None = None
    catch_up: Duration | None = Field(default=None, description="how late a firing is made up for")
    input: Json = Field(default=None, description="any JSON with templates over `event`; default: the event")


class WorkflowDef(Written):
    """A definition. Exactly one of `nodes`, `timeline`, `steps`, `actions` and `function` is there."""

    workflow: str | None = Field(default=None, description="the name; default: the file's name")
    agent: str | None = Field(default=None, description="of `actions`: the same as workflow")
    description: str | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    state_schema: SchemaDef | None = None
    timeout: Duration | None = None
    retry: RetryDef | None = Field(default=None, description="of each step that has no policy of its own")
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    failure_policy: Literal["fail", "compensate"] | None = None
    compensate_on: list[Literal["timeout", "cancel"]] | None = Field(
        default=None, description="what leads to compensation besides a failure"
    )
    internal: bool | None = Field(default=None, description="true: only another run may start it")
    retention: Duration | None = None
    lock: LockDef | None = None
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
    function: str | None = Field(default=None, description="python:module.name of a durable function")
    cleanup: Duration | None = Field(
        default=None, description="of `function`: how long it may clean up when its run is cancelled; default: 30 s"
    )
    version: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="of `function`: runs of another version go on with that one's"
    )
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
    schema["oneOf"] = [{"required": [name]} for name in ("timeline", "nodes", "steps", "actions", "function")]
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
