"""The laws of durable functions: a run is what its program is when it is run plainly, without an engine.

The plain run takes from the logs what is free: who wins a race, what an event brings, whether a worker was lost. All
else it knows itself: what each operation is, in which order they come, what they bring, the state, and the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from stepwell.definition.child_names import child_names
from stepwell.engine.durable.journal import LOST, PATCH
from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, CleanUp, End, Fork, Kind, Record, Status
from stepwell.engine.token import Token
from tests.sim.fn_programs import has_tasks, said
from tests.sim.fn_shapes import (
    OddLogError,
    are_one_set,
    from_json,
    is_for_code,
    is_one_wait,
    kind_of,
    leaf_of,
    name_of,
    parked_of,
    shown_of,
    wrapped,
)
from tests.sim.fn_values import Statement, digest
from tests.sim.key_laws import key_slot
from tests.sim.world import World

_LOST = ("worker_lost", "outcome_unknown")  # what becomes of a step whose workers died: no program's doing
_ENDS = {"event_timeout", "approval_timeout", "children_timeout"}  # uncaught, the run is `timed_out`


class _Cut(Exception):
    """The log ends where the program would go on."""


class _Interrupted(Exception):
    """The run is cancelled while an operation is awaited."""


class _Raised(Exception):
    """An operation has failed."""

    def __init__(self, type_: str, *, is_own: bool = False) -> None:
        super().__init__(type_)
        self.type, self.is_own = type_, is_own  # own: an error of the program's, which `try` does not take


def laws_of_functions(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run of a durable function."""
    if not world.program.graph.replays or not logs.get(ROOT) or has_tasks(world.program):
        return
    try:
        Plain(world, logs).run()
    except OddLogError as odd:
        yield f"functions: {world.run_id} {odd}"


@dataclass
class Life:
    """A function from its beginning, or its new beginning, to its end, along its log."""

    token: str
    records: Sequence[Record]  # its own alone
    state: dict[str, Any]
    now_ms: int
    chance: random.Random
    at: int = 0  # of the record that comes next
    patches: dict[str, bool] = field(default_factory=dict)
    cleaning: CleanUp | None = None  # it was told of its run's cancel
    expected: list[tuple[int, str, str]] = field(default_factory=list)  # (slot, kind, name) of each operation


class Plain:
    """Runs a run's program along its logs. Raises OddLogError."""

    def __init__(self, world: World, logs: Mapping[str, list[Record]]) -> None:
        self._world, self._logs = world, logs
        self.lives: list[Life] = []

    def run(self) -> None:
        header, log = self._world.memory._runs[self._world.run_id], self._logs[ROOT]
        given = from_json(header.input)
        first, state = 0, dict[str, Any]()
        now_ms = max(header.created_ms, header.start_at_ms)
        while True:
            program = given.get("program", given)
            life = self._life(ROOT, log[first:], state, now_ms, first - 1)
            value = self._ended(life, program["body"], program.get("carry", 0))
            if value is None:
                return
            last = log[first + life.at - 1]
            if not program.get("again"):
                self._check_end(life, last, value[0])
                return
            given = {"program": {**program, "again": program["again"] - 1, "carry": digest(value[0])}}
            self._is(life, last, "it begins anew with", (last.kind, last.output), (Kind.RETURNED, given))
            self._is(life, last, "its state is then", dict(last.writes or {}), life.state)
            first, state, now_ms = last.slot + 1, life.state, last.at_ms

    def _life(self, token: str, records: Sequence[Record], state: dict[str, Any], now_ms: int, slot: int) -> Life:
        chance = random.Random(f"{self._world.run_id} {token} {slot}")
        life = Life(token, records, dict(state), now_ms, chance)
        self.lives.append(life)
        return life

    def _ended(self, life: Life, body: Sequence[Statement], last: int) -> tuple[Any] | None:
        """What the function returned; None where it raised as it should, or was ended from outside."""
        try:
            value = self._sequence(life, body, last)
        except _Cut:
            return None
        except (_Raised, _Interrupted) as raised:
            record = self._take_return(life, raised.type if isinstance(raised, _Raised) else None)
            if record is not None and isinstance(raised, _Raised) and life.cleaning is None:
                self._check_failure(life, record, raised)
            return None
        return None if self._take_return(life) is None or life.cleaning else (value,)

    def _take_return(self, life: Life, error: str | None = None) -> Record | None:
        """The function's end, by this error; None where it was ended from outside before that was written."""
        try:
            record = self._next(life)
        except _Cut:
            return None
        except _Interrupted:  # it had come to its end before
            return self._take_return(life, error)
        if LOST in record.rules and isinstance(record.next, End):
            return None  # of an operation or of the function itself: only that could say
        if LOST in record.rules:
            return self._take_return(life, error)
        if record.kind is not Kind.RETURNED:
            raise OddLogError(
                f"{life.token} slot {record.slot} is {record.kind} {record.node}, and the function has ended"
            )
        if life.at < len(life.records) and isinstance(record.next, End):
            raise OddLogError(f"{life.token} slot {record.slot} ends it, and records follow")
        if life.cleaning is not None:
            ended = (record.output, record.error and record.error.type, record.next)
            self._is(life, record, "it ends, cleaned up,", ended, (None, error, End(life.cleaning.status)))
        return record

    def _check_end(self, life: Life, record: Record, value: Any) -> None:
        self._is(life, record, "it returns", record.output, value)
        if not isinstance(record.next, End) or record.next.status is not Status.COMPLETED:
            raise OddLogError(f"{life.token} slot {record.slot} returned, and goes on to {record.next}")
        token = fold(self._logs[life.token], Token(life.token))
        if life.token == ROOT:
            self._is(life, record, "its state is", dict(token.scope), life.state)
        self._is(life, record, "its result is", token.result, value)

    def _check_failure(self, life: Life, record: Record, raised: _Raised) -> None:
        self._is(life, record, "it fails with", record.error and record.error.type, raised.type)
        status = Status.TIMED_OUT if raised.type in _ENDS else Status.FAILED
        self._is(life, record, "it ends", getattr(record.next, "status", None), status)

    # -- statements

    def _sequence(self, life: Life, body: Sequence[Statement], last: int) -> list[Any]:
        values: list[Any] = []
        for one in body:
            value = self._value(life, one, last)
            values.append(value)
            last = digest([last, value])
        return values

    def _value(self, life: Life, one: Statement, last: int) -> Any:
        match one["do"]:
            case "set":
                life.state[one["name"]] = last
                return None
            case "get":
                return life.state.get(one["name"])
            case "draw":
                return [str(UUID(int=life.chance.getrandbits(128), version=4)), life.chance.random()]
            case "now":
                return life.now_ms
            case "try":
                return self._tried(life, one, last)
            case "finally" | "shield":
                return (self._at_last if one["do"] == "finally" else self._shielded)(life, one, last)
            case "patched":
                return self._sequence(life, one["new" if self._patched(life, one["name"]) else "old"], last)
            case "raise":
                raise _Raised("ValueError", is_own=True)
        return self._operation(life, one, last)

    def _tried(self, life: Life, one: Statement, last: int) -> Any:
        try:
            return self._sequence(life, one["body"], last)
        except _Raised as raised:
            if raised.is_own:
                raise
            return ["caught", raised.type, self._sequence(life, one["else"], last)]

    def _at_last(self, life: Life, one: Statement, last: int) -> list[Any]:
        try:
            values = self._sequence(life, one["body"], last)
        except (_Raised, _Interrupted):
            self._sequence(life, one["after"], last)
            raise
        return [values, self._sequence(life, one["after"], last)]

    def _shielded(self, life: Life, one: Statement, last: int) -> list[Any]:
        try:
            return self._sequence(life, one["body"], last)
        except _Interrupted:
            return ["cancelled", self._sequence(life, one["after"], last)]

    def _patched(self, life: Life, name: str) -> bool:
        """As the next record says."""
        if name not in life.patches:
            life.patches[name] = PATCH + name in self._that_tells(life).rules
        return life.patches[name]

    def _that_tells(self, life: Life) -> Record:
        """Of patches: what was under way at the cancel may have no record, and the clean-up's tells then."""
        record, at = self._peek(life), life.at
        if isinstance(record.next, CleanUp):
            life.at += 1
            record = self._peek(life)
        life.at = at
        return record

    # -- records

    def _peek(self, life: Life) -> Record:
        """The record that comes next. Waits for other code are no part of any program."""
        records = life.records
        while life.at < len(records) and is_for_code(records[life.at]):
            life.at += 1
            while life.at < len(records) and records[life.at].kind in {Kind.RECEIVED, Kind.RESUMED}:
                life.at += 1
        if life.at >= len(records):
            if self._is_over(life.token):
                raise _Cut
            raise OddLogError(f"{life.token} ends at {records[-1] if records else 'nothing'}, and the program goes on")
        if records[life.at].kind is Kind.ENDED and not isinstance(records[life.at].next, CleanUp):
            raise _Cut
        return records[life.at]

    def _is_over(self, token: str) -> bool:
        """Whether it may stand still: a branch that never began, because its fork was closed before."""
        log = self._logs.get(token)
        return not log or log[-1].kind is Kind.ENDED

    def _next(self, life: Life) -> Record:
        record = self._peek(life)
        life.at += 1
        if isinstance(record.next, CleanUp):
            life.cleaning, life.now_ms = record.next, record.at_ms
            raise _Interrupted
        return record

    def _first(self, life: Life, kind: str, name: str) -> Record:
        """The first record of the operation that the program does now."""
        record = self._next(life)
        if LOST in record.rules:
            life.now_ms = record.at_ms
            life.expected.append((record.slot, LOST, record.node))
            if isinstance(record.next, End):
                raise _Cut
            raise _Raised(record.error.type if record.error else "")
        found = kind_of(record)
        if (found, record.node) != (kind, name):
            raise OddLogError(f"{life.token} slot {record.slot} is {found} {record.node}; run plainly, {kind} {name}")
        life.expected.append((record.slot, kind, name))
        if life.token == ROOT and (record.kind is not Kind.STEP or record.error is None):
            scope = fold(self._logs[ROOT][: record.slot + 1], Token()).scope
            if record.kind is not Kind.BEGAN:
                self._is(life, record, "its state is", dict(scope), life.state)
        return record

    def _is(self, life: Life, record: Record, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            raise OddLogError(f"{life.token} slot {record.slot}: {what} {found!r}; run plainly, {expected!r}")

    # -- operations

    def _operation(self, life: Life, one: Statement, last: int) -> Any:
        match one["do"]:
            case "step":
                return self._step(life, one["name"], {"say": one["say"], "given": last, "fails": one.get("fails", 0)},
                                  one.get("retries", 0))  # fmt: skip
            case "detached":
                return self._detached(life, one)
            case "child":
                return self._children(life, [one], one["workflow"])[0]
            case "map":
                of = [{"do": "step", "name": one["name"], "say": item, "plain": True} for item in one["items"]]
                return self._fork(life, "all", one["name"], of, last)
            case "all" | "first":
                return self._together(life, one, last)
        return self._wait(life, one["do"], name_of(one), [one])

    def _together(self, life: Life, one: Statement, last: int) -> Any:
        kind, of = one["do"], one["of"]
        leaves = [leaf_of(each) for each in of]
        if kind == "all" and are_one_set(leaves):
            return [wrapped(each, value) for each, value in zip(of, self._children(life, leaves, "all"), strict=True)]
        if not is_one_wait(kind, of):
            return self._fork(life, kind, kind, of, last)
        if len(of) == 1:
            value = self._wait(life, leaves[0]["do"], name_of(leaves[0]), of)
            return [value] if kind == "all" else [0, value]
        return self._wait(life, "all" if kind == "all" else "any", kind, of)

    def _step(self, life: Life, name: str, given: Mapping[str, Any], retries: int) -> Any:
        first = record = self._first(life, "step", name)
        attempt = 1
        while True:
            while record.kind is Kind.BEGAN:  # again, where its code could not be loaded after it had begun
                record = self._next(life)
            if LOST in record.rules:
                break
            if record.kind is not Kind.STEP or record.node != name or record.attempt != attempt:
                raise OddLogError(f"{life.token} slot {record.slot} is no attempt {attempt} of {name}")
            if record.error is None or record.error.type in _LOST:
                break
            self._is(
                life, record, "it fails with", (record.error.type, attempt <= given.get("fails", 0)), ("Flaky", True)
            )
            if attempt > retries:
                break
            record, attempt = self._next(life), attempt + 1
        life.now_ms = record.at_ms
        self._given(life, first, given)
        if record.error is not None:
            raise _Raised(record.error.type)
        self._is(life, record, "its attempts that failed are", attempt - 1, given.get("fails", 0))
        self._is(life, record, f"{name} brings", record.output, said(given))
        return record.output

    def _given(self, life: Life, record: Record, given: Mapping[str, Any]) -> None:
        """Under this step's key it alone was run, and with its own input, unless other code was deployed meanwhile."""
        key = f"{self._world.run_id}:{life.token}:{key_slot(self._logs[life.token], record.slot)}"
        inputs = [one for (of_key, _), found in self._world.seen.given.items() if of_key == key for one in found]
        if self._world.main.is_patched:
            may_not_have_run = record.kind is Kind.BEGAN  # and its worker died
            inputs = [one for one in inputs if one == given][:1] or ([] if may_not_have_run else inputs)
        for found in inputs:
            self._is(life, record, "it was run with", found, given)

    def _detached(self, life: Life, one: Statement) -> Any:
        record = self._first(life, "step", one["workflow"])
        life.now_ms = record.at_ms
        if record.error is not None:
            raise _Raised(record.error.type)
        run = self._world.memory._runs.get(str(record.output))
        self._is(
            life, record, "it started", run and (run.workflow, from_json(run.input)), (one["workflow"], one["given"])
        )
        return record.output

    def _children(self, life: Life, of: Sequence[Statement], name: str) -> list[Any]:
        record = self._first(life, "children", name)
        names = child_names([(each["workflow"], None) for each in of])
        called = [(one.name, one.workflow, one.input) for one in parked_of(record).children]
        expected = [(own, each["workflow"], each["given"]) for own, each in zip(names, of, strict=True)]
        self._is(life, record, "it calls", called, expected)
        end = self._next(life)
        came = end.resumption
        if end.kind is not Kind.RESUMED or came is None:
            raise OddLogError(f"{life.token} slot {end.slot} does not end its wait for children")
        life.now_ms = end.at_ms
        match came.kind:
            case "timeout":
                raise _Raised("children_timeout")
            case "child_refused":
                raise _Raised(came.payload["type"])
            case "child_failed":
                raise _Raised("child_failed")
        return [came.payload[own] for own in names]

    def _wait(self, life: Life, kind: str, name: str, of: Sequence[Statement]) -> Any:
        """Of one thing, the first of several, or all of them."""
        record = self._first(life, kind, name)
        parked = parked_of(record)
        limits = [leaf_of(each)["seconds"] * 1_000 for each in of]
        self._is(life, record, "its time is up after", (parked.until_ms or 0) - parked.since_ms, min(limits))
        came = []
        while True:
            end = self._next(life)
            if end.kind not in {Kind.RECEIVED, Kind.RESUMED} or end.resumption is None:
                raise OddLogError(f"{life.token} slot {end.slot} is {end.kind} in the wait for {name}")
            came.append(end.resumption)
            if end.kind is Kind.RESUMED:
                break
        life.now_ms, last = end.at_ms, came[-1]
        if last.kind == "timeout":
            late = limits.index(min(limits))
            if kind == "all":  # they have one limit
                late = next(index for index in range(len(of)) if index not in {one.arm for one in came[:-1]})
            raise _Raised(f"{leaf_of(of[late])['do']}_timeout")
        if last.kind == "rejected":
            raise _Raised("rejected")
        values = {one.arm: wrapped(of[one.arm], self._brought(life, end, leaf_of(of[one.arm]), one)) for one in came}
        if kind == "any":
            return [last.arm, values[last.arm]]
        if kind == "all":
            self._is(life, end, "it has arms", sorted(values), list(range(len(of))))
            return [values[arm] for arm in range(len(of))]
        return values[0]

    def _brought(self, life: Life, record: Record, one: Statement, came: Any) -> Any:
        """What came for one thing that is waited for."""
        kinds = {"sleep": "timer", "event": "event", "approval": "approved"}
        self._is(life, record, f"{one['do']} is ended by", came.kind, kinds[one["do"]])
        match one["do"]:
            case "sleep":
                return None
            case "approval":
                return [came.kind, came.by]
        self._is(life, record, "it had event", came.name, one["name"])
        if one.get("match") and came.payload["n"] % 2:
            raise OddLogError(f"{life.token} slot {record.slot} took {came.payload}, which it does not want")
        return came.payload

    # -- branches

    def _fork(self, life: Life, kind: str, name: str, of: Sequence[Statement], last: int) -> Any:
        record = self._first(life, kind, name)
        width = record.next.width if isinstance(record.next, Fork) else -1
        self._is(life, record, "its branches are", width, len(of))
        try:
            join: Record | _Cut | _Interrupted = self._next(life)
        except (_Cut, _Interrupted) as over:
            join = over
        brought = [self._branch(life, record, index, one, last) for index, one in enumerate(of)]
        if not isinstance(join, Record):
            raise join
        if join.kind is not Kind.JOINED:
            raise OddLogError(f"{life.token} slot {join.slot} is {join.kind} behind a fork")
        life.now_ms = join.at_ms
        if join.error is not None:
            failed = [one.type for one in brought if isinstance(one, _Raised)]
            self._is(life, join, "it failed as a branch did", join.error.type in (*failed, *_LOST), True)
            raise _Raised(join.error.type, is_own=False)
        if kind == "first":
            ((winner, value),) = join.output.items()
            self._is(life, join, "the winner brings", (value,), brought[int(winner)])
            return [int(winner), shown_of(of[int(winner)], value)]
        self._is(life, join, "the branches bring", [(value,) for value in join.output], brought)
        return [shown_of(one, value) for one, value in zip(of, join.output, strict=True)]

    def _branch(self, parent: Life, fork: Record, index: int, one: Statement, last: int) -> tuple[Any] | _Raised | None:
        """(what it brings), what it raised, or None where it was cut."""
        name = f"{parent.token}/{fork.slot}.{index}"
        log = self._logs.get(name, [])
        life = self._life(name, log, parent.state, fork.at_ms, -1)
        try:
            self._of_branch(life, one, last)
        except _Cut:
            return None
        except _Raised as raised:
            return self._end_of_branch(life, raised)
        whole = life.records[life.at - 1] if life.at else None
        if whole is not None and isinstance(whole.next, End):  # one operation that was all of it
            self._is(life, whole, "it ends", whole.next, End(Status.COMPLETED, at_join=True))
            return (whole.output,)
        record = self._take_return(life)
        if record is None:
            return None
        return (record.output,)

    def _of_branch(self, life: Life, one: Statement, last: int) -> Any:
        if one.get("plain"):
            return self._step(life, one["name"], {"say": one["say"]}, 0)
        return self._operation(life, one, last)

    def _end_of_branch(self, life: Life, raised: _Raised) -> _Raised | None:
        whole = life.records[life.at - 1] if life.at else None
        if whole is not None and isinstance(whole.next, End):
            return raised
        record = self._take_return(life)
        if record is None:
            return None
        self._check_failure(life, record, raised)
        return raised
