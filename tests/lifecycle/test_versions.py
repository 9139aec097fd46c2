"""Versions by name: a start, a redrive and a fork take a hash or an alias; and which have open runs."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict, InvalidInput, NotFound
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.draining import open_runs
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.starts.versions import Versions
from tests.api.kit import World as Api
from tests.contract.kit import STORES
from tests.runtime.kit import World, fails, graph_of

FIRST = """
workflow: flow
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: agree, wait: {for: approval}}
  - {name: ship, run: python:shop.ship}
"""
SECOND = FIRST.replace("name: ship", "name: send")


def versions(world: World) -> Versions:
    return Versions(world.parts.ports, world.catalog)


def deployed(world: World, text: str) -> str:
    """Deploys a definition; its version."""
    graph = graph_of(text)
    world.catalog.replace([graph])
    return graph.version


def started(world: World, version: str = "", key: str = "") -> str:
    """The version of a run that is started."""
    return run_now(world.service.start(Start("flow", {}, key=key, version=version))).header.version


def refused(call: Coroutine[Any, Any, object]) -> str:
    with pytest.raises((NotFound, InvalidInput, Conflict)) as error:
        run_now(call)
    return error.value.code


@pytest.mark.parametrize("store", ["memory", "sqlite", "dynamodb"])
def test_an_alias_names_a_version_until_it_is_moved(store: str, tmp_path: Path) -> None:
    adapter = next(one for one in STORES if one.name == store)
    with adapter.open(tmp_path) as opened:
        world = World(FIRST)
        world.store.inner = opened
        first = world.catalog.named("flow").version
        assert run_now(versions(world).point("flow", "stable")) == first
        second = deployed(world, SECOND)
        assert [started(world, one) for one in ("", "latest", "stable", first)] == [second, second, first, first]
        assert run_now(versions(world).point("flow", "stable", "latest")) == second
        assert run_now(versions(world).point("flow", "old", first)) == first
        assert run_now(versions(world).aliases("flow")) == {"old": first, "stable": second}
        assert [started(world, one) for one in ("stable", "old")] == [second, first]
        run_now(versions(world).drop("flow", "old"))
        assert refused(versions(world).drop("flow", "old")) == "unknown_version"
        assert refused(world.service.start(Start("flow", {}, version="old"))) == "unknown_version"


def test_a_run_that_began_with_an_alias_keeps_its_version_when_that_moves() -> None:
    world = World(FIRST)
    run_now(versions(world).point("flow", "stable"))
    run_id = run_now(world.service.start(Start("flow", {}, version="stable"))).header.run_id
    deployed(world, SECOND)
    run_now(versions(world).point("flow", "stable"))
    world.deliver()
    run_now(world.service.approve(run_id, None, "ana"))
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["charge", "ship"]


def test_a_repeated_start_gets_the_first_run_wherever_the_alias_points_by_now() -> None:
    world = World(FIRST)
    first = run_now(versions(world).point("flow", "stable"))
    assert started(world, "stable", key="k") == first
    deployed(world, SECOND)
    run_now(versions(world).point("flow", "stable"))
    assert started(world, "stable", key="k") == first
    assert refused(world.service.start(Start("flow", {}, key="k"))) == "already_used"


def test_a_redrive_takes_an_alias() -> None:
    world = World(FIRST)
    first = run_now(versions(world).point("flow", "stable"))
    world.steps.of["charge"] = lambda call: fails()
    run_id = world.start()
    world.deliver()
    deployed(world, SECOND)
    assert run_now(world.service.redrive(run_id, version="stable")).header.version == first


@pytest.mark.parametrize("made", ["alias", "run", "deployed"])
def test_a_version_is_named_by_the_beginning_of_its_hash(made: str) -> None:
    """As `stepwell versions` shows it."""
    world = World(FIRST)
    first = world.catalog.named("flow").version
    if made == "alias":
        run_now(versions(world).point("flow", "stable"))
    if made == "run":
        started(world)
    if made != "deployed":
        deployed(world, SECOND)
    digits = first.removeprefix("sha256:")
    for asked in (digits[:7], digits[:12], digits, first[:20]):
        assert started(world, asked) == first
    assert run_now(versions(world).point("flow", "old", digits[:12])) == first
    for asked in (digits[:6], digits[:11] + "x", digits + "0", "sha256:" + "0" * 64):
        with pytest.raises(NotFound) as error:
            run_now(world.service.start(Start("flow", {}, version=asked)))
        assert (error.value.code, "stepwell versions flow" in str(error.value.hint)) == ("unknown_version", True)


def test_an_alias_comes_before_the_beginning_of_a_hash() -> None:
    world = World(FIRST)
    digits = world.catalog.named("flow").version.removeprefix("sha256:")
    run_now(versions(world).point("flow", "stable"))
    second = deployed(world, SECOND)
    run_now(versions(world).point("flow", digits[:8], "latest"))
    assert started(world, digits[:8]) == second


def test_a_beginning_of_two_versions_is_refused_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(FIRST)
    both = frozenset({f"sha256:{'ab' * 31}{end}" for end in ("00", "11")})

    async def known(self: Versions, workflow: str) -> frozenset[str]:
        return both

    monkeypatch.setattr(Versions, "known", known)
    with pytest.raises(InvalidInput) as error:
        run_now(world.service.start(Start("flow", {}, version="abababa")))
    assert error.value.code == "ambiguous_version"
    assert all(one in str(error.value.hint) for one in both)


def test_a_schedule_keeps_the_whole_hash_of_a_beginning() -> None:
    """The runs that let the beginning find its version may be gone when it fires."""
    world = Api()
    whole = world.get("/workflows/order").json["version"]
    plan = {"name": "nightly", "workflow": "order", "schedule": "0 0 * * *", "version": whole[7:19]}
    assert [world.post("/schedules", plan).json["version"] for _ in range(2)] == [whole, whole]


def test_the_versions_of_a_workflow_that_is_no_longer_deployed_are_shown() -> None:
    """That is when one asks what has drained."""
    world = Api()
    version = world.get("/workflows/order").json["version"]
    run_id = world.post("/workflows/order/runs", {"input": {}}).json["run_id"]
    world.drain()
    world.parts.catalog.replace([])
    (one,) = world.get("/workflows/order/versions").json["items"]
    assert (one["version"], one["deployed"], one["runs"]) == (version, False, 1)
    for path in (f"/runs/{run_id}/rerun", "/workflows/order/runs"):
        refused = world.post(path, {} if "rerun" in path else {"input": {}}, {"Idempotency-Key": "k"}).json
        assert refused["code"] == "unknown_workflow"
        assert "name a `version`" in refused["hint"]
        assert ("pin" in refused["hint"]) == ("rerun" in path)
    world.post(f"/runs/{run_id}/terminate", {})
    world.drain()
    assert world.get("/workflows/order/versions").json["items"] == []
    assert world.get("/workflows/nobody/versions").status == 404


def test_what_cannot_be_a_version_or_an_alias_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(FIRST, FIRST.replace("workflow: flow", "workflow: other"))
    other = world.catalog.named("other").version
    for asked in ("nobody", "sha256:unknown", other):
        assert refused(world.service.start(Start("flow", {}, version=asked))) == "unknown_version"
    for alias in ("latest", "sha256:mine", "../x"):
        assert refused(versions(world).point("flow", alias)) == "bad_name"
    assert refused(versions(world).point("nobody", "stable")) == "unknown_workflow"
    monkeypatch.setattr("stepwell.runtime.starts.versions.ALIASES", 1)
    run_now(versions(world).point("flow", "one"))
    run_now(versions(world).point("flow", "one"))
    assert refused(versions(world).point("flow", "two")) == "too_many_aliases"


def test_open_runs_are_counted_by_version_with_what_they_wait_for_and_the_oldest() -> None:
    world = World(FIRST)
    first = world.catalog.named("flow").version
    oldest = world.start()
    world.clock.advance(1_000)
    world.start()
    world.deliver()
    second = deployed(world, SECOND)
    world.clock.advance(1_000)
    world.start()
    found, is_whole = run_now(open_runs(world.parts.ports.runs, "flow", 10))
    assert is_whole
    assert {version: one.count for version, one in found.items()} == {first: 2, second: 1}
    assert (found[first].oldest.run_id, dict(found[first].waits)) == (oldest, {("approval", "agree"): 2})
    assert dict(found[second].statuses) == {"pending": 1}
    found, is_whole = run_now(open_runs(world.parts.ports.runs, "flow", 2))
    assert (sum(one.count for one in found.values()), is_whole) == (2, False)


def test_the_api_shows_versions_and_moves_aliases() -> None:
    world = Api()
    version = world.get("/workflows/order").json["version"]
    told = world.post("/workflows/order/aliases", {"alias": "stable"})
    assert (told.status, told.json) == (200, {"workflow": "order", "alias": "stable", "version": version})
    run_id = world.post("/workflows/order/runs", {"input": {}, "version": "stable"}).json["run_id"]
    world.drain()
    shown = world.get("/workflows/order/versions").json
    (one,) = shown["items"]
    assert (shown["is_whole"], one["version"], one["deployed"], one["aliases"], one["runs"]) == (
        True, version, True, ["stable"], 1)  # fmt: skip
    assert one["waits"] == [{"waiting_for": "approval", "step": "approve", "runs": 1}]
    assert (one["oldest"]["run_id"], one["oldest"]["waiting_step"]) == (run_id, "approve")
    assert world.get("/workflows/order/versions", most="0").status == 422
    assert world.get("/workflows/nobody/versions").status == 404
    assert world.post("/workflows/order/runs", {"input": {}, "version": "old"}).json["code"] == "unknown_version"
    assert world.delete("/workflows/order/aliases/stable").status == 204
    assert world.delete("/workflows/order/aliases/stable").status == 404
