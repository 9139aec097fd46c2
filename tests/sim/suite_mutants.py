"""Mutants that schedules meet too rarely, or never. Each has a test of the suite that catches it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, cast
from unittest import mock

from stepwell.aws.protocols import Item
from stepwell.aws.store.logs import Logs
from stepwell.engine import decide, receiving
from stepwell.engine import effects as engine_effects
from stepwell.engine.actions import Action, Drop, Rest
from stepwell.engine.durable import tasks
from stepwell.engine.effect_kinds import Register
from stepwell.engine.inputs import PermitAnswered
from stepwell.engine.names import Moment
from stepwell.engine.receiving import Came
from stepwell.engine.records import Kind, Place, Record
from stepwell.engine.token import Begun, Token
from stepwell.runtime import dispatch
from stepwell.runtime.calls import updates
from stepwell.runtime.calls.callbacks import Callbacks
from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log.door import Answer
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.log.standing import ForkedParent, Lease, Standing
from stepwell.runtime.loop import coordinator
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.loop.worker import Worker, _Turn
from stepwell.runtime.ports import Joined, Lane, Queue
from stepwell.runtime.starts import starting
from stepwell.runtime.waits.claimants import Runs
from stepwell.runtime.waits.lines import Lines
from stepwell.runtime.waits.throttling import Throttling

_effects = engine_effects._effects
_of_part, _take, _granted = engine_effects._of_part, Callbacks._take, receiving._granted


@contextmanager
def part_registers_nothing() -> Iterator[None]:
    """After a part the wait is not registered again: who began it may have died before that."""

    def of_part(token: Token, record: Record, *rest: Any) -> tuple[Any, ...]:
        return tuple(one for one in _of_part(token, record, *rest) if not isinstance(one, Register))

    with mock.patch.object(engine_effects, "_of_part", of_part):
        yield


@contextmanager
def callback_not_queued() -> Iterator[None]:
    """What is posted to a callback is offered at once, and nobody comes again if that fails."""

    async def take(self: Callbacks, *given: Any) -> None:
        other = copy(self)
        other._ports = replace(self._ports, queue=mock.AsyncMock())
        await _take(other, *given)

    with mock.patch.object(Callbacks, "_take", take):
        yield


@contextmanager
def buried_though_stale() -> Iterator[None]:
    """A wake that killed its workers is buried though its token has moved since."""
    with mock.patch.object(coordinator, "is_stale", return_value=False):
        yield


@contextmanager
def any_record_is_mine() -> Iterator[None]:
    """Where no answer came, a consumption takes any record in its slot for its own."""

    def is_done(self: Logs, record: Item, place: Item, mark: Mapping[str, Any]) -> bool:
        return self._table.get(place) is not None

    with mock.patch.object(Logs, "_is_done", is_done):
        yield


@contextmanager
def granted_to_the_ended() -> Iterator[None]:
    """A permit stays with a run whose log has ended and whose header does not say so yet."""

    async def has_ended(self: Runs, who: str) -> bool:
        return not await self.lives(who)

    with mock.patch.object(Runs, "has_ended", has_ended):
        yield


@contextmanager
def told_though_begun() -> Iterator[None]:
    """A run that was let in, and found that by itself, is woken under another name than its worker's."""

    async def tell(self: Runs, who: str) -> bool:
        granted = await self._logbook.load(who)
        if granted is None or granted.token.ended:
            return False
        await self._ports.queue.send(Lane.WORK, to_json(granted.wake()))
        return True

    with mock.patch.object(Runs, "tell", tell):
        yield


@contextmanager
def life_begun_unshown() -> Iterator[None]:
    """A function that begins anew is still shown to wait for what its tasks waited for before."""

    def unshown(graph: Any, token: Token) -> tuple[Any, ...]:
        begins_anew = token.last is not None and token.last.kind is Kind.RETURNED and token.end is None
        return () if begins_anew else _effects(graph, token)

    with mock.patch.object(engine_effects, "_effects", unshown):
        yield


@contextmanager
def shown_after_its_end() -> Iterator[None]:
    """What comes after the end of a wait, and before the function is asked, has the run shown as waiting again."""
    with mock.patch.object(engine_effects, "_came_late", return_value=False):
        yield


@contextmanager
def taken_far_behind() -> Iterator[None]:
    """A permit stays taken that a worker took when the token was far ahead, if it died with that."""
    with mock.patch.object(Throttling, "give_back_late"):
        yield


@contextmanager
def let_in_by_the_dead() -> Iterator[None]:
    """Who comes again, having died as it let one in, does not see that this one has left the line since."""
    with mock.patch.object(Lines, "_newest_ended", mock.AsyncMock(return_value="")):
        yield


@contextmanager
def straggler_repeats_a_batch() -> Iterator[None]:
    """A copy that is behind the other when its open batch is refused goes on behind the records that it is told of."""

    async def closed(self: Worker, at: Standing, turn: _Turn) -> Standing | None:
        answer = await self._door.close(at, turn.by, turn.budget)
        return answer.at if answer.is_mine else None

    with mock.patch.object(Worker, "_closed", closed):
        yield


@contextmanager
def straggler_repeats() -> Iterator[None]:
    """A copy of a message that is behind the other goes from record to record, and runs the step of each again."""

    async def after(self: Worker, answer: Answer, turn: object) -> Standing | None:
        return await self._logbook.save_if_due(answer.at)

    with mock.patch.object(Worker, "_after", after):
        yield


@contextmanager
def shown_by_the_late() -> Iterator[None]:
    """Who comes late takes the run for running because its own fork does not wait, though that may be over."""
    climb = Showing._climb

    async def unlooked(
        self: Showing, fork: ForkedParent, joined: Joined, lease: Lease | None, *, is_late: bool = False
    ) -> None:
        await climb(self, fork, joined, lease)

    with mock.patch.object(Showing, "_climb", unlooked):
        yield


@contextmanager
def lost_and_not_asked() -> Iterator[None]:
    """A function whose code died, so that its tasks do not wait, is not asked when an operation of it ends."""
    real = decide._go_on

    def go_on(moment: Moment, token: Token, last: Record) -> Action:
        return Rest() if last.kind is Kind.RECEIVED and token.parked is None else real(moment, token, last)

    with mock.patch.object(decide, "_go_on", go_on):
        yield


@contextmanager
def left_to_the_dead() -> Iterator[None]:
    """A cancel leaves the operations of a function's earlier life to who began the new one, who may have died."""
    with mock.patch.object(tasks, "_left_by", return_value=()):
        yield


@contextmanager
def end_left_to_the_dead() -> Iterator[None]:
    """Where every worker dies, what an end demands is left to the one who wrote it, whose message is gone by then."""

    async def end_again(self: Coordinator, run_id: str) -> None:
        """Nothing."""

    with mock.patch.object(Coordinator, "_end_again", end_again):
        yield


@contextmanager
def taken_from_another() -> Iterator[None]:
    """A copy that fell behind goes on with its fork's parent, though another message pushes that by now."""

    async def after(self: Worker, answer: Answer, turn: _Turn) -> Standing | None:
        at = answer.at
        if answer.is_new:
            return await self._logbook.save_if_due(at)
        return await self._logbook.load(at.run_id, at.token.id, turn.known)

    with mock.patch.object(Worker, "_after", after):
        yield


@contextmanager
def forgotten_once_cancelled() -> Iterator[None]:
    """Who began what another has cancelled, and died before it showed that its tasks work, does not show that."""

    def but(begun: Begun, slot: int, cancelled: tuple[Place, ...]) -> Begun:
        return replace(begun, open=tuple(index for index in begun.open if (slot, index) not in cancelled))

    with mock.patch.object(tasks, "_but", but):
        yield


@contextmanager
def copies_go_on() -> Iterator[None]:
    """A start's own message does not yield: its copies go on beside it."""

    def wake(run_id: str, slot: int, *, pool: str, yields: bool) -> Wake:
        return Wake(run_id, slot, pool=pool)

    with mock.patch.object(starting, "Wake", wake):
        yield


@contextmanager
def left_as_it_came() -> Iterator[None]:
    """A message that old code leaves to newer yields, although newer code may have taken the run up and died."""
    with mock.patch.object(dispatch, "_own", dict):
        yield


@contextmanager
def tried_once() -> Iterator[None]:
    """An update that loses its slot to another comes again a second later, with all that lost theirs."""
    with mock.patch.object(updates, "_RACES", 1):
        yield


@contextmanager
def settled_for_another() -> Iterator[None]:
    """A deadline performs the effects of whatever record a run had last, and wakes nobody."""
    with mock.patch.object(coordinator, "CleanUp", object):
        yield


@contextmanager
def woken_at_once() -> Iterator[None]:
    """A call that finds its record in the log wakes a worker at once, maybe beside the one that was woken."""
    with mock.patch.object(Advance, "wake_late", Advance.wake):
        yield


@contextmanager
def late_goes_on() -> Iterator[None]:
    """A late wake takes the records of the worker that was woken first for its own."""
    with mock.patch.object(Wake, "id", property(lambda wake: f"wake:{wake.token}:{wake.slot}")):
        yield


@contextmanager
def sent_with_the_call() -> Iterator[None]:
    """The message about a callback may be handled before its call is over."""

    async def take(self: Callbacks, *given: Any) -> None:
        other = copy(self)
        other._ports = replace(self._ports, queue=cast("Queue", _AtOnce(self._ports.queue)))
        await _take(other, *given)

    with mock.patch.object(Callbacks, "_take", take):
        yield


class _AtOnce:
    """A queue that sends nothing for later."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def send(self, lane: Lane, message: Mapping[str, Any], at_ms: int = 0) -> None:
        await self._queue.send(lane, message)


@contextmanager
def redriven_at_once() -> Iterator[None]:
    """Each call that redrives a run wakes a worker that yields to nobody."""
    with mock.patch.object(Redriver, "push", lambda redriver, at, by: redriver._advance.push(at, by)):
        yield


@contextmanager
def left_without_a_word() -> Iterator[None]:
    """A paused token leaves its line without a record, though a copy of its message may have gone on since."""

    def granted(moment: Moment, token: Token, given: PermitAnswered) -> Came | Action:
        return Drop(lets_go=given.permit) if moment.run.is_paused else _granted(moment, token, given)

    with mock.patch.object(receiving, "_granted", granted):
        yield


@contextmanager
def kept_at_rest() -> Iterator[None]:
    """A token that rests keeps what its last step held, until the pause is over."""

    async def rests(self: Worker, at: Standing) -> Standing | None:
        return await self._resting.rests(at)

    with mock.patch.object(Worker, "_rests", rests):
        yield


@contextmanager
def paused_with_its_permit() -> Iterator[None]:
    """A token takes a permit before it looks whether its workflow is paused, and rests with it."""

    async def in_line(self: Stopping, at: Standing) -> Standing:
        return at

    with mock.patch.object(Stopping, "in_line", in_line):
        yield
