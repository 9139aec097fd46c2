"""Explains one token's wait: what it waits for, since when, and what will or can end it."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from stepwell.api.runs.children import ChildView, Statuses, waited_for
from stepwell.api.runs.explained_approvals import approvals_text, with_approvers
from stepwell.api.runs.states import wait_of
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.names import iso
from stepwell.engine.parts import left_of
from stepwell.engine.records import TERMINAL, Parked
from stepwell.engine.token import Token
from stepwell.engine.waits import kind as waits
from stepwell.engine.waits.callback import heartbeats_due
from stepwell.engine.waits.several import shown_as
from stepwell.engine.waits.wakers import can_wake, wakers_of
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass


class Waker(TypedDict):
    """Something that will or can make the run continue."""

    what: str  # timer | event | call | queue | deadline | branch | child | lock | limit
    at: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Why:
    """The part of an explanation that depends on the run's status."""

    text: str
    wakers: tuple[Waker, ...] = ()
    since_ms: int = 0
    kind: str = ""
    retry_ms: int = 0
    in_queue: bool = False


QUEUE = Waker(what="queue", at=None, detail="its wake is in the queue or with a worker; a dead worker is replaced")


def explained_wait(at: Standing, whole: Parked, now_ms: int, statuses: Statuses) -> Why:
    """Explains the wait of the token at which `at` stands."""
    parked = left_of(at.token, whole)
    found = wakers_of(parked, at.token.node, at.run_id, _branch_of(at))
    reason = waits.kind_named(parked.kind).reason(parked, at.token.node, at.run_id)
    if reason is not None:
        shown = wait_of(at.graph, at.token)
        kind = shown[0].kind if shown is not None and parked.of_tasks else shown_as(parked)
        return Why(reason.text, tuple(map(_waker, found)) or (QUEUE,), parked.since_ms, kind)
    children = waited_for(at, at.token, statuses)
    found = [*with_approvers(found, at.token, at.run_id, _branch_of(at)), *_silences(at.token)]
    at_last = sorted((one for one in found if one.what == "timer"), key=lambda one: one.at_ms or 0)
    wakers = [
        *map(_waker, (one for one in found if one.what != "timer")),
        *_of_children(children),
        *map(_waker, at_last),
    ]
    where = at.graph.seen_as(at.token.node)
    text = f"It waits at {where} for {_what(parked, children)} since {iso(parked.since_ms)}"
    if (blocked := _blocked(at.token)) is not None:
        text = f"{at.token.node} was blocked: {blocked}. {text}"
    if parked.until_ms is not None:
        late = " (overdue: the sweeper wakes it)" if parked.until_ms < now_ms else ""
        text += f", until {iso(parked.until_ms)}{late}"
    if not can_wake(parked, found):
        text += "; nothing can wake it, which is a defect of Stepwell"
    more = approvals_text(at.token)
    return Why(f"{text}. {more}".rstrip(), tuple(wakers), parked.since_ms, shown_as(parked))


def _silences(token: Token) -> list[waits.Waker]:
    """Returns the timers that fail callbacks unless a heartbeat comes before."""
    detail = "the callback fails then, unless a heartbeat comes before"
    return [waits.Waker("timer", detail, due_ms) for due_ms in heartbeats_due(token)]


def _blocked(token: Token) -> str | None:
    """Returns the reason that the step gave when it blocked the run, which waits for an approval; None if none did."""
    error = token.error
    if error is None or error.category != "governance" or error.step != token.node:
        return None
    return error.message


def _what(parked: Parked, children: Sequence[ChildView]) -> str:
    if children:
        if len(children) == 1:
            return "its child run"
        count = sum(map(_has_ended, children))
        is_known = all(one["status"] for one in children)
        ended = f", of which {count} {'has' if count == 1 else 'have'} ended," if is_known else ""
        return f"its {len(children)} child runs{ended}"
    names = dict.fromkeys(topic.name for arm in parked.arms for topic in arm.topics)
    names.pop(SCHEMAS["callback"].event, None)  # nobody sends this one: a post to the URL does
    between = " "
    if waits.kind_named(parked.kind).asks_people:  # an event may come in place of the answer, or beside it
        between = " and " if parked.is_all else " or "
    return f"{parked.kind}{between}{', '.join(names)}" if names else parked.kind


def _of_children(children: Sequence[ChildView]) -> list[Waker]:
    """Returns the children that have not ended; if all have ended, the last one is being reported."""
    left = [one for one in children if not _has_ended(one)] or children[-1:]
    return [Waker(what="child", at=None, detail=f"the end of {one['name']} ({_child_words(one)})") for one in left]


def _child_words(child: ChildView) -> str:
    return f"run {child['run_id']}, {child['status']}" if child["status"] else f"run {child['run_id']}"


def _has_ended(child: ChildView) -> bool:
    return child["status"] in TERMINAL


def _branch_of(at: Standing) -> str:
    """The name by which a caller answers a branch; "" for the root."""
    if at.token.branch is None:
        return ""
    return at.token.node if at.graph.dependencies else at.token.id


def _waker(one: waits.Waker) -> Waker:
    return Waker(what=one.what, at=None if one.at_ms is None else iso(one.at_ms), detail=one.detail)
