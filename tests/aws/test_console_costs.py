"""What the console's page of a run reads on DynamoDB: as much of a run with 1,600 entries as of one with 300."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from stepwell.api.routes import create_app
from tests.api.kit import Reply, event
from tests.aws.kit import AwsWorld, aws_world

LOOP = """
workflow: flow
nodes:
  one: {run: python:m.one, timeout: 20s, transitions: [{when: "state.one.n < input.n", to: one}, {to: ask}]}
  ask: {wait: {for: approval}}
"""
SHORT, LONG = 150, 800  # steps; the newest snapshot of the long one is of its last record
PAGE = 500
# Requests and read units of one look, whatever the run's length.
MOST = {"": (5, 40), "/explain": (6, 40), "/graph": (4, 25), "/history": (6, 45), "/output": (2, 2)}


@dataclass(frozen=True)
class Looks:
    """What the looks at one run read: requests and read units, by route; and the pages of its history."""

    requests: dict[str, int]
    units: dict[str, int]
    pages: int


def looked_at(steps: int) -> Looks:
    with aws_world(LOOP) as world:
        counts = Counter[str]()

        def one(_: object) -> dict[str, int]:
            counts.update(n=1)
            return {"n": counts["n"]}

        world.steps.of["one"] = one
        run_id = world.start(given={"n": steps})
        world.deliver()
        assert world.header(run_id).waiting_for == "approval"
        return _looks(world, run_id)


def _looks(world: AwsWorld, run_id: str) -> Looks:
    app = create_app(world.parts)
    requests, units = Counter[str](), Counter[str]()

    def look(route: str, **query: str) -> str:
        world.meter.clear()
        reply = Reply(app.resolve(dict(event("GET", f"/runs/{run_id}{route}", query=urlencode(query)))))
        assert reply.status == 200, reply.text
        requests[route] = max(requests[route], world.meter.requests.total())
        units[route] = max(units[route], world.meter.read_units)
        return str(reply.json.get("next_cursor") or "")

    for route in ("", "/explain", "/output"):
        look(route)
    look("/graph", format="json")
    after, pages = look("/history", limit=str(PAGE)), 1
    while after:
        after, pages = look("/history", limit=str(PAGE), after=after), pages + 1
    return Looks(requests, units, pages)


@pytest.mark.parametrize("steps", [SHORT, LONG])
def test_a_look_at_a_run_reads_no_more_of_a_long_one(steps: int) -> None:
    """Each route's requests and read units are below one bound; a history is a look for each 500 entries."""
    looks = looked_at(steps)
    for route, (requests, units) in MOST.items():
        assert 0 < looks.requests[route] <= requests, (route, looks.requests)
        assert looks.units[route] <= units, (route, looks.units)
    assert looks.pages == -(-(2 * steps + 4) // PAGE)
