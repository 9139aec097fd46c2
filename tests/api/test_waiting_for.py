"""What a run is said to wait for, when a part of an `all` has come: what is still to come."""

from __future__ import annotations

import pytest

from tests.api.kit import World

BOTH = """
workflow: both
nodes:
  ask: {wait: {all: [{for: approval}, {for: document}, {for: event, name: paid}], timeout: 3d}}
"""
FORK = """
workflow: fork
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input }}"}]}
  ask: {wait: {all: [{for: approval}, {for: event, name: paid}]}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""


def kinds(api: World, run_id: str) -> tuple[str, str]:
    """In the list, and on the run itself."""
    (listed,) = (run for run in api.get("/runs").json["items"] if run["run_id"] == run_id)
    return listed["waiting_for"], api.get(f"/runs/{run_id}").json["waiting_for"]


def listed_for(api: World, kind: str) -> int:
    return len(api.get("/runs", waiting_for=kind).json["items"])


def test_an_approval_that_was_given_is_not_waited_for_any_more() -> None:
    """The inbox lists the run for what people still bring, and then for none of it."""
    api = World(BOTH)
    run_id = api.start("both")
    assert kinds(api, run_id) == ("approval", "approval")
    assert api.post(f"/runs/{run_id}/approve", {"by": "ana"}).status == 200
    api.drain()
    assert kinds(api, run_id) == ("document", "document")
    assert (listed_for(api, "approval"), listed_for(api, "document")) == (0, 1)
    told = api.get(f"/runs/{run_id}/explain").json
    assert told["why"].startswith("It waits at ask for event DOCUMENT_UPLOADED, paid since")
    assert "/approve" not in str(told["wakers"])
    document = {"name": "DOCUMENT_UPLOADED", "payload": {"document": "cv", "url": "https://example.com/1.pdf"}}
    assert api.post(f"/runs/{run_id}/events", document).status < 300
    api.drain()
    assert kinds(api, run_id) == ("event", "event")
    assert listed_for(api, "document") == 0


def test_while_the_approval_is_to_come_it_is_what_a_run_waits_for() -> None:
    api = World(BOTH)
    run_id = api.start("both")
    assert api.post(f"/runs/{run_id}/events", {"name": "paid"}).status < 300
    api.drain()
    assert kinds(api, run_id) == ("approval", "approval")


def test_a_branch_and_the_run_that_its_fork_is_of_say_what_is_still_to_come() -> None:
    api = World(FORK)
    run_id = api.start("fork", input=[1])
    (branch,) = api.get(f"/runs/{run_id}/branches").json["items"]
    assert branch["waiting_for"] == "approval"
    assert api.post(f"/runs/{run_id}/approve", {"by": "ana", "wait": branch["id"]}).status == 200
    api.drain()
    (branch,) = api.get(f"/runs/{run_id}/branches").json["items"]
    assert branch["waiting_for"] == "event"
    assert kinds(api, run_id) == ("event", "event")
    assert api.get(f"/runs/{run_id}/explain").json["waiting_for"] == "event"


INSIDE = """
workflow: inside
timeout: 2h
nodes:
  begin: {transitions: [{to: each, foreach: "{{ input }}"}]}
  each: {transitions: [{to: ask, foreach: "{{ [1] }}"}]}
  ask: {wait: {for: approval, data: {amount: 5}}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: last}]}
  last: {fan_in: {policy: all}}
"""


def test_a_wait_in_a_fork_of_a_branch_has_its_data_and_links() -> None:
    api = World(INSIDE)
    run_id = api.start("inside", input=[1, 2])
    view = api.get(f"/runs/{run_id}").json
    assert (view["waiting_for"], view["waiting_data"]["amount"]) == ("approval", 5)
    assert view["waiting_data"]["approval_links"]["anyone"].startswith("https://")


def test_a_wait_in_a_wide_fork_has_its_data() -> None:
    api = World(FORK.replace("all: [{for: approval}, {for: event, name: paid}]", "for: approval, data: {amount: 5}"))
    run_id = api.start("fork", input=list(range(150)))
    assert api.get(f"/runs/{run_id}").json["waiting_data"]["amount"] == 5


@pytest.mark.parametrize("definition", [INSIDE, "workflow: inside\ntimeout: 2h\ntimeline: [{name: nap, sleep: 3h}]"])
def test_a_run_waits_no_longer_than_its_own_time_limit(definition: str) -> None:
    """In the list and on the run itself."""
    api = World(definition)
    run_id = api.start("inside", input=[1])
    (listed,) = api.get("/runs", sort="waiting_until").json["items"]
    until = {listed["waiting_until"], api.get(f"/runs/{run_id}").json["waiting_until"]}
    assert until == {api.get(f"/runs/{run_id}/explain").json["deadline"]}


@pytest.mark.parametrize(
    ("wait", "events"),
    [
        ('for: event, name: paid, key: "{{ input.order }}"', [("paid", "A-1")]),
        ("any: [{for: event, name: paid}, {for: approval}]", [("paid", "")]),
        ("for: document, documents: [cv]", [("DOCUMENT_UPLOADED", "")]),
        ("for: callback", []),
        ("for: approval", []),
    ],
)
def test_a_run_names_the_events_that_it_waits_for_with_their_keys(wait: str, events: list[tuple[str, str]]) -> None:
    api = World(f"workflow: flow\ntimeline:\n  - {{name: hold, wait: {{{wait}}}}}\n")
    run_id = api.start("flow", input={"order": "A-1"})
    view = api.get(f"/runs/{run_id}").json
    assert [(one["name"], one["key"]) for one in view["waiting_events"]] == events


def test_what_has_come_of_several_events_is_not_awaited_any_more() -> None:
    both = "[{for: event, name: paid}, {for: event, name: sent}]"
    api = World(f"workflow: flow\ntimeline:\n  - {{name: hold, wait: {{all: {both}}}}}\n")
    run_id = api.start("flow")
    api.post(f"/runs/{run_id}/events", {"name": "paid"})
    api.drain()
    assert api.get(f"/runs/{run_id}").json["waiting_events"] == [{"name": "sent", "key": ""}]
    api.post(f"/runs/{run_id}/events", {"name": "sent"})
    api.drain()
    assert api.get(f"/runs/{run_id}").json["waiting_events"] == []
