"""Limits over the API: which there are, who holds their permits, and who waits for one."""

from __future__ import annotations

from stepwell.definition.graph import Limit, RateLimit
from tests.api.kit import World

HELD = """
workflow: held
concurrency: {limit: 2}
timeline: [{name: hold, wait: {for: approval}}]
"""
KEYED = """
workflow: keyed
concurrency: {limit: 1, key: "{{ input.who }}"}
rate_limit: {limit: 1, per: 1m}
timeline: [{name: hold, wait: {for: approval}}]
"""
RATED = """
workflow: rated
rate_limit: {limit: 1, per: 1m, key: "{{ input.who }}"}
timeline: [{name: hold, wait: {for: approval}}]
"""
MIXED = """
workflow: mixed
concurrency: {limit: 2}
rate_limit: {limit: 1, per: 1m, key: "{{ input.who }}"}
timeline: [{name: hold, wait: {for: approval}}]
"""
BATCHED = """
workflow: batched
batch: {max_size: 3, max_delay: 10m}
timeline: [{name: pay, run: python:m.pay, timeout: 1m}]
"""
PAID = """
workflow: paid
timeline: [{name: pay, run: python:m.pay, throttle: stripe}]
"""


def test_limits_are_listed_with_how_many_hold_them_and_wait() -> None:
    world = World(HELD, KEYED, PAID)
    world.parts.catalog.limits = {"stripe": Limit(5, RateLimit(100, 60_000, 10))}
    for _ in range(5):
        world.start("held")
    stripe, held, keyed = world.get("/limits").json["items"]
    assert (stripe["name"], stripe["of"], stripe["concurrency"], stripe["under_way"]) == ("stripe", "steps", 5, 0)
    assert stripe["rate_limit"] == {"limit": 100, "per": 60.0, "burst": 10}
    assert (held["name"], held["of"], held["under_way"], held["waiting"]) == ("held", "runs", 2, 3)
    assert (keyed["key"], keyed["under_way"], keyed["waiting"]) == ("{{ input.who }}", None, None)


def test_a_pending_run_in_a_list_says_what_it_may_wait_for() -> None:
    """That costs no read: of its limits only the definition is known."""
    world = World(HELD, PAID, BATCHED)
    for _ in range(3):
        world.start("held")
    world.start("batched")
    started = world.post("/workflows/paid/runs", {})  # no worker has come yet
    listed = {one["run_id"]: one for one in world.get("/runs").json["items"]}
    assert listed[started.json["run_id"]]["pending_reason"] == "queued"
    told = {(one["workflow"], one["status"], one["pending_reason"]) for one in listed.values()}
    assert told == {
        ("held", "waiting", None), ("held", "pending", "queued or limited"), ("batched", "pending", "gathers starts"),
        ("paid", "pending", "queued"),
    }  # fmt: skip


def test_a_line_is_shown_in_the_order_of_its_turns_page_by_page() -> None:
    world = World(HELD)
    runs = [world.start("held") for _ in range(6)]
    first = world.get("/limits/held", limit=3).json
    assert [one["run_id"] for one in first["under_way"]] == runs[:2]
    assert [(one["run_id"], one["place"]) for one in first["items"]] == [(runs[2], 0), (runs[3], 1), (runs[4], 2)]
    second = world.get("/limits/held", limit=3, cursor=first["next_cursor"]).json
    assert [(one["run_id"], one["place"]) for one in second["items"]] == [(runs[5], 3)]
    assert second["next_cursor"] is None


def test_a_line_of_a_key_is_its_own() -> None:
    world = World(KEYED)
    ana = world.start("keyed", input={"who": "ana"})
    assert [one["run_id"] for one in world.get("/limits/keyed", key="ana").json["under_way"]] == [ana]
    line = world.get("/limits/keyed", key="leo").json
    assert (line["key"], line["under_way"], line["items"]) == ("leo", [], [])
    assert line["next_turn_at"] is not None


def test_a_limit_that_counts_by_key_asks_for_the_key() -> None:
    """An empty answer would say that nobody holds it, though runs with keys do."""
    world = World(KEYED, RATED)
    world.start("keyed", input={"who": "ana"})
    for name in ("keyed", "rated"):
        reply = world.get(f"/limits/{name}")
        assert (reply.status, reply.json["type"]) == (422, "urn:stepwell:key_needed")
        assert "{{ input.who }}" in reply.json["detail"]


def test_a_limit_without_a_key_has_no_line_of_one() -> None:
    """It answered with the line of all runs as that of the key. A step may name a key for any limit of steps."""
    world = World(HELD, PAID)
    world.parts.catalog.limits = {"stripe": Limit(5)}
    world.start("held")
    reply = world.get("/limits/held", key="ana")
    assert (reply.status, reply.json["code"], reply.json["hint"]) == (422, "no_key", "leave the key out")
    assert world.get("/limits/stripe", key="ana").json["key"] == "ana"


def test_a_start_and_a_schedule_whose_input_lacks_the_key_are_refused() -> None:
    world = World(KEYED, RATED)
    for name, limit in (("keyed", "concurrency"), ("rated", "rate_limit")):
        start = world.post(f"/workflows/{name}/runs", {"input": {"whom": "ana"}})
        schedule = world.post("/schedules", {"name": "s", "workflow": name, "schedule": "rate(5 minutes)"})
        for reply in (start, schedule):
            assert (reply.status, reply.json["code"]) == (422, "bad_key")
            assert reply.json["detail"].startswith(f"`{limit}.key` cannot be computed: ")
            assert "reads" in reply.json["hint"]
    assert world.get("/runs").json["items"] == []


def test_a_limit_whose_rate_alone_has_a_key_shows_who_is_under_way() -> None:
    world = World(MIXED)
    run = world.start("mixed", input={"who": "ana"})
    whole, ana = world.get("/limits/mixed").json, world.get("/limits/mixed", key="ana").json
    assert [one["run_id"] for one in whole["under_way"]] == [one["run_id"] for one in ana["under_way"]] == [run]
    assert whole["next_turn_at"] is None
    assert ana["next_turn_at"] is not None


def test_what_is_no_limit_is_not_found() -> None:
    world = World(HELD, PAID)
    for path, of in (("/limits/nowhere", ""), ("/limits/paid", ""), ("/limits/held", "steps")):
        reply = world.get(path, of=of)
        assert (reply.status, reply.json["type"]) == (404, "urn:stepwell:unknown_limit")
    assert world.get("/limits/held", of="all").status == 422
    assert world.get("/limits/hold").json["hint"] == "did you mean `held`?"


GATHERS = """
workflow: mails
batch: {max_size: 3, max_delay: 1m}
timeline: [{name: last, run: python:m.last}]
"""


def test_a_start_that_becomes_part_of_a_run_is_answered_with_that_run_and_says_so() -> None:
    world = World(GATHERS)
    first = world.post("/workflows/mails/runs", {"input": {"to": "ana"}})
    second = world.post("/workflows/mails/runs", {"input": {"to": "leo"}})
    assert (first.status, first.json["folded"]) == (201, False)
    assert (second.status, second.json["folded"], second.json["run_id"]) == (200, True, first.json["run_id"])
    assert second.json["input"] == {"items": [{"to": "ana"}, {"to": "leo"}]}
    assert second.json["pending_reason"].startswith("batch: 2 starts of at most 3 so far, begins at ")
