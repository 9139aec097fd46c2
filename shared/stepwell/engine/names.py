"""The names in scope of an expression, computed only when an expression reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from stepwell.definition.graph import GIVEN, ITEM, KEPT, MADE, READ, RETRIES, Graph, Json, Step
from stepwell.engine.copying import quick
from stepwell.engine.durable.turns import Turn
from stepwell.engine.records import Failure, RunInfo
from stepwell.engine.stored.codec import told_failure
from stepwell.engine.token import Branch, StepView, Token
from stepwell.limits import RUN_STEPS
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Undo:
    """A committed step that has a compensation, as its log tells it."""

    token: str
    slot: int  # of the record that committed it
    node: str
    at_ms: int
    input: Json
    output: Json
    seen: Token  # what the compensation's own input is made of: the token right after

    @property
    def place(self) -> str:
        return f"{self.token}@{self.slot}"


@quick
@dataclass(frozen=True)
class Spent:
    """What a run has cost. The other fields tell a branch what only the root token and the header have."""

    usd: float
    cost_cap: float = 0.0  # of the root token
    is_paused: bool = False  # the run, whose cost was not computed for that reason
    paused_by: str = ""  # who paused the run last, if that pause is over


@quick
@dataclass(frozen=True)
class Moment:
    """The inputs of a decision besides the token, passed in so that a repeated decision is the same."""

    graph: Graph
    run: RunInfo
    now_ms: int
    by: str
    jitter: float = 0.0  # in [0, 1)
    max_steps: int = RUN_STEPS  # records that the run may have
    rollback: tuple[Undo, ...] | None = None  # what is to be undone, the last first; None: not read, or not needed
    turn: Turn | None = None  # of a durable function; None: it was not asked, or there is none
    permitted: bool = False  # the run has its permit
    spent: Spent | None = None  # what the run has cost, if that was computed
    lane: int = 0  # so many branches of a fork that is recorded now share a log, where they may

    def ms_after(self, token: Token) -> int:
        """Returns the time of the token's next record: never before the record it follows, nor the run's start."""
        return max(self.now_ms, self.run.created_ms, token.last.at_ms if token.last else 0)


_OWN = frozenset({MADE, ITEM, READ, KEPT, GIVEN, RETRIES})
_NAMES = ("input", "state", "steps", "result", "error", "branch", "event", "run", "now")
_SEEN = frozenset({*_NAMES, "scope"})  # `scope`: for the expressions of formats whose variables have scopes


class Names(Mapping[str, Json]):
    """A lazy view of a token for expressions. Rules see only their own attempt's error; templates the last one."""

    def __init__(self, moment: Moment, token: Token, *, event: Json = None) -> None:
        self._moment, self._token, self._event = moment, token, event

    def without_event(self) -> Names:
        """Returns the names of the token alone."""
        return Names(self._moment, self._token)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def __contains__(self, name: object) -> bool:
        return name in _SEEN

    def __getitem__(self, name: str) -> Json:
        token, run = self._token, self._moment.run
        match name:
            case "input":
                return run.input
            case "state":
                return state_of(token)
            case "steps":
                outer = token.branch.steps if token.branch else {}
                return {node: _step_names(view) for node, view in {**outer, **token.steps}.items()}
            case "result":
                return token.result
            case "error":
                return _error_names(token.error)
            case "event":
                return self._event
            case "run":
                started_at = iso(run.started_ms or run.created_ms)
                return {"id": run.run_id, "workflow": run.workflow, "started_at": started_at, "tags": dict(run.tags)}
            case "now":
                return iso(self._moment.now_ms)
            case "branch" | "scope":
                return branch_of(token) if name == "branch" else scope_of(token)
        raise KeyError(name)


def visit_key(run: RunInfo, token: Token, slot: int) -> str:
    """Returns the idempotency key of a visit that began in this slot. One that was redriven keeps its first key."""
    if token.keyed_by:
        place = token.keyed_by if ":" in token.keyed_by else f"{token.keyed_by}:{token.id}"
        return f"{place}:{token.entered_slot}"
    return f"{run.run_id}:{token.id}:{slot}"


def node_of(graph: Graph, token: Token) -> str:
    """Returns the node where the token is, or begins."""
    return token.node or (token.branch.start if token.branch else graph.start)


def state_of(token: Token) -> dict[str, Json]:
    """The scope, and the last error in it as `_last_error`.

    A branch sees its parent's, which stands still, with its item by name and all that is its own under `_branch`.
    """
    error = {"_last_error": _error_names(token.error)} if token.error else {}
    if token.branch is None:
        return {**token.scope, **error}
    return {**_outer(token.branch), **error, "_branch": branch_of(token)}


def shown_state(token: Token) -> dict[str, Json]:
    """Returns the state as people see it: without what the compiler's own nodes need."""
    state = shown_names(state_of(token))
    if token.branch is not None:
        state["_branch"]["output"] = shown_output(token)
    return state


def shown_names(state: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the state without the names that the compiler's own nodes need, also in its branch."""
    found = shown_scope(state)
    if isinstance(branch := found.get("_branch"), dict) and isinstance(branch.get("output"), dict):
        found["_branch"] = {**branch, "output": shown_scope(branch["output"])}
    return found


def shown_output(token: Token) -> Json:
    """Returns what a branch has made so far: its result where a node says so, else its scope."""
    return token.result if MADE in token.scope else shown_scope(token.scope)


def shown_scope(scope: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in scope.items() if name not in _OWN}


def scope_of(token: Token) -> dict[str, Json]:
    """Returns all that the token and those that it is a branch of have written, the inner ones last."""
    return {**(token.branch.within if token.branch else {}), **token.scope}


def _outer(branch: Branch) -> Mapping[str, Json]:
    return {**branch.state, branch.item_name: branch.item} if branch.item_name else branch.state


def branch_of(token: Token) -> Json:
    """Returns the branch data that expressions see; null outside a branch."""
    branch = token.branch
    if branch is None:
        return None
    facts = {"index": branch.index, "total": branch.total, "fork": branch.fork, "item": branch.item}
    return {**facts, "output": dict(token.scope)}


def default_input(run: RunInfo, token: Token) -> dict[str, Json]:
    """Returns a step's default input: the run's input overlaid with the scope."""
    given = run.input if isinstance(run.input, dict) else {} if run.input is None else {"input": run.input}
    if token.branch is None:
        return {**given, **token.scope}
    outer = {name: value for name, value in _outer(token.branch).items() if name != "_branch"}
    return {**given, **outer, **token.scope}


def step_input(step: Step, names: Mapping[str, Json], default: Json) -> Json:
    """What a step is called with. Raises ExpressionError for a template that cannot be filled in."""
    given = step.input.evaluate(names) if step.input else default
    if step.action is None or not isinstance(given, dict):
        return given
    return {**given, "action": step.action.evaluate(names)}


def usd(amount: float) -> str:
    """Returns an amount for people: six digits that count, and never an exponent."""
    return f"{Decimal(f'{amount:.6g}'):f}"


LAST_MS = 253_402_300_799_000  # the last second that RFC 3339 can write


def iso(at_ms: int) -> str:
    """RFC 3339, UTC, milliseconds; a later time than the year 9999 is its end."""
    at = datetime.fromtimestamp(min(at_ms, LAST_MS) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _step_names(view: StepView) -> dict[str, Json]:
    error = _error_names(view.error)
    return {"output": view.output, "status": view.status, "attempts": view.attempts, "error": error}


def _error_names(failure: Failure | None) -> dict[str, Json] | None:
    if failure is None:
        return None
    return {"step": "", "attempts": 1, "data": None, **(told_failure(failure) or {})}
