"""The pydantic models of a definition, which are also the source of the JSON Schema in `editor_schema`.

Keys are snake_case; `shape` also accepts camelCase. Durations and expressions stay text, which the compiler parses.
Workers do not import this module, because stored definitions have been checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from stepwell.definition.formats.agent_models import AgentActionDef
from stepwell.definition.graph import Json
from stepwell.definition.model_parts import (
    RUN,
    RUN_OR_CHILD,
    AtLeastOne,
    AtOnce,
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
from stepwell.limits import APPROVERS, BATCH_STARTS, CONCURRENCY, EVENT_PENDING, HISTORY_WINDOW_MAX, YEAR_MS

_ACTION = "the same as run; beside `agent`: what the agent is asked to do, a part of its input"


def _policy(value: object, inner: ValidatorFunctionWrapHandler) -> object:
    try:
        return inner(value)
    except ValidationError:  # the message of a union would list every alternative
        raise PydanticCustomError("bad_policy", "Input should be a policy") from None


def _throttle(value: object, inner: ValidatorFunctionWrapHandler) -> object:
    try:
        return inner(value)
    except ValidationError:
        raise PydanticCustomError("throttle_type", "Input should be a limit's name, or its name and a key") from None


class StepDef(CallDef):
    """A call of user code, with its output and its reaction to a failure."""

    output: dict[str, Any] | None = Field(default=None, description="the values to write into the state")
    on_failure: Literal["abort", "skip", "compensate", "propagate", "isolate", "return"] | None = Field(
        default=None, description="propagate, isolate and return: the effect of a failed child run on its node"
    )


class ActionDef(CallDef):
    """A step that runs when a wait times out; its result is discarded."""

    run: str = Field(description=RUN)


class ApproversDef(Written):
    """Who may end an approval, and how many of them must agree."""

    need: Annotated[int, Field(ge=1, le=APPROVERS)] | None = None
    of: Names | None = None


class EscalateDef(Written):
    """Who else may end an approval after a while."""

    after: Duration
    to: Names


class WaitDef(Written):
    """A wait: for one thing, for the first of several (`any`), or for each of several (`all`)."""

    for_: WaitFor | None = None
    name: str | None = Field(default=None, description="for `event`: its name; default: EVENT_COMPLETED")
    type: str | None = Field(default=None, description="the kind of approval")
    key: KeyDef | None = None
    match: Condition | None = Field(default=None, description="a condition over `event`")
    data: Json = Field(default=None, description="shown as waiting_data")
    timeout: Duration | None = None
    on_timeout: Literal["fail", "continue", "retry"] | None = None
    max_retries: Count | None = None
    timeout_actions: list[ActionDef] | None = None
    on_reject: Literal["fail", "route"] | None = None
    documents: Names | None = Field(default=None, description="for `document`: the requested ones; default: any")
    approvers: ApproversDef | None = Field(default=None, description="for `approval`; default: anybody")
    escalate: EscalateDef | None = Field(default=None, description="for `approval`")
    heartbeat: Duration | None = Field(default=None, description="for `callback`: fails after this long without one")
    any: list[WaitDef] | None = Field(default=None, description="the wait ends when the first of these has ended")
    all: list[WaitDef] | None = Field(default=None, description="the wait ends when each of these has ended")


class CompensationDef(CallDef):
    """An entry in a DAG's list of compensations."""

    step: str = Field(description="the step to undo")
    run: str | None = Field(default=None, description=RUN)
    agent: str | None = Field(default=None, description="the same as run")
    action: str | None = Field(default=None, description=_ACTION)


class ChildDef(Written):
    """One of several child runs that a node starts together."""

    workflow: str
    name: str | None = Field(default=None, description="the name of its result; default: the workflow's name")
    input: Json = Field(default=None, description="any JSON with templates; default: the run's input and state")


class ThrottleDef(Written):
    """The named limit that a step waits for before each attempt."""

    limit: str = Field(description="a name of limits.yaml")
    key: KeyDef | None = Field(default=None, description="the limit is for each value by itself")


class PlaceDef(StepDef):
    """A node's action: run a step, start child runs, wait, sleep, or nothing."""

    run: str | None = Field(default=None, description=RUN_OR_CHILD)
    children: list[ChildDef] | None = None
    wait: WaitDef | None = None
    sleep: Duration | None = None
    description: str | None = None
    compensate: CompensateDef | None = None
    siblings: Literal["cancel", "finish"] | None = Field(
        default=None, description="the effect of a failed child on the other children"
    )
    parent_close: Literal["cancel", "abandon"] | None = Field(
        default=None, description="the effect on running children when the parent's wait ends"
    )
    lock: LockDef | None = None
    throttle: Annotated[str | ThrottleDef, WrapValidator(_throttle)] | None = Field(
        default=None, description="a limit of limits.yaml, which the step waits for before each attempt"
    )
    detached: bool | None = Field(default=None, description="true: an independent run; the result is its id")
    inherit_artifacts: bool | None = None


class DivergeRule(Written):
    """A rule that is evaluated first, after every ended attempt."""

    when: Condition | None = None
    back_to: str | None = None
    skip_to: str | None = None
    fail: str | None = None
    continue_: bool | None = None
    max: AtLeastOne | None = None


class BranchRule(DivergeRule):
    """A rule that is evaluated after diverge, for results only."""


class EntryDef(PlaceDef):
    """One entry of a timeline."""

    name: str
    max_visits: AtLeastOne | None = None
    diverge: list[DivergeRule] | None = None
    branch: list[BranchRule] | None = None


class TransitionDef(Written):
    """One transition of a graph's node."""

    to: str
    when: Condition | None = None
    priority: int | None = None
    max: AtLeastOne | None = None
    foreach: Collection | None = Field(default=None, description="a branch for each item of this list or object")
    as_: str | None = Field(default=None, description="the item's name in the state of its branch")
    max_concurrency: AtOnce | None = None


class EnoughDef(Written):
    """A join that fires when this many branches have arrived."""

    m_of_n: AtLeastOne


class TolerateDef(Written):
    """How many failed branches a join tolerates: a count, or a share of the fork."""

    count: Count | None = None
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None


class FanInDef(Written):
    """The join of a fork's branches."""

    policy: Annotated[Literal["all", "any", "first_successful"] | EnoughDef, WrapValidator(_policy)] | None = None
    merge: Literal["append", "merge_object", "keyed_by_branch", "last_wins"] | None = None
    target: str | None = Field(default=None, description="the name of the outputs in the state; default: the node's")
    tolerate: TolerateDef | None = None
    on_branch_failure: Literal["fail", "collect"] | None = None
    first_failure: Literal["wait", "fail"] | None = Field(
        default=None, description="of `any` and `m_of_n`: wait (default) for others that may succeed, or fail"
    )
    on_early_complete: Literal["cancel", "abandon"] | None = None


class NodeDef(PlaceDef):
    """One node of a graph."""

    max_visits: AtLeastOne | None = None
    transitions: list[TransitionDef] | None = None
    fan_out: Literal["first_match", "all"] | None = None
    fan_in: FanInDef | None = None


class DagStepDef(PlaceDef):
    """One step of a DAG, which begins when all its dependencies have ended."""

    name: str
    agent: str | None = Field(default=None, description="the same as run")
    action: str | None = Field(default=None, description=_ACTION)
    depends_on: list[str] | None = None


class EventDef(Written):
    """The settings of the events of one name."""

    consume_on_read: bool | None = Field(default=None, description="true: one waiter gets it; false: every waiter")
    delivery: Literal["first", "broadcast", "targeted"] | None = None
    expire_after: Duration | None = Field(default=None, description="0: only for current waiters")
    max_pending: Annotated[int, Field(ge=1, le=EVENT_PENDING)] | None = Field(
        default=None, description="how many are kept for each key"
    )


class TriggerDef(Written):
    """A trigger that starts a run: an event, or a schedule."""

    event: str | None = Field(default=None, description="the event's name")
    key: KeyDef | None = Field(default=None, description="one run for each value; default: one for each event")
    match: Condition | None = Field(default=None, description="a condition over `event`")
    schedule: str | None = Field(default=None, description="cron(0 9 * * ? *), rate(5 minutes) or 0 9 * * *")
    timezone: str | None = Field(default=None, description="a name of the IANA database; default: UTC")
    overlap: Literal["skip", "allow"] | None = None
    catch_up: Duration | None = Field(default=None, description="how late a missed firing may still fire")
    input: Json = Field(default=None, description="any JSON with templates over `event`; default: the event")


class ConcurrencyDef(Written):
    """How many runs may be under way at once; more wait in the order of their priority and age."""

    limit: Annotated[int, Field(ge=1, le=CONCURRENCY)]
    key: KeyDef | None = Field(default=None, description="the limit is for each value by itself")
    on_limit: Literal["queue", "cancel_newest", "cancel_oldest"] | None = Field(
        default=None, description="what a run over the limit does: it waits (default), is cancelled, or has others be"
    )
    while_waiting: Literal["hold", "release"] | None = Field(
        default=None, description="whether a run keeps its permit while it waits (default), or gives it back"
    )


class SingletonDef(Written):
    """One run at a time, of the workflow or of each key."""

    key: KeyDef | None = Field(default=None, description="one run at a time for each value")
    mode: Literal["skip", "cancel"] | None = Field(
        default=None, description="skip (default): a start beside it is cancelled; cancel: the earlier run is"
    )


class RateLimitDef(Written):
    """How many runs may begin in a time, evenly spread."""

    limit: AtLeastOne
    per: Duration
    burst: AtLeastOne | None = Field(default=None, description="how many may begin at once after a pause; default: 1")
    key: KeyDef | None = Field(default=None, description="the limit is for each value by itself")


class DebounceDef(Written):
    """Starts that follow each other quickly become one run, with the last input."""

    period: Duration = Field(description="the run begins when no start has come for so long")
    max_delay: Duration | None = Field(
        default=None, description="it begins so long after the first start at the latest; default: ten times the period"
    )
    key: KeyDef | None = Field(default=None, description="the starts of each value become a run of their own")


class BatchDef(Written):
    """Several starts become one run, whose input is `items`: the inputs of all of them."""

    max_size: Annotated[int, Field(ge=1, le=BATCH_STARTS)]
    max_delay: Duration = Field(description="the run begins so long after the first start, however few there are")
    key: KeyDef | None = Field(default=None, description="the starts of each value become a run of their own")


class WorkflowDef(Written):
    """A definition with exactly one of `nodes`, `timeline`, `steps`, `actions`, `function` and `States`."""

    workflow: str | None = Field(default=None, description="the name; default: the file's name")
    agent: str | None = Field(default=None, description="for `actions`: the same as workflow")
    description: str | None = None
    input_schema: SchemaDef | None = None
    output_schema: SchemaDef | None = None
    state_schema: SchemaDef | None = None
    timeout: Duration | None = None
    retry: RetryDef | None = Field(default=None, description="of each step that has no policy of its own")
    retry_policy: RetryDef | None = Field(default=None, description="the same as retry")
    failure_policy: Literal["fail", "compensate"] | None = None
    compensate_on: list[Literal["timeout", "cancel"]] | None = Field(
        default=None, description="the causes of compensation besides a failure"
    )
    internal: bool | None = Field(default=None, description="true: only another run may start it")
    retention: Duration | None = None
    lock: LockDef | None = None
    concurrency: ConcurrencyDef | None = None
    singleton: SingletonDef | None = None
    rate_limit: RateLimitDef | None = None
    debounce: DebounceDef | None = None
    batch: BatchDef | None = None
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="USD: a run that has cost more asks for an approval before its next step"
    )
    durability: Literal["step", "batch"] | None = Field(
        default=None, description="batch: the records of small idempotent steps are written together; default: step"
    )
    priority: int | None = None
    snapshot: Literal["none", "on_end", "on_wait"] | None = Field(
        default=None, description="when the run's state and history are saved as a file"
    )
    events: dict[str, EventDef] | None = Field(default=None, description="settings of events, by the event's name")
    triggers: list[TriggerDef] | None = Field(default=None, description="the events and schedules that start runs")
    start: str | None = Field(default=None, description="auto or manual; in `nodes` also the name of the first node")
    timeline: list[EntryDef] | None = None
    nodes: dict[str, NodeDef] | None = None
    steps: list[DagStepDef] | None = None
    actions: list[AgentActionDef] | None = None
    function: str | None = Field(default=None, description="python:module.name of a durable function")
    cleanup: Duration | None = Field(
        default=None, description="for `function`: how long it may clean up when its run is cancelled; default: 30 s"
    )
    version: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="for `function`: runs of another version keep theirs"
    )
    history_window: Annotated[int, Field(ge=0, le=HISTORY_WINDOW_MAX)] | None = Field(
        default=None, description="for `actions`: how many messages of the conversation are kept"
    )
    compensation: list[CompensationDef] | None = Field(
        default=None, description="for `steps`: the compensations by step"
    )
    Comment: str | None = Field(default=None, description="for `States`: what the state machine is for")
    QueryLanguage: str | None = Field(default=None, description="for `States`: JSONPath (default) or JSONata")
    StartAt: str | None = Field(default=None, description="for `States`: the first state")
    States: dict[str, Any] | None = Field(default=None, description="a state machine of Amazon States Language")
    TimeoutSeconds: Annotated[float, Field(gt=0, le=YEAR_MS // 1000)] | None = Field(
        default=None, description="for `States`: the same as timeout"
    )
    Version: str | None = Field(default=None, description="for `States`: the version of the language, 1.0")
    resources: dict[str, str] | None = Field(
        default=None, description="for `States`: what runs in place of a `Resource`, by its name, where * is allowed"
    )
