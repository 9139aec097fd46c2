"""The advance loop: the writer of the last record pushes on, effects precede the next append, one slot has one winner.

wake -> load, fold -> stale? drop
 -> effects of the last record (they may not have happened before a crash)
 -> decide -> run the step -> commit -> append -> refused? the winner's `by` says whether to go on
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import DEFAULT_POOL
from stepwell.engine.actions import AskCost, AskFunction, AskPermit, Hold, Outcome, PickUp, Rest, RunStep, Write
from stepwell.engine.copying import changed, quick
from stepwell.engine.effects import picked_up
from stepwell.engine.holding import is_held
from stepwell.engine.inputs import OverLimit, StepBegins, StepEnded, Woken
from stepwell.engine.names import Spent
from stepwell.engine.pushing import is_stale
from stepwell.engine.records import Kind, Status
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.engine.starts import has_begun
from stepwell.engine.stored.token_batches import BATCH
from stepwell.errors import EngineFault, LeaseLost, NotFound, PortError
from stepwell.limits import HOPS
from stepwell.runtime.log.action_log import log_started, log_tried_again
from stepwell.runtime.log.door import Answer, Budget, Door, needed_ms
from stepwell.runtime.log.lanes import Crew
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.log.open_batch import OpenBatch
from stepwell.runtime.log.standing import Forks, Standing, run_info
from stepwell.runtime.log.taking import taken
from stepwell.runtime.loop.advance import Advance, can_move
from stepwell.runtime.loop.attempts import Attempts, Late, is_own
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.loop.resting import Resting
from stepwell.runtime.loop.sharing import Share, Sharing
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.ports import Lane, Pause, Ports
from stepwell.runtime.steps.port import Steps
from stepwell.runtime.waits.lines import Turn
from stepwell.runtime.waits.permits import Reply
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.worker")

Spending: TypeAlias = Callable[[Standing, float], Awaitable[Spent]]


class Worker:
    """Pushes one token as far as it goes."""

    def __init__(
        self,
        ports: Ports,
        logbook: Logbook,
        door: Door,
        advance: Advance,
        performer: Performer,
        stopping: Stopping,
        resting: Resting,
        steps: Steps,
        pool: str | None,
        sharing: Sharing,
        spending: Spending,
        attempts: Attempts,
    ) -> None:
        """`spending`: returns what a run has cost, given one of its tokens and its limit in USD."""
        self._spending, self._attempts, self._sharing = spending, attempts, sharing
        self._ports, self._logbook, self._performer = ports, logbook, performer
        self._door, self._advance, self._stopping, self._resting = door, advance, stopping, resting
        self._steps, self._pool = steps, pool

    async def handle(self, wake: Wake, budget: Budget) -> None:
        """Advances the wake's tokens. Raises PortError if a port fails: the wake is to be redelivered."""
        known = Forks()
        is_several = wake.count > 1 and wake.slot < 0
        lanes = await self._logbook.share_lanes(wake.run_id, wake.tokens, known) if is_several else ()
        crew = Crew(lanes, budget.holds)
        share = Share(
            self._ports, wake, self._sharing, crew, lambda own: self._push(_Turn(own, own.id, budget, known.apart())),
            is_first=budget.is_first(),
        )  # fmt: skip
        try:
            while (own := await share.next()) is not None:
                # the later ones have less time than with a message of their own
                await crew.run(self._push(_Turn(own, own.id, budget, known, share, fresh=own.token == wake.token)))
            await crew.finish()
        finally:
            crew.close()
            share.join()

    async def _push(self, turn: _Turn) -> None:
        """Moves one of the wake's tokens as far as it goes."""
        own = turn.wake
        at = self._gathering(await self._load(turn, fresh=own.slot < 0), turn)
        if at is not None and at.token.id == own.token and at.token.slot > own.slot and _is_of_a_copy(at, turn):
            return
        at = await self._untaken(at) if at is not None and _yields(turn) else at
        while at is not None and (at.token.id != own.token or not is_stale(at.token, own.slot, turn.by)):
            # one record further; None: this wake has nothing left to do, or the run pauses
            at = await (self._next(at, turn) if at.is_open else self._settled(at, turn))
            turn = changed(turn, fresh=False) if turn.fresh else turn
            at = at.caught_up if at is not None and at.lane is not None else at

    async def _untaken(self, at: Standing) -> Standing | None:
        """Returns the token that a yielding message found; None if a worker has its run, perhaps only just now."""
        is_behind = not at.header.started_ms and has_begun(at.token)  # the header was read first
        at = await self._logbook.refreshed(at) if is_behind else at
        return None if at.header.started_ms else at

    async def _load(self, turn: _Turn, *, fresh: bool = False) -> Standing | None:
        """Loads the wake's token and finishes what this message left undone there. None: there is no such token."""
        own = turn.wake
        at = await self._logbook.load(own.run_id, own.token, turn.known, fresh=fresh)
        if at is not None:
            at = changed(at, lease=turn.budget)
            is_again = not turn.budget.is_first() and turn.budget.holds()  # else the next delivery mends
            await self._performer.mend(at, own.slot, turn.by, is_again=is_again)
        return at

    def _gathering(self, at: Standing | None, turn: _Turn) -> Standing | None:
        """Returns the token, with an open batch if its workflow has the records of several steps written together.

        On a redelivery records are written one by one: so it is known which step killed its worker.
        """
        if at is None or at.graph.durability != BATCH or at.lane is not None or not turn.budget.is_first():
            return at
        return changed(at, batch=OpenBatch(self._ports.clock))

    async def _settled(self, at: Standing, turn: _Turn) -> Standing | None:
        """Moves the token one record further after the last record's effects. Records in an open batch have none.

        For a pause it stops before them, as its wake repeats them. Not with tasks: others may write its next records
        meanwhile, and then its wake is for those.
        """
        if is_held(at.run, at.token) and can_move(at.token) and not at.token.tasks:
            return await self._rests(at)
        at = await self._stopping.in_line(at) if at.token.parked is not None else at
        moved = await self._advance.settle(at, turn.by, turn.known, turn.budget)
        if moved is not None or at.token.end is not None:  # nothing follows an end but its effects
            return None if moved is None else changed(moved, lease=turn.budget)
        if await self._stopping.stops(at):  # the effects have given back what its last step held
            return await self._rests(at)
        is_behind = at.header.status is Status.PENDING and not at.run.started_ms  # read before it was picked up
        if is_behind and has_begun(at.token):
            at = await self._logbook.refreshed(at)
        if at.token.undoing is not None:
            at = await self._performer.rollback.prepare(at, turn.by)
        return await self._next(at, turn)

    async def _rests(self, at: Standing) -> Standing | None:
        """Stops for a pause. Returns the token if that is over and it goes on here; None if it rests or was woken."""
        on = await self._resting.rests(await self._performer.permits.step_back(at))
        if on is None:
            await self._performer.give_back(at)  # others need not wait for the end of the pause
            await self._stopping.goes_on(at.header)
        return on

    async def _next(self, at: Standing, turn: _Turn) -> Standing | None:
        answer = await self._asked(at, turn)
        match answer.action:
            case RunStep() as action if not action.taken:
                return await self._attempt(answer.at, action, turn)
            case RunStep() as action:
                found, own = await taken(self._logbook, action), resolve_policy(action.step, StepDefaults())
                return await self._ended(answer.at, action, found, own, turn)
            case _ if answer.at.is_open and not answer.is_mine:
                return await self._closed(answer.at, turn)
            case Rest(int(until_ms)):
                await self._performer.alarms.look_again(Lane.WORK, at.wake(), until_ms, turn.wake, at.header.created_ms)
            case Rest() if is_held(answer.at.run, answer.at.token):
                return await self._rests(answer.at)
            case Hold() as action:
                return await self._held(answer.at, action)
            case Write() if answer.is_mine:
                return await self._after(answer, turn)
            case Write():  # it writes to the user's tables, which may be the default pool's alone
                await self._hand_over(at, DEFAULT_POOL, turn)
        return None

    async def _held(self, at: Standing, action: Hold) -> Standing | None:
        """Pauses the run before a branch's step. If the run can no longer pause, the branch goes on."""
        if await self._stopping.pause(at.run_id, Pause(action.by, action.reason)):
            return await self._rests(changed(at, spent=None))
        return changed(at, spent=Spent(0.0))

    async def _closed(self, at: Standing, turn: _Turn) -> Standing | None:
        """Closes the open batch. Returns the token, to be decided again; None if another actor has moved it."""
        answer = await self._door.close(at, turn.by, turn.budget)
        return await self._after(answer, turn) if answer.is_mine else None

    async def _asked(self, at: Standing, turn: _Turn) -> Answer:
        """Returns the next decision, once the run has its permit and is picked up, and its function was asked."""
        transacts = self._is_ours(DEFAULT_POOL, turn.wake)
        while True:
            given = Woken(at.token.slot)
            answer = await self._door.put(at, given, turn.by, turn.budget, transacts=transacts)
            found: Standing | Answer
            match answer.action:
                case _ if answer.at.is_open:
                    return answer
                case PickUp():
                    found = await self._pick_up(answer.at, turn)
                case AskPermit() as asked:
                    found = await self._permitted(answer.at, asked, turn)
                case AskCost(cap_usd):
                    found = changed(answer.at, spent=await self._spending(answer.at, cap_usd))
                case AskFunction():
                    if at.turn is not None:
                        raise EngineFault(f"{at.token.id} asks its function twice", code="no_turn")
                    found = await self._steps.asked(answer.at, self._logbook)
                case _:
                    return answer
            if isinstance(found, Answer):
                return found
            at = found

    async def _permitted(self, at: Standing, asked: AskPermit, turn: _Turn) -> Standing | Answer:
        """Returns the run with its permit, or the end of this turn."""
        reply = await self._permit(at, asked, turn)
        if reply.turn is Turn.REFUSED:
            return await self._door.put(at, OverLimit(reply.reason), turn.by, turn.budget)
        return changed(at, permitted=True) if reply.turn is Turn.GRANTED else Answer(at, Rest(reply.at_ms))

    async def _permit(self, at: Standing, asked: AskPermit, turn: _Turn) -> Reply:
        """Asks for the run's permit. Raises LeaseLost: a permit is of no use to a worker whose message is another's.

        That one may have found no room before the permit was granted here, and be done: so a third is woken.
        """
        lost = LeaseLost(f"the lease of {turn.by} ran out before run {at.run_id} was permitted")
        if not turn.budget.holds():
            raise lost
        reply = await self._performer.permits.ask(at, asked)
        if reply.turn is Turn.GRANTED and not turn.budget.holds():
            await self._advance.wake(at)
            raise lost
        return reply

    def _is_ours(self, pool: str, wake: Wake) -> bool:
        """Tells whether this worker runs steps of the pool; otherwise they go to that pool's queue.

        A pool without a queue, or two that disagree, must not send a step round for ever: what was addressed to its
        pool runs where it came, and so does what went round too often.
        """
        return self._pool is None or pool in (self._pool, wake.pool) or wake.hops >= HOPS

    async def _pick_up(self, at: Standing, turn: _Turn) -> Standing | Answer:
        """Shows the run as running, before its first record. Returns one that was paused meanwhile as paused.

        A message ends here if the run has ended, or another worker took it up just now. Redelivered, that was perhaps
        its own.
        """
        now_ms = self._ports.clock.now_ms()
        if await self._performer.forking.showing.show_root(at, picked_up(at.token, now_ms)):
            return changed(at, run=changed(at.run, started_ms=now_ms))
        header = await self._ports.runs.get_run(at.run_id)  # another worker just did, or the run has ended
        if header is None or header.status.terminal:
            await self._performer.permits.give_back(at)
            if header is None:
                raise NotFound(f"run {at.run_id} was deleted", code="unknown_run")
            return Answer(at, Rest())
        if header.paused_ms and not header.started_ms:
            return changed(at, header=header, run=run_info(header, at.run))
        if header.started_ms and turn.budget.is_first():
            return Answer(at, Rest())
        return changed(at, run=changed(at.run, started_ms=header.started_ms or now_ms))

    async def _hand_over(self, at: Standing, pool: str, turn: _Turn) -> None:
        at = await self._logbook.leave(at)
        hops = turn.wake.hops + 1 if turn.fresh else 0
        await self._ports.queue.send(Lane.WORK, to_json(replace(at.wake(hops), pool=pool)))

    async def _attempt(self, at: Standing, action: RunStep, turn: _Turn) -> Standing | None:
        """Runs the step, or hands over if this invocation may end before the step does.

        A fresh invocation runs it all the same, with the time it has: the next one would have no more.
        """
        policy = self._attempts.policy(action.step)
        left_ms = turn.budget.left_ms()  # read now: finding the policy may import a module
        has_time = left_ms is None or left_ms >= needed_ms(turn.budget, policy.timeout_ms)
        if at.is_open and not (has_time and self._may_wait_for(action, policy, at, turn)):
            return await self._closed(at, turn)
        if not self._is_ours(policy.pool, turn.wake):
            await self._hand_over(at, policy.pool, turn)
            return None
        if not has_time and not turn.fresh:
            await self._hand_over(at, policy.pool, turn)
            return None
        if left_ms is not None and left_ms < policy.timeout_ms:
            policy = replace(policy, timeout_ms=max(left_ms, 1))
        if policy.stuck is not None:
            return await self._ended(at, action, Outcome(failure=policy.stuck, is_stuck=True), policy, turn)
        if policy.at_most_once and action.undo is None:  # a compensation is idempotent: it may run again
            begins = StepBegins(action, policy.timeout_ms, at.token.slot)
            answer = await self._door.put(at, begins, turn.by, turn.budget)
            if isinstance(answer.action, Rest):  # it rests after the records in its batch
                return await (self._closed(answer.at, turn) if answer.at.is_open else self._rests(answer.at))
            if not answer.is_new:  # an earlier delivery began it: the next decision says what follows
                return await self._after(answer, turn) if answer.is_mine else None
            at = changed(answer.at, turn=at.turn)  # the function still asks for this step
        log_started(at, action)
        outcome = await self._attempts.outcome(at, action, policy, *self._late(at, turn))
        if outcome is None:  # ask its function again
            return changed(at, turn=None)
        return await self._ended(at, action, changed(outcome, started_ms=action.at_ms), policy, turn)

    def _may_wait_for(self, action: RunStep, policy: Policy, at: Standing, turn: _Turn) -> bool:
        """Tells whether the open batch may wait for the step: it runs here, now, and others see nothing of it."""
        is_seen = is_own(action.step.run)
        is_due = at.batch is not None and at.batch.left_ms() == 0
        return not is_seen and not is_due and self._is_ours(policy.pool, turn.wake)

    async def _ended(
        self, at: Standing, action: RunStep, outcome: Outcome, policy: Policy, turn: _Turn
    ) -> Standing | None:
        ended = StepEnded(action, outcome, policy, at.token.slot)
        answer = await self._door.put(at, ended, turn.by, turn.budget)
        if answer.is_new and isinstance(answer.action, Write):
            log_tried_again(at, action, answer.action.record, policy)
        return await self._after(answer, turn) if answer.is_mine else None

    async def _after(self, answer: Answer, turn: _Turn) -> Standing | None:
        """Returns the token to go on with, if there is one.

        Another delivery of this message that wrote the record may be steps ahead by now. Then this one begins again as
        if it came now. The token may be with another message, which alone pushes it on.
        """
        if answer.is_new:
            return await self._logbook.save_if_due(answer.at)
        if _is_of_a_copy(answer.at, turn):
            return None
        at, is_ours = await self._load(turn), answer.at.run.started_ms > 0
        return at if at is None or is_ours or not _yields(turn) else await self._untaken(at)

    def _late(self, at: Standing, turn: _Turn) -> tuple[int, Late | None]:
        """Returns the ms after which a step is long, and the work to do then: other branches and the open batch."""
        share = turn.share if turn.share is not None and turn.share.has_more else None
        if at.batch is None or not at.is_open:
            return (share.step_ms(), share.beside) if share else (0, None)
        left_ms = at.batch.left_ms()
        return min(left_ms, share.step_ms()) if share else left_ms, partial(self._while_it_runs, at, turn, share)

    async def _while_it_runs(self, at: Standing, turn: _Turn, share: Share | None) -> None:
        """Appends the open batch and begins other branches while a step runs; on an error, the step's end does.

        If another actor wrote first, or a pause stops the token before its next step, this is noted in the batch.
        """
        try:
            answer = await self._door.close(at, turn.by, turn.budget)
            if at.batch is not None and not answer.is_new:
                at.batch.lost = answer.at
            elif at.batch is not None:
                at.batch.is_shut = answer.at.run.is_paused or await self._stopping.is_due(at)
        except (PortError, LeaseLost) as error:
            _logger.warning("%d records wait for a step: %s", len(at.open_records), error)
        if share is not None:
            await share.beside()


@quick
@dataclass(frozen=True)
class _Turn:
    """The context of a worker. `fresh`: its invocation has only begun. `share`: None beside another branch's step."""

    wake: Wake
    by: str  # its id
    budget: Budget
    known: Forks
    share: Share | None = None
    fresh: bool = False


def _is_of_a_copy(at: Standing, turn: _Turn) -> bool:
    """Tells whether the token's last record, in this message's name, is of a copy of it, which goes on.

    If this message is redelivered, its own earlier worker may have written it. Who closes a gathering begins or ends
    the run in the name of the message that is to come.
    """
    last = at.token.last
    is_in_its_name = last is not None and last.by == turn.by and last.kind not in (Kind.STARTED, Kind.ENDED)
    return is_in_its_name and turn.budget.is_first()


def _yields(turn: _Turn) -> bool:
    """Tells whether the message leaves a run to who took it up. If it is redelivered, that was perhaps its worker."""
    return turn.wake.yields and turn.budget.is_first()
