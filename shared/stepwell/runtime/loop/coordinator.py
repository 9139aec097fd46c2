"""The coordinator: turns events, deadlines and lost workers into inputs, and wakes the runs that move."""

from __future__ import annotations

import logging
from dataclasses import replace

from stepwell.definition.event_names import is_own
from stepwell.engine.actions import Drop, Rest, Write
from stepwell.engine.forks.branches import parent_of
from stepwell.engine.inputs import Cancelled, DeadlinePassed, EventOffered, Input, Terminated, WorkerLost
from stepwell.engine.pushing import in_place_of, is_stale, pushes, pushes_end
from stepwell.engine.receiving import has_seen
from stepwell.engine.records import ROOT, CleanUp, Failure
from stepwell.engine.table import PARKED
from stepwell.engine.waits import branch_of, run_of, run_topic
from stepwell.engine.waits.code import DEPLOYED_TOPIC
from stepwell.errors import Conflict, EngineFault
from stepwell.limits import DEPLOYED_KEPT_MS, HOPS, SECOND_MS
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.door import UNLIMITED, Answer, Budget, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import (
    DeadLetter,
    Deadline,
    Deployed,
    EndRun,
    Erase,
    Message,
    Publish,
    Shut,
    Wake,
    to_json,
)
from stepwell.runtime.log.retries import again
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance, can_move
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Event, Lane, Ports, Waiter
from stepwell.runtime.starts.ids import redriven_id
from stepwell.runtime.waits.mailbox import waiters_of

_logger = logging.getLogger("stepwell.coordinator")


class Coordinator:
    """Handles the messages of the resume lane. Every handler may run twice, late, or for a deleted run."""

    def __init__(
        self, ports: Ports, logbook: Logbook, door: Door, advance: Advance, performer: Performer, catalog: Catalog
    ) -> None:
        self._ports, self._logbook, self._catalog = ports, logbook, catalog
        self._door, self._advance, self._performer = door, advance, performer

    async def handle(self, message: Message, budget: Budget = UNLIMITED) -> None:
        """Handles one message. Raises PortError if a port fails: the message is to be redelivered.

        `budget`: once the message belongs to another worker, nothing is appended: this one might die with the record.
        Its time counts for an event that many waits get.
        """
        match message:
            case Publish():
                await self.publish(message, budget)
            case Deployed(deploy_id):
                await self.publish(Publish(self._deployed(deploy_id)), budget)
            case Deadline():
                await self.expire(message, budget)
            case DeadLetter(wake):
                await self.bury(wake, message.id, budget)
            case Shut():
                await self._performer.forking.shut(message, message.id)
            case EndRun(run_id):
                reason = f"the run that waited for it, {message.parent}, has gone on or ended"
                if message.slot < 0:
                    reason = f"a newer run, {message.parent}, takes its place under their limit"
                await self.end(run_id, Cancelled(reason), message.id, budget)
            case Wake() | Erase():
                await self._ports.queue.send(Lane.WORK, to_json(message))

    def _deployed(self, deploy_id: str) -> Event:
        """Returns the event of a deploy. It is kept for a while, for tokens that begin to wait for code just now."""
        now_ms = self._ports.clock.now_ms()
        return Event(DEPLOYED_TOPIC, deploy_id, {}, now_ms, now_ms + DEPLOYED_KEPT_MS)

    # -- events

    async def publish(self, publish: Publish, budget: Budget = UNLIMITED) -> None:
        """Stores the event, then offers it to the waits: a wait that registers in between reads the event itself."""
        event, by, run_id = await self._kept(publish), publish.id, run_of(publish.event.topic)
        if event is None:
            return
        if event.consumed_by:
            await self._push_consumer(event, by, budget)
            return
        if run_id is None:
            await self._offer(event, publish, budget)
            return
        at = await self._logbook.load(run_id, ROOT)
        if not await self._offer_to_run(at, event, by, budget):
            await self._ports.erasure.note_topic(event, run_id)
            await self._offer(event, publish, budget)
            if at is not None and at.token.ended:
                await self._send_on(at, event)

    async def _send_on(self, at: Standing, event: Event) -> None:
        """Sends an event for a run that has ended to the run that a redrive has made of it.

        redrive    reads what was sent to the run ── sends it again
        event               in the queue ──────────────────────────── comes
        """
        is_taken = has_seen(at.token, event.topic, event.at_ms, event.id)
        if is_taken or is_own(event.topic.name) or branch_of(event.topic):
            return
        new = redriven_id(at.run_id)
        if await self._ports.runs.get_run(new) is not None:
            again = replace(event, topic=run_topic(event.topic.name, new))
            await self._ports.queue.send(Lane.RESUME, to_json(Publish(again)))

    async def _kept(self, publish: Publish) -> Event | None:
        """Stores the event, unless it was, and returns it as it is now. None: its topic is full, or it has expired."""
        mailbox, event = self._ports.mailbox, publish.event
        settings = self._catalog.event_settings(event.topic.name)
        try:
            if not publish.kept:
                await mailbox.put_event(event, settings.max_pending)
        except Conflict as refusal:  # a redelivery would not help
            _logger.error("event %s of %s is refused: %s", event.id, event.topic.name, refusal.code)
            return None
        return await mailbox.get_event(event.topic, event.id)

    async def _offer(self, event: Event, publish: Publish, budget: Budget) -> None:
        """Offers the event to the waiters, oldest first, until one takes it; to all of them if it is not consumed.

        Waits that are over are deleted. A run that cannot be read keeps the event from no other: if none of those takes
        it, the EngineFault is raised. If the time is over, a message about the waits that are left follows.
        """
        unread: EngineFault | None = None
        moved = set[tuple[str, str]]()  # tokens whose wait this event ended: none is woken for a second arm
        upto = publish.after
        for waiter in await self._ports.mailbox.waiters(event.topic):
            if _place_of(waiter) <= publish.after or (waiter.run_id, waiter.token) in moved:
                continue
            if upto != publish.after and unread is None and budget.left_ms() == 0:
                await self._ports.queue.send(Lane.RESUME, to_json(Publish(event, kept=True, after=upto)))
                return
            upto = _place_of(waiter)
            try:
                at = await self._at_wait(waiter)
            except EngineFault as fault:
                unread = fault
                continue
            answer = None if at is None else await self._offer_to(at, waiter, event, publish.id, budget)
            if answer is None:
                continue
            if isinstance(answer.action, Drop) and answer.action.is_over and not answer.is_mine:
                await self._forget(answer.at, waiter)
            if _is_gone(answer):
                return
            if _has_moved(answer):
                moved.add((waiter.run_id, waiter.token))
        if unread is not None:
            raise unread

    async def _at_wait(self, waiter: Waiter) -> Standing | None:
        """Loads the token that waits. If there is none any more, deletes the wait and returns None."""
        at = await self._loaded(waiter.run_id, waiter.token)
        if at is None:
            await self._ports.mailbox.forget_waiter(waiter)
        return at

    async def _offer_to(self, at: Standing, waiter: Waiter, event: Event, by: str, budget: Budget) -> Answer | None:
        """Offers the event to a wait, after the older ones that it would take; None if it is not for it."""
        given = self._performer.mailbox.offer(at, waiter, event)
        if given is None:
            return None
        if given.is_consumed and not pushes(at.token, by):
            at = await self._after_older(at, given, by, budget)
        return await self._advance.take(at, given, by, budget)

    async def _after_older(self, at: Standing, given: EventOffered, by: str, budget: Budget) -> Standing:
        """Has the wait take the older events that it would take. Returns the token as it is then.

        One event's message may overtake another's, or find a wait before its worker has looked for what is pending. A
        message about the older one is sent first: whoever handles it pushes the token on, should this one die. It finds
        the token by its wait, whose worker may have died before it registered that.
        """
        while isinstance(self._door.decide(at, given, by), Write):
            older = await self._older(at, given, by)
            if older is None:
                break
            event, offer = older
            for waiter in _waits_for(at, event):
                await self._ports.mailbox.put_waiter(waiter)
            publish, later_ms = Publish(event, kept=True), self._ports.clock.now_ms() + SECOND_MS
            await self._ports.queue.send(Lane.RESUME, to_json(publish), later_ms)
            at = (await self._advance.take(at, offer, publish.id, budget)).at
        return at

    async def _older(self, at: Standing, given: EventOffered, by: str) -> tuple[Event, EventOffered] | None:
        """Returns the oldest event that the wait would take, if that is older than this one; else None."""
        for offer in [one.given for one in await self._performer.mailbox.pending(at)]:
            if not isinstance(offer, EventOffered) or offer.place >= given.place:
                return None
            if isinstance(self._door.decide(at, offer, by), Write):
                found = await self._ports.mailbox.get_event(offer.topic, offer.event_id)
                if found is not None and not found.consumed_by:  # consumed by another wait since
                    return found, offer
        return None

    async def _forget(self, at: Standing, waiter: Waiter) -> None:
        """Deletes a wait that was over when it was read. One that just ended is deleted by whoever goes on."""
        if at.token.waiting_slot != waiter.slot:
            await self._ports.mailbox.forget_waiter(waiter)

    async def _offer_to_run(self, at: Standing | None, event: Event, by: str, budget: Budget) -> bool:
        """Offers the event to the wait at the end of the run's log. Branches register their waits instead."""
        is_mine = False
        if at is None or at.token.parked is None:
            return False
        for waiter in _waits_for(at, event):
            answer = await self._offer_to(at, waiter, event, by, budget)
            if answer is None:
                continue
            if _is_gone(answer) or _has_moved(answer):
                return True
            at, is_mine = answer.at, is_mine or answer.is_mine
        return is_mine

    async def _push_consumer(self, event: Event, by: str, budget: Budget) -> None:
        """Wakes the run that this publish resumed, should whoever did that have died. Another's is left to that one."""
        run_id, token_id, _ = event.consumed_by.split("|")
        at = await self._loaded(run_id, token_id)
        if at is not None and pushes(at.token, by):
            await self._advance.push(at, by, budget, again=True)

    async def _loaded(self, run_id: str, token_id: str) -> Standing | None:
        """Loads a token; None also if its run was deleted while it was read."""
        try:
            return await self._logbook.load(run_id, token_id)
        except EngineFault:
            if await self._ports.runs.get_run(run_id) is None:
                return None
            raise

    # -- ends

    async def expire(self, deadline: Deadline, budget: Budget = UNLIMITED) -> None:
        """Ends a run whose time limit has passed. The limit includes waiting, and overrides those of steps."""
        answer = await self.end(deadline.run_id, DeadlinePassed(), deadline.id, budget)
        if answer is not None and isinstance(answer.action, Rest) and answer.action.until_ms is not None:
            await self._performer.alarms.look_again(
                Lane.RESUME, deadline, answer.action.until_ms, deadline, answer.at.header.created_ms
            )

    async def end(self, run_id: str, given: Input, by: str, budget: Budget = UNLIMITED) -> Answer | None:
        """Ends a run from outside at its next free slot. Returns None if there is no such run.

        The append is the acknowledgement: from then on no step result of the run can be committed. Whoever ended the
        run performs the effects of that, again on a redelivery, and wakes the worker that undoes the run. Nobody else
        does: a worker may be at it, and a child that is told of the end of its parent's wait would tell its parent.
        """
        at = await self._logbook.load(run_id, ROOT)
        if at is None:
            return None
        if at.token.last is not None and isinstance(at.token.last.next, CleanUp):
            # its canceller may have died before it ended the tasks; what follows a later record is its writer's work
            at = await self._advance.settle(at, by, budget=budget) or at
        answer = await self._door.put(at, given, by, budget)
        if isinstance(answer.action, Rest):
            return answer
        token = answer.at.token
        if pushes_end(token, by):
            await self._advance.settle(answer.at, by, budget=budget)
            if can_move(token):  # the worker undoes it first
                await self._advance.wake_once(answer.at, budget, again=not answer.is_new)
        return answer

    # -- lost workers

    async def bury(self, wake: Wake, by: str, budget: Budget = UNLIMITED) -> None:
        """Fails a step that killed its worker too often: the workflow can handle that error.

        If the token has moved since, or no user code was next, it was not that step's fault: a fresh wake follows, a
        bounded number of times.
        """
        if wake.count > 1:  # a message for each will tell which of them it was
            await self._ports.queue.send_all(Lane.WORK, [again(to_json(one)) for one in wake.each])
            return
        at = await self._logbook.load(wake.run_id, wake.token)
        if at is None:
            return
        await self._performer.mend(at, wake.slot, wake.id, by)
        if is_stale(at.token, wake.slot, wake.id, by):
            if wake.hops >= HOPS:
                await self._end_again(wake.run_id)
        elif (died_at := await self._pushed_on(at, wake)) is not None:
            await self._advance.wake(died_at)
        else:
            await self._fail_lost_step(at, wake, by, budget)

    async def _fail_lost_step(self, at: Standing, wake: Wake, by: str, budget: Budget) -> None:
        mine, waits_by_now = pushes(at.token, by), at.token.slot != wake.slot and at.token.phase in PARKED
        at, lost = await self._performer.rollback.prepare(at, by), WorkerLost(wake.slot)
        if not mine and isinstance(self._door.decide(at, lost, by), Write):
            # the dead worker may not have performed the last record's effects
            await self._advance.settle(at, by, budget=budget)
            answer = await self._door.put(at, lost, by, budget)
            if not answer.is_mine:
                return
            at = answer.at
        elif wake.hops >= HOPS and not waits_by_now and (not mine or at.token.ended):
            # ended by this message: the effects of that may not be performed yet
            message = f"{HOPS} times every worker died at record {at.token.slot}, where no step is next"
            error = Failure("hop_limit", "worker_lost", message)
            await self.end(wake.run_id, Terminated(error), by, budget)  # also a run that is being undone
            await self._end_again(wake.run_id)
            return
        await self._advance.wake(at, wake.hops + 1 if at.token.slot == wake.slot else 0)

    async def _end_again(self, run_id: str) -> None:
        """Performs the effects of the run's end again: an earlier delivery, or a branch, may have died before."""
        root = await self._logbook.load(run_id, ROOT)
        if root is not None and root.token.ended and root.token.last is not None:
            await self._advance.settle(root, root.token.last.by)

    async def _pushed_on(self, at: Standing, wake: Wake) -> Standing | None:
        """Returns the parent if the branch had ended and its worker died of the parent's next step."""
        place = parent_of(at.token.id)
        if not at.token.ended or place is None:
            return None
        parent = await self._logbook.load(wake.run_id, place[0])
        if parent is None or not pushes(parent.token, *in_place_of(at.token, wake.id)):
            return None
        return await self._pushed_on(parent, wake) or (None if parent.token.ended else parent)


def _waits_for(at: Standing, event: Event) -> list[Waiter]:
    """Returns the token's waits for events of this topic."""
    parked = at.token.parked
    waits = () if parked is None else waiters_of(at, parked, at.token.waiting_slot)
    return [waiter for waiter in waits if waiter.topic == event.topic]


def _place_of(waiter: Waiter) -> tuple[int, str, str, int, int]:
    """Returns the place of a wait among those of its topic, which are in this order."""
    return waiter.since_ms, waiter.run_id, waiter.token, waiter.slot, waiter.arm


def _has_moved(answer: Answer) -> bool:
    """Tells whether this event ended the wait, so that a worker was woken."""
    return answer.is_mine and can_move(answer.at.token)


def _is_gone(answer: Answer) -> bool:
    """Tells whether the event is consumed, so that nobody else can take it."""
    last = answer.at.token.last
    resumption = last.resumption if answer.is_mine and last is not None else None
    return answer.is_taken or (resumption is not None and not resumption.seen)
