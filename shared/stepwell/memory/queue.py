"""Queue, timers and their receiving side in memory, for tests and the simulator: same semantics as on SQLite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush

from stepwell.definition.graph import Json
from stepwell.memory.inbox import ALL_LANES, TIMER_NAME_KEPT_MS, Delivery
from stepwell.runtime.ports import Clock, Lane
from stepwell.runtime.stores.jsontext import decode, encode


class _Message:
    """One message. Its heap entries from before a change of `due_ms` are void."""

    __slots__ = ("deliveries", "due_ms", "lane", "receipt", "text")

    def __init__(self, lane: Lane, due_ms: int, text: str) -> None:
        self.lane = lane
        self.due_ms = due_ms
        self.text = text
        self.deliveries = 0
        self.receipt = ""


class MemoryQueue:
    """The Queue and Timers ports and the Inbox, for one thread. Messages due at once keep the order of sending."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent = 0
        self._messages: dict[int, _Message] = {}
        self._due: dict[Lane, list[tuple[int, int]]] = {lane: [] for lane in Lane}  # heaps of (due_ms, number)
        self._timers: dict[str, int] = {}

    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        self._put(lane, encode(message), at_ms or self._clock.now_ms())

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        for message in messages:
            await self.send(lane, message)

    async def set(self, name: str, lane: Lane, message: Mapping[str, Json], at_ms: int) -> None:
        text = encode(message)
        if name not in self._timers:
            self._timers[name] = at_ms
            self._put(lane, text, at_ms)

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
        place = min((first for lane in lanes if (first := self._first(lane)) is not None), default=None)
        if place is None or place[0] > now_ms:
            return None
        number = place[1]
        message = self._messages[number]
        message.deliveries += 1
        message.receipt = f"{number}.{message.deliveries}"
        self._move(number, message, now_ms + lease_ms)
        return Delivery(str(number), message.lane, decode(message.text), message.deliveries, message.receipt)

    def delete(self, delivery: Delivery) -> None:
        if self._held(delivery) is not None:
            del self._messages[int(delivery.id)]

    def extend(self, delivery: Delivery, now_ms: int, lease_ms: int) -> bool:
        message = self._held(delivery)
        if message is None:
            return False
        self._move(int(delivery.id), message, now_ms + lease_ms)
        return True

    def release(self, delivery: Delivery, at_ms: int) -> None:
        message = self._held(delivery)
        if message is not None:
            message.receipt = ""
            self._move(int(delivery.id), message, at_ms)

    def forgive(self, delivery: Delivery) -> None:
        message = self._held(delivery)
        if message is not None:
            message.deliveries = max(1, message.deliveries - 1)

    def next_due_ms(self, lanes: Collection[Lane] = ALL_LANES) -> int | None:
        places = [self._first(lane) for lane in lanes]
        return min((place[0] for place in places if place is not None), default=None)

    def pending(self) -> int:
        return len(self._messages)

    def reclaim(self) -> int:
        leased = [(number, message) for number, message in self._messages.items() if message.receipt]
        for number, message in leased:
            message.receipt = ""
            self._move(number, message, 0)
        return len(leased)

    def purge(self, now_ms: int) -> int:
        old = [name for name, at_ms in self._timers.items() if at_ms <= now_ms - TIMER_NAME_KEPT_MS]
        for name in old:
            del self._timers[name]
        return len(old)

    def _put(self, lane: Lane, text: str, due_ms: int) -> None:
        self._sent += 1
        self._messages[self._sent] = _Message(lane, due_ms, text)
        heappush(self._due[lane], (due_ms, self._sent))

    def _move(self, number: int, message: _Message, due_ms: int) -> None:
        message.due_ms = due_ms
        heappush(self._due[message.lane], (due_ms, number))

    def _held(self, delivery: Delivery) -> _Message | None:
        """Returns the message, if this delivery has its latest lease."""
        message = self._messages.get(int(delivery.id))
        return message if message is not None and message.receipt == delivery.receipt else None

    def _first(self, lane: Lane) -> tuple[int, int] | None:
        """Returns the lane's first valid (due_ms, number)."""
        heap = self._due[lane]
        while heap:
            message = self._messages.get(heap[0][1])
            if message is not None and message.due_ms == heap[0][0]:
                return heap[0]
            heappop(heap)
        return None
