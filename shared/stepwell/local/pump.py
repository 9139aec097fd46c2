"""The pump: workers that receive messages and dispatch them to the engine, as Lambda does on AWS.

receive ── dispatch ── delete            a dead worker leaves its message leased: it is delivered again
              │ raises
              └── log, release with a growing delay ── too often: the token fails with worker_lost

Copies of one wake are handled one after the other. After a crash there may be two: a message that died before its
delete comes again and wakes its branches once more. At once, both would run each of a branch's operations to its end;
one after the other, the second finds the branch gone on and drops.

A worker is a coroutine that never ends, on a thread of steps. If a step keeps that thread, it goes on in another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty
from typing import TypeAlias

from stepwell.definition.graph import Json
from stepwell.errors import PortError
from stepwell.limits import DELIVERIES, MINUTE_MS, SECOND_MS
from stepwell.local.once import one_message
from stepwell.local.wiring import Local
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.dispatch import dispatch, give_up, is_exhausted, put_off
from stepwell.runtime.loop.driving import Apart
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.batons import away

log = logging.getLogger("stepwell.pump")

CopyKey: TypeAlias = tuple[str, ...]

WORKERS = 64
LEASE_MS = MINUTE_MS
EXTEND_EVERY_SECONDS = 20.0
FIRST_DELAY_MS = 500  # the backoff after an exception: 0.5 s, 2 s, 8 s, 32 s, 60 s
LONGEST_DELAY_MS = MINUTE_MS
BROKEN_PAUSE_SECONDS = 1.0  # after the inbox itself did not answer


class Held:
    """The budget of a message in progress: unlimited time while its lease holds."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        self.delivery, self._clock = delivery, clock
        self.until_ms = clock.now_ms() + LEASE_MS

    def left_ms(self) -> int | None:
        return None

    def whole_ms(self) -> int | None:
        return None

    def holds(self) -> bool:
        return self._clock.now_ms() < self.until_ms

    def is_first(self) -> bool:
        return self.delivery.deliveries == 1


class Pump:
    """Workers, one of which computes at a time, and a thread that renews the leases of their messages."""

    def __init__(self, local: Local, workers: int = WORKERS) -> None:
        self._local = local
        self._clock = local.parts.ports.clock
        self._under_way: dict[str, Held] = {}
        self._copies: dict[CopyKey, deque[Held]] = {}  # the first of each is being handled
        self._copying = threading.Lock()
        self._free = threading.Lock()  # held by the worker that computes
        self._count = workers
        self._workers: list[Apart[None]] = []
        self._leases = threading.Thread(target=self._keep_leases, name="stepwell-leases", daemon=True)

    def start(self) -> None:
        self._leases.start()
        for _ in range(self._count):  # one by one: who is ended amid them stops those that there are
            self._workers.append(Apart(self._work(), self._free))

    def stop(self, patience_seconds: float) -> int:
        """Stops receiving. Returns the number of messages in progress, which the next start delivers again.

        This does not count as a death of their worker: a long step may meet any number of stops.
        Idle workers are waited for too: each may be reading the database, which its caller is about to close.
        """
        self._local.stopping.set()
        self._local.bell.ring_all()
        until = time.monotonic() + patience_seconds
        for worker in self._workers:
            with suppress(Empty):
                worker.result(max(0.0, until - time.monotonic()))
        if self._leases.is_alive():
            self._leases.join(max(0.0, until - time.monotonic()))
        left = list(self._under_way.values())
        with suppress(PortError):
            for held in left:
                self._local.inbox.forgive(held.delivery)
        return len(left)

    async def _work(self) -> None:
        while not self._local.stopping.is_set():
            try:
                await self._next()
            except Exception as error:
                _tell(error, "the inbox did not answer")
                with away():
                    self._local.stopping.wait(BROKEN_PAUSE_SECONDS)

    async def _next(self) -> None:
        """Handles one message, or sleeps until there may be one."""
        bell, inbox = self._local.bell, self._local.inbox
        seen = bell.count
        now_ms = self._clock.now_ms()
        delivery = inbox.receive(ALL_LANES, now_ms, LEASE_MS)
        if delivery is None:
            due_ms = inbox.next_due_ms()
            with away():
                bell.wait(seen, due_ms, now_ms)
            return
        bell.busy()
        held = self._under_way[delivery.receipt] = Held(delivery, self._clock)
        if self._is_first_copy(held):
            await self._take(held)

    async def _take(self, held: Held) -> None:
        """Handles it, and then its copies that came meanwhile, even where the inbox did not answer."""
        try:
            await self._handle(held.delivery, held)
        finally:
            del self._under_way[held.delivery.receipt]
            if copy := self._next_copy(held):
                await self._take(copy)

    def _is_first_copy(self, held: Held) -> bool:
        """Tells whether no copy of it is under way. If one is, the worker of that one takes this one after it."""
        with self._copying:
            copies = self._copies.setdefault(_copy_key(held.delivery), deque())
            copies.append(held)
            return len(copies) == 1

    def _next_copy(self, held: Held) -> Held | None:
        key = _copy_key(held.delivery)
        with self._copying:
            copies = self._copies[key]
            copies.popleft()
            if not copies:
                del self._copies[key]
            return copies[0] if copies else None

    async def _handle(self, delivery: Delivery, held: Held) -> None:
        parts = self._local.parts
        try:
            if is_exhausted(delivery.deliveries) and await give_up(parts, delivery.lane, delivery.message):
                log.error("gave up on %s after %d deliveries", _about(delivery), delivery.deliveries - 1)
            else:
                with self._local.repeated(), one_message():
                    await dispatch(parts, delivery.lane, delivery.message, held)
        except Exception as error:
            if await self._is_put_off(delivery, error):
                self._local.inbox.delete(delivery)
                return
            delay_ms = min(FIRST_DELAY_MS * 4 ** min(delivery.deliveries - 1, 8), LONGEST_DELAY_MS)
            again = f"it comes again in {delay_ms / SECOND_MS:.1f} s"
            _tell(error, f"delivery {delivery.deliveries} of {_about(delivery)} failed; {again}")
            self._local.inbox.release(delivery, self._clock.now_ms() + delay_ms)
        else:
            self._local.inbox.delete(delivery)

    async def _is_put_off(self, delivery: Delivery, error: Exception) -> bool:
        """Checks the disk, so that a failing disk does not make a message fail permanently."""
        if not isinstance(error, PortError) or delivery.deliveries < DELIVERIES:
            return False
        try:
            return await put_off(self._local.parts, delivery.lane, delivery.message)
        except PortError:
            return False  # it still fails: the message is delivered again

    def _keep_leases(self) -> None:
        """Renews leases, because a step may take longer than one."""
        while not self._local.stopping.wait(EXTEND_EVERY_SECONDS):
            for held in list(self._under_way.values()):
                delivery, now_ms = held.delivery, self._clock.now_ms()
                try:
                    if self._local.inbox.extend(delivery, now_ms, LEASE_MS):
                        held.until_ms = now_ms + LEASE_MS
                except Exception as error:
                    _tell(error, f"the lease of {_about(delivery)} could not be extended")


def _tell(error: Exception, what: str) -> None:
    """Logs an error: one of the disk, which says what to do, in a line, and a defect with its traceback."""
    if isinstance(error, PortError):
        log.error("%s: %s", what, error)
    else:
        log.error("%s", what, exc_info=error)


def _copy_key(delivery: Delivery) -> CopyKey:
    """What the copies of a wake have in common. Of any other message, each delivery stands for itself."""
    message = delivery.message
    if message.get("type") != "wake":
        return (delivery.receipt,)
    return tuple(str(message.get(name)) for name in ("run_id", "token", "slot", "count"))


def _about(delivery: Delivery) -> dict[str, Json]:
    """The ids of a message, without an event's payload: it may be a person's."""
    return {
        name: delivery.message[name] for name in ("type", "run_id", "token", "slot", "id") if name in delivery.message
    }
