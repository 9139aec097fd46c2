"""Locks: each is a queue, kept as a note; the first claim in it has the lock.

     take     my wait is in my log ── my claim goes into the queue ── first? mine ── else see that the first lives
     release  my log has moved on  ── my claim leaves the queue ────── whoever is first now is woken

A claim is valid as long as the log that it names still asks for the lock; once it does not, it never does again. So a
claim that a late worker leaves behind harms nobody: whoever finds it first in the queue reads that log, and removes the
claim. And as each actor changes the queue before it checks the first claim, one of two sees the other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from stepwell.definition.text import counted
from stepwell.engine.effect_kinds import ReleaseLocks, TakeLocks
from stepwell.engine.inputs import LocksAnswered
from stepwell.engine.limits.locks import LOCKED, REFUSED, Claim, asks, waits
from stepwell.engine.records import Resumption
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, PortError
from stepwell.limits import LOCK_QUEUE, LOCK_TRIES
from stepwell.runtime.log.door import FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.starts.starting import Caller
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.locks")
_NOTE = "queue"  # the note's name; its kind names the lock, so that each lock is a partition of its own


class Turn(StrEnum):
    """The state of a claim."""

    MINE = "mine"
    OTHERS = "others"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class _Queue:
    """The holder of a lock, and those who wait for it in turn; `body` is the note as it was read."""

    claims: tuple[Claim, ...] = ()
    body: str | None = None


class Locks:
    """Queues of claims. Every operation may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    # -- the effects

    async def take(self, at: Standing, effect: TakeLocks) -> list[FoundInput]:
        """Takes the locks. Returns the end of the wait if all are this token's, or one never will be."""
        claim = Claim(at.run_id, at.token.id, effect.slot)
        turn, name = await self.claim(claim, effect.names)
        resumption = await self._answer(at, effect, turn, name)
        if resumption is not None:
            return [FoundInput(at, LocksAnswered(effect.slot, effect.names, resumption))]
        if not await self._asks(claim):  # this worker is late: the lock may have been released before it queued again
            await self.let_go(claim, effect.names)
        return []

    async def drop_late(self, at: Standing, given: LocksAnswered) -> None:
        """Leaves the queues that a late worker has joined again, if its locks were released since its wait ended.

        worker   first ── locked ───────────────────── ended ── out of the queue
        late                   └── that record is there ─────────────────────── in the queue ── out of it
        """
        claim = Claim(at.run_id, at.token.id, given.slot)
        if not await self._asks(claim):
            await self.let_go(claim, given.names)

    async def _answer(self, at: Standing, effect: TakeLocks, turn: Turn, name: str) -> Resumption | None:
        """Returns the end of the wait for locks; None if it goes on."""
        if turn is Turn.MINE:
            return Resumption(LOCKED, payload={"locks": list(effect.names)})
        if turn is Turn.FULL:
            return Resumption(REFUSED, name=name, payload={"lock": name})
        owner = await self._held_above(at, name)
        return Resumption(REFUSED, name=name, payload={"lock": name, "owner": owner}) if owner else None

    async def _held_above(self, at: Standing, name: str) -> str | None:
        """Returns the run above this one that has the lock: it waits for this run, so it would never release it."""
        caller = Caller.of(at.header)
        first = (await self._read(name)).claims[:1] if caller else ()
        while first and caller is not None and caller.index >= 0:
            if first[0].run_id == caller.run_id and f"{caller.token}/".startswith(f"{first[0].token}/"):
                return caller.run_id
            above = await self._ports.runs.get_run(caller.run_id)
            caller = None if above is None else Caller.of(above)
        return None

    async def release(self, at: Standing, effect: ReleaseLocks) -> None:
        """Releases locks, and logs how many; what was released before is not counted again."""
        count = 0
        for locks in effect.locks:
            count += await self.let_go(Claim(at.run_id, at.token.id, locks.slot), locks.names)
        if count:
            ids = {"run_id": at.run_id, "token": at.token.id, "locks": count}
            _logger.info("%s released %s", at.run_id, counted(count, "lock"), extra=ids)

    # -- queues

    async def claim(self, claim: Claim, names: Iterable[str]) -> tuple[Turn, str]:
        """Queues the claim for these locks. Returns MINE if all are its own now, else how and for which it waits.

        All callers name locks in the same order. A claim that becomes the first is woken.
        """
        for name in names:
            turn = await self._claim(claim, name)
            if turn is not Turn.MINE:
                return turn, name
        return Turn.MINE, ""

    async def _claim(self, claim: Claim, name: str) -> Turn:
        for _ in range(LOCK_TRIES):
            queue = await self._read(name)
            if claim not in queue.claims:
                if len(queue.claims) >= LOCK_QUEUE:
                    return Turn.FULL
                changed = await self._write(name, queue, (*queue.claims, claim))
                if changed is None:
                    continue
                queue = changed
            if queue.claims[0] == claim:
                return Turn.MINE
            if await self._see_to_first(name, queue):
                return Turn.OTHERS
        raise _busy(name)

    async def let_go(self, claim: Claim, names: Iterable[str]) -> int:
        """Removes the claim from these queues and tells the next first. Returns in how many it was."""
        return sum([await self._let_go(claim, name) for name in names])

    async def _let_go(self, claim: Claim, name: str) -> bool:
        was_in = False
        for _ in range(LOCK_TRIES):
            queue = await self._read(name)
            if claim in queue.claims:
                changed = await self._write(name, queue, tuple(one for one in queue.claims if one != claim))
                if changed is None:
                    continue
                was_in, queue = True, changed
            if not queue.claims or await self._see_to_first(name, queue):
                return was_in
        raise _busy(name)

    async def _see_to_first(self, name: str, queue: _Queue) -> bool:
        """Tells whether the first in the queue still asks for the lock; wakes it if it does not know that it has it.

        Otherwise the claim is removed, and the queue has to be read again.
        """
        first = queue.claims[0]
        try:
            at = await self._logbook.load(first.run_id, first.token)
        except EngineFault as fault:  # nobody can tell whether it has ended, so it holds the lock
            _logger.error("lock %r is held by %s, whose log cannot be read: %s", name, first.run_id, fault)
            return True
        if at is None or not _is_good(first, at):
            await self._write(name, queue, queue.claims[1:])
            return False
        if waits(at.token):
            await self._ports.queue.send(Lane.WORK, to_json(at.wake()))
        return True

    async def _asks(self, claim: Claim) -> bool:
        at = await self._logbook.load(claim.run_id, claim.token)
        return at is not None and _is_good(claim, at)

    async def _read(self, name: str) -> _Queue:
        body = await self._ports.notes.get_note(_kind(name), _NOTE)
        return _Queue() if body is None else _Queue(tuple(Claim(*one) for one in json.loads(body)), body)

    async def _write(self, name: str, queue: _Queue, claims: tuple[Claim, ...]) -> _Queue | None:
        """Writes a queue; deletes the note of an empty one. Returns None if another actor changed it meanwhile."""
        notes, kind = self._ports.notes, _kind(name)
        if not claims:
            return _Queue() if await notes.drop_note(kind, _NOTE, queue.body) else None
        body = json.dumps([[one.run_id, one.token, one.slot] for one in claims], separators=(",", ":"))
        is_put = await notes.put_note(kind, _NOTE, body, queue.body, replaces=queue.body is not None)
        return _Queue(claims, body) if is_put else None

    # -- for observers

    async def is_stuck(self, at: Standing) -> bool:
        """Tells whether a token that waits for locks could go on, or is in no queue, and was not told."""
        locks = at.token.locks
        if locks is None:
            return False
        claim = Claim(at.run_id, at.token.id, locks.slot)
        for name in locks.names:
            queue = (await self._read(name)).claims
            if claim not in queue:
                return True
            if queue[0] != claim:
                return not await self._asks(queue[0])
        return True

    async def with_owners(self, at: Standing, most: int) -> Standing:
        """Returns the run with the owners of locks that its tokens wait for: of at most `most` of its branches."""
        token = await self._with_owner(at.run_id, at.token)
        left = [most]

        async def shown(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            made = []
            for one in tokens:
                is_told = waits(one) and left[0] > 0
                left[0] -= is_told
                made.append(await self._with_owner(at.run_id, one) if is_told else one)
            return tuple(made)

        return replace(at, token=token, branches=await shown(at.branches))

    async def _with_owner(self, run_id: str, token: Token) -> Token:
        """Returns the token with the lock that it waits for, its owner, and how many come before."""
        if not waits(token) or token.parked is None or token.locks is None:
            return token
        claim, data = Claim(run_id, token.id, token.locks.slot), dict(token.parked.data)
        for name in token.locks.names:
            queue = (await self._read(name)).claims
            if queue and queue[0] != claim:
                ahead = queue.index(claim) if claim in queue else len(queue)
                data |= {"lock": name, "owner": queue[0].run_id, "ahead": ahead}
                break
        return replace(token, parked=replace(token.parked, data=data))


def _is_good(claim: Claim, at: Standing) -> bool:
    return at.token.id == claim.token and asks(at.token, claim.slot)


def _busy(name: str) -> PortError:
    return PortError(f"the queue of lock {name!r} was changed by others {LOCK_TRIES} times")


def _kind(name: str) -> str:
    return f"lock:{name}"
