"""Agents from end to end: variables, the conversation, and what becomes of another agent that was triggered."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.children import child_id
from stepwell.engine.records import ROOT, Status
from stepwell.limits import DAY_MS, HOUR_MS
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import DeadLetter, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import RunQuery
from tests.runtime.kit import World, fails

TALK = """
agent: talk
history_window: 3
actions:
  - {id: greet, actionType: send_message, parameters: {message: "Hello {{ name }}, again {{ nobody.at.all }}"}}
  - id: answer
    actionType: wait_for_response
    parameters:
      threadId: "{{ thread }}"
      expectedFrom: "{{ who }}"
      onTimeout: continue
      timeoutActions: [{actionType: send_message, parameters: {message: "Still there, {{ name }}?"}}]
  - {id: look, actionType: look_up}
  - {id: bye, actionType: send_message, parameters: {message: "Bye {{ name }} of {{ city }}: {{ lastResponse }}"}}
"""
ASKS = """
agent: asks
actions:
  - {id: ask, actionType: trigger_agent, parameters: {agent: talk, OPTIONS}}
  - {id: after, actionType: note}
"""
GIVEN = {"name": "Ana", "thread": "t", "who": "ana"}


def talking(
    given: Json = GIVEN, workflow: str = "talk", options: str = "timeout: 20h", **steps: Any
) -> tuple[World, str]:
    world = World(TALK, ASKS.replace("OPTIONS", options))
    world.steps.of.update(
        {"look": lambda call: {"city": "Lima", "name": "Ana Ruiz", "conversationHistory": []}, **steps}
    )
    run_id = world.start(workflow, given)
    world.deliver()
    return world, run_id


def says(world: World, text: str, who: str = "ana") -> None:
    payload = {"from": who, "message": text, "name": "Eve"}
    run_now(world.service.send_event("MESSAGE_RECEIVED", payload, key="t"))
    world.deliver()


def child_of(world: World, run_id: str) -> str:
    found = [one for one in run_now(world.service.runs(RunQuery())).headers if one.parent]
    return next(one.run_id for one in found if one.parent and one.parent.startswith(f"{run_id}|"))


def test_what_functions_return_and_waits_bring_is_there_by_name_over_the_input() -> None:
    world, run_id = talking()
    assert world.steps.calls[0].input == {"message": "Hello Ana, again "}
    says(world, "I am")
    assert world.steps.calls[-1].input == {"message": "Bye Ana Ruiz of Lima: I am"}
    assert world.header(run_id).status is Status.COMPLETED


def test_a_sender_sets_no_variable_but_the_response() -> None:
    """Whoever may send an event could otherwise set any of them."""
    world, run_id = talking(look=lambda call: {"seen": call.input["name"]})
    says(world, "I am")
    scope = world.token(run_id).scope
    assert (scope["seen"], scope["answer"]["name"]) == ("Ana", "Eve")


def test_only_the_one_who_is_expected_ends_the_wait() -> None:
    world, run_id = talking({**GIVEN, "who": 'the "boss"\n'})
    says(world, "I am")
    assert world.header(run_id).status is Status.WAITING
    says(world, "It is me", 'the "boss"\n')
    assert world.token(run_id).scope["lastResponse"] == "It is me"


def test_the_conversation_keeps_the_last_messages_of_both_sides() -> None:
    world, run_id = talking()
    world.pass_time(DAY_MS)
    told = world.token(run_id).scope["conversationHistory"]
    assert [(one["role"], one["action"], one["content"]) for one in told] == [
        ("assistant", "greet", "Hello Ana, again "),
        ("assistant", "answer", "Still there, Ana?"),
        ("assistant", "bye", "Bye Ana Ruiz of Lima: "),
    ]
    world, run_id = talking()
    says(world, "I am")
    said = world.token(run_id).scope["conversationHistory"][1]
    assert (said["role"], said["content"], said["at"]) == ("user", "I am", "2023-11-14T22:13:20.000Z")


def test_an_agent_that_is_waited_for_brings_its_variables_and_not_its_conversation() -> None:
    world, run_id = talking(workflow="asks")
    assert world.header(run_id).waiting_for == "agent"
    says(world, "I am")
    token = world.token(run_id)
    child = child_id(run_id, ROOT, 0, 0)
    assert {name: value for name, value in token.scope.items() if name not in {"ask", "after"}} == {
        "lastResponse": "I am",
        "city": "Lima",
        "name": "Ana Ruiz",
        "triggeredExecutionId": child,
        "childExecutionStatus": "completed",
        "childExecutionSuccess": True,
    }
    assert token.steps["ask"].output["result"] == "bye"


def test_an_agent_that_fails_is_told_of_and_sets_nothing_else() -> None:
    world, run_id = talking(workflow="asks", look=lambda call: fails())
    says(world, "I am")
    scope = world.token(run_id).scope
    assert (scope["childExecutionStatus"], scope["childExecutionSuccess"]) == ("failed", False)
    assert scope["ask"]["error"]["message"] == "no luck"
    assert "lastResponse" not in scope
    assert world.header(run_id).status is Status.COMPLETED


def test_an_agent_that_fails_fails_the_action_where_it_says_so() -> None:
    world, run_id = talking(workflow="asks", options="onFailure: propagate", look=lambda call: fails())
    says(world, "I am")
    token = world.token(run_id)
    assert token.end is not None
    assert token.end.error is not None
    assert (token.end.status, token.end.error.type) == (Status.FAILED, "child_failed")


@pytest.mark.parametrize(
    ("options", "status", "error"),
    [
        ("", Status.TIMED_OUT, "agent_timeout"),
        ("onTimeout: continue, timeoutActions: [{actionType: warn}]", Status.COMPLETED, None),
    ],
)
def test_an_agent_that_takes_too_long_is_ended_and_its_time_out_taken(
    options: str, status: Status, error: str | None
) -> None:
    world, run_id = talking(workflow="asks", options=options)
    child = child_of(world, run_id)
    world.pass_time(HOUR_MS)
    token = world.token(run_id)
    assert token.end is not None
    assert (token.end.status, token.end.error and token.end.error.type) == (status, error)
    assert world.header(child).status is Status.CANCELLED


def test_an_agent_that_takes_too_long_is_triggered_anew_where_it_is_tried_again() -> None:
    world, run_id = talking(workflow="asks", options="onTimeout: retry, maxRetries: 1")
    first = child_of(world, run_id)
    world.pass_time(HOUR_MS)
    assert (world.header(first).status, world.header(run_id).waiting_for) == (Status.CANCELLED, "agent")
    says(world, "I am")
    scope = world.token(run_id).scope
    assert scope["childExecutionSuccess"] is True
    assert scope["triggeredExecutionId"] != first


def test_an_agent_that_nobody_waits_for_is_known_by_its_id() -> None:
    world, run_id = talking(workflow="asks", options="waitForCompletion: false")
    assert world.header(run_id).status is Status.COMPLETED
    child = world.token(run_id).scope["triggeredExecutionId"]
    assert world.header(child).status is Status.WAITING


def test_each_action_is_logged_with_its_number_and_type_and_without_data(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stepwell.agent"):
        world, run_id = talking()
        says(world, "I am")
    lines = [one.getMessage().removeprefix(f"{run_id} ") for one in caplog.records if one.name == "stepwell.agent"]
    assert lines == [
        "action 1: send_message - started",
        "action 1: send_message - completed",
        "action 2: wait_for_response - waiting",
        "action 2: wait_for_response - completed",
        "action 3: look_up - started",
        "action 3: look_up - completed",
        "action 4: send_message - started",
        "action 4: send_message - completed",
        "completed",
    ]


def test_an_agent_that_took_too_long_is_ended_although_who_should_have_ended_it_died() -> None:
    """Its worker died again and again with the time-out's action, before it came to what the time-out demands."""
    world, run_id = talking(workflow="asks", options="onTimeout: continue, timeoutActions: [{actionType: warn}]")
    child = child_of(world, run_id)
    world.clock.set(world.clock.now_ms() + HOUR_MS)
    while (one := world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 60_000)) is not None:
        run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
        world.queue.delete(one)
    wake = run_now(world.service.standing(run_id)).wake()
    world.lose_messages()
    world.send(Lane.RESUME, to_json(DeadLetter(wake)))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert world.header(child).status is Status.CANCELLED


# -- the first of several

FIRST = """
agent: first
actions:
  - {id: begin, actionType: trigger_agent, parameters: {agent: other, waitForCompletion: false}}
  - {id: ask, actionType: send_message, parameters: {message: "Yes, or a payment?"}}
  - id: heard
    actionType: wait_for_any
    parameters:
      onTimeout: continue
      any:
        - {actionType: wait_for_response, parameters: {threadId: "{{ thread }}", expectedFrom: ana}}
        - {actionType: wait_for_event, parameters: {name: paid, key: "{{ thread }}"}}
        - {actionType: request_document, parameters: {key: "{{ thread }}", documents: [cv, id]}}
        - {actionType: wait_for_event, parameters: {name: AGENT_COMPLETED, key: "{{ triggeredExecutionId }}"}}
        - {actionType: delay, parameters: {duration: 2h}}
    nextActionId: end
    nextWhen: result.name == 'paid'
  - {id: after, actionType: note, parameters: {what: "{{ heard.for }}"}}
"""
OTHER = "agent: other\nactions: [{id: go, actionType: wait_for_event, parameters: {name: go}}]"


def asking(**before: Json) -> tuple[World, str]:
    """`before`: events that are sent before the run begins, and their payloads."""
    world = World(FIRST, OTHER)
    for name, payload in before.items():
        run_now(world.service.send_event(name, payload, key="t"))
        world.pass_time(1_000)
    run_id = world.start("first", {"thread": "t"})
    world.deliver()
    return world, run_id


def test_of_several_the_answer_is_what_a_wait_for_it_alone_brings() -> None:
    world, run_id = asking()
    assert world.header(run_id).waiting_for == "response"
    says(world, "No", who="leo")
    says(world, "Yes")
    scope = world.token(run_id).scope
    assert (scope["lastResponse"], scope["heard"]["index"], scope["heard"]["for"]) == ("Yes", 0, "response")
    assert [(one["role"], one["content"]) for one in scope["conversationHistory"]] == [
        ("assistant", "Yes, or a payment?"),
        ("user", "Yes"),
    ]
    assert world.steps.calls[-1].input == {"what": "response"}


def test_of_several_a_pending_event_ends_it_and_an_answer_older_than_its_question_does_not() -> None:
    world, run_id = asking(MESSAGE_RECEIVED={"from": "ana", "message": "Yes"}, paid={"amount": 5})
    token = world.token(run_id)
    assert world.header(run_id).status is Status.COMPLETED
    assert token.steps["heard"].output == {"index": 1, "for": "event", "name": "paid", "result": {"amount": 5}}
    assert "lastResponse" not in token.scope


def test_of_several_documents_are_there_when_all_of_them_are() -> None:
    world, run_id = asking()
    for name in ("cv", "id"):
        assert world.header(run_id).status is Status.WAITING
        run_now(world.service.send_event("DOCUMENT_UPLOADED", {"document": name, "url": f"s3://{name}"}, key="t"))
        world.deliver()
    assert world.token(run_id).scope["documentUrls"] == {"cv": "s3://cv", "id": "s3://id"}


def test_of_several_another_agents_end_is_one_and_a_delay_is_one() -> None:
    world, run_id = asking()
    run_now(world.service.send_event("go", None))
    world.deliver()
    assert world.token(run_id).steps["heard"].output["name"] == "AGENT_COMPLETED"
    world, run_id = asking()
    world.pass_time(2 * HOUR_MS)
    token = world.token(run_id)
    assert (token.steps["heard"].output["for"], world.header(run_id).status) == ("delay", Status.COMPLETED)


def test_of_several_none_may_come_in_time() -> None:
    timed = FIRST.replace("      any:", "      timeout: 1h\n      any:")
    guarded = timed.replace("nextWhen: result", "nextWhen: result != null && result").replace("heard.for", "heard")
    world = World(guarded, OTHER)
    run_id = world.start("first", {"thread": "t"})
    world.deliver()
    world.pass_time(HOUR_MS)
    assert world.header(run_id).status is Status.COMPLETED
    assert world.steps.calls[-1].input == {"what": None}
