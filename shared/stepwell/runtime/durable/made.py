"""The operations that a function has made: numbered, and tracked until they are awaited."""

from __future__ import annotations

from types import CodeType

from stepwell.engine.durable.turns import Asked
from stepwell.engine.records import Failure
from stepwell.runtime.durable.failures import starts_runs
from stepwell.runtime.durable.places import caller, shown

_LEAVES = 100  # operations that end closed code at once, before it is left to itself


class Made:
    """The operations of one session. Their numbers are the same in every replay, unlike the hashes of objects."""

    def __init__(self) -> None:
        self._count = 0
        self._left = 0  # of those that were asked for as the session was closed
        self._anew: list[tuple[CodeType, int] | None] = []  # where it made what it begins anew with
        self._unawaited: dict[int, tuple[Asked, tuple[CodeType, int] | None]] = {}  # by number: what, and where

    def add(self, asked: Asked) -> int:
        """Numbers a new operation, and expects it to be awaited."""
        self._count += 1
        self._unawaited[self._count] = asked, caller()
        return self._count

    def begins_anew(self) -> None:
        """Expects the function to return what begins it anew."""
        self._anew.append(caller())

    def is_awaited(self, number: int) -> None:
        """Marks an operation as awaited, or as part of another one that will be."""
        self._unawaited.pop(number, None)

    def leaves(self) -> bool:
        """Tells whether users' code may be made to leave once more: it may catch all, and ask again and again."""
        self._left += 1
        return self._left <= _LEAVES

    def unawaited(self) -> list[Asked]:
        """Returns the operations that nobody has awaited yet."""
        return [asked for asked, _ in self._unawaited.values()]

    def forgotten(self, value: object, number: int = 0, *, is_several: bool = False) -> Failure | None:
        """Returns the failure of a function that returned the value and left something undone; None if it did not.

        `number`: of an operation that it returned, in a collection if `is_several`.
        """
        if not self._unawaited:
            return self._unreturned() if value is None and self._anew else None
        if number in self._unawaited:
            return self._returned(number, is_several=is_several)
        asked, place = next(iter(self._unawaited.values()))
        more = f", and {len(self._unawaited) - 1} more" if len(self._unawaited) > 1 else ""
        message = f"the operation {_named(asked)}{shown(place)} was made, and neither awaited nor started{more}"
        return Failure("never_awaited", "validation", f"{message}; await it, or hold it with ctx.start")

    def _returned(self, number: int, *, is_several: bool) -> Failure:
        asked, place = self._unawaited[number]
        how = "is returned in a collection" if is_several else "is returned"
        message = f"the operation {_named(asked)}{shown(place)} {how}, and not awaited"
        todo = "await them: ctx.all(*[…]) gives a list of their results" if is_several else "write `return await …`"
        return Failure("never_awaited", "validation", f"{message}; {todo}")

    def _unreturned(self) -> Failure:
        message = f"ctx.continue_as(…){shown(self._anew[-1])} was made, and not returned"
        return Failure("never_returned", "validation", f"{message}; return it, else the run ends")


def _named(asked: Asked) -> str:
    """A child run that nobody waits for is a step in the log."""
    return f"children {asked.name}" if starts_runs(asked) else str(asked)
