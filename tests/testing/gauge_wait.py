"""A wait kind as somebody would add it: its whole engine side is this one file.

It waits for three readings of a gauge, by three sensors. Its value is their mean; a sensor that is broken fails it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from stepwell.definition.graph import Json, Wait
from stepwell.definition.wait_schemas import SCHEMAS, WaitSchema
from stepwell.engine.records import Arm, Failure, Parked, Resumption
from stepwell.engine.waits.event import EventWait
from stepwell.engine.waits.kind import KINDS, Place, register
from stepwell.limits import DAY_MS, HOUR_MS

SENSORS = 3
SCHEMA = WaitSchema("the readings of three sensors", DAY_MS, HOUR_MS, ("key", "timeout", "on_timeout"), "GAUGE_READ")


class GaugeWait(EventWait):
    """Its parts are the sensors, by name."""

    def arm(self, wait: Wait, place: Place) -> Arm:
        return replace(super().arm(wait, place), need=SENSORS)

    def part(self, arm: Arm, came: Resumption, received: Sequence[Resumption], *, complete: bool) -> Resumption | None:
        return None if complete or "sensor" not in came.payload else replace(came, part=came.payload["sensor"])

    def is_refused(self, arm: Arm, index: int, came: Sequence[Resumption]) -> bool:
        return "broken" in came[-1].payload

    def value(self, arm: Arm, came: Sequence[Resumption]) -> Json:
        return {"mean": sum(one.payload["level"] for one in came) / len(came), "sensors": [one.part for one in came]}

    def failure(self, parked: Parked, came: Resumption, node: str, waited: int) -> Failure | None:
        if came.kind == "event" and "broken" in came.payload:
            return Failure("sensor_broken", "external", f"sensor {came.part} is broken", step=node)
        return super().failure(parked, came, node, waited)


@contextmanager
def gauge_waits() -> Iterator[None]:
    """Stepwell with this wait kind."""
    with mock.patch.dict(SCHEMAS, gauge=SCHEMA), mock.patch.dict(KINDS):
        register(GaugeWait("gauge", sets={"level": ("mean",)}))
        yield
