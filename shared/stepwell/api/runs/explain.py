"""Explains a run: what it waits for and since when, what will wake it and when, and its last history entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import TypedDict

from stepwell.api.pauses import WorkflowPauseView, pause_text, pause_view, unpause_path
from stepwell.api.runs.children import Statuses
from stepwell.api.runs.explained_forks import Tally, at_forks
from stepwell.api.runs.explained_waits import QUEUE, Waker, Why, explained_wait
from stepwell.api.runs.states import (
    CLEANING_UP,
    current_steps,
    failed_compensation,
    fork_at,
    held_text,
    is_shown_waiting,
    left_to_undo,
    live_tokens,
    pause_of,
    phase_of,
    progress,
    reason_of,
    status_of,
    status_unpaused,
    summary_of,
    waiting_tokens,
)
from stepwell.definition.graph import Json
from stepwell.definition.text import counted
from stepwell.engine import gathering
from stepwell.engine.entries import Entry, entry_json
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.holding import can_be_held
from stepwell.engine.limits.permits import Held
from stepwell.engine.limits.throttles import leaves_line
from stepwell.engine.names import iso
from stepwell.engine.records import Fork, Kind, RetryAt, Status
from stepwell.engine.starts import is_open
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits.limit import limit_named
from stepwell.engine.writing import deadline_ms
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.pauses import WorkflowPause


class Explanation(TypedDict):
    """The explanation of a run. `nothing_can_wake_it` is true only through a defect.

    `workflow_paused`: the pause of its workflow, or of all, that has stopped it or will do so before its next step.
    """

    run_id: str
    version: str
    version_number: int | None
    pinned: bool
    status: str
    phase: str
    why: str
    waiting_for: str | None
    waiting_since: str | None
    current_steps: list[str]
    wakers: list[Waker]
    next_retry_at: str | None
    in_queue: bool
    deadline: str | None
    last_entry: dict[str, Json] | None
    workflow_paused: WorkflowPauseView | None
    nothing_can_wake_it: bool


def explain(
    at: Standing,
    now_ms: int,
    last: Entry | None,
    statuses: Statuses,
    pause: WorkflowPause | None = None,
    forks: Sequence[Surveyed] = (),
) -> Explanation:
    """Explains a run from its current log; `statuses` are those of its child runs that were read.

    `pause`: that of its workflow, or of all. `forks`: where the run's fork has too many branches for its log.
    """
    status = status_of(at)
    pause = pause if can_be_held(at.token) else None
    why = _why(at, status, now_ms, statuses, forks)
    can_wake = bool(why.wakers)
    if pause is not None and not at.header.pause_of:
        why = _about_to_stop(why, pause)
    is_over = at.token.ended or status is Status.COMPENSATING  # a deadline does not end a rollback
    limit_ms = None if is_over else deadline_ms(at.graph, at.run, at.token)
    wakers = list(why.wakers)
    if limit_ms is not None:
        detail = "the run's own timeout" if at.token.cleaning is None else "the end of its time to clean up"
        wakers.append(Waker(what="deadline", at=iso(limit_ms), detail=detail))
    return Explanation(
        run_id=at.run_id,
        version=at.header.version,
        version_number=at.graph.number,
        pinned=at.header.pinned,
        status=status.value,
        phase=phase_of(at),
        why=f"It was cancelled, and cleans up. {why.text}" if phase_of(at) == CLEANING_UP else why.text,
        waiting_for=why.kind or None,
        waiting_since=iso(why.since_ms) if why.since_ms else None,
        current_steps=current_steps(at),
        wakers=wakers,
        next_retry_at=iso(why.retry_ms) if why.retry_ms else None,
        in_queue=why.in_queue,
        deadline=iso(limit_ms) if limit_ms is not None else None,
        last_entry=entry_json(last) if last else None,
        workflow_paused=None if pause is None else pause_view(pause),
        nothing_can_wake_it=not can_wake and limit_ms is None and not status.terminal,
    )


def _why(at: Standing, status: Status, now_ms: int, statuses: Statuses, forks: Sequence[Surveyed] = ()) -> Why:
    token = at.token
    if token.ended:
        ended = iso(token.last.at_ms) if token.last else "?"
        return Why(f"It ended at {ended}: {summary_of(at)}.")
    if status is Status.COMPENSATING:
        return _compensating(at, now_ms)
    if status is Status.PAUSED:
        return _paused(at, now_ms, statuses, forks)
    if token.has_open_tasks and token.aside is None:
        return _tasks(at, now_ms, statuses)
    if is_waiting(token) and token.parked is not None:
        return explained_wait(at, token.parked, now_ms, statuses)
    if (before := _before_start(at, status, now_ms)) is not None:
        return before
    fork = fork_at(token)
    if fork is None:
        return _running(at, now_ms)
    return _dag(at, now_ms, statuses) if at.graph.dependencies else _forked(at, fork, now_ms, statuses, forks)


def _before_start(at: Standing, status: Status, now_ms: int) -> Why | None:
    """Explains a run that has not begun; None if it has."""
    token, header = at.token, at.header
    if status is Status.IDLE:
        call = Waker(what="call", at=None, detail=f"POST /runs/{at.run_id}/start starts it, /cancel ends it")
        return Why("It was created but not started.", (call,), header.created_ms)
    if status is Status.PENDING and header.start_at_ms > now_ms:
        at_text = iso(header.start_at_ms)
        timer = Waker(what="timer", at=at_text, detail="its start is due")
        return Why(f"It starts at {at_text}.", (timer,), header.created_ms)
    if is_open(at.run, at.token):
        at_text = iso(gathering.due_ms(at.graph, at.run, at.token))
        timer = Waker(what="timer", at=at_text, detail=f"it begins then, {gathering.unless(at.graph)}")
        return Why(
            f"It gathers starts ({gathering.progress(at.graph, at.run, at.token)}).", (timer,), header.created_ms
        )
    if at.held is not None:
        return _held(at.held, max(header.created_ms, header.start_at_ms))
    if status is Status.PENDING:
        since_ms = token.last_ms or max(header.created_ms, header.start_at_ms)
        return Why("It is in the queue: the next free worker picks it up.", (QUEUE,), since_ms, in_queue=True)
    return None


def _paused(at: Standing, now_ms: int, statuses: Statuses, forks: Sequence[Surveyed]) -> Why:
    """Explains a pause, and what the run would do without it. A wait that it stands at can end meanwhile."""
    other = _why(at, status_unpaused(at), now_ms, statuses, forks)
    call = Waker(what="call", at=None, detail=f"POST {unpause_path(at.header.pause_of, at.run_id)} has it go on")
    text = f"It is {pause_of(at.header)}. Without the pause: {other.text}"
    return replace(other, text=text, wakers=(call, *_timers(at, now_ms, statuses)), in_queue=False)


def _timers(at: Standing, now_ms: int, statuses: Statuses) -> list[Waker]:
    """Returns the timers of a paused run's waits, which go on."""
    waits = _waits(at, _waiting(at), now_ms, statuses)
    found = [waker for why in waits for waker in why.wakers] + _own_timer(at.token)
    if not waits and is_shown_waiting(at):
        found += _timer_of_header(at)
    return [one | {"detail": f"{one['detail']}, though it is paused"} for one in found if one["what"] == "timer"]


def _about_to_stop(why: Why, pause: WorkflowPause) -> Why:
    """Adds that the workflow is paused, and that no worker has stopped the run for it yet."""
    call = Waker(what="call", at=None, detail=f"POST {unpause_path(pause.workflow)} ends the pause of its workflow")
    text = f"{pause_text(pause)}: it stops before its next step. {why.text}"
    return replace(why, text=text, wakers=(*why.wakers, call))


def _held(held: Held, since_ms: int) -> Why:
    """Explains a run that waits for its workflow's limit."""
    if held.at_ms:
        timer = Waker(what="timer", at=iso(held.at_ms), detail="its turn under the rate limit")
        return Why(f"It waits for the {held_text(held)}.", (timer,), since_ms)
    detail = f"the end of {' or '.join(held.under_way)}"
    return Why(f"It waits for the {held_text(held)}.", (Waker(what="limit", at=None, detail=detail),), since_ms)


def _forked(at: Standing, fork: Fork, now_ms: int, statuses: Statuses, forks: Sequence[Surveyed]) -> Why:
    """Explains a run with branches. If all of them wait, it describes the wait that is due first."""
    since_ms = at.token.last_ms
    node = at.graph.seen_as(at.token.node)
    meet = "" if fork.join == node else f", which meet at {fork.join or 'the end'}"
    tally = Tally(at, forks)
    how, listed = tally.text, tuple(tally.wakers(at.run_id))
    text = f"It waits for the {fork.width} branches of {node}{meet}{how and f': {how}'}."
    waiting = waiting_tokens(at)
    if not waiting and is_shown_waiting(at):
        return _of_header(at, text, listed)
    if not waiting:
        retries = _retries(live_tokens(at), now_ms)
        if not retries:
            return Why(text, listed, since_ms)
        count = f"{len(retries)} of them {'retries' if len(retries) == 1 else 'retry'}."
        return replace(retries[0], text=f"{text} {count} {retries[0].text}", wakers=(*retries[0].wakers, *listed))
    (first,) = _waits(at, waiting[:1], now_ms, statuses)
    each = f"{len(waiting)} wait, first of them {waiting[0].id}." if len(waiting) > 1 else f"{waiting[0].id} waits."
    return replace(first, text=f"{text} {each} {first.text}", wakers=(*first.wakers, *listed))


def _of_header(at: Standing, text: str, listed: Sequence[Waker]) -> Why:
    """Explains a run whose branches all wait, by the wait that is known without reading theirs."""
    header, node = at.header, at.header.waiting_node
    until = "" if header.waiting_until_ms is None else iso(header.waiting_until_ms)
    timers = _timer_of_header(at)
    text += f" All under way wait, first of them {node} for {header.waiting_for}{until and f', until {until}'}."
    return Why(text, (*listed, *timers), header.waiting_since_ms, header.waiting_for)


def _timer_of_header(at: Standing) -> list[Waker]:
    """Returns the timer of the wait that the header shows."""
    node, until_ms = at.header.waiting_node, at.header.waiting_until_ms
    return [] if until_ms is None else [Waker(what="timer", at=iso(until_ms), detail=f"the wait at {node} ends then")]


_TOLD = 3  # operations of tasks, in full


def _tasks(at: Standing, now_ms: int, statuses: Statuses) -> Why:
    """Explains a durable function by the operations that its tasks await, those for people first."""
    count = at.token.open_tasks
    text = f"Its tasks wait for {counted(count, 'operation')}."
    if not at.branches and is_shown_waiting(at):  # too many to be read
        listed = Waker(what="branch", at=None, detail=f"GET /runs/{at.run_id}/branches lists the branches")
        return _of_header(at, text, (listed, *_own_timer(at.token)))
    return _beside(at, now_ms, statuses, count, text, _TOLD)


def _dag(at: Standing, now_ms: int, statuses: Statuses) -> Why:
    """Explains a DAG by the waits and the retries of its steps."""
    at_work = current_steps(at)
    text = f"{progress(at, {})} of its steps have ended; at work: {', '.join(at_work)}."
    return _beside(at, now_ms, statuses, len(at_work), text)


def _beside(at: Standing, now_ms: int, statuses: Statuses, count: int, text: str, most: int | None = None) -> Why:
    """Explains `count` tokens side by side, `most` of them in full. One in the queue or with a worker has no Why."""
    retries = _retries(at.branches, now_ms)
    waits = _waits(at, _waiting(at), now_ms, statuses)
    whys = [*waits, *retries, *_begun_once(at.branches, now_ms), *at_forks(at)]
    texts = [text, *(why.text for why in whys[:most])]
    if left := len(whys[most:]) if most else 0:
        texts.append(f"So do {left} more: GET /runs/{at.run_id} lists them as `tokens`.")
    wakers = [waker for why in whys[:most] for waker in why.wakers] + _own_timer(at.token)
    wakers += [QUEUE] if len(whys) < count else []
    in_queue = len(whys) < count or any(why.in_queue for why in whys)
    kind = "" if in_queue or not whys else whys[0].kind
    retry_ms = retries[0].retry_ms if retries else 0
    return Why(" ".join(texts), tuple(wakers), at.token.last_ms, kind, retry_ms=retry_ms, in_queue=in_queue)


def _own_timer(token: Token) -> list[Waker]:
    """Returns the timer that a durable function's tasks await beside their operations."""
    if not token.has_open_tasks or token.parked is None or token.parked.until_ms is None:
        return []
    return [Waker(what="timer", at=iso(token.parked.until_ms), detail="a timer of the function's own")]


def _waiting(at: Standing) -> list[Token]:
    """Returns the tokens that wait, also beside others that do not."""
    return waiting_tokens(at) or [one for one in at.branches if is_waiting(one)]


def _waits(at: Standing, tokens: Sequence[Token], now_ms: int, statuses: Statuses) -> list[Why]:
    return [explained_wait(replace(at, token=one), one.parked, now_ms, statuses) for one in tokens if one.parked]


def _compensating(at: Standing, now_ms: int) -> Why:
    """Explains a rollback: the next compensation, or the next retry and its time."""
    token, left = at.token, left_to_undo(at)
    since_ms = token.last_ms
    undone = len(token.undoing.undone) if token.undoing else 0
    why = f" ({reason_of(token.undoing)})" if token.undoing else ""
    all_of_them = "" if left is None else f" of {undone + len(left)}"
    text = f"It is being undone{why}: {undone}{all_of_them} done."
    last, failure = token.last, failed_compensation(token)
    if last and failure and isinstance(last.next, RetryAt) and (retry := last.next).at_ms > now_ms:
        text += f" Attempt {token.attempt + 1} of the compensation of {last.node} is due at {iso(retry.at_ms)}"
        timer = Waker(what="timer", at=iso(retry.at_ms), detail="the backoff of its retry ends")
        return Why(f"{text} after {failure.type}: {failure.message}.", (timer,), since_ms, retry_ms=retry.at_ms)
    if token.phase is Phase.WAITING_TO_COMPENSATE and is_waiting(token) and token.parked is not None:
        stuck = explained_wait(at, token.parked, now_ms, {})
        return replace(stuck, text=f"{text} {stuck.text}")
    next_one = f" Next is the compensation of {left[0].node}." if left else ""
    return Why(text + next_one, (QUEUE,), since_ms, in_queue=True)


def _running(at: Standing, now_ms: int) -> Why:
    token = at.token
    is_over = not token.attempt and token.node not in at.graph.nodes  # an operation of a function, that has ended
    node = at.graph.start if is_over else token.node
    since_ms = token.last_ms or at.header.started_ms
    if (known := _retry(token, now_ms) or _begun(token, now_ms) or _out_of_line(token)) is not None:
        return known
    text = f"A worker has it, or is about to get it: {node}, attempt {token.attempt + 1}, since {iso(since_ms)}."
    return Why(text, (QUEUE,), since_ms, in_queue=True)


def _out_of_line(token: Token) -> Why | None:
    """Explains a token that left the line of a limit for a pause, and has not asked again; None for any other."""
    if token.last is None or token.parked is None or not leaves_line(token.last):
        return None
    text = f"It asks again for the limit {limit_named(token.parked)}, whose line it left for a pause."
    return Why(text, (QUEUE,), token.last.at_ms, in_queue=True)


def _retry(token: Token, now_ms: int) -> Why | None:
    """Explains a token whose step is tried again later; None if it is not."""
    last = token.last
    if last is None or not isinstance(last.next, RetryAt) or last.next.at_ms <= now_ms or last.kind is Kind.BEGAN:
        return None
    due_ms = last.next.at_ms
    failed = f" after {token.error.type}: {token.error.message}" if token.error else ""
    text = f"Attempt {token.attempt + 1} of {token.node} is due at {iso(due_ms)}{failed}."
    timer = Waker(what="timer", at=iso(due_ms), detail="the backoff of its retry ends")
    return Why(text, (timer,), last.at_ms, retry_ms=due_ms)


def _retries(tokens: Sequence[Token], now_ms: int) -> list[Why]:
    """Explains the tokens that are tried again later, the soonest first."""
    found = [_retry(one, now_ms) for one in tokens if not one.ended and not is_waiting(one)]
    return sorted((one for one in found if one is not None), key=lambda why: why.retry_ms)


def _begun(token: Token, now_ms: int) -> Why | None:
    """Explains a token whose at_most_once step is under way; None if no such step is, or its worker is lost."""
    last = token.last
    if last is None or last.kind is not Kind.BEGAN or not isinstance(last.next, RetryAt) or last.next.at_ms <= now_ms:
        return None
    lost_at = iso(last.next.at_ms)
    text = (f"A worker runs {last.node}, attempt {last.attempt}, since {iso(last.at_ms)}. It runs at most once: if its "
            f"worker was lost, it fails with outcome_unknown at {lost_at}.")  # fmt: skip
    worker = Waker(what="queue", at=None, detail=f"the worker that runs {last.node} goes on when it has ended")
    timer = Waker(what="timer", at=lost_at, detail=f"{last.node} fails with outcome_unknown if its worker was lost")
    return Why(text, (worker, timer), last.at_ms, in_queue=True)


def _begun_once(tokens: Sequence[Token], now_ms: int) -> list[Why]:
    """Explains the tokens whose at_most_once step is under way."""
    found = [_begun(one, now_ms) for one in tokens if not one.ended and not is_waiting(one)]
    return [one for one in found if one is not None]
