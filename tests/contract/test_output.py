"""Live output, on every store: several writers, whose clocks differ, and readers who miss nothing."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.loop.outputs import Outputs
from stepwell.runtime.steps.output import Emitted, read_output
from tests.contract.kit import NOW_MS, Store, run

RUN = "run_1"


class Machine:
    """A worker's process, whose clock is so much ahead; it reads, too."""

    def __init__(self, store: Store, ahead_ms: int = 0) -> None:
        self.clock = VirtualClock(NOW_MS + ahead_ms)
        self.outputs, self._store, self._numbers = Outputs(store, self.clock), store, count()

    def put(self, data: Any) -> None:
        told = {"token": "0", "step": "says", "attempt": 1, "number": next(self._numbers), "data": data}
        run(self.outputs.put(RUN, told))

    def read(self, after: str = "") -> list[Emitted]:
        ports: Any = SimpleNamespace(mailbox=self._store, clock=self.clock)
        return list(run(read_output(ports, RUN, after, 500)))


def data(found: list[Emitted]) -> list[Any]:
    return [one.data for one in found]


def test_no_piece_hides_from_a_cursor_whatever_the_clocks_say(store: Store) -> None:
    fast, slow = Machine(store, 90_000), Machine(store, -90_000)
    slow.put("a")
    fast.put("b")
    (*_, last) = slow.read()
    slow.put("c")  # by its clock, long before b
    assert data(slow.read(last.cursor)) == ["c"]
    fast.put("d")
    slow.put("e")
    assert data(fast.read(last.cursor)) == ["c", "d", "e"]
    assert [one.at_ms for one in fast.read()] == sorted(one.at_ms for one in fast.read())


def test_a_writer_whose_answer_was_lost_puts_its_piece_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, put_event = Machine(store), store.put_event

    async def twice(*given: Any) -> bool:
        await put_event(*given)
        return await put_event(*given)  # as a client does that has heard nothing

    monkeypatch.setattr(machine.outputs, "_mailbox", _With(store, twice))
    machine.put("a")
    machine.put("b")
    assert data(machine.read()) == ["a", "b"]


class _With:
    def __init__(self, inner: Any, put_event: Any) -> None:
        self._inner, self.put_event = inner, put_event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("silent_ms", [55 * MINUTE_MS, 61 * MINUTE_MS, 2 * HOUR_MS])
def test_after_a_silence_a_cursor_of_before_gets_all_that_is_new(store: Store, silent_ms: int) -> None:
    """Whether its piece is still there, expired and there, or gone: its number may have been given again."""
    one, other = Machine(store), Machine(store)
    for piece in "abc":
        one.put(piece)
    (*_, last) = one.read()
    for machine in (one, other):
        machine.clock.set(NOW_MS + silent_ms)
    other.put("d")
    one.put("e")
    assert data(one.read(last.cursor)) == ["d", "e"]
