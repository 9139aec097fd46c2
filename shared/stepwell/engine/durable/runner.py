"""The runner of a session: what runs a durable function's code, and its tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from stepwell.definition.graph import Json
from stepwell.engine.durable.turns import Asked
from stepwell.engine.records import Place


@dataclass(eq=False, slots=True)
class Pending:
    """An operation that one of the function's tasks awaits."""

    asked: Asked
    task: Any  # of the runner: what is to go on with its result
    place: Place | None = None  # once the tasks' record began it
    by: str = ""  # which of the tasks awaits it, and since when there is that task (`engine/durable/finished.py`)


class Runner(Protocol):
    """Runs the function's code until nothing of it can go on by itself."""

    fresh: list[Pending]  # operations that have no record yet, in the order in which they were asked for
    cancelled: list[Pending]  # by the function, and no record says so yet

    def run(self, now_ms: int, slot: int) -> None:
        """Runs until every task waits, or the function has ended. `slot`: of the record that has it go on."""

    def start(self, coro: Any) -> None:
        """Has a coroutine go on as a task beside the function, from the next run on."""

    def at(self, now_ms: int) -> AbstractContextManager[None]:
        """Makes it what asyncio finds, at this time, for code of the function that runs beside its turns."""

    def end(self, pending: Pending, value: Json, error: BaseException | None) -> None:
        """Gives an operation's result to its task, which goes on in the next run."""

    def interrupt(self, error: BaseException, under_way: list[Pending]) -> None:
        """Raises the error in the function and in whatever awaits these operations."""

    @property
    def is_ready(self) -> bool:
        """Tells whether something could go on now."""

    @property
    def is_shared(self) -> bool:
        """Tells whether the function has tasks beside it."""

    @property
    def place(self) -> str:
        """Where in users' code the function waits, as ` at file:line`; empty: not known."""

    def place_of(self, pending: Pending) -> str:
        """Where in users' code the operation is awaited, likewise."""

    @property
    def due_ms(self) -> int | None:
        """The time of its next timer."""

    def outcome(self) -> tuple[object, BaseException | None] | None:
        """What the function returned, or raised; None if it goes on."""

    def close(self) -> None:
        """Closes the function. What its code raises then is ignored."""
