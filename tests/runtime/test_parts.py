"""Waits for several things: documents, votes, all of several events; and events that stay for others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.records import Kind, Status
from stepwell.engine.waits import event_topic
from stepwell.errors import Conflict, PortError
from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stepwell.runtime.calls.callbacks import wait_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.log.messages import Timer, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World


def waiting(wait: str, more: str = "", given: Json = None) -> tuple[World, str]:
    world = World(
        f"workflow: flow\n{more}timeline:\n  - {{name: hold, wait: {wait}}}\n  - {{name: after, run: python:m.a}}\n"
    )
    run_id = world.start(given=given)
    world.deliver()
    return world, run_id


def send(world: World, name: str, payload: Json, **options: Any) -> None:
    run_now(world.service.send_event(name, payload, **options))
    world.deliver()


def upload(world: World, document: str, url: str = "") -> None:
    send(world, "DOCUMENT_UPLOADED", {"document": document, "url": url or f"s3://{document}"}, key="t1")


def kinds(world: World, run_id: str) -> list[Kind]:
    return [record.kind for record in run_now(world.service.records(run_id))]


@pytest.mark.parametrize(
    ("wait", "waits_for"),
    [
        ("{for: callback}", "a callback"),
        ("{for: event, name: paid, key: k}", "an event"),
        ("{for: response, key: t}", "a response"),
        ("{for: sleep, timeout: 2h}", "a time"),
        ("{any: [{for: callback}, {for: event, name: paid, key: k}]}", "a callback, an event"),
    ],
)
def test_an_approval_that_nobody_asked_for_is_told_what_the_run_waits_for(wait: str, waits_for: str) -> None:
    world, run_id = waiting(wait)
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bob"))
    assert refused.value.message == f"the run does not wait for an approval; it waits for {waits_for}"


def test_an_approval_of_an_ended_run_is_told_that_it_ended() -> None:
    world, run_id = waiting("{for: callback}")
    run_now(world.service.cancel(run_id))
    world.deliver()
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bob"))
    assert refused.value.message == "the run does not wait for an approval; it has ended"


@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
def test_an_approval_of_a_paused_run_is_told_that_it_is_paused_and_what_to_do(begun: bool) -> None:
    world = World("workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: hold, wait: {for: approval}}]")
    run_id = world.start()
    world.steps.of["a"] = lambda call: run_now(world.service.pause(call.run_id))
    if begun:
        world.deliver()
    else:
        run_now(world.service.pause(run_id))
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bob"))
    assert refused.value.message == "the run does not wait for an approval; it is paused"
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("stepwell unpause RUN has it go on; answer once it asks")


def test_an_approval_of_a_run_that_no_worker_has_begun_is_told_so() -> None:
    world = World("workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}]")
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(world.start(), who="bob"))
    assert refused.value.message == "the run does not wait for an approval; it has not begun"


DOCUMENTS = "{for: document, key: t1, documents: [cv, id, photo], timeout: 7d}"


def test_documents_are_kept_as_they_come_until_all_are_there() -> None:
    world, run_id = waiting(DOCUMENTS)
    upload(world, "photo")
    upload(world, "cv")
    assert world.header(run_id).status is Status.WAITING
    upload(world, "id")
    token = world.token(run_id)
    assert token.scope["documentUrls"] == {"cv": "s3://cv", "id": "s3://id", "photo": "s3://photo"}
    assert token.steps["hold"].output == token.scope["documentUrls"]
    assert kinds(world, run_id) == [Kind.WAITING, Kind.RECEIVED, Kind.RECEIVED, Kind.RESUMED, Kind.MOVED, Kind.STEP]


def test_a_part_registers_the_wait_whose_worker_died_before_it_did() -> None:
    world = World(
        "workflow: flow\ntimeline:\n"
        "  - {name: hold, wait: {all: [{for: approval}, {for: event, name: paid, key: k}]}}\n"
    )

    def dies(*_: object) -> None:
        raise RuntimeError("the worker died")

    world.store.before["put_waiter"] = dies
    run_id = world.start()
    with pytest.raises(RuntimeError, match="died"):
        world.deliver()
    run_now(world.service.approve(run_id))
    world.clock.advance(MINUTE_MS)
    world.deliver()
    send(world, "paid", {"amount": 5}, key="k")
    assert world.header(run_id).status is Status.COMPLETED


def test_a_document_that_was_not_asked_for_is_left_alone_and_one_sent_again_replaces_the_first() -> None:
    world, run_id = waiting(DOCUMENTS)
    upload(world, "dog")
    upload(world, "cv", "old")
    upload(world, "cv", "new")
    upload(world, "id")
    assert world.header(run_id).status is Status.WAITING
    upload(world, "photo")
    assert world.token(run_id).scope["documentUrls"]["cv"] == "new"


def test_documents_that_came_before_their_wait_are_all_found_by_it() -> None:
    world = World(f"workflow: flow\ntimeline:\n  - {{name: hold, wait: {DOCUMENTS}}}\n")
    for name in ("cv", "id", "photo"):
        upload(world, name)
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_retry_of_the_wait_asks_for_the_missing_document_alone() -> None:
    world, run_id = waiting(DOCUMENTS.replace("}", ", on_timeout: retry}"))
    upload(world, "cv")
    upload(world, "id")
    world.pass_time(8 * DAY_MS)
    assert world.token(run_id).waited == 1
    upload(world, "photo")
    assert world.header(run_id).status is Status.COMPLETED
    assert set(world.token(run_id).scope["documentUrls"]) == {"cv", "id", "photo"}


def test_a_time_out_counts_from_the_wait_and_not_from_the_last_part() -> None:
    world, run_id = waiting(DOCUMENTS)
    world.pass_time(6 * DAY_MS)
    upload(world, "cv")
    world.pass_time(DAY_MS)
    assert world.header(run_id).status is Status.TIMED_OUT
    error = world.token(run_id).error
    assert error is not None
    assert error.type == "document_timeout"


def test_a_wait_for_no_documents_fails_and_is_not_ended_by_any_document() -> None:
    """An empty list is refused by the check already; a template may give one."""
    world, run_id = waiting('{for: document, key: t1, documents: "{{ input.missing }}"}', given={"missing": []})
    assert world.header(run_id).status is Status.FAILED
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, error.category) == ("bad_expression", "validation")
    assert "`documents` named none" in error.message


@pytest.mark.parametrize(("kind", "event", "payload", "names"), [
    ("signature", "SIGNATURE_COMPLETED", {"url": "s3://signed", "signedAt": "2026-01-01"},
     {"signedDocumentUrl": "s3://signed", "signedAt": "2026-01-01"}),
    ("test", "TEST_COMPLETED", {"score": 7, "result": "passed"}, {"testScore": 7, "testResult": "passed"}),
    ("response", "MESSAGE_RECEIVED", {"text": "hi"}, {"lastResponse": {"text": "hi"}}),
])  # fmt: skip
def test_each_kind_sets_its_names(kind: str, event: str, payload: Json, names: Json) -> None:
    world, run_id = waiting(f"{{for: {kind}, key: t1}}")
    send(world, event, payload, key="t1")
    assert names.items() <= world.token(run_id).scope.items()


def test_all_waits_for_each_of_its_events_in_any_order() -> None:
    wait = "{all: [{for: event, name: paid, key: k}, {for: approval}, {for: event, name: packed, key: k}]}"
    world, run_id = waiting(wait)
    send(world, "packed", {"box": 1}, key="k")
    run_now(world.service.approve(run_id, who="ana"))
    assert world.header(run_id).status is Status.WAITING
    send(world, "paid", {"sum": 2}, key="k")
    assert world.header(run_id).status is Status.COMPLETED
    output = world.token(run_id).steps["hold"].output
    assert (output["paid"], output["packed"], output["approval"]["by"]) == ({"sum": 2}, {"box": 1}, "ana")


def test_a_second_event_of_a_name_is_no_second_part_of_an_all_and_is_left_for_others() -> None:
    world, run_id = waiting("{all: [{for: event, name: paid, key: k}, {for: event, name: packed, key: k}]}")
    send(world, "paid", 1, key="k", event_id="e1")
    send(world, "paid", 2, key="k", event_id="e2")
    assert world.header(run_id).status is Status.WAITING
    assert [event.id for event in run_now(world.store.pending_events(event_topic("paid", "k"), 0))] == ["e2"]


# -- votes

QUORUM = "{for: approval, approvers: {need: 2, of: [ana, leo, kim]}, timeout: 24h}"


def test_so_many_have_to_approve_and_the_votes_are_kept() -> None:
    world, run_id = waiting(QUORUM)
    run_now(world.service.approve(run_id, who="ana"))
    assert world.header(run_id).status is Status.WAITING
    run_now(world.service.approve(run_id, who="kim"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert [vote["by"] for vote in world.token(run_id).scope["approval"]["votes"]] == ["ana", "kim"]


def test_approving_twice_is_one_approval() -> None:
    world, run_id = waiting(QUORUM)
    for data in (None, None, {"again": True}):
        run_now(world.service.approve(run_id, data, who="ana"))
    assert world.header(run_id).status is Status.WAITING
    assert kinds(world, run_id) == [Kind.WAITING, Kind.RECEIVED]


def test_who_has_approved_cannot_reject() -> None:
    world, run_id = waiting(QUORUM)
    run_now(world.service.approve(run_id, who="ana"))
    with pytest.raises(Conflict, match="answered already") as refused:
        run_now(world.service.reject(run_id, "no", who="ana"))
    assert refused.value.code == "already_answered"


def test_who_is_not_asked_cannot_answer() -> None:
    world, run_id = waiting(QUORUM)
    for who in ("bob", ""):
        with pytest.raises(Conflict, match=r"not asked|nobody is named") as refused:
            run_now(world.service.approve(run_id, who=who))
        assert refused.value.code == "not_an_approver"
    assert kinds(world, run_id) == [Kind.WAITING]


def test_it_is_rejected_when_the_others_are_not_enough() -> None:
    world, run_id = waiting(QUORUM)
    run_now(world.service.reject(run_id, "no", who="ana"))
    assert world.header(run_id).status is Status.WAITING
    run_now(world.service.reject(run_id, "neither", who="leo"))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED


def test_after_a_while_others_are_asked_too() -> None:
    wait = QUORUM.replace("kim]}", "kim]}, escalate: {after: 4h, to: [boss]}").replace("need: 2", "need: 1")
    world, run_id = waiting(wait)
    with pytest.raises(Conflict):
        run_now(world.service.approve(run_id, who="boss"))
    world.pass_time(4 * HOUR_MS)
    assert kinds(world, run_id) == [Kind.WAITING, Kind.RECEIVED]
    run_now(world.service.approve(run_id, who="boss"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_an_escalated_approval_still_times_out() -> None:
    wait = QUORUM.replace("kim]}", "kim]}, escalate: {after: 4h, to: [boss]}")
    world, run_id = waiting(wait)
    world.pass_time(24 * HOUR_MS)
    assert world.header(run_id).status is Status.TIMED_OUT


def test_votes_before_an_escalation_cost_nothing_after_it_until_the_wait_is_over() -> None:
    wait = "{for: approval, approvers: {of: [ana, leo, kim], need: 3}, escalate: {after: 4h, to: [boss]}, timeout: 3d}"
    world, run_id = waiting(wait)
    for who in ("ana", "leo"):
        run_now(world.service.approve(run_id, who=who))
    assert world.queue.pending() == 1  # the wait's timer: a vote sets none
    world.pass_time(4 * HOUR_MS)
    world.store.calls.clear()
    world.pass_time(DAY_MS)
    assert (world.store.calls, world.queue.pending()) == (Counter(), 1)
    world.pass_time(2 * DAY_MS)
    assert world.header(run_id).status is Status.TIMED_OUT


def test_a_timer_of_an_earlier_release_sets_the_timer_of_the_wait_once() -> None:
    """Each vote had set its own."""
    wait = "{for: approval, approvers: {of: [ana, leo], need: 2}, escalate: {after: 4h, to: [boss]}, timeout: 3d}"
    world, run_id = waiting(wait)
    run_now(world.service.approve(run_id, who="ana"))
    world.pass_time(5 * HOUR_MS)
    world.store.calls.clear()
    world.send(Lane.RESUME, to_json(Timer(run_id, 1)))
    world.pass_time(DAY_MS)
    assert (world.store.calls["load"], world.store.writes, world.queue.pending()) == (1, Counter(), 1)


def test_a_heartbeat_that_lasts_hours_is_looked_for_once_at_its_end() -> None:
    """Not each quarter of an hour, as far as a queue can put a message off."""
    world, run_id = waiting("{for: callback, heartbeat: 8h, timeout: 3d}")
    callback = wait_callback(run_id, world.token(run_id))
    assert callback is not None
    world.pass_time(7 * HOUR_MS)
    run_now(world.service.callbacks.beat(CallbackLink(callback, world.clock.now_ms() + DAY_MS)))
    world.store.calls.clear()
    world.pass_time(7 * HOUR_MS)
    assert (world.store.calls["load"], world.store.writes, world.queue.pending()) == (1, Counter(), 1)
    world.pass_time(2 * HOUR_MS)
    assert world.header(run_id).status is Status.TIMED_OUT


LEGAL = "{for: approval, data: {of: legal}, approvers: {of: [lea]}}"
FINANCE = "{for: approval, data: {of: finance}, approvers: {of: [fin]}}"


def test_of_several_approvals_each_is_given_by_those_it_asks_in_any_order() -> None:
    world, run_id = waiting(f"{{all: [{LEGAL}, {FINANCE}]}}")
    parked = world.token(run_id).parked
    assert parked is not None
    assert parked.data == {"approval": {"of": "legal"}, "approval_2": {"of": "finance"}}
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bob"))
    assert (refused.value.message, refused.value.hint) == (
        "bob is not asked for this approval", "`by`, or --by, names one of lea, fin",
    )  # fmt: skip
    with pytest.raises(Conflict) as unnamed:
        run_now(world.service.approve(run_id))
    assert (unnamed.value.message, unnamed.value.code) == ("nobody is named as the one who answers", "not_an_approver")
    assert unnamed.value.hint == "`by`, or --by, names one of lea, fin"
    run_now(world.service.approve(run_id, who="fin"))
    assert world.header(run_id).status is Status.WAITING
    run_now(world.service.delegate(run_id, "lea", "leo"))
    run_now(world.service.approve(run_id, who="leo"))
    world.deliver()
    result = world.token(run_id).scope["hold"]
    assert {name: one["by"] for name, one in result.items()} == {"approval": "leo", "approval_2": "fin"}


def test_the_second_of_two_approvals_can_be_the_first() -> None:
    world, run_id = waiting(f"{{any: [{LEGAL}, {FINANCE}]}}")
    run_now(world.service.approve(run_id, who="fin"))
    world.deliver()
    assert world.token(run_id).scope["hold"]["index"] == 1


BOTH = "{for: approval, approvers: {of: [ana]}}"


def test_who_is_asked_for_two_approvals_gives_each_by_its_name() -> None:
    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}]}}")
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval_2"))
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval_2"))  # a repetition
    assert [one.arm for one in world.token(run_id).received] == [1]
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert [one["by"] for one in world.token(run_id).scope["hold"].values()] == ["ana", "ana"]


def test_an_answer_without_a_name_is_for_the_first_and_never_for_another_one() -> None:
    """It may be a repetition whose first answer was lost."""
    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}, {FINANCE}]}}")
    run_now(world.service.approve(run_id, who="ana"))
    run_now(world.service.approve(run_id, who="fin"))
    for answer in (world.service.approve(run_id, who="ana"), world.service.reject(run_id, "no", who="ana")):
        with pytest.raises(Conflict) as refused:
            run_now(answer)
        assert refused.value.code == "already_answered"
        assert refused.value.hint == "name one as `wait`, or --step: hold/approval_2"
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval_2"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_one_of_two_approvals_is_rejected_by_its_name() -> None:
    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}]}}")
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval"))
    with pytest.raises(Conflict) as refused:
        run_now(world.service.reject(run_id, "no", who="ana", wait="hold/approval"))
    assert refused.value.code == "already_answered"
    run_now(world.service.reject(run_id, "no", who="ana", wait="hold/approval_2"))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED


def test_an_approval_of_a_name_that_the_wait_lacks_is_refused() -> None:
    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}]}}")
    for call in (world.service.approve(run_id, who="ana", wait="hold/approval_3"),
                 world.service.delegate(run_id, "ana", "bea", "hold/approval_3")):  # fmt: skip
        with pytest.raises(Conflict, match="approval_3") as refused:
            run_now(call)
        assert refused.value.code == "not_waiting"


def test_a_delegation_by_name_is_of_one_approval_and_another_one_of_all() -> None:
    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}]}}")
    run_now(world.service.delegate(run_id, "ana", "bea", "hold/approval_2"))
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, who="bea", wait="hold/approval"))
    assert refused.value.code == "not_an_approver"
    run_now(world.service.approve(run_id, who="bea"))
    run_now(world.service.approve(run_id, who="ana"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED

    world, run_id = waiting(f"{{all: [{BOTH}, {BOTH}]}}")
    run_now(world.service.delegate(run_id, "ana", "bea"))
    for name in ("approval", "approval_2"):
        run_now(world.service.approve(run_id, who="bea", wait=f"hold/{name}"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_an_approval_that_asks_both_people_is_not_handed_on_from_one_to_the_other() -> None:
    """Before, it asked one person twice, and could not be given by two."""
    pair = "{for: approval, approvers: {need: 2, of: [ana, leo]}}"
    for arms, one, two in (
        (f"{BOTH}, {pair}", "approval", "approval_2"),
        (f"{pair}, {BOTH}", "approval_2", "approval"),
    ):
        world, run_id = waiting(f"{{all: [{arms}]}}")
        run_now(world.service.delegate(run_id, "ana", "leo"))
        for who, name in (("leo", one), ("leo", two), ("ana", two)):
            assert world.header(run_id).status is Status.WAITING
            run_now(world.service.approve(run_id, who=who, wait=f"hold/{name}"))
        world.deliver()
        assert world.header(run_id).status is Status.COMPLETED


def test_an_approval_in_a_branch_is_given_by_its_name_too() -> None:
    world = World(f"""
workflow: flow
nodes:
  a: {{transitions: [{{to: hold, foreach: '[1]'}}]}}
  hold: {{wait: {{all: [{BOTH}, {BOTH}]}}, transitions: [{{to: after}}]}}
  after: {{fan_in: {{}}}}
""")
    run_id = world.start()
    world.deliver()
    branch = run_now(world.service.standing(run_id)).branches[0].id
    run_now(world.service.approve(run_id, who="ana", wait=f"{branch}/approval"))
    run_now(world.service.approve(run_id, who="ana", wait="hold/approval_2"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_nobody_else_is_asked_for_an_approval_that_has_been_given() -> None:
    ana = "{for: approval, approvers: {of: [ana]}, escalate: {after: 4h, to: [boss]}}"
    world, run_id = waiting(f"{{all: [{ana}, {{for: event, name: paid}}], timeout: 1d}}")
    run_now(world.service.approve(run_id, who="ana"))
    world.pass_time(5 * HOUR_MS)
    assert [one.kind for one in world.token(run_id).received] == ["approved"]
    world.pass_time(DAY_MS)
    assert world.header(run_id).status is Status.TIMED_OUT


# -- events that stay

BROADCAST = "events: {price: {delivery: broadcast, expire_after: 1h}}\n"


def test_every_waiter_gets_an_event_that_is_not_consumed_later_ones_too() -> None:
    world, first = waiting("{for: event, name: price}", BROADCAST)
    second = world.start()
    world.deliver()
    send(world, "price", 7)
    late = world.start()
    world.deliver()
    assert {world.header(one).status for one in (first, second, late)} == {Status.COMPLETED}
    world.pass_time(HOUR_MS)
    after = world.start()
    world.deliver()
    assert world.header(after).status is Status.WAITING


TWICE = "{all: [{for: event, name: price, key: k}, {for: event, name: price, key: k, match: 'event > 5'}]}"
STAYS = "events: {price: {consume_on_read: false}}\n"


@pytest.mark.parametrize("comes_first", [False, True])
def test_an_event_that_is_not_consumed_reaches_each_arm_that_it_matches(comes_first: bool) -> None:
    """Also one that came before its wait."""
    world = World(f"workflow: flow\n{STAYS}timeline:\n  - {{name: hold, wait: {TWICE}}}\n")
    if comes_first:
        send(world, "price", 7, key="k")
    run_id = world.start()
    world.deliver()
    if not comes_first:
        send(world, "price", 7, key="k")
    assert world.header(run_id).status is Status.COMPLETED
    assert world.token(run_id).scope["hold"] == {"price": 7, "price_2": 7}


def test_an_event_for_a_run_alone_reaches_each_arm_that_it_matches() -> None:
    world, run_id = waiting("{all: [{for: event, name: price}, {for: event, name: price}]}", STAYS)
    send(world, "price", 7, run_id=run_id)
    assert world.token(run_id).scope["hold"] == {"price": 7, "price_2": 7}


def test_an_arm_that_an_event_does_not_match_still_waits() -> None:
    world, run_id = waiting(TWICE, STAYS)
    send(world, "price", 1, key="k")
    assert world.header(run_id).status is Status.WAITING
    assert [one.arm for one in world.token(run_id).received] == [0]
    send(world, "price", 9, key="k")
    assert world.token(run_id).scope["hold"] == {"price": 1, "price_2": 9}


def test_a_publisher_that_dies_between_two_arms_has_its_redelivery_offer_the_second() -> None:
    world, run_id = waiting(TWICE, STAYS)
    run_now(world.service.send_event("price", 7, key="k"))

    def dies(*_: object) -> None:
        raise PortError("gone")

    def arrives(*_: object) -> None:
        world.store.before["append"] = dies

    world.store.before["append"] = arrives
    with pytest.raises(PortError):
        world.deliver()
    assert [one.arm for one in world.token(run_id).received] == [0]
    world.clock.advance(MINUTE_MS)
    world.deliver()
    assert world.token(run_id).scope["hold"] == {"price": 7, "price_2": 7}


def test_one_event_wakes_a_run_once_however_many_arms_it_matches() -> None:
    world, run_id = waiting(TWICE.replace("all", "any"), STAYS)
    run_now(world.service.send_event("price", 7, key="k"))
    assert world.deliver() == 2  # the event, and a wake
    assert world.header(run_id).status is Status.COMPLETED


def test_a_loop_does_not_eat_the_same_event_twice() -> None:
    flow = """
workflow: flow
events: {price: {consume_on_read: false}}
timeline:
  - {name: hold, wait: {for: event, name: price}}
  - {name: note, run: python:m.note, branch: [{when: "result < 3", back_to: hold}]}
"""
    world = World(flow)
    seen: list[Json] = []
    world.steps.of["note"] = lambda call: (seen.append(call.state["hold"]), len(seen))[1]
    run_id = world.start()
    world.deliver()
    for price in (10, 20, 30):
        world.pass_time(MINUTE_MS)
        send(world, "price", price)
    assert seen == [10, 20, 30]
    assert world.header(run_id).status is Status.COMPLETED


def test_a_transient_event_is_for_those_who_wait_already() -> None:
    world, run_id = waiting("{for: event, name: ping}", "events: {ping: {expire_after: 0}}\n")
    send(world, "ping", 1)
    assert world.header(run_id).status is Status.COMPLETED
    send(world, "ping", 2)
    late = world.start()
    world.deliver()
    assert world.header(late).status is Status.WAITING


def test_an_event_too_many_is_refused_to_its_sender() -> None:
    world, _ = waiting("{for: approval}", "events: {paid: {max_pending: 3}}\n")
    for number in range(3):
        send(world, "paid", number, key="k")
    with pytest.raises(Conflict) as refused:
        send(world, "paid", 3, key="k")
    assert refused.value.code == "too_many_pending"
    send(world, "paid", 3, key="another")


def test_two_parts_that_race_for_a_slot_both_count() -> None:
    """The second publisher finds its slot taken by the first one's part, and takes the next."""
    world, run_id = waiting(DOCUMENTS)
    run_now(world.service.send_event("DOCUMENT_UPLOADED", {"document": "cv"}, key="t1"))
    world.store.before["consume"] = lambda *_: upload(world, "photo")
    run_now(world.service.send_event("DOCUMENT_UPLOADED", {"document": "id"}, key="t1"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_part_whose_publisher_died_is_pushed_on_by_its_redelivery() -> None:
    world, run_id = waiting(DOCUMENTS)
    upload(world, "cv")
    run_now(world.service.send_event("DOCUMENT_UPLOADED", {"document": "id"}, key="t1"))

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["consume"] = lambda *_: world.store.before.update(put_waiter=dies)
    with pytest.raises(PortError):
        world.deliver()
    world.store.before.clear()
    world.pass_time(2 * MINUTE_MS)
    upload(world, "photo")
    assert world.header(run_id).status is Status.COMPLETED
