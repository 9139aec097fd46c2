"""Reads a run's state off its log: status, wait, current nodes, progress, and end."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stepwell.api.runs.dags import at_work, done, live_steps, step_views
from stepwell.api.runs.steps import StepResult
from stepwell.definition.graph import Graph
from stepwell.definition.text import counted
from stepwell.engine.durable.tasks import wait_shown
from stepwell.engine.forks.lines import awaited
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.holding import can_be_held
from stepwell.engine.limits.permits import Held
from stepwell.engine.names import Undo, iso, node_of
from stepwell.engine.records import Failure, Fork, Kind, Parked, Status
from stepwell.engine.table import Phase
from stepwell.engine.token import Token, Undoing
from stepwell.engine.waits.code import is_code
from stepwell.engine.waits.kind import kind_named
from stepwell.engine.waits.limit import step_named
from stepwell.runtime.log.conditions import UNTIL, own_wait
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import EVERY
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.stores.answers import unpaused

CLEANING_UP = "cleaning_up"  # the phase of a cancelled function that has not ended yet


def status_of(at: Standing) -> Status:
    """Returns the status by the log. Only the header knows of a pause, and of a worker that has written nothing yet."""
    return Status.PAUSED if at.run.is_paused and can_be_held(at.token) else status_unpaused(at)


def status_unpaused(at: Standing) -> Status:
    """Returns the status that a paused run has but for that."""
    token = at.token
    if token.end is not None:
        return token.end.status
    if token.undoing is not None:
        return Status.COMPENSATING
    if waiting_tokens(at) or is_shown_waiting(at):
        return Status.WAITING
    if token.phase is not Phase.INITIALIZING or at.header.started_ms:
        return Status.RUNNING
    return Status.IDLE if at.header.idle and token.last is None else Status.PENDING


def pause_of(header: Header) -> str:
    """Describes a pause: `paused by ana since 2026-01-31T09:00:00Z: the bank is down`.

    Of a workflow's: `paused with its workflow order by ana since …`; `paused with all workflows …`.
    """
    of = " with all workflows" if header.pause_of == EVERY else f" with its workflow {header.pause_of}"
    by = f" by {header.paused_by}" if header.paused_by else ""
    why = f": {header.pause_reason}" if header.pause_reason else ""
    return f"paused{of if header.pause_of else ''}{by} since {iso(header.paused_ms)}{why}"


def phase_of(at: Standing) -> str:
    """Returns the token's phase; a run that a worker has picked up is no longer initializing.

    A durable function that was cancelled and has not ended yet cleans up, whatever it awaits for that.
    """
    if at.token.cleaning is not None and at.token.end is None:
        return CLEANING_UP
    running = status_unpaused(at) is Status.RUNNING
    return begun_phase(at.token) if running else at.token.phase.value


def begun_phase(token: Token) -> str:
    """Returns the phase of a token that has begun; its log does not have its first step before that has ended."""
    return (Phase.EXECUTING_STEP if token.phase is Phase.INITIALIZING else token.phase).value


def held_text(held: Held) -> str:
    """Tells what a pending run waits for, and its place."""
    if held.at_ms:
        return f"rate limit of {held.limit}: starts at {iso(held.at_ms)}"
    place = f"{held.before} before it" if held.before else "it is the next"
    return f"concurrency limit of {held.limit}: at most {held.most} under way, {place}"


def fork_at(token: Token) -> Fork | None:
    """Returns the fork that a token is at."""
    fork = token.last.next if token.last is not None and not token.ended else None
    return fork if isinstance(fork, Fork) else None


def waiting_tokens(at: Standing) -> list[Token]:
    """Returns the waiting tokens, those for people first, by due time; empty while a live token does something else.

    The branches of a fork of several pages are not read here: the header knows of their waits.
    """
    live = live_tokens(at)
    return sorted(live, key=_urgency) if all(is_waiting(one) for one in live) else []


def wait_of(graph: Graph, token: Token) -> tuple[Parked, str] | None:
    """Returns the wait of a token and the node where it waits; of a function's tasks, what stands for their waits."""
    if not is_waiting(token) or token.parked is None:
        return None
    if not token.parked.of_tasks:
        return token.parked, step_named(token.parked, node_of(graph, token))
    shown = wait_shown(token)
    return (shown[0], UNTIL) if shown is not None and own_wait(token) is not None else shown


def is_shown_waiting(at: Standing) -> bool:
    """Returns whether a run waits, as its header says: its branches were not read, or those of its branches."""
    if unpaused(at.header) is not Status.WAITING:
        return False
    is_read = bool(at.branches) and all(fork_at(one) is None for one in at.branches)
    return not is_read and (fork_at(at.token) is not None or at.token.has_open_tasks)


def live_tokens(at: Standing) -> list[Token]:
    """Returns the live tokens of a run: its branches if they were read, else its root.

    A branch that has not begun is not live.
    """
    if at.token.phase is Phase.WAITING_TO_COMPENSATE:
        return [at.token]
    if at.token.ended or at.token.undoing is not None:
        return []
    if at.graph.dependencies and at.branches:
        return live_steps(at)
    is_aside = at.token.aside is not None and is_waiting(at.token)
    if at.token.has_open_tasks and at.branches and not is_aside:
        return [one for one in at.branches if not one.ended]
    fork = fork_at(at.token) if at.branches else None
    if fork is None:
        return [at.token]
    ended = {index for index, one in enumerate(at.branches) if one.ended}
    return [one for index, one in enumerate(at.branches)
            if not one.ended and awaited(fork, index).is_over(ended)]  # fmt: skip


def _urgency(token: Token) -> tuple[bool, float]:
    asks_people = token.parked is not None and kind_named(token.parked.kind).asks_people
    until_ms = token.parked.until_ms if token.parked else None
    return not asks_people, math.inf if until_ms is None else until_ms


def current_steps(at: Standing) -> list[str]:
    """Returns the current nodes of the run or its branches; for a DAG, the steps that run or wait.

    For a rollback, returns the node of the next compensation, if it was read.
    """
    if at.token.ended or status_unpaused(at) in {Status.IDLE, Status.PENDING}:
        return []
    if at.token.undoing is not None:
        return [one.node for one in (left_to_undo(at) or ())[:1]]
    if at.graph.dependencies:
        return at_work(step_views(at))
    if is_shown_waiting(at):
        return [at.header.waiting_node]
    found = dict.fromkeys(at.graph.seen_as(_place_of(at, one)) for one in live_tokens(at))
    return list(found) or [at.graph.seen_as(node_of(at.graph, at.token))]


def _place_of(at: Standing, token: Token) -> str:
    """Returns the token's node; for a function's branch that has no record yet, the fork's name."""
    fork = fork_at(at.token)
    is_joined = fork is not None and fork.is_awaited and not fork.is_of_tasks
    if is_joined and token.branch and token.last is None:
        return node_of(at.graph, at.token)
    wait = wait_of(at.graph, token)
    return node_of(at.graph, token) if wait is None else wait[1]


_AT_WORK = frozenset({"running", "waiting", "paused", "pending"})


def progress(at: Standing, steps: Mapping[str, StepResult]) -> str:
    """`done/all`: entries of a timeline before the current one, ended steps of a DAG, else nodes that were left.

    `steps`: with those of branches. A function that waits for its code has more to do.
    """
    token, names = at.token, list(at.graph.shown)
    over = {name for name, step in steps.items() if step["status"] not in _AT_WORK}
    if at.graph.replays:  # the total is unknown, so count the operations that have begun
        is_stuck = is_waiting(token) and token.parked is not None and is_code(token.parked.kind)
        return f"{len(over)}/{len(steps) + (is_stuck and len(over) == len(steps))}"
    if token.has_completed:
        ended = len(names)
    elif at.graph.dependencies:
        ended = done(step_views(at).values())
    elif at.graph.in_order:
        ended = names.index(token.node) if token.node in names else 0
    else:
        left, fork = set(token.visits) | over & set(names), fork_at(token)
        # a node that forked was left by its branches; where some are still before a node, it is not over
        ended = len(left - ({token.node} if fork is None else _ahead(at.graph, steps, fork.join)))
    return f"{ended}/{len(names)}"


def _ahead(graph: Graph, steps: Mapping[str, StepResult], join: str) -> set[str]:
    """Returns the nodes that branches at work may still come to, up to their join."""
    found, todo = set[str](), [name for name, step in steps.items() if step["status"] in _AT_WORK]
    while todo:
        for rule in graph.nodes[name].rules if (name := todo.pop()) in graph.nodes and name != join else ():
            if rule.to is not None and rule.to not in found:
                found.add(rule.to)
                todo.append(rule.to)
    return found


def error_of(token: Token) -> Failure | None:
    """Returns the error of the run's end or rollback; before that, the last error without a later success."""
    if token.end is not None:
        return token.end.error
    return token.undoing.error if token.undoing is not None else token.error


# -- being undone


def left_to_undo(at: Standing) -> tuple[Undo, ...] | None:
    """Returns the remaining compensations, the next one first; None if they were not read."""
    if at.token.end is not None and at.token.end.status is Status.COMPENSATED:
        return ()
    if at.rollback is None or at.token.undoing is None:
        return None
    return at.rollback[len(at.token.undoing.undone) :]


def failed_compensation(token: Token) -> Failure | None:
    """Returns the error of the last compensation attempt, if it failed."""
    return token.last.error if token.last is not None and token.last.kind is Kind.UNDONE else None


def reason_of(undoing: Undoing) -> str:
    """Describes a rollback's reason: `failed at ship: no luck`, or `cancelled by ana: too late`."""
    if undoing.status is Status.CANCELLED:
        return _cancelled(undoing.who, undoing.reason)
    return _ended(undoing.status, undoing.error)


# -- how it ended


def summary_of(at: Standing) -> str | None:
    """Describes the end of a run in a sentence."""
    token = at.token
    if token.end is None or token.last is None:
        return None
    if token.undoing is not None:
        return f"{reason_of(token.undoing)}; {_rolled_back(token, token.undoing)}"
    match token.end.status:
        case Status.COMPLETED:
            return f"completed in {(token.last_ms - (at.header.started_ms or at.header.created_ms)) / 1000:g} s"
        case Status.CANCELLED:
            failed = f"; its clean-up failed: {token.end.error.message}" if token.end.error else ""
            return _cancelled(*cancelled_by(token, Status.CANCELLED)) + failed
        case status:
            return _ended(status, token.end.error)


def cancelled_by(token: Token, status: Status) -> tuple[str, str]:
    """Returns who cancelled the run and why, also for a run that compensates because of it."""
    if token.undoing is not None and token.undoing.status is Status.CANCELLED:
        return token.undoing.who, token.undoing.reason
    if token.cleaning is not None:
        return token.cleaning.who, token.cleaning.reason
    return (token.last.who, token.last.reason) if status is Status.CANCELLED and token.last else ("", "")


def _rolled_back(token: Token, undoing: Undoing) -> str:
    steps = f"{counted(len(undoing.undone), 'step')} undone"
    if token.end is not None and token.end.status is Status.COMPENSATED:
        return f"rolled back, {steps if undoing.undone else 'nothing was to be undone'}"
    failure = failed_compensation(token)
    if failure is None or token.last is None:
        return f"rolled back in part, {steps} when it was {_ended(Status.FAILED, error_of(token))}"
    return f"rolled back in part, {steps}, then the compensation of {token.last.node} failed: {failure.message}"


def _cancelled(who: str, reason: str) -> str:
    by = f" by {who}" if who else ""
    return f"cancelled{by}: {reason}" if reason else f"cancelled{by}"


def _ended(status: Status, error: Failure | None) -> str:
    where = f" at {error.step}" if error and error.step else ""
    word = "terminated" if error and error.type == "terminated" else status.value
    return f"{word}{where}: {error.message}" if error else word
