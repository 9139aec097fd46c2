"""Steps replaced by name, with their recorded calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy
from stepwell.local.clocks import VirtualClock
from stepwell.runtime.calls.links import Links
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.log.logbook import Logbook, Standing
from stepwell.runtime.steps.port import StepCall, WriteRecord
from stepwell.runtime.steps.threads import AttemptTimeoutError


@dataclass
class Mock:
    """The replacement of a step. `calls` has the input of each attempt, in order."""

    returns: object = None
    raises: BaseException | type[BaseException] | None = None
    times_out: bool = False  # the attempt takes all of its time, and ends with none left
    times: int | None = None  # how many attempts it takes over; None: all
    calls: list[Json] = field(default_factory=list)

    def __call__(self) -> object:
        if self.times_out:
            raise AttemptTimeoutError
        if self.raises is not None:
            raise self.raises
        return self.returns


class MockedSteps:
    """The real executor, except for steps with a mock, by node name, function name or `run`."""

    def __init__(self, folder: Path, clock: VirtualClock, links: Links, sessions: int) -> None:
        self._clock = clock
        self._real = FunctionSteps(folder, clock, links=links, sessions=sessions)
        self._mocks: dict[str, Mock] = {}

    def add(self, name: str, mock: Mock) -> None:
        self._mocks[name] = mock

    def reload(self) -> None:
        self._real.reload()

    def close(self) -> None:
        self._real.close()

    def policy(self, step: Step) -> Policy:
        return replace(self._real.policy(step), stuck=None)  # a mock needs no code; else the attempt tells

    async def run(self, call: StepCall) -> Outcome:
        mock = self._mock_for(call)
        if mock is None:
            return await self._real.run(call)
        mock.calls.append(call.input)
        takes_ms = call.timeout_ms if mock.times_out else 0
        stand_in = _stand_in(mock, partial(self._clock.advance, takes_ms))
        return await self._real.run_function(replace(call, input=None), stand_in)  # it takes any input

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._real.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        return await self._real.answered(at, logbook, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Standing | None:
        return await self._real.updated(at, logbook, asked, write)

    def _mock_for(self, call: StepCall) -> Mock | None:
        for name in (call.node, call.run, call.run.rpartition(".")[2]):
            mock = self._mocks.get(name)
            if mock is not None and (mock.times is None or len(mock.calls) < mock.times):
                return mock
        return None


def _stand_in(mock: Mock, pass_time: Callable[[], None]) -> Callable[..., object]:
    def stand_in() -> object:
        pass_time()
        return mock()

    return stand_in
