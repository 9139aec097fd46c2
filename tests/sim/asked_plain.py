"""Handlers of updates and queries on plain asyncio: what the engine's records of updates must hold."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.engine.records import Record
from tests.sim.asked_code import is_refused
from tests.sim.fn_shapes import check


class PlainHandlers:
    """Those of one life of a function, and the conditions that its tasks wait for."""

    def __init__(self) -> None:
        self.updates: dict[str, Callable[..., Any]] = {}
        self.queries: dict[str, Callable[[], Any]] = {}
        self.answers: dict[str, Any] = {}  # of async handlers that have ended, and no record says so yet
        self._conditions: list[tuple[Callable[[], object], asyncio.Future[None]]] = []

    def update(self, name: str) -> Callable[[Callable[..., Any]], Any]:
        def register(function: Any) -> Any:
            self.updates[name] = function
            function.validator = lambda check: check
            return function

        return register

    def query(self, name: str, function: Callable[[], Any]) -> None:
        self.queries[name] = function

    # -- conditions

    def until(self, condition: Callable[[], object], future: asyncio.Future[None]) -> asyncio.Future[None]:
        self._conditions.append((condition, future))
        return future

    def look(self) -> None:
        for condition, future in self._conditions:
            if not future.done() and condition():
                future.set_result(None)
        self._conditions = [one for one in self._conditions if not one[1].done()]

    # -- records

    def take(self, record: Record, loop: asyncio.AbstractEventLoop) -> None:
        """Calls the handler of the update that the record holds. Raises OddLogError where it makes something else."""
        came = record.resumption
        if came is None:
            return
        given = came.payload["input"]
        fits = came.name in self.updates and "n" in given
        check(record, f"{came.name} of {given} is refused:", bool(came.payload.get("refused")),
              not fits)  # fmt: skip
        check(record, "its validator refuses it:", is_refused(came.name, given), False)
        if not fits:
            return
        try:
            made = self.updates[came.name](**given)
        except ValueError as error:
            made, told = None, {"error": type(error).__name__}
        else:
            told = {"output": made}
        if inspect.iscoroutine(made):
            check(record, "it has an answer at once:", came.has_answer, False)
            loop.create_task(self._answered(made, came.event_id))
            return
        check(record, f"{came.name} answers", _typed(came.payload), told)

    async def _answered(self, made: Any, update: str) -> None:
        try:
            self.answers[update] = {"output": await made}
        except asyncio.CancelledError:
            self.answers[update] = {"error": "cancelled"}
            raise
        except Exception as error:
            self.answers[update] = {"error": getattr(error, "type", type(error).__name__)}

    def check_answer(self, record: Record, update: str, answer: Mapping[str, Any]) -> None:
        """Raises OddLogError where the handler has not ended, or not so."""
        check(record, f"it answers {update} with", _typed(answer), self.answers.pop(update, None))


def _typed(answer: Mapping[str, Any]) -> Any:
    if "error" in answer:
        return {"error": answer["error"]["type"]}
    return {"output": answer.get("output")}
