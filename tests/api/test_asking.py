"""Asking about runs: views, lists, results, history, explanations, pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.entries import ENTRY_TYPES
from stepwell.runtime.steps.port import StepCall
from tests.api.kit import World, event

PATHS_OF_A_RUN = ["", "/history", "/result", "/explain", "/graph"]


def test_a_waiting_run_shows_what_it_waits_for_and_until_when(world: World) -> None:
    run = world.get(f"/runs/{world.start(input={'amount': 5})}").json
    assert (run["status"], run["phase"], run["waiting_for"]) == ("waiting", "waiting_for_approval", "approval")
    assert (run["current_steps"], run["progress"], run["waiting_data"]["amount"]) == (["approve"], "1/4", 5)
    assert run["waiting_until"] == "2027-01-16T08:00:00.000Z"
    assert run["state"] == {"charge": {"charged": 5}}
    charge = run["steps"]["charge"]
    assert (charge["status"], charge["output"], charge["attempts"]) == ("completed", {"charged": 5}, 1)
    assert run["steps"]["approve"]["status"] == "waiting"
    assert (run["cost"]["steps"], run["cost"]["records"], run["cost"]["write_units"]) == (1, 2, 7)


def test_the_output_of_a_step_is_read_while_it_runs_and_from_a_cursor_on(world: World) -> None:
    seen: list[Json] = []

    def charge(call: StepCall) -> Outcome:
        assert call.emit is not None
        for word in ("a", "b"):
            call.emit({"word": word})
            seen.append(world.get(f"/runs/{call.run_id}/output").json)
        return Outcome({"charged": 1})

    world.steps.functions["python:shop.charge"] = charge
    run_id = world.start(input={"amount": 5})
    before, (first, second) = seen[0], seen[1]["items"]
    assert before == {"items": [first], "next_cursor": first["cursor"]}
    assert (first["first"], second["first"], second["data"], second["step"]) == (True, False, {"word": "b"}, "charge")
    after = world.get(f"/runs/{run_id}/output", after=first["cursor"]).json
    assert after == {"items": [second], "next_cursor": second["cursor"]}
    assert world.get(f"/runs/{run_id}/output", after=second["cursor"]).json["items"] == []
    assert world.get("/runs/none/output").status == 404


def test_a_step_that_runs_for_the_first_time_is_shown_while_it_runs(world: World) -> None:
    seen: list[Json] = []

    def look(call: StepCall) -> Outcome:
        seen.append(world.get(f"/runs/{call.run_id}").json)
        return Outcome(1)

    world.steps.functions["python:shop.charge"] = look
    world.start("quick")
    assert (seen[0]["status"], seen[0]["phase"], seen[0]["current_steps"]) == ("running", "executing_step", ["work"])
    assert (seen[0]["steps"]["work"]["status"], seen[0]["steps"]["work"]["attempts"]) == ("running", 1)
    assert seen[0]["progress"] == "0/1"


def test_a_completed_run_shows_its_result(world: World) -> None:
    run_id = world.start(input={"amount": 5})
    assert world.post(f"/runs/{run_id}/approve", {"by": "ana"}).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["waiting_for"] == "sleep"
    world.advance(60)
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["result"], run["progress"]) == ("completed", {"shipped": True}, "4/4")
    assert (run["result_type"], run["error"], run["current_steps"]) == ("success", None, [])
    assert run["ended_at"] == "2027-01-15T08:01:00.000Z"


def test_a_failed_run_shows_its_error(world: World) -> None:
    run = world.get(f"/runs/{world.start('fails')}").json
    assert (run["status"], run["result_type"], run["result"]) == ("failed", "failure", None)
    assert run["error"] == {
        "type": "Broken", "category": "step", "message": "no luck", "step": "work", "attempts": 1, "data": None,
        "traceback": "",
    }  # fmt: skip
    assert "no luck" in run["result_summary"]


def test_a_cancelled_run_says_who_cancelled_it_and_why(world: World) -> None:
    run_id = world.start()
    reply = world.post(f"/runs/{run_id}/cancel", {"by": "ana", "reason": "changed my mind"})
    assert (reply.status, reply.json["cancelled"], reply.json["status"]) == (200, True, "cancelled")
    run = world.get(f"/runs/{run_id}").json
    assert (run["cancelled_by"], run["cancel_reason"], run["result_type"]) == ("ana", "changed my mind", "cancelled")
    assert run["steps"]["approve"]["status"] == "cancelled"


@pytest.mark.parametrize(
    ("words", "waiting", "ended"),
    [
        ("timeline", "waiting_for_approval", "failed"),
        ("agent", "WAITING", "CANCELLED"),
        ("session", "Suspended", "Cancelled"),
        ("dag", "blocked", "failed"),
    ],
)
def test_the_same_run_reads_in_the_words_of_each_format(world: World, words: str, waiting: str, ended: str) -> None:
    run_id = world.start()
    assert world.get(f"/runs/{run_id}", **{"as": words}).json["status"] == waiting
    world.post(f"/runs/{run_id}/cancel")
    assert world.get(f"/runs/{run_id}", **{"as": words}).json["status"] == ended


def test_a_run_whose_branches_are_at_work_executes_steps_in_the_words_of_a_timeline() -> None:
    world = World("""
workflow: forked
nodes:
  begin: {fan_out: all, transitions: [{to: ask}, {to: work}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  work: {run: python:shop.fails, retry: {max_retries: 1, on: [step]}, transitions: [{to: gather}]}
  gather: {fan_in: {}}
""")
    run_id = world.start("forked")
    assert world.get(f"/runs/{run_id}").json["phase"] == "waiting_at_fan_in"
    assert world.get(f"/runs/{run_id}", **{"as": "timeline"}).json["status"] == "executing_step"


def test_an_agent_reads_its_own_names(world: World) -> None:
    run_id = world.start("fails")
    run = world.get(f"/runs/{run_id}", **{"as": "agent"}).json
    assert (run["status"], run["errorMessage"], run["failedActionId"]) == ("FAILED", "no luck", "work")
    assert run["variables"] == run["state"]


def test_an_unknown_vocabulary_is_refused(world: World) -> None:
    reply = world.get(f"/runs/{world.start()}", **{"as": "klingon"})
    assert (reply.status, reply.json["code"]) == (422, "unknown_vocabulary")


@pytest.mark.parametrize("path", PATHS_OF_A_RUN)
def test_an_unknown_run_is_404_on_every_route(world: World, path: str) -> None:
    reply = world.get(f"/runs/run_nope{path}")
    assert (reply.status, reply.json["code"]) == (404, "unknown_run")


@pytest.mark.parametrize("path", PATHS_OF_A_RUN)
@pytest.mark.parametrize("run_id", ["..%2F..%2Fetc%2Fpasswd", "%00", "a b", "x" * 300, "%ff", "a'b"])
def test_a_run_id_that_cannot_be_is_refused_on_every_route(world: World, path: str, run_id: str) -> None:
    assert world.get(f"/runs/{run_id}{path}").status in {404, 422}


def test_a_list_is_paged_newest_first_and_complete(world: World) -> None:
    made = []
    for number in range(7):
        made.append(world.start("quick", run_id=f"r{number}"))
        world.clock.advance(1_000)
    seen: list[str] = []
    cursor = ""
    while True:
        page = world.get("/runs", limit=3, **({"cursor": cursor} if cursor else {})).json
        seen += [run["run_id"] for run in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


def test_the_offset_of_a_time_need_not_be_encoded(world: World) -> None:
    """A query string reads its `+` as a space, and `datetime.isoformat` writes one."""
    run_id = world.start("quick")
    for since, found in (("2027-01-15T10:00:00+02:00", [run_id]), ("2027-01-15T10:00:00.001+02:00", [])):
        reply = world.send(event("GET", "/runs", query=f"since={since}"))
        assert [run["run_id"] for run in reply.json["items"]] == found


def test_a_list_is_narrowed_by_what_is_asked(world: World) -> None:
    done, waits = world.start("quick", tags={"team": "a"}), world.start("order")
    world.clock.advance(1_000)
    late = world.start("paid", input={"order": "7"})

    def ids(**query: str) -> set[str]:
        return {run["run_id"] for run in world.get("/runs", **query).json["items"]}

    assert ids(workflow="quick") == {done}
    assert ids(status="waiting") == {waits, late}
    assert ids(status="waiting,completed") == {done, waits, late}
    assert ids(tag="team=a") == {done}
    assert ids(tag="team=b") == set()
    assert ids(waiting_for="approval") == {waits}
    assert ids(since="2027-01-15T08:00:01Z") == {late}
    assert ids(before="2027-01-15T08:00:01Z") == {done, waits}
    assert ids(before="2027-01-15T08:00:02Z", since="2027-01-15T08:00:01Z") == {late}
    first = world.get("/runs", before="2027-01-15T08:00:01Z", limit="1").json
    more = ids(before="2027-01-15T08:00:01Z", limit="1", cursor=first["next_cursor"])
    assert {first["items"][0]["run_id"], *more} == {done, waits}
    assert ids(overdue="true") == set()
    world.clock.advance(86_400_000 * 2)  # nobody handles the timers
    assert ids(overdue="true") == {waits, late}
    assert world.get("/stats").json["overdue"] == 2


def test_a_list_names_the_error_and_the_step_of_a_run_that_failed(world: World) -> None:
    """The header has them; to list the message would take a read for each run."""
    world.start("fails")
    world.start("quick")
    completed, failed = world.get("/runs").json["items"]
    assert completed["failure"] is None
    assert (failed["failure"]["type"], failed["failure"]["step"]) == ("Broken", "work")
    alike = world.get("/runs", failure=failed["failure"]["fingerprint"]).json["items"]
    assert [run["run_id"] for run in alike] == [failed["run_id"]]


def test_runs_that_wait_are_listed_by_deadline(world: World) -> None:
    """The runs in the list say when their deadline is; it narrows as the other lists do."""
    world.start("quick")
    waits = [world.start("paid", input={"order": "7"}), world.start("order")]
    world.clock.advance(60_000)
    waits.append(world.start("order"))

    def listed(**query: str) -> list[tuple[str, str]]:
        items = world.get("/runs", sort="waiting_until", **query).json["items"]
        return [(run["waiting_until"], run["run_id"]) for run in items]

    found = listed()
    assert found == sorted(found)
    assert {run_id for _, run_id in found} == set(waits)
    assert [run_id for _, run_id in listed(workflow="order", status="waiting,failed")] == [waits[1], waits[2]]
    first = world.get("/runs", sort="waiting_until", limit="2").json
    second = world.get("/runs", sort="waiting_until", limit="2", cursor=first["next_cursor"]).json
    assert [run["run_id"] for page in (first, second) for run in page["items"]] == [run_id for _, run_id in found]


@pytest.mark.parametrize("query", [{"status": "running"}, {"parent": "some"}])
def test_a_list_by_deadline_that_would_leave_out_what_waits_is_refused(world: World, query: dict[str, str]) -> None:
    reply = world.get("/runs", sort="waiting_until", **query)
    assert (reply.status, reply.json["code"]) == (422, "bad_sort")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"}, {"limit": "501"}, {"limit": "x"}, {"cursor": "mine"}, {"status": "sleeping"}, {"tag": "x"},
        {"since": "yesterday"}, {"overdue": "perhaps"}, {"colour": "red"}, {"sort": "age"}, {"before": "noon"},
        {"before": "2027-01-15T08:00:01Z", "parent": "some"},
        {"before": "2027-01-15T08:00:01Z", "sort": "waiting_until"},
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_is_refused(world: World, query: dict[str, str]) -> None:
    reply = world.get("/runs", **query)
    assert (reply.status, reply.headers["Content-Type"]) == (422, "application/problem+json")


def test_a_result_is_202_while_the_run_lives_then_the_output(world: World) -> None:
    run_id = world.start(input={"amount": 1})
    assert world.get(f"/runs/{run_id}/result").status == 202
    assert world.get(f"/runs/{run_id}/result", wait="1.5").status == 202
    world.post(f"/runs/{run_id}/approve")
    world.drain()
    world.advance(60)
    reply = world.get(f"/runs/{run_id}/result", wait="10")
    assert (reply.status, reply.json["result"]) == (200, {"shipped": True})


def test_the_result_of_a_failed_run_is_409_with_its_error(world: World) -> None:
    reply = world.get(f"/runs/{world.start('fails')}/result")
    assert (reply.status, reply.json["code"], reply.json["error"]["type"]) == (409, "run_failed", "Broken")


def test_the_history_is_the_same_page_by_page_and_goes_on_after_an_id(world: World) -> None:
    run_id = world.start(input={"amount": 1})
    world.post(f"/runs/{run_id}/approve", {"by": "ana"})
    world.drain()
    world.advance(60)
    whole = world.get(f"/runs/{run_id}/history", limit=500).json["items"]
    phases = world.get(f"/runs/{run_id}/history", limit=500, phases="true").json["items"]
    assert [entry for entry in phases if entry["type"] != "phase.changed"] == whole
    assert "completed" in {entry["to"] for entry in phases}
    paged, after = [], ""
    while True:
        page = world.get(f"/runs/{run_id}/history", limit=4, **({"after": after} if after else {})).json
        paged += page["items"]
        if page["next_cursor"] is None:
            break
        after = page["next_cursor"]
    assert paged == whole
    assert len({entry["id"] for entry in whole}) == len(whole)
    assert {entry["type"] for entry in whole} <= ENTRY_TYPES.keys()
    assert [entry["at"] for entry in whole] == sorted(entry["at"] for entry in whole)
    assert [entry["type"] for entry in whole] == [
        "run.created", "run.pending", "run.started", "step.started", "step.completed", "approval.requested",
        "approval.received", "step.completed", "sleep.started", "timer.fired", "sleep.completed", "step.completed",
        "step.started", "step.completed", "run.completed",
    ]  # fmt: skip
    assert next(entry["by"] for entry in whole if entry["type"] == "approval.received") == "ana"


@pytest.mark.parametrize("after", ["x", "0@", "0@1", "0@1.x", "0@99999999999999999999999999.1", "-", "0@²." + "1"])
def test_an_entry_id_that_cannot_be_is_refused(world: World, after: str) -> None:
    assert world.get(f"/runs/{world.start()}/history", after=after).status == 422


def test_explain_says_what_is_waited_for_and_what_will_wake_it(world: World) -> None:
    told = world.get(f"/runs/{world.start()}/explain").json
    assert (told["waiting_for"], told["nothing_can_wake_it"]) == ("approval", False)
    assert [waker["what"] for waker in told["wakers"]] == ["call", "timer"]
    assert told["wakers"][1]["at"] == "2027-01-16T08:00:00.000Z"
    assert told["last_entry"]["to"] == "waiting_for_approval"


def test_explain_says_when_the_next_attempt_is_due(world: World) -> None:
    world.steps.failures = 1
    told = world.get(f"/runs/{world.start()}/explain").json
    assert told["next_retry_at"] == "2027-01-15T08:00:05.000Z"
    assert "try later" in told["why"]


def test_explain_names_the_event_and_its_key(world: World) -> None:
    told = world.get(f"/runs/{world.start('paid', input={'order': '7'})}/explain").json
    assert "paid" in told["why"]
    assert any("'7'" in waker["detail"] for waker in told["wakers"] if waker["what"] == "event")


def test_explain_of_an_approval_in_whose_place_an_event_may_come() -> None:
    world = World(
        "workflow: either\ntimeline: [{name: ask, wait: {any: [{for: approval}, {for: event, name: settled, key: 7}]}}]"
    )
    assert "for approval or settled since" in world.get(f"/runs/{world.start('either')}/explain").json["why"]


def test_a_wait_for_several_things_is_found_by_what_people_bring_and_tells_what_is_open() -> None:
    """An approval comes first, then an answer or a document; an event is a machine's."""
    world = World(
        "workflow: either\ntimeline: [{name: ask, wait: {any: [{for: event, name: settled}, {for: response}]}}]",
        "workflow: both\ntimeline: [{name: ask, wait: {all: [{for: approval}, {for: document}]}}]",
        "workflow: machines\ntimeline: [{name: ask, wait: {any: [{for: event, name: settled}, {for: callback}]}}]",
    )
    either, both, machines = (world.start(name) for name in ("either", "both", "machines"))

    def awaited(run_id: str) -> tuple[str, list[str]]:
        run = world.get(f"/runs/{run_id}").json
        return run["waiting_for"], run["tokens"][0]["awaits"]

    assert awaited(either) == ("response", ["event", "response"])
    assert awaited(both) == ("approval", ["approval", "document"])
    assert awaited(machines) == ("event", ["event", "callback"])
    listed = world.get("/runs", waiting_for="response").json["items"]
    assert [run["run_id"] for run in listed] == [either]
    assert "for approval and DOCUMENT_UPLOADED since" in world.get(f"/runs/{both}/explain").json["why"]

    world.post(f"/runs/{both}/approve", {"by": "ana"})
    assert awaited(both) == ("document", ["document"])


def test_explain_of_a_queued_run_an_idle_one_and_an_ended_one(world: World) -> None:
    queued = world.post("/workflows/quick/runs", {}).json["run_id"]
    told = world.get(f"/runs/{queued}/explain").json
    assert told["in_queue"]
    assert not told["nothing_can_wake_it"]
    idle = world.start("quick", create_only=True)
    assert world.get(f"/runs/{idle}/explain").json["wakers"][0]["what"] == "call"
    failed = world.get(f"/runs/{world.start('fails')}/explain").json
    assert "no luck" in failed["why"]
    assert not failed["nothing_can_wake_it"]


def test_a_graph_comes_in_four_formats(world: World) -> None:
    run_id = world.start()
    states = world.get(f"/runs/{run_id}/graph", format="json").json["states"]
    assert states == {"charge": "completed", "approve": "waiting"}
    svg = world.get(f"/runs/{run_id}/graph")
    assert svg.headers["Content-Type"] == "image/svg+xml"
    assert ElementTree.fromstring(svg.text).tag.endswith("svg")  # noqa: S314 - our own picture
    assert world.get(f"/runs/{run_id}/graph", format="mermaid").text.startswith("flowchart")
    assert world.get(f"/runs/{run_id}/graph", format="dot").text.startswith("digraph")
    assert world.get(f"/runs/{run_id}/graph", format="png").status == 422
