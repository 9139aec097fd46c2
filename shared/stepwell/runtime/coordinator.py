"""The coordinator: timers, events, deadlines and dead letters become records; then it wakes whoever goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from stepwell.definition.authoring import StepDefaults
from stepwell.engine import functions
from stepwell.engine.actions import AskFunction, Outcome, RunStep
from stepwell.engine.attempts import commit
from stepwell.engine.code import DEPLOYED_TOPIC
from stepwell.engine.decide import decide
from stepwell.engine.forks import parent_of
from stepwell.engine.parts import at_due, due_ms
from stepwell.engine.records import ROOT, End, Failure, Kind, Record, Resumption, Status
from stepwell.engine.retry import resolve_policy
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.token import Token
from stepwell.engine.waits import run_of
from stepwell.engine.writing import deadline_ms, ended_record, timeout_failure
from stepwell.errors import Conflict
from stepwell.limits import DELIVERIES, DEPLOYED_KEPT_MS, HOPS
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.logbook import Logbook, Standing
from stepwell.runtime.mailbox import waiters_of
from stepwell.runtime.messages import (
    DeadLetter,
    Deadline,
    Deployed,
    EndRun,
    Message,
    Publish,
    Shut,
    Timer,
    Wake,
    to_json,
)
from stepwell.runtime.perform import Performer
from stepwell.runtime.ports import Consumed, Event, Lane, Ports, Waiter
from stepwell.runtime.worker import is_stale

_logger = logging.getLogger("stepwell.coordinator")


class Coordinator:
    """Takes what the resume lane carries. Every handler may run twice, late, or for a run that is gone."""

    def __init__(self, ports: Ports, logbook: Logbook, performer: Performer, catalog: Catalog) -> None:
        self._ports, self._logbook, self._performer, self._catalog = ports, logbook, performer, catalog

    async def handle(self, message: Message) -> None:
        """Raises PortError when the world did not answer: the message is to come again."""
        match message:
            case Timer():
                await self.fire(message)
            case Publish():
                await self.publish(message)
            case Deployed(deploy_id):
                await self.publish(Publish(self._deployed(deploy_id)))
            case Deadline():
                await self.expire(message)
            case DeadLetter(wake):
                await self.bury(wake, message.id)
            case Shut():
                await self._performer.forking.shut(message, message.id)
            case EndRun(run_id):
                reason = f"the run that waited for it, {message.parent}, has gone on or ended"
                await self.end(run_id, End(Status.CANCELLED), Received.CANCEL, message.id, reason=reason)
            case Wake():
                await self.wake(message)

    def _deployed(self, deploy_id: str) -> Event:
        """It is kept for a while, for those that begin to wait just now because of the code before."""
        now_ms = self._ports.clock.now_ms()
        return Event(DEPLOYED_TOPIC, deploy_id, {}, now_ms, now_ms + DEPLOYED_KEPT_MS)

    async def wake(self, wake: Wake) -> None:
        await self._ports.queue.send(Lane.WORK, to_json(wake))

    async def fire(self, timer: Timer) -> None:
        """A wait's time is up: `resumed` goes into the slot after it, unless something else did."""
        at = await self._logbook.load(timer.run_id, timer.token)
        if at is None:
            return
        token = at.token
        if token.last is not None and token.last.by == timer.id:
            await self.push(at, timer.id)  # mine, from before a crash
            return
        is_of_wait = token.waiting_slot <= timer.slot <= token.slot
        due = due_ms(token)
        if not is_of_wait or due is None or receive(token.phase, Received.TIMER) is not Verdict.TAKE:
            return
        came = at_due(token, self._ports.clock.now_ms())
        if came is None:
            await self._performer.alarms.look_again(Lane.RESUME, timer, due, timer)
            return
        await self.resume(at, timer.id, came, lambda later: at_due(later.token, self._ports.clock.now_ms()))

    async def resume(
        self, at: Standing, by: str, came: Resumption, anew: Callable[[Standing], Resumption | None] | None = None
    ) -> Record | None:
        """Appends `resumed`, or a part of what the wait is for, and pushes on. None when this call's record stands,

        else the winner, which ended the wait. `anew`: what to append after a part that came first, None for nothing
        (a heartbeat came as its time was up, others were asked already); may raise.
        """
        while True:
            record = self._logbook.resumed(at, by, came)
            winner = await self._logbook.append(at, record)
            if winner is None or winner.by == by:
                await self.push(at.after(winner or record), by)
                return None
            if winner.kind is not Kind.RECEIVED:
                return winner
            at = at.after(winner)  # the wait goes on, one slot further
            again = came if anew is None else anew(at)
            if again is None:
                return winner
            came = again

    async def push(self, at: Standing, by: str) -> None:
        """A wait that is over has its token woken; one to which a part has come looks for more."""
        moved: Standing | None = at
        if at.token.resumption is None:
            moved = await self._performer.perform(at, by)
        if moved is not None and moved.token.resumption is not None:
            await self.wake(moved.wake())

    async def publish(self, publish: Publish) -> None:
        """The event first, then the waits: whoever registers in between reads the event itself."""
        store, event, by = self._ports.store, publish.event, publish.id
        settings = self._catalog.event_settings(event.topic.name)
        try:
            if not publish.kept:
                await store.put_event(event, settings.max_pending)
        except Conflict as refusal:  # its topic is full: to come again would not help
            _logger.error("event %s of %s is refused: %s", event.id, event.topic.name, refusal.code)
            return
        kept = await store.get_event(event.topic, event.id)
        if kept is not None and not kept.consumed_by:
            run_id = run_of(event.topic)
            if run_id is None or not await self._offer_to_run(kept, run_id, by):
                await self._offer(kept, by)
            kept = await store.get_event(event.topic, event.id)
        if kept is not None and kept.consumed_by:
            await self._push_consumer(kept, by)

    async def _offer(self, event: Event, by: str) -> None:
        """To one waiter after the other, the oldest first: until one takes it, or to all where it is not consumed.

        Waits that are over are cleared away.
        """
        store = self._ports.store
        for waiter in await store.waiters(event.topic):
            at = await self._logbook.load(waiter.run_id, waiter.token)
            if at is not None and at.token.last is not None and at.token.last.by == by:
                await self.push(at, by)  # mine, from before a crash
                continue
            done = None if at is None else await self._performer.mailbox.offer(at, waiter, event, by)
            if at is None or done is Consumed.SLOT_TAKEN:
                await self._forget(at, waiter)
            elif isinstance(done, Standing) and not _consumed(done):
                await self.push(done, by)
            if done is Consumed.EVENT_TAKEN or (isinstance(done, Standing) and _consumed(done)):
                return

    async def _forget(self, at: Standing | None, waiter: Waiter) -> None:
        """A wait that was over when it was read. One that another just ended is forgotten by whoever goes on."""
        if at is None or at.token.waiting_slot != waiter.slot:
            await self._ports.store.forget_waiter(waiter)

    async def _offer_to_run(self, event: Event, run_id: str, by: str) -> bool:
        """To the wait that the run's log ends with, if it is for this event. Branches register theirs."""
        at = await self._logbook.load(run_id, ROOT)
        if at is not None and at.token.last is not None and at.token.last.by == by:
            await self.push(at, by)  # mine, from before a crash
            return True
        if at is None or at.token.parked is None or receive(at.token.phase, Received.EVENT) is not Verdict.TAKE:
            return False
        for waiter in waiters_of(at, at.token.parked, at.token.waiting_slot):
            if waiter.topic == event.topic:
                done = await self._performer.mailbox.offer(at, waiter, event, by)
                if isinstance(done, Standing) and not _consumed(done):
                    await self.push(done, by)
                if done is not None:
                    return True
        return False

    async def _push_consumer(self, event: Event, by: str) -> None:
        """Whoever this publisher gave it to, now or before a crash, goes on, also where looking for more took more.

        Another's consumer is pushed by that one.
        """
        run_id, token_id, _ = event.consumed_by.split("|")
        at = await self._logbook.load(run_id, token_id)
        if at is not None and at.token.last and at.token.last.by == by:
            await self.push(at, by)

    async def expire(self, deadline: Deadline) -> None:
        """The run's own timeout: it counts waiting, and overrides any step's own."""
        at = await self._logbook.load(deadline.run_id, ROOT)
        if at is None:
            return
        limit_ms = deadline_ms(at.graph, at.run, at.token)
        if limit_ms is None and at.token.undoing is None:
            return
        if limit_ms is not None and self._ports.clock.now_ms() < limit_ms and not at.token.ended:
            await self._performer.alarms.look_again(Lane.RESUME, deadline, limit_ms, deadline)
            return
        end = End(Status.TIMED_OUT, timeout_failure(at.graph))
        await self.end(deadline.run_id, end, Received.DEADLINE, deadline.id)

    async def end(
        self, run_id: str, end: End, received: Received, by: str, *, reason: str = "", who: str = ""
    ) -> tuple[bool, Token]:
        """Ends a run from outside at its next free slot. False when it had ended already (by another).

        The append is the acknowledgement: from then on no step result of the run can be committed.
        """
        while True:
            at = await self._logbook.load(run_id, ROOT)
            if at is None:
                return False, Token()
            is_told = received is Received.CANCEL and at.token.cleaning is not None  # once is enough
            if is_told or receive(at.token.phase, received) is not Verdict.TAKE:
                await self._performer.perform(at, by)  # its effects may not have happened before a crash
                mine = bool(at.token.last and at.token.last.by == by)
                from_outside = at.token.last is not None and at.token.last.kind is Kind.ENDED
                if (mine or from_outside) and not at.token.ended:  # who broke it off may have died before this
                    await self.wake(at.wake())
                return mine, at.token
            moment = self._logbook.moment(at, by)
            record = ended_record(moment, at.token, end.status, end.error, reason=reason, who=who)
            if await self._logbook.append(at, record) is None:
                at = at.after(record)
                await self._performer.perform(at, by)
                if not at.token.ended:  # it is undone first
                    await self.wake(at.wake())
                return True, at.token

    async def bury(self, wake: Wake, by: str) -> None:
        """A step that killed its worker too often has failed, which the workflow can take.

        Where the token has moved since, or no user code was next, it was not that step's fault: a fresh wake follows,
        a bounded number of times.
        """
        if wake.count > 1:  # which of them it was, a message for each will tell
            wakes = [replace(wake, token=token, count=1) for token in wake.tokens]
            await self._ports.queue.send_all(Lane.WORK, [to_json(one) for one in wakes])
            return
        at = await self._logbook.load(wake.run_id, wake.token)
        if at is None:
            return
        mine = at.token.last is not None and at.token.last.by == by
        if is_stale(at.token, wake) and not mine:
            return
        died_at = await self._pushed_on(at, wake)
        if died_at is not None:
            await self.wake(died_at.wake())
            return
        at = await self._performer.rollback.prepare(at, by)
        if at.token.slot == wake.slot and (record := self._lost(at, by)) is not None:
            await self._performer.perform(at, by)  # who died may not have come to what the last record demands
            winner = await self._logbook.append(at, record)
            if winner is not None and winner.by != by:
                return
            at = at.after(winner or record)
        elif wake.hops >= HOPS and (not mine or at.token.ended):  # ended by me: what that demands may not be done yet
            message = f"{HOPS} times every worker died at record {at.token.slot}, where no step is next"
            end = End(Status.FAILED, Failure("hop_limit", "worker_lost", message))
            await self.end(wake.run_id, end, Received.TERMINATE, by)  # also one that is being undone
            return
        await self.wake(at.wake(wake.hops + 1 if at.token.slot == wake.slot else 0))

    async def _pushed_on(self, at: Standing, wake: Wake) -> Standing | None:
        """The parent, where the branch had ended and its worker died of what the parent does next."""
        place = parent_of(at.token.id)
        if not at.token.ended or place is None or at.token.last is None:
            return None
        parent = await self._logbook.load(wake.run_id, place[0])
        if parent is None or parent.token.last is None or parent.token.last.by not in {wake.id, at.token.last.by}:
            return None
        return await self._pushed_on(parent, wake) or (None if parent.token.ended else parent)

    def _lost(self, at: Standing, by: str) -> Record | None:
        """The step's failure; None where no step was next."""
        moment = self._logbook.moment(at, by)
        action = decide(moment, at.token)
        message = f"the worker died with this step {DELIVERIES} times"
        if isinstance(action, AskFunction):
            return functions.lost(moment, at.token, Failure("worker_lost", "worker_lost", message))
        if not isinstance(action, RunStep):
            return None
        failure = Failure("worker_lost", "worker_lost", message, action.node, action.attempt)
        policy = resolve_policy(action.step, StepDefaults())
        return commit(moment, at.token, action, Outcome(failure=failure, started_ms=moment.now_ms), policy)


def _consumed(at: Standing) -> bool:
    """Whether the event that it was given is gone for others."""
    came = at.token.last.resumption if at.token.last else None
    return came is not None and not came.seen
