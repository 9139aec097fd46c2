"""Asking: what a session needs to know of the operations that its function asks for."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stepwell.engine.durable.journal import Entry
from stepwell.engine.durable.turns import Asked, Stuck, checksum_of
from stepwell.engine.limits.locks import LOCK, UNLOCK
from stepwell.engine.records import TASKS, Failure
from stepwell.limits import PAGE_BRANCHES

OF_LOCKS = frozenset({LOCK, UNLOCK})
_ALONE = frozenset({"step", "all", "first"})  # operations whose steps' arguments a replay compares
_TOGETHER = frozenset({TASKS})  # of these, those of all that began together


def shown(begun: Iterable[str]) -> str:
    return f"tasks that begin {', '.join(begun) or 'nothing'}"


def takes_no_updates(asked: Asked) -> bool:
    """Tells whether the function's token would be at a step, or at a fork."""
    return asked.step is not None or bool(asked.branches)


def has_other_arguments(entry: Entry, asked: Sequence[Asked]) -> bool:
    """Tells whether steps are asked for with other arguments than the log has, as far as it has them."""
    if not entry.arguments:
        return False
    if entry.kind in _TOGETHER:
        return entry.arguments != checksum_of(asked)
    return entry.kind in _ALONE and entry.arguments != asked[0].arguments


def of_other_arguments(entry: Entry, actual: str, place: str, asked: Sequence[Asked], expected: str = "") -> Stuck:
    """The operations are those of the log, and the arguments of their steps are others."""
    stuck = asks_for_another(entry, f"{actual} with other arguments", place, expected)
    return replace(stuck, parts=tuple(_parts(asked)))


def _parts(asked: Sequence[Asked]) -> Iterator[tuple[str, int]]:
    """Yields what each part is, with the checksum of its arguments: of a fork, for its first page."""
    alone = asked[0] if len(asked) == 1 else None
    branches: Sequence[object] = alone.branches if alone is not None and alone.branches else ()
    parts = [getattr(branches[index], "asked", None) for index in range(min(len(branches), PAGE_BRANCHES))]
    for one in parts if branches else asked:
        yield (str(one), one.arguments) if one is not None else ("", 0)


def ends_by_itself(asked: Asked) -> bool:
    """Tells whether it needs nothing from outside, such as an event or time."""
    return asked.wait is None and asked.call is None and not asked.branches


def lock_in_task(place: str) -> Failure:
    message = (
        f"a lock of the run is entered or left{place} while other operations, or a time limit, are in progress; "
        "use asyncio.Lock there"
    )
    return Failure("lock_in_task", "validation", message)


def lock_nested(place: str) -> Failure:
    message = (
        f"a lock is entered{place} within the block of another one, and a run that holds one cannot wait for a second; "
        "take both at once, as ctx.lock('a', 'b')"
    )
    return Failure("lock_nested", "validation", message)


def never_ends(place: str) -> Failure:
    message = (
        f"it awaits something that nothing of it can end: no operation is under way, and no timer is set{place}; "
        "if a module made it, make it in the function, because other runs share it"
    )
    return Failure("foreign_await", "validation", message)


def asks_for_another(entry: Entry, actual: str | None, place: str, expected: str = "") -> Stuck:
    """The code is another than that which wrote the log. `actual`: what the function asks for; None: it has ended.

    `place`: where in users' code it asks, as ` at file:line`. `expected`: what the log has, if not the entry alone.
    """
    expected, place = expected or str(entry), place if actual else ""
    message = (
        f"record {entry.slot} holds {expected}, and the function {f'asks for {actual}' if actual else 'has ended'}"
    )
    hint = "bring the old order back, or put what is new behind ctx.patched"
    return Stuck(_non_determinism(f"{message}{place}; {hint}", entry.slot, expected, actual, place))


def takes_no_longer(entry: Entry, failure: Failure) -> Stuck:
    """The function has begun with this input, and does not take it any more."""
    expected = shown(entry.begun) if entry.begun else str(entry)
    hint = "give what is new among its parameters a default"
    message = f"record {entry.slot} holds {expected}, and {failure.message}; {hint}"
    return Stuck(_non_determinism(message, entry.slot, expected, failure.type))


def fails_now(slot: int, update: str, failure: Failure) -> Failure:
    """The handler of an update fails where it succeeded when the record was made."""
    message = f"record {slot} holds the update {update}, and its handler now fails: {failure.message}"
    return _non_determinism(message, slot, f"update {update}", failure.type)


def _non_determinism(message: str, slot: int, expected: str, actual: str | None, place: str = "") -> Failure:
    data = {"slot": slot, "expected": expected, "came": actual, "at": place.removeprefix(" at ") or None}
    return Failure("non_determinism", "validation", message, data=data)


def close_unstarted(asked: Iterable[Asked | None]) -> None:
    """Closes coroutines of branches that ran in another process, or that will never run."""
    for operation in asked:
        for one in operation.branches if operation is not None and isinstance(operation.branches, tuple) else ():
            if inspect.iscoroutine(one) and inspect.getcoroutinestate(one) == inspect.CORO_CREATED:
                one.close()
            else:  # an operation may have branches itself
                close_unstarted([getattr(one, "asked", None)])
