"""Shares a worker's time among the branches of one message, until a step takes long."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from stepwell.errors import PortError
from stepwell.limits import FORK_SHARED_MS
from stepwell.runtime.log.lanes import Crew
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.log.retries import again
from stepwell.runtime.loop.beside import Beside
from stepwell.runtime.ports import Lane, Ports
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.worker")


@dataclass(frozen=True, slots=True)
class Sharing:
    """How long the branches of one message run one after the other; then the rest get messages of their own.

    `message_ms`: for all of them. `step_ms`: a longer step has the others run beside it. `steps`: how many run at once
    here, for one message, before the rest get messages.
    """

    message_ms: int = FORK_SHARED_MS
    step_ms: int = FORK_SHARED_MS
    steps: int = 1


SHARING = Sharing()


class Share:
    """The branches that one message brought. Short steps run one after the other; longer ones beside each other.

    message   0 ──── its step takes longer than that ─────────────▶
              1      ├── in a thread of this worker, where it may run two steps at once
              2..9   └── a message for each, beside the step
    """

    def __init__(
        self,
        ports: Ports,
        wake: Wake,
        sharing: Sharing,
        crew: Crew,
        push: Callable[[Wake], Coroutine[Any, Any, None]],
        *,
        is_first: bool,
    ) -> None:
        """`crew`: the branches that run here. `push` moves one of the wake's tokens in another thread.

        `is_first`: whether the message is delivered for the first time; else an earlier worker may have begun the rest.
        """
        self._ports, self._sharing, self._left, self._has_begun = ports, sharing, deque(wake.each), False
        self._crew, self._is_first = crew, is_first
        self._push, self._beside = push, Beside(sharing.steps - 1)
        self._until_ms = ports.clock.now_ms() + sharing.message_ms

    @property
    def has_more(self) -> bool:
        return bool(self._left) or self._crew.must_not_wait

    def left_ms(self) -> int:
        """Returns for how many milliseconds they still run one after the other."""
        return max(self._until_ms - self._ports.clock.now_ms(), 0)

    def step_ms(self) -> int:
        """Returns for how many milliseconds the others wait for the next step."""
        return min(self.left_ms(), self._sharing.step_ms)

    async def next(self) -> Wake | None:
        """Returns the wake of the next branch; None if all have begun here, or were handed over."""
        if self._has_begun and not self.left_ms():
            await self.hand_over()
        self._has_begun = True
        return self._left.popleft() if self._left else None

    async def hand_over(self) -> None:
        """Sends a message for each branch that has not begun."""
        if self._left:
            await self._crew.leave(self._indexes)
            await self._send(self._left)
            self._left.clear()

    async def beside(self) -> None:
        """Begins the other branches while a step runs: in threads, as far as this worker may, and by messages.

        If the queue does not answer, they stay here and begin after the step.
        """
        try:
            await self._crew.let_go(self._indexes, self._send)
            while self._left and self._beside.has_room:
                self._beside.start(self._push(self._left.popleft()))
            await self.hand_over()
        except PortError as error:
            _logger.warning("%d branches wait for a step: %s", len(self._left), error)

    @property
    def _indexes(self) -> list[int]:
        return [int(one.token.rpartition(".")[2]) for one in self._left]

    async def _send(self, wakes: Iterable[Wake]) -> None:
        if bodies := [to_json(one) if self._is_first else again(to_json(one)) for one in wakes]:
            await self._ports.queue.send_all(Lane.WORK, bodies)

    def join(self) -> None:
        """Waits for the branches in other threads. Raises what one of them raised."""
        self._beside.join()
