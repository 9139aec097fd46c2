"""A world in which whoever makes the n-th call to a store or a queue dies: before the call, or after it."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict, PortError
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell

_WRITES = {  # of stores, queues and timers: to die at a read is to die after the write before it
    "send", "send_all", "set",
    "append", "arrive", "report", "put_event", "put_waiter", "forget_waiter", "create_run", "change_status",
    "save_snapshot", "put_output",
}  # fmt: skip


class Dying:
    """The kit's ports, whose n-th write is the last that its caller makes."""

    def __init__(self, kit: Stepwell, at: int, *, is_done: bool, writes: Iterable[str] = _WRITES) -> None:
        self._at, self._is_done, self._calls, self.has_killed = at, is_done, 0, False
        ports = kit.service.ports
        for port in {id(one): one for one in (getattr(ports, field.name) for field in fields(ports))}.values():
            for name in writes:
                if inspect.iscoroutinefunction(method := getattr(port, name, None)):
                    setattr(port, name, self._dying(method))

    def _dying(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **named: Any) -> Any:
            self._calls += 1
            dies = self._calls == self._at
            self.has_killed |= dies
            if dies and not self._is_done:
                raise PortError("away")
            made = await method(*args, **named)
            if dies:
                raise PortError("no answer")
            return made

        return call


def deaths(make: Callable[[], Stepwell], play: Callable[[Stepwell], None], each: int = 1) -> Iterator[Stepwell]:
    """A world for each write that `play` makes, where whoever made it died before or after it, and all came again.

    `play` is called twice in each: what a person asks for, who asks again when no answer came. `each`: at every so
    many writes only, at others before than after.
    """
    for is_done in (False, True):
        at, is_killed = 1 + (each > 1 and is_done), True
        while is_killed:
            kit = make()
            dying = Dying(kit, at, is_done=is_done)
            for act in (play, play, _go_on, _go_on):
                with contextlib.suppress(PortError, Conflict):  # a conflict: what is asked for again is done
                    act(kit)
            is_killed = dying.has_killed
            if is_killed:
                yield kit
            at += each
        assert at > 4, "nothing was written"


def _go_on(kit: Stepwell) -> None:
    """What a queue delivers again is handled, and what a caller left undone the sweeper finds."""
    kit.advance("3m")
    run_now(kit._parts.sweeper.sweep(MINUTE_MS))
    kit.settle()


def deaths_of(
    program: Path, world: Path, variable: str, play: Callable[[Stepwell], None], each: int = 2
) -> Iterator[tuple[Stepwell, Path]]:
    """The same for a program whose outside world is a folder that this variable names: an empty one in each world."""
    folders = map(str, count(1))
    with pytest.MonkeyPatch.context() as patch:

        def make() -> Stepwell:
            patch.setenv(variable, str(world / next(folders)))
            return Stepwell(program, sessions=0)

        for kit in deaths(make, play, each):
            yield kit, Path(os.environ[variable])
            kit.close()
