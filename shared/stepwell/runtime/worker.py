"""The advance loop: who wrote the last record pushes on, effects come before the next append, one slot has one winner.

wake -> load, fold -> stale? drop
     -> effects of the last record (they may not have happened before a crash)
     -> decide -> run the step -> commit -> append -> refused? the winner's `by` says whether to go on
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import DEFAULT_POOL, Json, Step
from stepwell.engine.actions import AskFunction, Outcome, Rest, RunStep, Write
from stepwell.engine.attempts import commit
from stepwell.engine.children import DETACHED
from stepwell.engine.decide import decide
from stepwell.engine.effects import picked_up
from stepwell.engine.functions import refused
from stepwell.engine.names import state_of
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.transact import Refusal
from stepwell.engine.writing import began_record, deadline_ms
from stepwell.errors import EngineFault
from stepwell.limits import FORK_SHARED_MS, HOPS
from stepwell.runtime.action_log import log_started, log_written
from stepwell.runtime.logbook import Forks, Logbook, Standing, run_info
from stepwell.runtime.messages import Wake, to_json
from stepwell.runtime.perform import Performer
from stepwell.runtime.ports import Lane, Ports


@dataclass(frozen=True, slots=True)
class StepCall:
    """One attempt, as the executor gets it."""

    run: str
    input: Json
    run_id: str
    workflow: str
    token: str
    node: str
    attempt: int
    key: str
    timeout_ms: int
    resumed: Json
    state: Json
    request: Json = None  # of an HTTP step


WriteRecord: TypeAlias = Callable[[Record], Awaitable[bool]]


class Steps(Protocol):
    """Runs users' code. Never raises: whatever happens in a step is an Outcome."""

    def policy(self, step: Step) -> Policy:
        """The definition's options over the function's own."""

    async def run(self, call: StepCall) -> Outcome: ...

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        """The token with its durable function's turn."""

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        """What its durable function says to a query, as it stands. Raises NotFound, Conflict."""

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Standing | None:
        """The token once its durable function's handler did what the record asks, and `write` has kept that.

        None: not now. What the handler did is forgotten then.
        """


class Budget(Protocol):
    """How long this invocation may still go on."""

    def left_ms(self) -> int | None:
        """How much time is left for steps; None where nobody counts."""


class Unlimited:
    """A worker that nobody stops: this machine's."""

    def left_ms(self) -> int | None:
        return None


class Worker:
    """Pushes one token as far as it goes."""

    def __init__(
        self,
        ports: Ports,
        logbook: Logbook,
        performer: Performer,
        steps: Steps,
        jitter: Callable[[], float],
        pool: str | None = None,
    ) -> None:
        self._ports, self._logbook, self._performer = ports, logbook, performer
        self._steps, self._jitter, self._pool = steps, jitter, pool

    async def handle(self, wake: Wake, budget: Budget) -> None:
        """Advances the wake's tokens. Raises PortError when the world did not answer: the wake is to come again."""
        known: Forks = {}
        until_ms = self._ports.clock.now_ms() + FORK_SHARED_MS
        owns = [replace(wake, token=token, count=1) for token in wake.tokens]  # a token's records name its own wake
        for number, own in enumerate(owns):
            token = own.token
            if number and self._ports.clock.now_ms() > until_ms:
                # Small steps share a message, and longer ones run beside each other.
                await self._ports.queue.send_all(Lane.WORK, [to_json(left) for left in owns[number:]])
                return
            at = await self._logbook.load(wake.run_id, token, known, fresh=wake.slot < 0)
            fresh = token == wake.token  # those that come after it have less time than a message of their own had
            while at is not None and (at.token.id != token or not is_stale(at.token, own)):
                at, fresh = await self._once(at, own, budget, known, fresh), False

    async def _once(self, at: Standing, wake: Wake, budget: Budget, known: Forks, fresh: bool) -> Standing | None:
        """One record further; None when there is nothing left to do for this wake."""
        moved = await self._performer.perform(at, wake.id, known)
        if moved is not None:
            return moved
        at = await self._performer.rollback.prepare(at, wake.id)
        action = decide(self._logbook.moment(at, wake.id, self._jitter()), at.token)
        if at.token.branch is None and at.token.phase is Phase.INITIALIZING and not isinstance(action, Rest):
            at = await self._pick_up(at)
            action = decide(self._logbook.moment(at, wake.id, self._jitter()), at.token)  # it knows now when it started
        if isinstance(action, AskFunction):
            at = await self._steps.asked(at, self._logbook)
            action = decide(self._logbook.moment(at, wake.id, self._jitter()), at.token)
        match action:
            case Rest(until_ms):
                if until_ms is None:
                    return None
                await self._performer.alarms.look_again(Lane.WORK, at.wake(), until_ms, wake)
                return None
            case Write(record, ()):
                return await self._append(at, record)
            case Write():
                return await self._transact(at, action, wake, fresh)
            case RunStep():
                return await self._attempt(at, action, wake, budget, fresh)
            case AskFunction():
                raise EngineFault(f"{at.token.id} asks its function twice", code="no_turn")

    def _is_ours(self, pool: str, wake: Wake) -> bool:
        """A step of another pool goes to that pool's queue. A pool without one, or two that disagree, must not send
        it round for ever: what was addressed to its pool runs where it came, and so does what went round too often."""
        return self._pool is None or pool in (self._pool, wake.pool) or wake.hops >= HOPS

    async def _pick_up(self, at: Standing) -> Standing:
        """The run is no longer pending: before its first record."""
        now_ms = self._ports.clock.now_ms()
        if await self._performer.show(at, picked_up(at.token, now_ms)):
            return replace(at, run=replace(at.run, started_ms=now_ms))
        if at.run.started_ms:  # an earlier delivery did
            return at
        header = await self._ports.store.get_run(at.run_id)  # another did just now
        return at if header is None else replace(at, run=run_info(header))

    async def _append(self, at: Standing, record: Record) -> Standing | None:
        """The winner of the slot decides: this record, an earlier delivery's of this very wake, or another's."""
        return await self._after(at, record, await self._logbook.append(at, record))

    async def _after(self, at: Standing, record: Record, winner: Record | None) -> Standing | None:
        if winner is None:
            log_written(at, record)
        elif winner.by != record.by:
            return None
        return await self._logbook.save_if_due(at.after(winner or record))

    async def _transact(self, at: Standing, action: Write, wake: Wake, fresh: bool) -> Standing | None:
        """The record with the user's own writes, or in their place the record that says why not.

            wake     append_with ── refused, nothing written ── append(failure) ── slot taken? by our own: go on with it
            its twin     └─ the condition holds by now: written ────────┘

        The pool that may write to users' tables is the default one, whose worker has most likely come here.
        """
        if not self._is_ours(DEFAULT_POOL, wake):
            await self._hand_over(at, DEFAULT_POOL, wake.hops + 1 if fresh else 0)
            return None
        found = await self._logbook.append_with(at, action.record, action.also)
        if not isinstance(found, Refusal):
            return await self._after(at, action.record, found)
        moment = self._logbook.moment(at, wake.id, self._jitter())
        return await self._append(at, refused(moment, at.token, action.also, found))

    async def _hand_over(self, at: Standing, pool: str, hops: int = 0) -> None:
        await self._ports.queue.send(Lane.WORK, to_json(replace(at.wake(hops), pool=pool)))

    async def _attempt(self, at: Standing, action: RunStep, wake: Wake, budget: Budget, fresh: bool) -> Standing | None:
        """Runs the step, or hands over when this invocation may end before it does.

        A fresh invocation runs it all the same, with the time it has: the next one would have no more.
        """
        policy = self._policy(action)
        if not self._is_ours(policy.pool, wake):
            await self._hand_over(at, policy.pool, wake.hops + 1 if fresh else 0)
            return None
        left_ms = budget.left_ms()  # now: to know the policy, the user's module may have been imported
        if left_ms is not None and left_ms < policy.timeout_ms:
            if not fresh:
                await self._hand_over(at, policy.pool)
                return None
            policy = replace(policy, timeout_ms=max(left_ms, 1))
        if policy.at_most_once and action.undo is None:  # a compensation is idempotent: it may run again
            began = began_record(self._logbook.moment(at, wake.id), at.token, action, policy.timeout_ms)
            winner = await self._logbook.append(at, began)
            if winner is not None:  # an earlier delivery began it: what came of it is for the next look to say
                return at.after(winner) if winner.by == wake.id else None
            at = replace(at.after(began), turn=at.turn)  # the step is still what its function asked for
        log_started(at, action)
        outcome = replace(await self._outcome(at, action, policy), started_ms=action.at_ms)
        moment = self._logbook.moment(at, wake.id, self._jitter())
        return await self._append(at, commit(moment, at.token, action, outcome, policy))

    def _policy(self, action: RunStep) -> Policy:
        if not action.step.run.startswith(DETACHED):
            return self._steps.policy(action.step)
        own = replace(action.step, pool=self._pool)  # whoever is here can start a run
        return resolve_policy(own, StepDefaults())

    async def _outcome(self, at: Standing, action: RunStep, policy: Policy) -> Outcome:
        if action.step.run.startswith(DETACHED):
            return await self._performer.children.start_detached(at, action)
        return await self._steps.run(self._call(at, action, policy))

    def _call(self, at: Standing, action: RunStep, policy: Policy) -> StepCall:
        limit_ms = deadline_ms(at.graph, at.run, at.token)
        left_ms = policy.timeout_ms if limit_ms is None else max(limit_ms - self._ports.clock.now_ms(), 1)
        return StepCall(
            run=action.step.run,
            input=action.input,
            run_id=at.run_id,
            workflow=at.run.workflow,
            token=at.token.id,
            node=action.node if action.undo is None else f"{action.node}.compensate",
            attempt=action.attempt,
            key=action.key,
            timeout_ms=min(policy.timeout_ms, left_ms),
            resumed=action.resumed,
            state=state_of(at.token),
            request=action.request,
        )


def is_stale(token: Token, wake: Wake) -> bool:
    """A wake is good at the slot it was sent for, or at a record written under it; else somebody else pushes."""
    return token.slot != wake.slot and (token.last is None or token.last.by != wake.id)
