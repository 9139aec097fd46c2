"""Operations awaited together: as one wait, one set of child runs, the branches of a fork, or tasks."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from zlib import crc32

from stepwell.definition.child_names import child_names
from stepwell.definition.context_options import MAP_OPTIONS
from stepwell.definition.context_values import check_at_once
from stepwell.definition.graph import Call, Json, Wait
from stepwell.definition.text import STEP_OPTIONS
from stepwell.engine.durable.turns import Asked
from stepwell.engine.forks.join import FAILED
from stepwell.engine.records import Failure
from stepwell.engine.waits.several import ALL, ANY
from stepwell.errors import InvalidInput
from stepwell.limits import CHILDREN, FORK_CHUNK, ITEMS_COMPARED, WAIT_ARMS
from stepwell.runtime.durable.failures import raised
from stepwell.runtime.durable.operations import Operation, Reader, misnamed
from stepwell.runtime.durable.racing import Gathered, Joined, all_of, first_of
from stepwell.runtime.steps.binding import copy_of

T = TypeVar("T")


class Nothing(Operation[list[Any]]):
    """The operation of `all` and `map` without operands: it returns [] and records nothing."""

    def __init__(self) -> None:
        super().__init__(Asked("all", "all"), copy_of)

    def raw(self) -> Generator[Asked, Json, Json]:
        yield from ()
        return []


class First(tuple[Any, ...]):
    """The result of `ctx.first`: a value for each operand but timers; None for those that did not win."""

    winner: int  # its index among all operands
    value: Any  # the winner's


class Mapped(Sequence[Operation[Any]]):
    """A lazy sequence of operations: each item's is made when it is read. The items are JSON."""

    def __init__(self, make: Callable[[Any], Operation[Any]], items: Sequence[Json]) -> None:
        self._make, self._items = make, items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def arguments(self) -> int:
        """Returns a checksum of the items; 0 for more of them than a replay is to compare."""
        if len(self._items) > ITEMS_COMPARED:
            return 0
        return crc32(json.dumps(self._items, sort_keys=True).encode()) or 1

    @typing.overload
    def __getitem__(self, index: int) -> Operation[Any]: ...
    @typing.overload
    def __getitem__(self, index: slice) -> Sequence[Operation[Any]]: ...
    def __getitem__(self, index: int | slice) -> Operation[Any] | Sequence[Operation[Any]]:
        if isinstance(index, slice):
            return Mapped(self._make, self._items[index])
        return self._make(self._items[index]).taken()


def made_of(
    function: Callable[[Any], Any], items: Sequence[Any], options: dict[str, Any]
) -> tuple[Awaitable[Any], ...]:
    """Returns the function's awaitable for each item. Raises InvalidInput if one is not awaitable."""
    if options:
        raise InvalidInput(f"{', '.join(options)}: only a step has options", code="bad_value",
                           hint="map a function of a module, or give them where the operation is made")  # fmt: skip
    made = tuple(function(item) for item in items)
    for one in made:
        if not inspect.isawaitable(one):
            raise InvalidInput(f"{function!r:.80} is no step, and gives no coroutine", code="bad_step",
                               hint="map a function of a module, or one that gives ctx.run(…)")  # fmt: skip
    return made


def check_options(function: Callable[..., Any], options: Mapping[str, object]) -> None:
    """Raises InvalidInput for what is no parameter of a step, and close to an option of `map`."""
    named = [name for name in options if name not in STEP_OPTIONS]
    if hint := misnamed(function, named, MAP_OPTIONS):
        raise InvalidInput(f"`map` and {function.__name__} have no {', '.join(named)}", code="step_input", hint=hint)


def together(
    awaited: Sequence[Awaitable[Any]], *, name: str = "all", max_concurrency: int | None = 0, tolerated: int = 0
) -> Operation[list[Any]]:
    """Returns an operation for all of them, recorded as one wait, as one set of child runs, as branches or as tasks.

    `tolerated`: this many may fail, and stand as exceptions among the results. Raises InvalidInput.
    """
    at_once = check_at_once(max_concurrency)
    if not awaited:
        return Nothing()
    operations, need_tasks = _taken(awaited), _need_tasks(awaited)
    if len(operations) == len(awaited) and not (at_once or tolerated or need_tasks):
        if _are_one_set(operations):
            return _children(operations)
        if _are_one_wait(operations) and _have_one_limit(operations):
            return _all_waits(operations)
    asked = Asked("all", name, branches=awaited, max_concurrency=at_once, tolerated=tolerated,
                  is_apart=len(awaited) <= FORK_CHUNK)  # fmt: skip

    def read(values: Json) -> list[Any]:
        return [_read(one, value) for one, value in zip(awaited, values, strict=True)]

    if need_tasks:
        return Gathered(asked, read, lambda: all_of(awaited, at_once, tolerated))
    return Joined(asked, read, operations, lambda: all_of(awaited, at_once, tolerated))


def race(awaited: Sequence[Awaitable[Any]]) -> Operation[First]:
    """Returns an operation for the first of them to end; the others are cancelled.

    It is recorded as one wait if all of them are waits, else as branches or tasks.
    """
    operations, need_tasks = _taken(awaited), _need_tasks(awaited)
    if len(operations) == len(awaited) and not need_tasks and _are_one_wait(operations):
        return _first_wait(operations)
    asked = Asked("first", "first", branches=awaited, is_apart=True)

    def read(values: Json) -> First:
        ((index, value),) = values.items()
        return _first(awaited, int(index), _read(awaited[int(index)], value))

    async def body() -> First:
        return _first(awaited, *await first_of(awaited))

    return Gathered(asked, read, body) if need_tasks else Joined(asked, read, operations, body)


def _need_tasks(awaited: Sequence[Awaitable[Any]]) -> bool:
    """Tells whether one is a coroutine, or awaited already or twice: a branch could not share it."""
    if isinstance(awaited, Mapped):
        return False
    return len({id(one) for one in awaited}) < len(awaited) or any(
        not isinstance(one, Operation) or isinstance(one, Gathered) or one.has_begun for one in awaited
    )


def _are_one_wait(operations: Sequence[Operation[Any]]) -> bool:
    are_waits = all(one.asked.wait is not None and not one.asked.wait.arms for one in operations)
    return are_waits and len(operations) <= WAIT_ARMS


def _have_one_limit(operations: Sequence[Operation[Any]]) -> bool:
    """Tells whether the waits end at one time: one limit for all of them would outlast the wait that has it."""
    waits = [one.asked.wait for one in operations if one.asked.wait is not None]
    is_one = len({(wait.timeout_ms, wait.heartbeat_ms) for wait in waits}) == 1
    return is_one and not any(one.is_timer for one in operations)


def _are_one_set(operations: Sequence[Operation[Any]]) -> bool:
    """Tells whether they are child runs with one time limit."""
    calls = [one.asked.call for one in operations if one.asked.call is not None and len(one.asked.call.children) == 1]
    return len(calls) == len(operations) <= CHILDREN and len({call.timeout_ms for call in calls}) == 1


def _taken(awaited: Sequence[Awaitable[Any]]) -> list[Operation[Any]]:
    """Returns the operations among them, and marks them as parts of another operation."""
    if isinstance(awaited, Mapped):
        return []
    return [one.taken() for one in awaited if isinstance(one, Operation)]


def with_name(made: Operation[T], name: str) -> Operation[T]:
    """Renames the operation as shown to people, unless `name` is "". Returns it."""
    if name:
        made.asked = replace(made.asked, name=name)
    return made


def _all_waits(operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
    """Returns the operation that awaits all of these waits in one slot."""
    if len(operations) == 1:
        (one,) = operations
        return _joined(one.asked, lambda value: [one.came(value)], operations)

    def read(values: Json) -> list[Any]:
        return [one.came(part) for one, part in zip(operations, values, strict=True)]

    return _joined(_in_one_slot(ALL.name, "all", operations), read, operations)


def _joined(asked: Asked, read: Reader, operations: Sequence[Operation[Any]]) -> Joined[list[Any]]:
    return Joined(asked, read, operations, lambda: all_of(operations, 0, 0))


def _first_wait(operations: Sequence[Operation[Any]]) -> Operation[First]:
    """Returns the operation that awaits the first of these waits in one slot."""

    async def body() -> First:
        return _first(operations, *await first_of(operations))

    if len(operations) == 1:
        (one,) = operations
        return Joined(one.asked, lambda value: _first([one], 0, one.came(value)), operations, body)

    def read(value: Json) -> First:
        index, ended = value
        return _first(operations, index, operations[index].came(ended))

    return Joined(_in_one_slot(ANY.name, "first", operations), read, operations, body)


def _in_one_slot(kind: str, name: str, operations: Sequence[Operation[Any]]) -> Asked:
    arms = tuple(one.asked.wait for one in operations if one.asked.wait is not None)
    callbacks = tuple(callback for one in operations for callback in one.asked.callbacks)
    return Asked(kind, name, wait=Wait(kind, arms=arms), callbacks=callbacks)


def _children(operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
    calls = [one.asked.call for one in operations if one.asked.call is not None]
    own = [call.children[0] for call in calls]
    names = child_names([(child.workflow, None) for child in own])
    children = tuple(replace(child, name=name) for child, name in zip(own, names, strict=True))
    asked = Asked("children", "all", call=Call(children, timeout_ms=calls[0].timeout_ms))

    def read(values: Json) -> list[Any]:
        return [one.came({child.name: values[name]}) for one, child, name in zip(operations, own, names, strict=True)]

    return _joined(asked, read, operations)


def _first(awaited: Sequence[Awaitable[Any]], index: int, value: Any) -> First:
    said = [
        value if at == index else None
        for at, one in enumerate(awaited)
        if not (isinstance(one, Operation) and one.is_timer)
    ]
    first = First(said)
    first.winner, first.value = index, value
    return first


def _read(one: Awaitable[Any], value: Json) -> Any:
    if not isinstance(one, Operation):
        is_failed = isinstance(value, dict) and value.keys() == {FAILED}
        return raised(Failure(**value[FAILED])) if is_failed else copy_of(value)
    if isinstance(value, dict) and value.keys() == {FAILED}:
        error = raised(Failure(**value[FAILED]), one.asked)
        one.has_come(None, error)
        return error
    return one.came(value)
