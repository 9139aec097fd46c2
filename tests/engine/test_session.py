"""A session whose run is cancelled: what it knew of patches, and what it had come to, outlast that."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell.definition.graph import Wait
from stepwell.engine.durable.journal import PATCH
from stepwell.engine.durable.session import Session
from stepwell.engine.durable.turns import Asked, Completed, Stuck, Suspended
from stepwell.engine.records import (
    TASKS,
    UPDATE,
    Arm,
    CleanUp,
    Failure,
    Fork,
    Goto,
    Group,
    Kind,
    Parked,
    Record,
    Resumption,
    Status,
)
from stepwell.errors import Cancelled
from stepwell.runtime.durable.loop import Loop

INTERRUPT = Record(0, Kind.ENDED, "cancel:1", 5, "f", next=CleanUp(Status.CANCELLED, 99), reason="enough")


class Step:
    """An operation that is awaited."""

    def __init__(self, name: str) -> None:
        self._asked = Asked("step", name)

    def __await__(self) -> Generator[Asked, Any, Any]:
        return (yield self._asked)


def step(name: str) -> Awaitable[Any]:
    return Step(name)


def session_of(body: Callable[[Callable[[str], bool]], Any]) -> Session:
    made: list[Session] = []
    runner = Loop(body(lambda name: made[0].patched(name)))  # noqa: PLW0108 - there is none yet
    begun = Session(
        runner,
        0,
        raised=lambda failure, asked: RuntimeError(failure.type),
        failed=lambda error: Failure(type(error).__name__, "step", str(error)),
        stored=lambda value: value,  # plain values alone
    )
    runner.attach(begun)
    made.append(begun)
    return begun


async def patched(is_patched: Callable[[str], bool]) -> None:
    """Its step is under way when it is cancelled, so that no record names the patch before the clean-up's."""
    is_new = is_patched("p")
    try:
        await step("work")
    except Cancelled:
        await step("new" if is_new else "old")


async def tidy(is_patched: Callable[[str], bool]) -> None:
    try:
        try:
            await step("work")
        finally:
            await step("sweep")
    finally:
        await step("lock up")


async def quick(is_patched: Callable[[str], bool]) -> int:
    return 1


def warm() -> Session:
    session = session_of(patched)
    session.begin([])
    session.go_on([INTERRUPT])
    return session


def cold(*records: Record) -> Session:
    session = session_of(patched)
    session.begin([INTERRUPT, *records])
    return session


@pytest.mark.parametrize("made", [warm, cold])
def test_the_clean_up_tells_of_the_patch_that_nothing_before_it_told_of(made: Callable[[], Session]) -> None:
    session = made()
    assert session.result() == Suspended(Asked("step", "new"))
    assert session.patches() == ("p",)


def test_a_replay_takes_the_patch_from_the_clean_up() -> None:
    begun = Record(1, Kind.STEP, "wake:1", 6, "new", rules=(f"{PATCH}p",), next=Goto("f"))
    assert cold(begun).result() == Completed(None)
    old = Record(1, Kind.STEP, "wake:1", 6, "old", next=Goto("f"))
    assert cold(old).result() == Completed(None)


def test_a_session_does_not_follow_a_log_whose_worker_knew_of_no_patch() -> None:
    """It has asked for its step with the patch in force; another worker, with the code from before, has written it."""
    session = session_of(patched)
    session.begin([])
    told = Record(0, Kind.STEP, "wake:1", 6, "work", rules=(f"{PATCH}p",), next=Goto("f"))
    untold = replace(told, rules=())
    assert session.follows([told])
    assert not session.follows([untold])
    session.go_on([told])
    assert session.follows([replace(untold, slot=1)])  # it has said so


def test_a_function_that_had_come_to_its_end_keeps_it() -> None:
    session = session_of(quick)
    session.begin([INTERRUPT])
    assert session.result() == Completed(1)


def test_a_function_that_is_let_go_does_not_clean_up() -> None:
    session = session_of(tidy)
    session.begin([])
    session.close()
    assert isinstance(session._runner, Loop)
    assert inspect.getcoroutinestate(session._runner.main.get_coro()) == inspect.CORO_CLOSED


class Of:
    """So many waits that are awaited together."""

    def __init__(self, many: int) -> None:
        self._asked = Asked("all", "all", wait=Wait("all", arms=(Wait("event"),) * many))

    def __await__(self) -> Generator[Asked, Any, Any]:
        return (yield self._asked)


@pytest.mark.parametrize(("recorded", "is_stuck"), [(2, False), (3, True)])
def test_code_that_awaits_another_number_at_once_is_not_what_the_log_has(recorded: int, is_stuck: bool) -> None:
    async def both(is_patched: Callable[[str], bool]) -> None:
        await Of(2)

    parked = Parked("all", (Arm("event"),) * recorded, is_all=True, of_function=True)
    session = session_of(both)
    session.begin([Record(0, Kind.WAITING, "w", 5, "all", parked=parked)])
    assert isinstance(session.result(), Stuck) is is_stuck


def test_code_that_awaits_something_beside_a_step_is_not_what_a_log_of_that_step_alone_has() -> None:
    async def awaits(name: str) -> Any:
        return await step(name)

    async def both(is_patched: Callable[[str], bool]) -> None:
        await asyncio.gather(awaits("work"), awaits("other"))

    session = session_of(both)
    session.begin([Record(0, Kind.STEP, "w", 5, "work", next=Goto("f"))])
    assert isinstance(session.result(), Stuck)


def test_a_function_stands_at_the_slot_of_the_operation_that_it_awaits() -> None:
    """The next one, or, once it has begun, that of the record with which it did."""
    session = session_of(patched)
    session.begin([])
    assert [slot for slot in range(-2, 3) if session.stands_at(slot)] == [0]
    session.go_on([Record(0, Kind.BEGAN, "w", 5, "work", rules=(f"{PATCH}p",), attempt=1)])
    assert [slot for slot in range(-2, 3) if session.stands_at(slot)] == [0]


@pytest.mark.parametrize(("payload", "made"), [({"refused": True, "error": {}}, []), ({"answer": 7}, ["add"])])
def test_a_replay_makes_an_update_again_unless_it_was_refused(payload: dict[str, Any], made: list[str]) -> None:
    found: list[str] = []
    taken = Resumption(UPDATE, name="add", event_id="u1", payload=payload)
    session = session_of(patched)
    with mock.patch.object(Session, "update", lambda self, resumption: found.append(resumption.name)):
        session.begin([Record(0, Kind.RECEIVED, "update:u1", 6, "f", resumption=taken)])
    assert (found, session.now_ms) == (made, 6)


def test_the_record_with_which_tasks_begin_tells_of_the_patch_once() -> None:
    async def awaits(name: str) -> Any:
        return await step(name)

    async def both(is_patched: Callable[[str], bool]) -> None:
        is_patched("p")
        await asyncio.gather(awaits("work"), awaits("other"))

    session = session_of(both)
    session.begin([])
    assert session.patches() == ("p",)
    begun = {"begun": ["step work", "step other"]}
    parked = Parked(TASKS, (Arm(TASKS),), data=begun, of_function=True, of_tasks=True)
    following = Fork((Group("", "f", 2, is_apart=True),), TASKS)
    session.go_on([Record(0, Kind.WAITING, "w", 5, TASKS, rules=(f"{PATCH}p",), parked=parked, next=following)])
    assert len(session.open) == 2
    assert session.patches() == ()


async def asks_often(is_patched: Callable[[str], bool]) -> None:
    for n in range(100):
        is_patched(f"p{n}")
        await step("work")


def test_a_question_to_the_log_reads_what_comes_next_and_not_all_before() -> None:
    """Else a long function that asks often, or logs, could not be replayed in its time."""

    class Log(list[Record]):
        read = 0

        def __iter__(self) -> Iterator[Record]:
            for one in super().__iter__():
                Log.read += 1
                yield one

        def __getitem__(self, at: Any) -> Any:
            Log.read += 1
            return super().__getitem__(at)

    session = session_of(asks_often)
    session.begin(Log(Record(n, Kind.STEP, "w", 0, "work", next=Goto("f")) for n in range(100)))
    assert session.result() == Completed(None)
    assert Log.read <= 200
