"""Tells a run's history in the events of Step Functions, as far as the history knows them.

    step.started    TaskStateEntered, TaskScheduled
    step.completed  TaskSucceeded, TaskStateExited
    fork.opened     MapStateEntered, MapStateStarted; then MapIterationStarted for each branch

A state is entered once, however often it is tried, and left once: after its catcher has shaped the error. What a state
was given is what the state before it brought, which holds for state machines only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.api.step_functions.executions import TEXT_BYTES, Told, seconds
from stepwell.api.step_functions.kinds import Kinds
from stepwell.definition.asl.names import HEARTBEAT, TIMEOUT, cause_of, name_of
from stepwell.definition.graph import Json
from stepwell.engine.entries import PHASE, Entry
from stepwell.engine.forks.branches import parent_of
from stepwell.runtime.stores.jsontext import encode

_NONE: Json = object()  # no value is known

_BEGIN = frozenset({"step.started", "sleep.started", "children.started", "approval.requested", "event.awaited",
                    "lock.requested"})  # fmt: skip
_FORKS = frozenset({"fork.opened", "join.fired", "join.failed"})
_OVER = frozenset({"step.completed", "step.skipped", "node.passed"})
_MAP_ENDS = {"branch.completed": "Succeeded", "branch.failed": "Failed", "branch.cancelled": "Aborted"}
_RUN_ENDS = {"run.completed": "Succeeded", "run.failed": "Failed", "run.compensated": "Failed",
             "run.timed_out": "TimedOut", "run.cancelled": "Aborted"}  # fmt: skip


class Events:
    """Tells one history from its beginning; the events are numbered from 1."""

    def __init__(self, kinds: Kinds, region: str, *, has_data: bool) -> None:
        self._kinds, self._region, self._has_data = kinds, region, has_data
        self._count = 0
        self._last: dict[str, int] = {}  # the last event by token
        self._open: dict[str, str] = {}  # the state that a token is in
        self._given: dict[str, Json] = {}  # what its next state is given

    def of(self, entry: Entry) -> Iterator[Told]:
        """Yields the events that an entry stands for."""
        data: Mapping[str, Any] = entry.data if isinstance(entry.data, dict) else {}
        if entry.type == "run.created":
            self._given[entry.token] = data.get("input") if self._kinds.is_machine else _NONE
            yield self._event(entry, "ExecutionStarted", self._text("input", data.get("input")))
        elif entry.type == "run.redriven":
            yield self._event(entry, "ExecutionRedriven", {"redriveCount": 1})
        elif entry.type in _RUN_ENDS:
            yield self._run_ended(entry, data)
        elif entry.step and entry.type != PHASE:
            yield from self._of_branch(entry, data)

    def _run_ended(self, entry: Entry, data: Mapping[str, Any]) -> Told:
        kind = f"Execution{_RUN_ENDS[entry.type]}"
        if entry.type == "run.completed":
            return self._event(entry, kind, self._text("output", data.get("result")))
        if entry.type == "run.cancelled":
            return self._event(entry, kind, {"cause": str(data.get("reason") or "")})
        return self._event(entry, kind, self._error(data))

    def _of_branch(self, entry: Entry, data: Mapping[str, Any]) -> Iterator[Told]:
        """The states' events, and where the entry is the first or the last of an iteration of a Map, that of it."""
        place = parent_of(entry.token)
        name = self._open.get(place[0], "") if place else ""
        is_item = place is not None and self._kinds.of(name) == "Map"
        detail = {"name": name, "index": place[2]} if place else {}
        if place and entry.token not in self._last and entry.type != "branch.cancelled":
            self._last[entry.token] = self._last.get(place[0], 0)
            if self._kinds.of(name) == "Parallel":  # a node of its own makes another input before, if it has one
                self._given[entry.token] = self._given.get(place[0], _NONE)
            if is_item:
                yield self._event(entry, "MapIterationStarted", detail)
        yield from self._of_state(entry, data)
        if is_item and entry.type in _MAP_ENDS and entry.token in self._last:
            yield self._event(entry, f"MapIteration{_MAP_ENDS[entry.type]}", detail)

    def _of_state(self, entry: Entry, data: Mapping[str, Any]) -> Iterator[Told]:
        state, is_made = self._kinds.state_of(entry.step), self._kinds.is_made(entry.step)
        kind = self._kinds.of(state)
        if entry.type in _FORKS:
            yield from self._forked(entry, state, kind, data)
        elif entry.type in _BEGIN and (not is_made or self._kinds.is_step(entry.step)):
            yield from self._entered(entry, state, kind)
            if entry.type in {"step.started", "children.started"} and kind == "Task":
                yield self._event(entry, "TaskScheduled", self._scheduled(state, data))
        elif entry.type == "step.failed" and (not is_made or self._kinds.is_between(entry.step)):
            yield from self._entered(entry, state, kind)  # also a Map whose items cannot be evaluated, before its fork
            if kind == "Task" and not is_made:
                yield self._event(entry, self._failed_as(data), {**self._kinds.resource(state), **self._error(data)})
            if kind == "Map" and not is_made:
                yield self._event(entry, "MapStateFailed", {})
        elif entry.type in _OVER and not self._kinds.is_between(entry.step):
            yield from self._over(entry, state, kind, data)

    def _entered(self, entry: Entry, state: str, kind: str) -> Iterator[Told]:
        if self._open.get(entry.token) == state:
            return
        self._open[entry.token] = state
        given = self._given.get(entry.token, _NONE)
        yield self._event(entry, f"{kind}StateEntered", {"name": state, **self._text("input", given)})

    def _forked(self, entry: Entry, state: str, kind: str, data: Mapping[str, Any]) -> Iterator[Told]:
        """A Parallel or a Map. Other formats have no such states: their branches are told, and no fork of theirs."""
        if kind not in {"Map", "Parallel"}:
            return
        if entry.type == "fork.opened":
            yield from self._entered(entry, state, kind)
            yield self._event(entry, f"{kind}StateStarted", {"length": data.get("width", 0)} if kind == "Map" else {})
        elif entry.type == "join.failed":
            yield self._event(entry, f"{kind}StateFailed", {})
        else:
            self._given[entry.token] = data.get("output")
            if not self._kinds.is_between(entry.step):  # else its results are to be written
                yield self._event(entry, f"{kind}StateSucceeded", {})

    def _scheduled(self, state: str, data: Mapping[str, Any]) -> Told:
        parameters = self._text("parameters", data.get("input", _NONE))
        parameters.pop("parametersDetails", None)
        return {**self._kinds.resource(state), "region": self._region, **parameters}

    def _over(self, entry: Entry, state: str, kind: str, data: Mapping[str, Any]) -> Iterator[Told]:
        """A state, or a node that the compiler made of it, is over. It is left where what follows is not its own."""
        following = str(data.get("next") or "")
        if not self._kinds.is_made(entry.step):
            yield from self._entered(entry, state, kind)
            if kind == "Task" and entry.type == "step.completed":
                yield self._event(entry, "TaskSucceeded", self._kinds.resource(state))
            if kind == "Map" and entry.type == "step.completed":
                yield self._event(entry, "MapStateSucceeded", {})
        if self._kinds.is_sleep(entry.step):  # its own result is nothing: a Wait passes on what it was given
            data = {name: value for name, value in data.items() if name != "output"}
        if "output" in data:
            self._given[entry.token] = data["output"] if self._kinds.is_machine else _NONE
        is_own = self._kinds.is_made(following) and self._kinds.state_of(following) == state
        if self._open.get(entry.token) == state and not is_own and kind != "Fail":
            del self._open[entry.token]
            output = data.get("output", self._given.get(entry.token, _NONE))
            yield self._event(entry, f"{kind}StateExited", {"name": state, **self._text("output", output)})

    def _failed_as(self, data: Mapping[str, Any]) -> str:
        return "TaskTimedOut" if self._error(data).get("error") in (TIMEOUT, HEARTBEAT) else "TaskFailed"

    def _error(self, data: Mapping[str, Any]) -> Told:
        error = data.get("error")
        if not isinstance(error, dict):
            return {}
        return {"error": name_of(error), "cause": cause_of(error)}

    def _text(self, name: str, value: Json) -> Told:
        """A value as text, if it is known, wanted, and small enough for an answer."""
        if value is _NONE or not self._has_data:
            return {}
        text = encode(value)
        is_whole = len(text.encode()) <= TEXT_BYTES
        return {**({name: text} if is_whole else {}), f"{name}Details": {"truncated": not is_whole}}

    def _event(self, entry: Entry, kind: str, details: Told) -> Told:
        place = parent_of(entry.token)
        before = self._last.get(entry.token) or (self._last.get(place[0], 0) if place else 0)
        self._count += 1
        self._last[entry.token] = self._count
        event: Told = {"timestamp": seconds(entry.at_ms), "type": kind, "id": self._count, "previousEventId": before}
        return {**event, detail_of(kind): details} if details else event


def detail_of(kind: str) -> str:
    """Returns the field of an event that has its details."""
    for one in ("StateEntered", "StateExited"):
        if kind.endswith(one):
            return f"{one[0].lower()}{one[1:]}EventDetails"
    return f"{kind[0].lower()}{kind[1:]}EventDetails"
