"""The whole: workflows, numbers, health, unknown routes, defects, and the OpenAPI document."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict
from typing import Any

import fastjsonschema
import pytest

from stepwell import cors
from stepwell.api import checked
from stepwell.api.console import console_routes, page_for
from stepwell.api.examples import EXAMPLES
from stepwell.api.openapi import document
from stepwell.api.requests import VOCABULARIES
from stepwell.api.routes import ROUTES
from stepwell.engine.records import ROOT
from stepwell.engine.stored import formats
from stepwell.errors import PortError
from stepwell.prices import Prices
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Saved
from tests.api.kit import ORDER, World, event
from tests.docs.generate import DOCS, OPENAPI, openapi_text


def test_workflows_are_listed_with_their_hash(world: World) -> None:
    page = world.get("/workflows").json
    assert [workflow["name"] for workflow in page["items"]] == ["fails", "order", "paid", "quick"]
    assert all(workflow["version"].startswith("sha256:") for workflow in page["items"])


def test_a_workflow_shows_its_graph(world: World) -> None:
    workflow = world.get("/workflows/order").json
    kinds = {node["name"]: node["kind"] for node in workflow["graph"]["nodes"]}
    assert kinds == {"charge": "step", "approve": "wait", "nap": "wait", "ship": "step"}
    assert {"from": "charge", "to": "approve"}.items() <= workflow["graph"]["edges"][0].items()
    assert workflow["document"]["timeline"][0]["name"] == "charge"
    assert workflow["input_schema"] == workflow["document"]["input_schema"]
    assert (workflow["queries"], workflow["updates"]) == ([], [])


def test_a_definition_is_checked_and_drawn_without_being_deployed(world: World) -> None:
    """Nothing is written, and a workflow that is not deployed here is a warning."""
    before = world.stored()
    found = world.post("/check", {"definition": ORDER.replace("order", "other")}).json
    assert (found["name"], found["format"], found["problems"]) == ("other", "timeline", [])
    assert [node["name"] for node in found["graph"]["nodes"]] == ["charge", "approve", "nap", "ship"]
    calls = "workflow: a\nnodes:\n  go: {run: workflow:nowhere, timeout: 1m}\n"
    assert [one["severity"] for one in world.post("/check", {"definition": calls}).json["problems"]] == ["warning"]
    assert world.stored() == before
    assert world.get("/workflows/other").status == 404


def test_a_checked_graph_is_simulated_and_no_code_is_run(world: World) -> None:
    """Nothing is written either: the simulation is in memory."""
    before = world.stored()
    given = {"steps": {"charge": {"takes": "2s"}}, "waits": {"approve": {"after": "1h"}}}
    found = world.post("/check", {"definition": ORDER.replace("order", "other"), "assumptions": given}).json
    simulation = found["simulation"]
    assert 0 < simulation["runs"] <= 100
    assert [(one["status"], one["count"]) for one in simulation["outcomes"]] == [("completed", simulation["runs"])]
    assert simulation["p50_seconds"] > 3_600
    assert 0 < simulation["usd_per_1000_runs"]["stepwell"] < simulation["usd_per_1000_runs"]["step_functions_standard"]
    assert simulation["contradictions"] == []
    late = "workflow: late\ntimeout: 1h\ntimeline:\n  - {name: ask, wait: {for: approval, timeout: 2h}}\n"
    (only,) = world.post("/check", {"definition": late}).json["simulation"]["contradictions"]
    assert (only["code"], only["node"]) == ("wait_outlives_run", "ask")
    assert world.stored() == before


def test_a_check_without_a_simulation_has_none_and_bad_assumptions_are_refused(world: World) -> None:
    assert world.post("/check", {"definition": ORDER, "simulate": False}).json["simulation"] is None
    refused = world.post("/check", {"definition": ORDER, "assumptions": {"steps": {"a": {"fails": 7}}}})
    assert (refused.status, refused.json["code"]) == (422, "bad_assumptions")


def test_a_check_takes_no_longer_than_it_may(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that do not fit are left out."""
    monkeypatch.setattr(checked, "SIMULATED_SECONDS", 0.0)
    simulation = world.post("/check", {"definition": ORDER}).json["simulation"]
    assert (simulation["runs"], simulation["usd_per_1000_runs"]) == (0, None)


def test_a_wrong_definition_has_its_problems_by_line(world: World) -> None:
    found = world.post("/check", {"definition": "workflow: a\nnodes:\n  go: {wiat: {for: approval}}\n"}).json
    assert found["graph"] is None
    assert {"severity": "error", "code": "unknown_key", "line": 3}.items() <= found["problems"][0].items()
    assert world.post("/check", {"definition": ""}).status == 422


def test_stats_count_runs_by_status_workflow_and_wait(world: World) -> None:
    world.start("quick")
    world.start("order")
    world.clock.advance(10_000)
    stats = world.get("/stats").json
    assert stats["total"] == 2
    assert stats["statuses"]["waiting"] == {"count": 1, "average_age_seconds": 10.0, "oldest_age_seconds": 10.0}
    assert stats["workflows"] == {"quick": {"completed": 1}, "order": {"waiting": 1}}
    assert (stats["waits"], stats["overdue"]) == ({"approval": 1}, 0)


def test_stats_of_nothing_are_empty(world: World) -> None:
    empty: dict[str, Any] = {"statuses": {}, "workflows": {}, "waits": {}, "at_least": [], "paused": []}
    assert world.get("/stats").json == {"total": 0, "overdue": 0, "costs": None, **empty}
    assert world.get("/stats", costs="true").json["costs"] == {}


def test_costs_are_those_of_the_prices_that_are_deployed(world: World) -> None:
    run_id = world.start("quick")

    def told() -> tuple[float, float, float]:
        checked = world.post("/check", {"definition": ORDER}).json["simulation"]["usd_per_1000_runs"]["stepwell"]
        stats = world.get("/stats", costs="true").json["costs"]["quick"]["usd_per_run"]
        return world.get(f"/runs/{run_id}").json["cost"]["usd"], stats, checked

    before = told()
    ours = world.parts.catalog.prices
    doubled: dict[str, Any] = {name: 2 * value for name, value in asdict(ours).items() if isinstance(value, float)}
    world.parts.catalog.replace(world.parts.catalog.current.values(), prices=Prices(as_of="2027-01-31", **doubled))
    assert told() == pytest.approx([2 * usd for usd in before], abs=2e-6)  # they are rounded
    assert world.get(f"/runs/{run_id}").json["cost"]["prices_as_of"] == "2027-01-31"
    assert world.get("/stats", costs="true").json["costs"]["quick"]["prices_as_of"] == "2027-01-31"


def test_costs_of_a_workflow_are_the_mean_ledger_of_its_newest_ended_runs(world: World) -> None:
    ids = [world.start("quick") for _ in range(7)]
    world.start("order")
    before = world.stored()
    costs = world.get("/stats", costs="true").json["costs"]
    assert list(costs) == ["quick"]  # the run of `order` has not ended
    one = world.get(f"/runs/{ids[0]}").json["cost"]
    assert (costs["quick"]["runs_read"], costs["quick"]["usd_per_run"]) == (5, one["usd"])
    assert costs["quick"]["write_units_per_run"] == one["write_units"]
    assert costs["quick"]["usd_estimated"] == pytest.approx(7 * one["usd"], abs=1e-6)
    assert world.stored() == before


def test_health_is_ok_while_the_store_answers(world: World) -> None:
    assert world.get("/health").json["dependencies"] == {"store": "reached"}


def test_health_writes_a_note_each_time(world: World) -> None:
    notes = []
    for _ in range(2):
        assert world.get("/health").status == 200
        notes.append(run_now(world.store.notes("health")))
        world.advance(1)
    assert notes[0].keys() == notes[1].keys() == {"health"}
    assert notes[0] != notes[1]


@pytest.mark.parametrize("broken", ["put_note", "get_note"])
def test_health_is_503_and_says_why_where_nothing_can_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(world.store, broken, _no_answer)
    reply = world.get("/health")
    assert (reply.status, reply.headers["Retry-After"], reply.json["status"]) == (503, "1", "unavailable")
    assert reply.json["dependencies"] == {"store": "the store is away"}


def test_health_is_503_where_a_write_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object) -> bool:
        return True

    monkeypatch.setattr(world.store, "put_note", lost)
    assert world.get("/health").status == 503


async def _no_answer(*_: object) -> None:
    raise PortError("the store is away")


async def _defect(*_: object) -> None:
    raise KeyError("secret detail")


def test_a_store_that_does_not_answer_is_503_with_retry_after(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.store, "get_definition", _no_answer)
    monkeypatch.setattr(world.store, "get_run", _no_answer)
    assert world.get("/health").status == 503
    reply = world.get("/runs/r1")
    assert (reply.status, reply.headers["Retry-After"], reply.json["code"]) == (503, "1", "unavailable")


def test_a_defect_is_500_with_an_id_that_the_log_has_and_nothing_of_the_inside(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(world.store, "get_run", _defect)
    reply = world.get("/runs/r1")
    assert (reply.status, reply.json["code"]) == (500, "internal_error")
    assert "secret" not in reply.text
    assert "KeyError" not in reply.text
    assert reply.json["error_id"] in caplog.text
    assert "secret detail" in caplog.text


@pytest.mark.parametrize("path", ["/", "/nope", "/runs/a/b/c", "//", "/runs/", "/workflows//runs", "/é"])
def test_an_unknown_route_is_a_problem_with_404(world: World, path: str) -> None:
    reply = world.get(path)
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")


def test_a_path_with_a_slash_behind_it_is_refused_in_the_words_of_its_callers(world: World) -> None:
    reply = world.get("/workflows/")
    assert (reply.status, reply.json["code"], "slash" in reply.json["hint"]) == (404, "unknown_route", True)
    reply = world.send(event("POST", "/aws/states/"))
    assert (reply.status, reply.json["__type"], "slash" in reply.json["message"]) == (400, "ValidationException", True)


def test_a_wrong_method_is_405_and_says_what_is_allowed(world: World) -> None:
    reply = world.send(event("PATCH", "/runs/r1"))
    assert (reply.status, reply.headers["Allow"]) == (405, "DELETE, GET, HEAD, OPTIONS")
    assert world.get("/workflows/order/runs").headers["Allow"] == "POST, OPTIONS"


def test_who_posts_to_the_list_of_runs_is_told_how_one_is_started(world: World) -> None:
    reply = world.post("/runs", {})
    assert (reply.status, reply.json["hint"].partition("; ")[2]) == (
        405,
        "POST /workflows/{name}/runs starts a run",
    )


def test_options_says_what_is_allowed_and_head_has_no_body(world: World) -> None:
    reply = world.send(event("OPTIONS", "/events"))
    assert (reply.status, reply.headers["Allow"], reply.text) == (204, "POST, OPTIONS", "")
    head = world.send(event("HEAD", "/runs"))
    assert (head.status, head.text) == (200, "")


def test_a_stage_in_the_path_is_not_part_of_the_route(world: World) -> None:
    staged = event("GET", "/prod/health")
    staged["requestContext"]["stage"] = "prod"
    assert world.send(staged).status == 200


def test_the_openapi_document_names_every_route_and_every_reference_it_makes(world: World) -> None:
    document = world.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    named = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert named == {(route.method, route.path) for route in ROUTES}
    schemas = document["components"]["schemas"]
    assert [{*one} for one in document["security"]] == [{"iam"}, {"jwt"}, {"api_key"}, set()]
    assert document["components"]["securitySchemes"].keys() == {"iam", "jwt", "api_key"}
    opened = {path for path, item in document["paths"].items() for told in item.values() if told.get("security") == []}
    assert opened == {path for path in document["paths"] if path.startswith(("/callbacks/", "/approvals/"))}
    assert {ref.rpartition("/")[2] for ref in _references(document)} <= schemas.keys()


def test_the_openapi_document_tells_what_any_call_may_be_refused_with(world: World) -> None:
    """The server limits calls of links and webhooks, API Gateway all. A refusal of `/health` is a problem, too."""
    paths = world.get("/openapi.json").json["paths"]
    assert all("429" in told["responses"] for item in paths.values() for told in item.values())
    changes = {path: told for path, item in paths.items() for method, told in item.items() if method != "get"}
    assert [path for path, told in changes.items() if "413" not in told["responses"]] == ["/aws/states"]  # 400
    health = paths["/health"]["get"]["responses"]
    assert [list(health[status]["content"]) for status in ("422", "503")] == [
        ["application/problem+json"],
        ["application/json"],
    ]


def test_the_kept_openapi_document_is_what_the_code_generates() -> None:
    kept = (DOCS / OPENAPI).read_text(encoding="utf-8")
    assert kept == openapi_text(), "run: python -m tests.docs.generate"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_document_fits_its_schema(name: str) -> None:
    components = json.loads(openapi_text())["components"]
    whole = {"$ref": f"#/components/schemas/{name}", "components": components}
    fastjsonschema.compile(whole)(EXAMPLES[name])
    refused = {**whole, "components": {"schemas": {**components["schemas"], name: {"type": "null"}}}}
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        fastjsonschema.compile(refused)(EXAMPLES[name])


@pytest.mark.parametrize("words", ["", *VOCABULARIES])
def test_a_run_in_the_words_of_a_format_fits_the_document(world: World, words: str) -> None:
    shown = world.get(f"/runs/{world.start('order')}", **{"as": words}).json
    document = json.loads(openapi_text())
    answer = document["paths"]["/runs/{run_id}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    fastjsonschema.compile({**answer, "components": document["components"]})(shown)


def test_the_document_has_the_refusal_of_a_page() -> None:
    """A program that asks for the console gets a problem document."""
    refusal = page_for("application/json")
    described = document(console_routes(), "1")["paths"]["/"]["get"]["responses"][str(refusal.status)]
    assert refusal.content_type in described["content"]


def test_a_page_of_another_origin_may_send_each_header_that_a_route_reads() -> None:
    read = {name.lower() for route in ROUTES for name in route.headers}
    assert "traceparent" in read
    assert read <= {*cors.HEADERS}


def test_a_page_of_another_origin_may_poll_with_etags() -> None:
    assert "if-none-match" in cors.HEADERS
    assert "etag" in cors.EXPOSED


def test_the_page_of_the_api_fetches_the_document_and_runs_only_its_own_script(world: World) -> None:
    reply = world.get("/docs")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'fetch("openapi.json")' in reply.text
    assert not re.search(r"(src|href)=\"(https?:)?//", reply.text)
    policy = reply.headers["Content-Security-Policy"]
    script = reply.text.partition("<script>")[2].partition("</script>")[0]
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'")


def _references(part: object) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*(_references(value) for value in part.values()))
    return set().union(*(_references(value) for value in part)) if isinstance(part, list) else set()


def test_a_run_that_newer_code_has_moved_is_listed_and_asked_for_again_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.start("order")
    monkeypatch.setattr(formats, "FORMAT", formats.FORMAT - 1)
    monkeypatch.setattr(formats, "NEWEST", formats.FORMAT)
    for reply in (world.get(f"/runs/{run_id}"), world.post(f"/runs/{run_id}/approve", {})):
        assert (reply.status, reply.json["code"], reply.headers["Retry-After"]) == (503, "newer_format", "60")
    assert [run["run_id"] for run in world.get("/runs").json["items"]] == [run_id]


@pytest.mark.parametrize("path", ["", "/history", "/explain"])
@pytest.mark.parametrize("body", ['{"kind": "unheard_of"}', "{"])
def test_a_run_whose_log_cannot_be_read_says_which_record_and_what_to_do(world: World, path: str, body: str) -> None:
    run_id = world.start("order")
    log = world.store._logs[run_id, ROOT]
    slot = log.slots[-1]
    log.records[slot] = Saved(slot, body)
    reply = world.get(f"/runs/{run_id}{path}")
    assert (reply.status, reply.json["code"]) == (500, "broken_record")
    assert f"the log of run {run_id} cannot be read: record {slot}: it cannot be read" in reply.json["detail"]
    assert "unheard_of" not in reply.text
    assert "point-in-time recovery" in reply.json["hint"]
    assert reply.json["error_id"]


def test_a_run_of_a_format_that_is_too_old_says_which_version_to_deploy(world: World) -> None:
    run_id = world.start("order")
    log = world.store._logs[run_id, ROOT]
    slot = log.slots[-1]
    log.records[slot] = Saved(slot, '{"v":0}')
    for reply in (world.get(f"/runs/{run_id}"), world.post(f"/runs/{run_id}/approve", {})):
        assert (reply.status, reply.json["code"]) == (500, "format_too_old")
        assert f"record {slot}: format 0" in reply.json["detail"]
        assert reply.json["hint"] == "other runs go on; deploy a version in between first"


def test_a_check_refuses_an_assumption_about_a_step_that_there_is_not(world: World) -> None:
    for given, message in (({"steps": {"chrage": {"takes": "2s"}}}, "no step"), ({"waits": {"ok": {}}}, "no wait")):
        refused = world.post("/check", {"definition": ORDER, "assumptions": given})
        assert (refused.status, refused.json["code"]) == (422, "no_such_name")
        assert message in refused.json["detail"]


@pytest.mark.parametrize("path", ["/workflows", "/schedules", "/limits"])
def test_a_list_that_is_read_as_a_whole_has_pages_too(path: str) -> None:
    texts = [
        f"workflow: {name}\nconcurrency: {{limit: 1}}\ntriggers: [{{schedule: rate(1 day)}}]\nnodes: {{a: {{}}}}"
        for name in "abc"
    ]
    world = World(*texts)
    names = [one["name"] for one in world.get(path).json["items"]]
    assert len(names) == 3
    first = world.get(path, limit=2).json
    rest = world.get(path, limit=2, cursor=first["next_cursor"]).json
    assert [one["name"] for one in (*first["items"], *rest["items"])] == names
    assert (len(first["items"]), rest["next_cursor"]) == (2, None)
    assert world.get(path, limit=3).json["next_cursor"] is None
    assert [world.get(path, limit=wrong).status for wrong in (0, 501)] == [422, 422]
