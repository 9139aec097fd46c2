"""A wait for child runs: those of a node, a step or a durable function (`children`), or another agent (`agent`)."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.children import failure_from, id_of
from stepwell.engine.names import Moment, default_input
from stepwell.engine.records import Called, Failure, Parked, Pause, Record, Resumption
from stepwell.engine.table import Signal
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Began, Coming, WaitKind


class ChildrenWait(WaitKind):
    """The ends of the children end it; events do not."""

    def park_for_step(self, moment: Moment, token: Token, pause: Pause) -> Parked:
        given = default_input(moment.run, token)
        asked = tuple(
            Called(one["name"], one["workflow"], given if one["input"] is None else one["input"]) for one in pause.data
        )
        return replace(super().park_for_step(moment, token, replace(pause, data=None)), children=asked)

    def failure(self, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        return failure_from(resumption, node) or super().failure(parked, resumption, node, waited)

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        began = super().began(record, parked, run_id, token)
        children = [
            {"name": one.name, "workflow": one.workflow, "run_id": id_of(one, run_id, token, record.slot, index)}
            for index, one in enumerate(parked.children)
        ]
        return began._replace(data={**began.data, "children": children})


CHILDREN = ChildrenWait(
    "children",
    Signal.CALLED,
    "children.started",
    comings={
        "children": Coming("children.completed", is_value=True),
        "child_failed": Coming("child.failed"),
        "child_refused": Coming("child.refused"),
    },
    thing="child runs",
)
AGENT = ChildrenWait("agent", Signal.CALLED, "children.started")
