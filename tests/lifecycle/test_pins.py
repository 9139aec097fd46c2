"""`version: pin`: what is made of a run keeps its version, over every store; without it, the deployed one is taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.limits import MINUTE_MS
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.log.messages import Scheduled
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Schedule
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.starts.starting import Start
from tests.api.kit import World as Api
from tests.contract.kit import STORES
from tests.runtime.kit import World, fails, graph_of

FIRST = """
workflow: flow
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: ship, run: python:shop.ship}
"""
SECOND = FIRST.replace("name: ship", "name: send")
CALLS = """
workflow: flow
nodes:
  begin: {transitions: [{to: again, when: "input.left > 0", priority: 1}, {to: done, priority: 2}]}
  again: {run: "workflow:flow", input: {left: 0}, transitions: [{to: done}]}
  done: {}
"""


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    adapter = next(one for one in STORES if one.name == request.param)
    with adapter.open(tmp_path) as opened:
        world = World(FIRST)
        world.store.inner = opened
        yield world


def deployed(world: World, text: str) -> str:
    """Deploys a definition; its version."""
    graph = graph_of(text)
    world.catalog.replace([graph])
    return graph.version


def failed(world: World, version: str) -> tuple[str, str]:
    """A run that was started so and failed; and its version."""
    world.steps.of["charge"] = lambda call: fails()
    header = run_now(world.service.start(Start("flow", {}, version=version))).header
    world.deliver()
    del world.steps.of["charge"]
    return header.run_id, header.version


def made_of(world: World, run_id: str, version: str = "") -> list[Header]:
    """A rerun, a fork and a redrive of it."""
    old = run_now(world.service.header(run_id))
    made = [
        run_now(world.service.rerun(run_id, version=version)),
        run_now(world.service.forker.fork(old, RunFork(0, version=version))),
        run_now(world.service.redrive(run_id, version=version)),
    ]
    return [run_now(world.service.header(one.header.run_id)) for one in made]


def test_what_is_made_of_a_pinned_run_has_its_version_and_is_pinned(world: World) -> None:
    run_id, first = failed(world, "pin")
    deployed(world, SECOND)
    assert run_now(world.service.redrive_foretold(run_id))["version"] == first
    assert [(one.version, one.pinned) for one in made_of(world, run_id)] == [(first, True)] * 3
    world.deliver()
    assert {call.node for call in world.steps.calls} == {"charge", "ship"}


@pytest.mark.parametrize("version", ["", "latest"])
def test_what_is_made_of_another_run_has_the_deployed_version(world: World, version: str) -> None:
    run_id, _ = failed(world, version)
    second = deployed(world, SECOND)
    assert [(one.version, one.pinned) for one in made_of(world, run_id)] == [(second, False)] * 3


def test_a_version_that_the_call_names_comes_before_the_pin(world: World) -> None:
    run_id, _ = failed(world, "pin")
    second = deployed(world, SECOND)
    assert [(one.version, one.pinned) for one in made_of(world, run_id, "latest")] == [(second, False)] * 3


def test_a_call_can_name_the_runs_own_version(world: World) -> None:
    run_id, first = failed(world, "latest")
    deployed(world, SECOND)
    assert [(one.version, one.pinned) for one in made_of(world, run_id, "pin")] == [(first, True)] * 3


def test_a_fork_with_another_workflow_leaves_the_pin(world: World) -> None:
    run_id, _ = failed(world, "pin")
    other = graph_of(FIRST.replace("workflow: flow", "workflow: other"))
    world.catalog.replace([*world.catalog.current.values(), other])
    asked = RunFork(0, workflow="other")
    made = run_now(world.service.forker.fork(run_now(world.service.header(run_id)), asked)).header
    assert (made.version, made.pinned) == (other.version, False)


@pytest.mark.parametrize("version", ["pin", "latest"])
def test_a_child_of_the_same_workflow_has_the_version_of_its_pinned_parent(world: World, version: str) -> None:
    first = deployed(world, CALLS)
    parent = run_now(world.service.start(Start("flow", {"left": 1}, version=version))).header
    second = deployed(world, FIRST)
    world.deliver()
    page = run_now(world.service.runs(RunQuery("flow")))
    (child,) = [one for one in page.headers if one.run_id != parent.run_id]
    is_pinned = version == "pin"
    assert (child.version, child.pinned) == (first if is_pinned else second, is_pinned)


def test_a_schedule_names_the_version_of_its_runs(world: World) -> None:
    first = world.catalog.named("flow").version
    schedule = Schedule("nightly", "flow", "rate(5 minutes)", input={}, version=first)
    known, _ = run_now(world.parts.scheduling.create(schedule))
    deployed(world, SECOND)
    world.clock.advance(5 * MINUTE_MS)
    run_now(world.parts.triggers.fire(Scheduled("nightly", world.clock.now_ms(), known.schedule)))
    (run,) = run_now(world.service.runs(RunQuery("flow"))).headers
    assert run.version == first


def test_the_api_shows_a_pinned_run_and_refuses_what_is_no_version() -> None:
    api = Api()
    started = api.post("/workflows/order/runs", {"input": {}, "version": "pin"}).json
    run_id, version = started["run_id"], api.get("/workflows/order").json["version"]
    for path in (f"/runs/{run_id}", f"/runs/{run_id}/explain"):
        assert (api.get(path).json["version"], api.get(path).json["pinned"]) == (version, True)
    assert api.get("/runs").json["items"][0]["pinned"]
    again = api.post(f"/runs/{run_id}/rerun", {"version": "latest"}).json
    assert (again["version"], again["pinned"]) == (version, False)
    refused = api.post("/workflows/order/runs", {"input": {}, "version": "pinned"}).json
    assert refused["code"] == "unknown_version"
    assert "pin, latest, or one that `stepwell versions order` shows" in str(refused)
    assert api.post("/workflows/order/aliases", {"alias": "pin"}).json["code"] == "bad_name"
    often = {"name": "often", "workflow": "order", "schedule": "rate(5 minutes)", "version": "nobody"}
    assert api.post("/schedules", often).json["code"] == "unknown_version"
