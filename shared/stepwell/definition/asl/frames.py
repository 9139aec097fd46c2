"""Frames: what the expressions of a state read: its input, the variables, and the context object.

the state's input   the result of the state before; of the first one, the run's input
the variables       in the scope, under VARIABLES; a branch sees those around it
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from stepwell.definition import graph
from stepwell.definition.asl.names import EXECUTION
from stepwell.definition.asl.paths import Scope
from stepwell.definition.graph import CALLBACK_MARK, ITEM, KEPT, READ, RETRIES, Json
from stepwell.errors import ExpressionError

VARIABLES = "$variables"  # names in the scope that no state can have
MADE: Mapping[str, Json] = {graph.MADE: True}  # what each state writes: the token's result is a state's output


class Frame:
    """The names of a state, as its expressions see them. All is made when it is asked for."""

    def __init__(self, names: Mapping[str, Json], state: str) -> None:
        self.names, self.state = names, state
        self.has_token = False  # of a callback, in its context

    def with_token(self) -> Frame:
        """Returns the frame of a task that is answered by a callback."""
        frame = Frame(self.names, self.state)
        frame.has_token = True
        return frame

    @cached_property
    def input(self) -> Json:
        """The raw input of the state."""
        return self.names["result"] if self._written.keys() & MADE.keys() else self.names["input"]

    @cached_property
    def _written(self) -> Mapping[str, Json]:
        written: Mapping[str, Json] = self.names["scope"]
        return written

    @property
    def variables(self) -> Mapping[str, Json]:
        found: Mapping[str, Json] = self._written.get(VARIABLES, {})
        return found

    def read(self, what: str) -> Json:
        """What the state's ItemReader has read: its `items`, or their `source`."""
        found: Mapping[str, Json] | None = self._written.get(READ)
        if found is None:
            raise ExpressionError(f"{self.state} has read no items")
        return found[what]

    def kept(self, what: str) -> Json:
        """What the state's ResultWriter writes: the `outcomes` of the branches, the `id` of them all, the `failure`."""
        found: Mapping[str, Json] | None = self._written.get(KEPT)
        if found is None:
            raise ExpressionError(f"{self.state} has kept no results")
        return found.get(what)

    def retries(self) -> list[int]:
        """How often each retrier of this state has been used since the state was entered."""
        found: Mapping[str, list[int]] = self._written.get(RETRIES, {})
        return found.get(self.state, [])

    def with_retries(self, counts: list[int]) -> dict[str, Json]:
        """What is written of these counts; nothing where there is nothing to change."""
        if counts == self.retries():
            return {}
        return {RETRIES: {**self._written.get(RETRIES, {}), self.state: counts}}

    def assigned(self, values: Mapping[str, Json]) -> dict[str, Json]:
        """What is written of these variables."""
        return {VARIABLES: {**self.variables, **values}} if values else {}

    def context(self) -> Json:
        """The context object, `$$` and `$states.context`."""
        run, now = self.names["run"], self.names["now"]
        item = self._written.get(ITEM)
        return {
            "Execution": {"Id": run["id"], "Name": _execution(run), "Input": self.names["input"],
                          "StartTime": run["started_at"], "RoleArn": "", "RedriveCount": 0},
            "State": {"Name": self.state, "EnteredTime": now, "RetryCount": self._tries()},
            "StateMachine": {"Id": run["workflow"], "Name": run["workflow"]},
            **({"Map": {"Item": {"Source": "STATE_DATA", **item}}} if item is not None else {}),
            **({"Task": {"Token": CALLBACK_MARK + run["id"]}} if self.has_token else {}),
        }  # fmt: skip

    def _tries(self) -> int:
        """How often the state has been tried again since it was entered, by its step or in a loop."""
        step = self.names["steps"].get(self.state) or {}
        is_tried = step.get("status") in ("running", "waiting")  # else that is of an earlier visit
        return (step.get("attempts") or 0 if is_tried else 0) + sum(self.retries())

    def seed(self, field: str) -> str:
        """What chance in this field is derived from: the same for one decision, however often it is made."""
        branch, item = self.names["branch"] or {}, self._written.get(ITEM) or {}
        place = (branch.get("fork"), branch.get("index"), item.get("Index"))
        return "|".join(map(str, (self.names["run"]["id"], *place, self.state, field, self.names["now"])))

    def scope(self, data: Json, field: str = "") -> Scope:
        """What paths of a field read, where `$` is this data."""
        return Scope(data, self.context, self.variables, self.seed(field))

    def states(self, more: Mapping[str, Json]) -> Json:
        """`$states` of JSONata: the input, the context, and what has come."""
        return {"input": self.input, "context": self.context(), **more}


def _execution(run: Mapping[str, Json]) -> str:
    """Returns the name that StartExecution gave the run, without the id of the call that waits for it; else its id."""
    name: str = run["tags"].get(EXECUTION) or run["id"]
    return name.partition(":")[0]
