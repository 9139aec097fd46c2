"""Runs as the API shows them. What a single run's view says is read off its log, never off a header that lags behind.

The TypedDicts are the shapes that the OpenAPI document names.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.api.dags import at_work, done, step_views
from stepwell.definition.graph import Json
from stepwell.engine.forks import fork_id
from stepwell.engine.names import iso, node_of, state_of
from stepwell.engine.records import Failure, Fork, Status
from stepwell.engine.table import Phase
from stepwell.engine.token import StepView, Token
from stepwell.runtime.logbook import Standing
from stepwell.runtime.ports import Header

RESULT_TYPES = {
    Status.COMPLETED: "success",
    Status.FAILED: "failure",
    Status.TIMED_OUT: "timeout",
    Status.CANCELLED: "cancelled",
    Status.COMPENSATED: "rolled_back",
}


class ErrorView(TypedDict):
    """An error: `category` decides what becomes of it, `type` is a class name or a code."""

    type: str
    category: str
    message: str
    step: str
    attempts: int
    data: Json


class StepResult(TypedDict):
    """What became of a step or wait, in its latest visit."""

    status: str
    output: Json
    error: ErrorView | None
    attempts: int
    started_at: str | None
    ended_at: str | None


class ForkView(TypedDict):
    """The fork that a run stands at; its branches are listed apart."""

    id: str
    node: str
    width: int
    join: str | None


class BranchView(TypedDict):
    """One branch of a fork."""

    id: str
    index: int
    item: Json
    status: str
    phase: str
    current_step: str | None
    waiting_for: str | None
    waiting_until: str | None
    output: dict[str, Json]
    error: ErrorView | None
    steps: dict[str, StepResult]
    forked: ForkView | None
    ended_at: str | None


class RunView(TypedDict):
    """A run."""

    run_id: str
    workflow: str
    version: str
    status: str
    phase: str
    outcome: str | None
    current_steps: list[str]
    progress: str
    waiting_for: str | None
    waiting_until: str | None
    waiting_data: Json
    pending_reason: str | None
    input: Json
    state: dict[str, Json]
    steps: dict[str, StepResult]
    forked: ForkView | None
    result: Json
    error: ErrorView | None
    result_type: str | None
    result_summary: str | None
    cancelled_by: str | None
    cancel_reason: str | None
    parent: str | None
    children: list[str]
    tags: dict[str, str]
    priority: int
    cost: dict[str, int]
    created_at: str
    started_at: str | None
    ended_at: str | None
    links: dict[str, str]


class RunSummary(TypedDict):
    """A run in a list: what its header says, which may lag a moment behind its log."""

    run_id: str
    workflow: str
    version: str
    status: str
    current_steps: list[str]
    waiting_for: str | None
    waiting_since: str | None
    waiting_until: str | None
    tags: dict[str, str]
    priority: int
    parent: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    links: dict[str, str]


def run_view(at: Standing, now_ms: int) -> RunView:
    """The run as its root token's log has it."""
    header, token, status = at.header, at.token, status_of(at)
    parked = token.parked if status is Status.WAITING else None
    cancelled = token.last if status is Status.CANCELLED else None
    return RunView(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        status=status.value,
        phase=phase_of(at).value,
        outcome=None,
        current_steps=current_steps(at),
        progress=progress(at),
        waiting_for=parked.kind if parked else None,
        waiting_until=_time(parked.until_ms) if parked else None,
        waiting_data=parked.data if parked else None,
        pending_reason=_pending_reason(at, now_ms) if status is Status.PENDING else None,
        input=header.input,
        state=state_of(token),
        steps=_steps(at),
        forked=fork_view(token),
        result=token.result if status is Status.COMPLETED else None,
        error=error_view(error_of(token)),
        result_type=RESULT_TYPES.get(status),
        result_summary=summary_of(at),
        cancelled_by=(cancelled.who or None) if cancelled else None,
        cancel_reason=(cancelled.reason or None) if cancelled else None,
        parent=header.parent,
        children=[],
        tags=dict(header.tags),
        priority=header.priority,
        cost={"steps": token.calls, "records": token.slot + 1},
        created_at=iso(header.created_ms),
        started_at=_time(header.started_ms),
        ended_at=iso(token.last.at_ms) if token.ended and token.last else None,
        links=links(header.run_id),
    )


def fork_view(token: Token) -> ForkView | None:
    """The fork that a token waits at."""
    fork = token.last.next if token.last is not None and not token.ended else None
    if not isinstance(fork, Fork):
        return None
    return ForkView(id=fork_id(token.id, token.slot), node=token.node, width=fork.width, join=fork.join or None)


def branch_view(at: Standing) -> BranchView:
    """A branch as its own log has it."""
    token, branch = at.token, at.token.branch
    waiting = token.parked if not token.ended and token.resumption is None else None
    return BranchView(
        id=token.id,
        index=branch.index if branch else 0,
        item=branch.item if branch else None,
        status=_branch_status(token),
        phase=token.phase.value,
        current_step=None if token.ended else node_of(at.graph, token),
        waiting_for=waiting.kind if waiting else None,
        waiting_until=_time(waiting.until_ms) if waiting else None,
        output=dict(token.scope),
        error=error_view(error_of(token)),
        steps={name: _step_result(step) for name, step in token.steps.items()},
        forked=fork_view(token),
        ended_at=iso(token.last.at_ms) if token.ended and token.last else None,
    )


def _branch_status(token: Token) -> str:
    if token.end is not None:
        return token.end.status.value
    if token.parked is not None and token.resumption is None:
        return Status.WAITING.value
    return Status.PENDING.value if token.last is None else Status.RUNNING.value


def run_summary(header: Header) -> RunSummary:
    """The run as its header has it."""
    return RunSummary(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        status=header.status.value,
        current_steps=[header.waiting_node] if header.waiting_node else [],
        waiting_for=header.waiting_for or None,
        waiting_since=_time(header.waiting_since_ms),
        waiting_until=_time(header.waiting_until_ms),
        tags=dict(header.tags),
        priority=header.priority,
        parent=header.parent,
        created_at=iso(header.created_ms),
        started_at=_time(header.started_ms),
        ended_at=_time(header.ended_ms),
        links={"self": f"/runs/{header.run_id}"},
    )


def status_of(at: Standing) -> Status:
    """The status by the log. The header alone knows of a worker that has the run and has written nothing yet."""
    token = at.token
    if token.end is not None:
        return token.end.status
    if token.parked is not None and token.resumption is None:
        return Status.WAITING
    if token.phase is not Phase.INITIALIZING or at.header.started_ms:
        return Status.RUNNING
    return Status.IDLE if at.header.idle and token.last is None else Status.PENDING


def phase_of(at: Standing) -> Phase:
    """The token's phase; a run that a worker has is not initializing any more."""
    running = status_of(at) is Status.RUNNING
    return Phase.EXECUTING_STEP if running and at.token.phase is Phase.INITIALIZING else at.token.phase


def current_steps(at: Standing) -> list[str]:
    """The nodes that the run stands at; of a DAG the steps that run or wait."""
    if at.token.ended or status_of(at) in {Status.IDLE, Status.PENDING}:
        return []
    return at_work(step_views(at)) if at.graph.dag else [node_of(at.graph, at.token)]


def progress(at: Standing) -> str:
    """`done/all`: entries of a timeline before the current one, ended steps of a DAG, else nodes that were left."""
    token, names = at.token, list(at.graph.nodes)
    if token.end is not None and token.end.status is Status.COMPLETED:
        ended = len(names)
    elif at.graph.dag:
        ended = done(step_views(at).values())
    elif at.graph.format == "timeline":
        ended = names.index(token.node) if token.node in names else 0
    else:
        ended = len(set(token.visits) - {token.node})
    return f"{ended}/{len(names)}"


def error_of(token: Token) -> Failure | None:
    """What the run ended with, or while it lives the last error that nothing has succeeded after."""
    return token.end.error if token.end is not None else token.error


def error_view(failure: Failure | None) -> ErrorView | None:
    """The error with every field of it."""
    if failure is None:
        return None
    return ErrorView(
        type=failure.type,
        category=failure.category,
        message=failure.message,
        step=failure.step,
        attempts=failure.attempts,
        data=failure.data,
    )


def summary_of(at: Standing) -> str | None:
    """How an ended run ended, in a sentence."""
    token = at.token
    if token.end is None or token.last is None:
        return None
    last, error = token.last, token.end.error
    match token.end.status:
        case Status.COMPLETED:
            return f"completed in {(last.at_ms - (at.header.started_ms or at.header.created_ms)) / 1000:g} s"
        case Status.CANCELLED:
            by = f" by {last.who}" if last.who else ""
            return f"cancelled{by}: {last.reason}" if last.reason else f"cancelled{by}"
        case status:
            where = f" at {error.step}" if error and error.step else ""
            return f"{status.value}{where}: {error.message}" if error else status.value


def links(run_id: str) -> dict[str, str]:
    """Where to ask on."""
    base = f"/runs/{run_id}"
    names = ("history", "result", "explain", "graph", "branches")
    return {"self": base, **{name: f"{base}/{name}" for name in names}}


def _steps(at: Standing) -> dict[str, StepResult]:
    """What the log tells of each step, and the one that runs for the first time, of which it tells nothing yet.

    Of a DAG: every step.
    """
    if at.graph.dag:
        return {name: _step_result(step) for name, step in step_views(at).items()}
    shown = {name: _step_result(step) for name, step in at.token.steps.items()}
    for name in current_steps(at):
        if name not in shown and at.graph.nodes[name].step is not None:
            since_ms = at.token.last.at_ms if at.token.last else at.header.started_ms
            shown[name] = _step_result(StepView("running", attempts=at.token.attempt, started_ms=since_ms))
    return shown


def _pending_reason(at: Standing, now_ms: int) -> str:
    return f"starts at {iso(at.header.start_at_ms)}" if at.header.start_at_ms > now_ms else "queued"


def _step_result(step: StepView) -> StepResult:
    return StepResult(
        status=step.status,
        output=step.output,
        error=error_view(step.error),
        attempts=step.attempts,
        started_at=_time(step.started_ms),
        ended_at=_time(step.ended_ms),
    )


def _time(at_ms: int | None) -> str | None:
    return iso(at_ms) if at_ms else None
