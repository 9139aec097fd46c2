"""The steps of a run that is verified: each execution with the outside before and after it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.retry import Policy
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.calls.links import Links
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.steps.binding import to_json
from stepwell.runtime.steps.calls import is_call
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.mocks import Mock, MockedSteps
from stepwell.testing.verify.chaos import Chaos
from stepwell.testing.verify.guard import Guard

T = TypeVar("T", bound=Outcome | None)

_TEXT_BYTES = 100_000  # of a file that is compared as text; a larger one by its hash
_JSON: Mapping[str, Callable[[str], Json]] = {
    ".json": json.loads,
    ".jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
}
_SQLITE = b"SQLite format 3\0"
_OF_SQLITE = ("-wal", "-shm", "-journal")  # endings of the files beside a database


@dataclass(frozen=True, slots=True)
class Tried:
    """One execution of a step's code. Executions with the same `slot` are for one commit."""

    step: str
    slot: tuple[str, str, int]  # the step, its idempotency key, the attempt
    before: Json
    after: Json
    result: Json  # of a failure: {"error": its type}
    is_failed: bool


@dataclass
class Outside:
    """What is observed of the outside: the files of a scratch folder, and what the user's `snapshot` returns."""

    scratch: Path | None = None
    snapshot: Callable[[], object] | None = None
    tables: Callable[[], Json] = dict  # the user's own, which `ctx.transact` writes

    def look(self, *, whole: bool = False) -> dict[str, Json]:
        """Returns it as JSON. `whole`: with the user's tables, which steps do not write."""
        found: dict[str, Json] = {}
        if self.scratch is not None:
            found["files"] = dict(_files(self.scratch))
        if self.snapshot is not None:
            found["world"] = plain(self.snapshot())
        if whole and (tables := self.tables()):
            found["tables"] = tables
        return found


def plain(value: object) -> Json:
    """Returns a copy of a value as JSON; what is no JSON as its `repr`."""
    try:
        return json.loads(json.dumps(to_json(value)))
    except Exception:  # of any type: it is the user's object
        return repr(value)


def _files(folder: Path) -> Mapping[str, Json]:
    return {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(_OF_SQLITE)}  # fmt: skip


def _content(path: Path) -> Json:
    """The text of a file, the value of JSON, the rows of a SQLite database, or else a hash."""
    data = path.read_bytes()
    if data.startswith(_SQLITE):
        return _rows(path)
    if len(data) <= _TEXT_BYTES:
        with suppress(ValueError):  # neither text nor JSON
            text = data.decode()
            return _JSON[path.suffix](text) if path.suffix in _JSON else text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _rows(path: Path) -> dict[str, Json]:
    with closing(sqlite3.connect(path)) as database:
        names = [str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [plain(row) for row in database.execute(f'SELECT * FROM "{name}"')]  # noqa: S608  its own name
                for name in sorted(names)}  # fmt: skip


@dataclass
class Replaced:
    """What stands in for steps: replacements by name, and steps that always fail."""

    mocks: Mapping[str, object] = field(default_factory=dict)  # a function of the input, or what the step returns
    fails: frozenset[str] = frozenset()
    met: set[str] = field(default_factory=set)  # what steps that ran are called, in any trial

    @property
    def names(self) -> frozenset[str]:
        """The names that steps are to have."""
        return self.fails.union(self.mocks)

    def mock(self, name: str) -> Mock:
        """Returns the replacement of this name. Raises KeyError."""
        if name in self.fails:
            return Mock(raises=AskedToFailError)
        return Mock(returns=self.mocks[name])


class AskedToFailError(Exception):
    """A step fails because whoever verifies the workflow asked for it."""


class SeenSteps(MockedSteps):
    """The user's steps, each of whose executions is noted. Calls of other systems are never made."""

    def __init__(
        self, folder: Path, clock: VirtualClock, links: Links, replaced: Replaced, chaos: Chaos, guard: Guard,
        outside: Outside,
    ) -> None:  # fmt: skip
        super().__init__(folder, clock, links, 0)
        for name in {*replaced.mocks, *replaced.fails}:
            self.add(name, replaced.mock(name))
        self._chaos, self._guard, self._outside, self.met = chaos, guard, outside, replaced.met
        self.tried: list[Tried] = []
        self.real: set[str] = set()
        self.left_out: set[str] = set()  # calls of other systems that nobody replaced
        self.once: set[str] = set()  # steps that are marked as at_most_once
        self._once_runs: set[str] = set()

    def policy(self, step: Step) -> Policy:
        self._guard.step = step.run  # its module may be imported now
        try:
            policy = super().policy(step)
        finally:
            self._guard.step = ""
        if policy.at_most_once:
            self._once_runs.add(step.run)
        return policy

    async def run(self, call: StepCall) -> Outcome:
        return await self._seen(call, super().run(_unread(call)))

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        return await self._seen(call, super().run_in_session(_unread(call), at, logbook))

    async def _seen(self, call: StepCall, work: Awaitable[T]) -> T:
        """Looks at the outside before and after the step. No other step runs meanwhile."""
        self._chaos.stepped = self._guard.step = call.node
        if call.run in self._once_runs:
            self.once.add(call.node)
        before = self._outside.look()
        try:
            outcome = await work
        finally:
            self._guard.step = ""
        if outcome is not None:
            slot = call.node, call.key, call.attempt
            failure, after = outcome.failure, self._outside.look()
            result = {"error": failure.type} if failure else outcome.value
            self.tried.append(Tried(call.node, slot, before, after, result, failure is not None))
        return outcome

    def _mock_for(self, call: StepCall) -> Mock | None:
        mock = super()._mock_for(call)
        if mock is None and is_call(call.run):
            self.left_out.add(call.node)
            return Mock()
        if mock is None:
            self.real.add(call.node)
        return mock


def _unread(call: StepCall) -> StepCall:
    """Returns the call without readers of what its step emits: its output is in no record, and a step cannot stop."""
    return replace(call, emit=lambda data: None)
