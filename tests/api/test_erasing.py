"""DELETE /runs/{id}, and the purge of many runs."""

from __future__ import annotations

import pytest

from tests.api.kit import World


def test_a_run_that_has_ended_is_deleted() -> None:
    world = World()
    run_id = world.start("paid", input={"order": "1"})
    world.drain()
    assert world.delete(f"/runs/{run_id}").status == 409
    assert world.delete(f"/runs/{run_id}").json["code"] == "run_open"
    assert world.post(f"/runs/{run_id}/cancel", {}).status == 200
    reply = world.delete(f"/runs/{run_id}")
    assert (reply.status, reply.json["deleted_runs"]) == (200, 1)
    assert reply.json["deleted_items"] >= 2
    assert world.get(f"/runs/{run_id}").status == 404
    assert world.delete(f"/runs/{run_id}").status == 404


def test_a_run_under_way_is_deleted_by_force() -> None:
    world = World()
    run_id = world.start("paid", input={"order": "1"})
    world.drain()
    assert world.delete(f"/runs/{run_id}", force="maybe").status == 422
    assert world.delete(f"/runs/{run_id}", force="true").status == 200
    assert world.get(f"/runs/{run_id}").status == 404


def test_a_purge_is_a_batch_which_can_be_forced() -> None:
    world = World()
    for _ in range(2):
        world.start("paid", input={"order": "1"}, tags={"customer": "c7"})
    kept = world.start("paid", input={"order": "2"})
    world.drain()
    chosen = {"tag": "customer=c7", "before": "2100-01-01T00:00:00Z"}
    for force, done, refused in ((False, 0, {"run_open": 2}), (True, 2, {})):
        job = world.post("/runs:batch", {"filter": chosen, "action": "purge", "force": force}).json["run_id"]
        world.drain()
        report = world.get(f"/runs/{job}").json["state"]["report"]
        assert (report["done"], report["refused"]) == (done, refused)
    assert world.get(f"/runs/{kept}").status == 200
    reply = world.post("/runs:batch", {"filter": chosen, "action": "cancel", "force": True})
    assert (reply.status, reply.json["code"]) == (422, "no_force")


@pytest.mark.parametrize("call", ["redrive", "fork"])
def test_a_dry_run_is_refused_as_the_call_is_while_the_id_of_a_deleted_run_is_held(call: str) -> None:
    world = World()
    failed = world.start("fails")
    body = {"at": 0} if call == "fork" else {}
    made = world.post(f"/runs/{failed}/{call}", body).json["run_id"]
    world.drain()
    assert world.delete(f"/runs/{made}").status == 200
    refused = [world.post(f"/runs/{failed}/{call}", {**body, **dry}) for dry in ({"dry_run": True}, {})]
    assert [(reply.status, reply.json["code"]) for reply in refused] == [(409, "run_deleted")] * 2
