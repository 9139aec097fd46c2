"""Sends events from a durable function: to runs, to any wait, and to the child run that a task waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Json, Step
from stepwell.engine.durable.runner import Pending
from stepwell.engine.durable.session import CURRENT
from stepwell.engine.durable.turns import SENDS, Asked, Given
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.arguments import check_plain_key, checked_name
from stepwell.runtime.durable.operations import Operation, stored
from stepwell.runtime.durable.tasks import Task
from stepwell.runtime.starts.admission import check_event_key, check_event_name, check_run_id
from stepwell.runtime.steps.binding import copy_of
from stepwell.values import dataclass


def sent(name: str, payload: Any, key: str | int | None, run: str | None) -> Operation[str]:
    """Returns the operation that sends an event once. Raises InvalidInput for an event that cannot be sent."""
    given: dict[str, Json] = {"payload": stored(payload, f"the event {name}")}
    if key is not None and run is not None:
        raise InvalidInput("an event has a key or a run", code="bad_value", hint="give one of them, or neither")
    check_plain_key("the key of an event", key)
    if key is not None:
        check_event_key(str(key))
        given["key"] = str(key)
    if run is not None:
        check_run_id(run)
        given["run"] = run
    return _operation(name, Given(given))


def _operation(name: str, given: Expression) -> Operation[str]:
    check_event_name(name)
    asked = Asked("step", checked_name(f"send.{name}"), step=Step(f"{SENDS}{name}", input=given))
    return Operation(asked, copy_of)


class ChildTask(Task):
    """A task that waits for a child run: `ctx.start(ctx.child(…))`."""

    _child: Pending | None = None

    def _await(self, awaited: Any) -> None:
        super()._await(awaited)
        if self.pending is not None:
            self._child = self.pending

    def send(self, name: str, payload: Any = None) -> Operation[str]:
        """Sends an event to the child run alone: `await handle.send("add", 2)`. The child may await it later.

        Raises StepFailed (`run_ended`) if the child has ended.
        """
        return _operation(name, _ToChild(self, stored(payload, f"the event {name}")))

    def branch(self) -> str:
        """Returns the id of the branch that waits for the child; "" if it has not begun."""
        place = self._child.place if self._child is not None else None
        token = str(getattr(self.context[CURRENT], "place", "")).partition("|")[2]
        return "" if place is None else f"{token}/{place[0]}.{place[1]}"


@dataclass(frozen=True, slots=True)
class _ToChild:
    """The input of an event to a child. Its branch has an id once a record began it: by the time of sending."""

    task: ChildTask
    payload: Json
    text: str = ""
    names: frozenset[str] = frozenset()
    reads_error: bool = False

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        return {"payload": self.payload, "child": self.task.branch()}
