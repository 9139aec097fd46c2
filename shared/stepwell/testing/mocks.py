"""Steps and child runs replaced by name, with their recorded calls.

A replaced child run is a run of one step, which has the mock:

    parent ── ctx.child(kid, order) ── a run of `kid` ── one step, `kid` ── returns=, raises=, takes= …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from stepwell.definition.authoring import Directive
from stepwell.definition.compiler import compile_document
from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Graph, Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy
from stepwell.memory.clocks import VirtualClock
from stepwell.project import project_of
from stepwell.runtime.calls.links import Links
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.folder.facts import function_facts
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import Pause
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.port import StepCall, Updated, WriteRecord
from stepwell.runtime.steps.threads import AttemptTimeoutError
from stepwell.testing.borrowed import BORROWED, no_attribute

Takes: TypeAlias = str | float | Callable[[Any], str | float]
_LONGEST = "365d"  # that a child run's mock may take


@dataclass
class Mock:
    """The replacement of a step. `calls` has the input of each attempt, in order."""

    returns: object = None  # a function: called with the attempt's input
    raises: BaseException | type[BaseException] | None = None
    times_out: bool = False  # the attempt takes all of its time, and ends with none left
    times: int | None = None  # how many attempts it takes over; None: all
    takes: Takes = 0  # virtual time of each attempt: a duration, or a function of its input
    calls: list[Json] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)  # the ids of the child runs that it replaces

    def __getattr__(self, name: str) -> NoReturn:
        """Raises AttributeError, which says what to write in place of what a mock of unittest has."""
        raise no_attribute(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in BORROWED:
            raise no_attribute(name)
        super().__setattr__(name, value)

    def replaces(self, run_id: str) -> bool:
        """Tells whether it replaces this child run: one of as many as it may."""
        if run_id not in self.runs and self.times is not None and len(self.runs) >= self.times:
            return False
        self.runs.add(run_id)
        return True

    def takes_ms(self, call: StepCall) -> int:
        """How long this attempt lasts: at most as long as it may."""
        if self.times_out:
            return call.timeout_ms
        takes = self.takes(call.input) if callable(self.takes) else self.takes
        return min(parse_duration(takes), call.timeout_ms)

    def __call__(self, is_out_of_time: bool, given: Json) -> object:
        if is_out_of_time:
            raise AttemptTimeoutError
        if self.raises is not None:
            raise self.raises
        return self.returns(given) if callable(self.returns) else self.returns


class MockedSteps:
    """The real executor, except for steps with a mock, by the name of the node or the function, or by `run`."""

    def __init__(
        self, folder: Path, clock: VirtualClock, links: Links, sessions: int, calls: Calls | None = None
    ) -> None:
        paths = project_of(folder).paths
        self._real = FunctionSteps(folder, clock, calls, links, sessions, paths)
        self._mocks: dict[str, Mock] = {}
        self.met: set[str] = set()  # the names of the steps that ran

    def add(self, name: str, mock: Mock) -> None:
        self._mocks[name] = mock

    def may_ask_for(self, event: str) -> bool:
        """Tells whether a mock may have its run wait for this event, as with `returns=wait_for_event("paid")`."""
        given = [mock.returns for mock in self._mocks.values()]
        return any(callable(one) or (isinstance(one, Directive) and one.name == event) for one in given)

    def reload(self) -> None:
        self._real.reload()

    def close(self) -> None:
        self._real.close()

    def policy(self, step: Step) -> Policy:
        return replace(self._real.policy(step), stuck=None)  # a mock needs no code; else the attempt tells

    async def run(self, call: StepCall) -> Outcome:
        mock = self._mock_for(call)
        real = replace(call, late=None)  # it takes no virtual time, so no branch waits for it
        return await (self._real.run(real) if mock is None else self._run_mock(mock, call))

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        mock = self._mock_for(call)
        if mock is not None:
            return await self._run_mock(mock, call)
        return await self._real.run_in_session(replace(call, late=None), at, logbook)

    async def _run_mock(self, mock: Mock, call: StepCall) -> Outcome:
        real = replace(call, late=None)
        mock.calls.append(call.input)
        takes_ms = mock.takes_ms(call)
        stand_in = partial(mock, takes_ms >= call.timeout_ms, call.input)
        await _pass_time(call, takes_ms)
        return await self._real.run_function(replace(real, input=None), stand_in)  # it takes any input

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._real.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        return await self._real.answered(at, logbook, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        return await self._real.updated(at, logbook, asked, write)

    def _mock_for(self, call: StepCall) -> Mock | None:
        names = (call.node, call.shown, call.run, call.run.rpartition(".")[2])
        self.met.update(names)
        for name in names:
            mock = self._mocks.get(name)
            if mock is not None and (mock.times is None or len(mock.calls) < mock.times):
                return mock
        return None

    def mock_of_child(self, workflow: str, code: str, run_id: str) -> tuple[str, Mock] | None:
        """Returns what replaces a child run, with the name that it has: the workflow's, or its function's."""
        names = dict.fromkeys((workflow, code, code.rpartition(".")[2]))
        self.met.update(names)
        mocks = ((name, self._mocks[name]) for name in names if name in self._mocks)
        return next((found for found in mocks if found[1].replaces(run_id)), None)


class MockedCatalog(Catalog):
    """The folder's workflows, and those that stand in for mocked child runs."""

    def __init__(self, steps: MockedSteps, folder: Path) -> None:
        super().__init__(partial(compile_document, trusted=True))
        self._steps, self._folder = steps, folder

    def check_arguments(self, graph: Graph, given: Json) -> None:
        """Raises InvalidInput as a deployment does. The code is read when the first function is started."""
        if graph.code and not self.functions:
            self.functions = function_facts(self._folder, project_of(self._folder).sources[1:])
        super().check_arguments(graph, given)

    def called(self, name: str, run_id: str) -> Graph:
        """Returns the stand-in if the child run is mocked. It takes any input, and the workflow need not exist."""
        own = self.current.get(name)
        found = self._steps.mock_of_child(name, own.code if own else "", run_id)
        if found is None:
            return self.named(name)
        run, mock = found
        step = {"name": name, "run": run} | ({} if mock.times_out else {"timeout": _LONGEST})
        graph = compile_document({"workflow": name, "timeline": [step]}, trusted=True)
        self._versions[graph.version] = graph
        return graph


async def _pass_time(call: StepCall, takes_ms: int) -> None:
    """Virtual time, in which the other branches of the message run too."""
    if takes_ms and call.late is not None:
        await call.late()
    if takes_ms:
        await Pause(takes_ms)
