"""The graph every definition format compiles to: what the engine knows of a workflow. Frozen data, no behaviour.

Standard library only, as is `compiled`: the engine imports these and little else of the definition package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import TypeAlias

from stepwell.definition import compiled
from stepwell.definition.compiled import Collection, Errors, Expression, Schema, Shaping
from stepwell.values import dataclass

Json: TypeAlias = compiled.Json

END = "end"  # the target that ends the run
CALLBACK_MARK = "stepwell-task-token-"  # and the run's id, in a step's input: where its callback's token is put in
DEFAULT_POOL = "default"  # of the workers: who runs a step that names none
MADE, ITEM, RETRIES = "$made", "$item", "$retries"  # in a scope, for added nodes. MADE: the result is the output
# So are what a node has read for the fork after it, what its branches came to for a node after that, a branch's input.
READ, KEPT, GIVEN = "$read", "$kept", "$given"
PART = "."  # in the name of each node that a compiler adds as a part of another
NEVER_RETRIED = frozenset({"validation", "governance"})  # categories of errors, whatever a retry policy names


def dependency_id(name: str, at: int) -> str:
    """Returns the id of the edge to a step of a DAG from the entry of its `depends_on` at this index."""
    return f"{name}.depends_on[{at}]"


@dataclass(frozen=True, slots=True)
class Retrier:
    """One of several policies of a step: the first that takes an error counts its retries, apart from the others."""

    errors: Errors
    max_retries: int = 3
    initial_delay_ms: int = 1_000
    rate: float = 2.0  # each delay is so many times the one before
    max_delay_ms: int | None = None
    jitter: str = "none"  # none | full


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and when a failed attempt is tried again. `on` holds error categories and error types."""

    max_retries: int = 3
    backoff: str = "exponential"  # constant | linear | exponential
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 60_000
    jitter: str = "none"  # none | full
    on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Throttle:
    """The named limit whose permit a step needs for each attempt."""

    limit: str
    key: Expression | None = None  # the limit is for each value by itself


Throws: TypeAlias = Callable[[str, str, Json], bool]

CALLS = ("http:", "lambda:", "arn:")  # a step whose `run` begins so calls another system, and is no code of the folder


@dataclass(frozen=True)  # without slots: a durable function makes one for each operation, as a copy
class Step:
    """User code that a node runs. None means: the definition is silent, the function's own defaults apply."""

    # python:module.function, the bare name given by @step(name=…), http:METHOD URL, lambda:name, or a machine's
    # arn:…:SERVICE:ACTION
    run: str
    input: Expression | None = None
    action: Expression | None = None  # what an agent is asked to do: a part of its input
    output: Expression | None = None  # evaluates to an object: what is written into the scope
    timeout_ms: int | None = None
    retry: Retry | None = None
    retriers: tuple[Retrier, ...] = ()  # in place of `retry`
    at_most_once: bool | None = None
    pool: str | None = None
    on_failure: str = "abort"  # abort | skip | compensate
    default_retry: Retry | None = None  # the format's, where neither the definition nor the function says
    http: Expression | None = None  # the request of an HTTP step: {method, url, headers, body}
    uses: tuple[tuple[str, str], ...] = ()  # what the worker of such a call needs: kinds and names, as `calls_of` tells
    writes: str = "result"  # by default: result (by the node's name) | keys (an object's too) | run_id (as one too)
    window: int | None = None  # the most messages of the conversation that its message joins; None: none
    throttle: Throttle | None = None
    limits: Expression | None = None  # {timeout, heartbeat} in seconds, for an attempt; else what is written
    callback: Wait | None = None  # what it returns is dropped: its result is what comes by the token in its input
    throws: Throws | None = None  # whether its function threw a failure of this type and category, with this data
    fails_as: str = ""  # the type of every failure of its attempts; "": each has its own


@dataclass(frozen=True, slots=True)
class Child:
    """A run that a node starts."""

    name: str  # of its result, among those of its siblings
    workflow: str
    input: Expression | None = None  # None: the run's input and the scope, as a step's


@dataclass(frozen=True, slots=True)
class Call:
    """Child runs that a node starts together and waits for."""

    children: tuple[Child, ...]
    single: bool = False  # `run: workflow:name`: the child's result is the node's own; else an object of them by name
    timeout: Expression | None = None  # a templated timeout; else timeout_ms
    timeout_ms: int | None = None
    output: Expression | None = None
    retry: Retry | None = None  # children that failed are started anew, as other runs
    on_failure: str = "abort"  # abort | skip | compensate, as a step's
    failed_child: str = "propagate"  # propagate: the node fails | isolate: null | return: the result says how it ended
    siblings: str = "cancel"  # cancel | finish: the others, when one fails
    parent_close: str = "cancel"  # cancel | abandon: children that still run when nobody waits for them any more
    kind: str = "children"  # children | agent: what the wait is called
    brings_variables: bool = False  # the child's variables become those of this run
    on_timeout: str = "fail"  # fail | continue | retry: other runs in their place
    max_retries: int = 3  # for on_timeout: retry
    timeout_actions: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Approvers:
    """Who may end an approval, and how many of them have to agree."""

    need: int = 1
    of: Expression | None = None  # a list of names; None: anybody
    escalate_after_ms: int | None = None
    escalate_to: Expression | None = None  # a list of names, who may answer too from then on


@dataclass(frozen=True, slots=True)
class EventSettings:
    """How the events of one name are delivered, and for how long they are kept."""

    consume_on_read: bool = True  # one waiter gets it; False: every waiter
    delivery: str = ""  # first | broadcast | targeted; "": as `consume_on_read` says
    expire_after_ms: int = 7 * 24 * 3_600_000  # 0: for those who wait already
    max_pending: int = 10_000  # for each key


@dataclass(frozen=True, slots=True)
class Wait:
    """A node that parks its token. `kind` is a row of the table of waits, or `any` or `all` of those in `arms`."""

    kind: str  # approval | event | response | delay | sleep | document | signature | test | callback | any | all
    event: str | None = None  # the event's name, for the kinds that wait for one; `response`: MESSAGE_RECEIVED
    key: Expression | None = None
    match: Expression | None = None  # over `event`
    sender: Expression | None = None  # whom the event is to be from: text that `event.from` equals
    data: Expression | None = None
    timeout: Expression | None = None  # a templated timeout or duration; else timeout_ms
    timeout_ms: int | None = None  # None: no limit. Defaults are filled in by the compiler
    on_timeout: str = "fail"  # fail | continue | retry
    max_retries: int = 3  # for on_timeout: retry
    timeout_actions: tuple[Step, ...] = ()
    on_reject: str = "fail"  # fail | route
    on_failure: str = "abort"  # abort | skip | compensate: where it ends as an error
    output: Expression | None = None
    arms: tuple[Wait, ...] = ()
    documents: Expression | None = None  # of `document`: the names of those asked for
    approvers: Approvers | None = None  # of `approval`
    heartbeat_ms: int | None = None  # of `callback`: it fails when none comes for so long
    window: int | None = None  # the most messages of the conversation that the event joins; None: none


@dataclass(frozen=True, slots=True)
class Rule:
    """One way on from a node. With neither `to` nor `fail`, it lets the next stage decide (`continue`)."""

    id: str  # e.g. charge.diverge[0]; counted against `max`, shown in the history
    stage: str  # diverge | branch | transition | next
    when: Expression | None = None
    to: str | None = None  # a node's name, or END
    fail: str | None = None  # the error type the run fails with
    max_uses: int | None = None
    foreach: Collection | None = None  # a list or an object: a branch for each of its items
    item_name: str | None = None  # the item's name in a branch's state
    max_concurrency: int | None = None  # of the branches of this rule
    bounds: Expression | None = None  # {concurrency, count, percent} of its branches; else what is written

    @property
    def reads_error(self) -> bool:
        return self.when is not None and self.when.reads_error


@dataclass(frozen=True, slots=True)
class FanIn:
    """Where the branches of a fork meet: when the join fires, and how their outputs are merged."""

    policy: str = "all"  # all | any | m_of_n
    need: int = 0  # of m_of_n
    # append | merge_object | keyed_by_branch | last_wins | results (of the branches, in order)
    # | outcomes (of those that ended: {index, given, output or error}; {outcomes, failure} if too many have failed)
    merge: str = "append"
    target: str = ""  # the name in the scope; the compiler fills in the node's own
    on_early_complete: str = "cancel"  # cancel | abandon: the branches that still run when the join has fired
    tolerate_count: int | None = None
    tolerate_percent: float | None = None  # 0 to 100, of the fork's branches
    on_branch_failure: str = "fail"  # fail | collect: errors appear among the outputs
    first_failure: str = "wait"  # of any and m_of_n. wait: for others that may succeed | fail
    tells: str = "branch"  # of its failure. branch: which failed, and how many | error: the first error alone | unmet


@dataclass(frozen=True, slots=True)
class Durable:
    """A durable function, which decides its operations while it runs."""

    path: str  # python:module.name
    cleanup_ms: int = 0  # how long it may clean up when its run is cancelled


@dataclass(frozen=True)  # no slots: it keeps what its rules come to
class Node:
    """A place in the graph. No rules: the run ends here; inside a fork, the branch does.

    It forks when it has members, when `fan_out` is `all`, or when one of its rules has `foreach`.
    """

    name: str
    step: Step | None = None
    wait: Wait | None = None
    call: Call | None = None
    compensate: Step | None = None  # undoes what this node's step, or its child run, has done
    rules: tuple[Rule, ...] = ()  # in the order in which they are tried: diverge, branch, transition by priority, next
    max_visits: int = 1_000
    fan_out: str = "first_match"  # first_match | all: every rule that applies gets a branch
    fan_in: FanIn | None = None
    join: str = ""  # of a node that forks: the fan-in node where its branches meet; empty: the end of the fork
    lock: Expression | None = None  # a name or a list of names: what is held while the node is not left
    durable: Durable | None = None  # the function of this node, or the one that its end returns to
    members: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # the first node of each branch, with its dependencies
    label: tuple[int, str] | None = None  # its number and type in log lines; None: it has none
    is_made: bool = False  # the compiler added it: the definition has no such node
    part_of: str = ""  # of a node that the compiler added: the node of the definition that people see in its place
    shaping: Shaping | None = None  # of its result; None: what its step, its wait or its branches brought
    failing: Expression | None = None  # of a node that fails: {error, cause}

    @cached_property
    def stages(self) -> tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[Rule, ...]]:
        """Its rules in the order in which they are looked at: diverge, branch, and those that follow."""
        first, second = (tuple(rule for rule in self.rules if rule.stage == one) for one in ("diverge", "branch"))
        return first, second, tuple(rule for rule in self.rules if rule.stage not in ("diverge", "branch"))


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """A run starts on an event. Its expressions see `event`, the payload, and `now`, when it was sent."""

    event: str  # the event's name
    key: Expression | None = None  # one run for each value; None: one for each event
    match: Expression | None = None
    input: Expression | None = None  # None: the payload


@dataclass(frozen=True, slots=True)
class ScheduleTrigger:
    """A run starts at the times of a schedule. `event` is {schedule, scheduled_at}; `now` is when it was due."""

    name: str  # <workflow>:<number>
    expression: str  # as written; definition.timetable reads it
    timezone: str = "UTC"
    input: Expression | None = None  # None: the event
    overlap: str = "skip"  # skip | allow: a firing while the run of an earlier one lives
    catch_up_ms: int | None = None  # how late a firing may be made up for; None: the last one, however late


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many runs of a workflow, or of each key, may be under way at once."""

    limit: int
    key: Expression | None = None
    on_limit: str = "queue"  # queue | cancel_newest | cancel_oldest
    while_waiting: str = "hold"  # hold | release: what a run that waits does with its permit


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many runs of a workflow, or of each key, may begin: `limit` in `per_ms`, up to `burst` of them at once."""

    limit: int
    per_ms: int
    burst: int = 1
    key: Expression | None = None


@dataclass(frozen=True, slots=True)
class Gathering:
    """Which starts become one run: those of one key, until `period_ms` has passed without another, or so many came.

    `max_delay_ms` counts from the first of them.
    """

    mode: str  # debounce: the run has the last input | batch: it has them all
    max_delay_ms: int
    period_ms: int = 0  # debounce
    max_size: int = 0  # batch
    key: Expression | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """A named limit of the folder: how many steps hold its permits at once, and how fast they get them."""

    concurrency: int | None = None
    rate: RateLimit | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled workflow. `version` is the hash of its canonical document, to which runs are pinned."""

    name: str
    version: str
    format: str  # nodes | timeline | steps | actions | function
    start: str
    nodes: Mapping[str, Node]  # in the order of the definition
    document: Mapping[str, Json]  # the definition as written, envelope removed: what is stored under the version
    description: str = ""
    input_schema: Schema | None = None
    output_schema: Schema | None = None
    state_schema: Schema | None = None
    timeout_ms: int | None = None
    retention_ms: int = 30 * 24 * 3_600_000
    priority: int = 0
    start_mode: str = "auto"  # auto | manual: a run that a trigger makes is idle until somebody starts it
    snapshot: str = "none"  # none | on_end | on_wait
    failure_policy: str = "fail"  # fail | compensate
    compensate_on: frozenset[str] = frozenset()  # timeout, cancel: what also leads to compensation
    announces: str = ""  # the event that the end of a run sends, with the run's id as its key
    internal: bool = False  # only another run may start it
    events: Mapping[str, EventSettings] = field(default_factory=dict)  # by the event's name
    labels: Mapping[str, str] = field(default_factory=dict)
    event_triggers: tuple[EventTrigger, ...] = ()
    schedules: tuple[ScheduleTrigger, ...] = ()
    lock: Expression | None = None  # a name or a list of names: what the run holds from before its first node on
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    gathering: Gathering | None = None
    max_cost_usd: float | None = None  # beyond it the run asks for an approval before its next step
    durability: str = "step"  # step | batch: what is appended together
    in_order: bool = False  # a run passes its nodes in their order, and leaves out some

    @property
    def is_batched(self) -> bool:
        return self.durability == "batch"

    @property
    def first(self) -> Node:
        """The node where a run begins: the unnamed one if the compiler added one, else `start`."""
        return self.nodes.get("") or self.nodes[self.start]

    @property
    def replays(self) -> bool:
        """Whether code says where a run is, from its journal, and answers callers. Else the run is at one of the nodes.

        The operations of such code are no nodes.
        """
        return self.first.durable is not None

    @property
    def code(self) -> str:
        """The path of the code that is replayed, such as python:module.name; empty if there is none."""
        return self.first.durable.path if self.first.durable else ""

    @property
    def number(self) -> int | None:
        """The number that its author gave this version of a durable function; None if none."""
        return self.document.get("version") if self.replays else None

    @property
    def cleanup_ms(self) -> int:
        """How long a cancelled run may clean up."""
        return self.first.durable.cleanup_ms if self.first.durable else 0

    def seen_as(self, name: str) -> str:
        """The node that people see for this one: for one that the compiler added, the node that it is a part of."""
        node = self.nodes.get(name)
        return name if node is None else node.part_of or name

    def place(self, name: str) -> Node | None:
        """The node of this name. An operation of code that is replayed is at the node of that code."""
        return self.nodes.get(name) or (self.first if self.replays else None)

    # -- for views; the engine and the runtime read the nodes instead

    @property
    def shown(self) -> Mapping[str, Node]:
        """The nodes of the definition, without those that the compiler added."""
        return {name: node for name, node in self.nodes.items() if not node.is_made}

    @property
    def dependencies(self) -> Mapping[str, tuple[str, ...]]:
        """Each node's dependencies, if the run is one fork of its nodes; else empty."""
        return self.first.members
