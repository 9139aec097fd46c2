"""The history of an execution by boto3, in the events of Step Functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.api.kit import World
from tests.step_functions.conftest import started
from tests.step_functions.kit import sfn_of

Events = list[dict[str, Any]]


def events_of(client: Any, arn: str, **asked: Any) -> Events:
    events: Events = client.get_execution_history(executionArn=arn, **asked)["events"]
    return events


def told(events: Events) -> list[str]:
    """Each event by its type, and the name of its state."""
    return [f"{one['type']} {_details(one).get('name', '')}".strip() for one in events]


def _details(event: dict[str, Any]) -> dict[str, Any]:
    return next((value for name, value in event.items() if name.endswith("EventDetails")), {})


PAID = [
    "ExecutionStarted",
    "PassStateEntered Add",
    "PassStateExited Add",
    "ChoiceStateEntered Big",
    "ChoiceStateExited Big",
    "TaskStateEntered Charge",
    "TaskScheduled",
    "TaskSucceeded",
    "TaskStateExited Charge",
    "ExecutionSucceeded",
]


def test_states_are_entered_and_left_in_order(client: Any) -> None:
    events = events_of(client, started(client, "shop", '{"amount": 5}'))
    assert told(events) == PAID
    assert [one["id"] for one in events] == [*range(1, 11)]
    assert [one["previousEventId"] for one in events] == [*range(10)]


def test_each_state_has_what_it_was_given_and_what_it_brought(client: Any) -> None:
    events = events_of(client, started(client, "shop", '{"amount": 5}'))
    found = {name: _details(one) for name, one in zip(told(events), events, strict=True)}
    given = {"amount": 5, "line": {"sku": "a"}}
    assert json.loads(found["ExecutionStarted"]["input"]) == {"amount": 5}
    assert json.loads(found["PassStateEntered Add"]["input"]) == {"amount": 5}
    assert json.loads(found["PassStateExited Add"]["output"]) == given
    for name in ("ChoiceStateEntered Big", "TaskStateEntered Charge"):
        assert json.loads(found[name]["input"]) == given
    assert json.loads(found["ChoiceStateExited Big"]["output"]) == given
    scheduled = found["TaskScheduled"]
    assert (scheduled["resource"], scheduled["resourceType"], scheduled["region"]) == (
        "charge",
        "stepwell",
        "eu-west-1",
    )
    assert json.loads(scheduled["parameters"]) == {"amount": 5}
    assert json.loads(found["TaskStateExited Charge"]["output"]) == {**given, "paid": {"charged": 5}}
    assert found["ExecutionSucceeded"]["output"] == found["TaskStateExited Charge"]["output"]


def test_a_history_without_data_has_none(client: Any) -> None:
    events = events_of(client, started(client, "shop", '{"amount": 5}'), includeExecutionData=False)
    assert told(events) == PAID
    assert not {"input", "output", "parameters"} & {name for one in events for name in _details(one)}


def test_a_wait_is_entered_before_it_ends(world: World, client: Any) -> None:
    arn = started(client, "shop", '{"amount": 200}')
    assert told(events_of(client, arn))[-1] == "WaitStateEntered Nap"
    world.advance(61)
    assert told(events_of(client, arn))[5:7] == ["WaitStateEntered Nap", "WaitStateExited Nap"]


def test_a_wait_passes_on_what_it_was_given(world: World, client: Any) -> None:
    arn = started(client, "shop", '{"amount": 200}')
    world.advance(61)
    events = events_of(client, arn)
    found = {name: _details(one) for name, one in zip(told(events), events, strict=True)}
    given = {"amount": 200, "line": {"sku": "a"}}
    assert json.loads(found["WaitStateExited Nap"]["output"]) == given
    assert json.loads(found["TaskStateEntered Charge"]["input"]) == given


def test_a_branch_of_a_parallel_is_given_what_its_state_was(client: Any) -> None:
    events = events_of(client, started(client, "lines", '["a", "b"]'))
    found = {name: _details(one) for name, one in zip(told(events), events, strict=True)}
    for name in ("ParallelStateEntered Both", "PassStateEntered Left", "SucceedStateEntered Right"):
        assert json.loads(found[name]["input"]) == ["a", "b"]


def test_a_retried_task_is_entered_once_and_left_by_its_catcher(world: World, client: Any) -> None:
    failed = Outcome(failure=Failure("Busy", "step", "try later"))
    world.steps.functions["python:shop.charge"] = lambda call: failed
    arn = started(client, "shop", '{"amount": 5}')
    for _ in range(3):
        world.advance(10)
    events = events_of(client, arn)
    assert told(events)[5:] == [
        "TaskStateEntered Charge",
        *("TaskScheduled", "TaskFailed") * 3,
        "TaskStateExited Charge",
        "FailStateEntered Refused",
        "ExecutionFailed",
    ]
    cause = '{"errorMessage":"try later","errorType":"Busy","stackTrace":[]}'
    assert {"error": "Busy", "cause": cause}.items() <= _details(events[7]).items()
    assert json.loads(_details(events[-3])["output"])["error"] == {"Error": "Busy", "Cause": cause}
    assert _details(events[-1]) == {"error": "Refused", "cause": "no luck"}


def test_a_map_tells_its_iterations_and_a_parallel_its_branches(client: Any) -> None:
    events = events_of(client, started(client, "lines", '["a", "b"]'))
    assert told(events) == [
        "ExecutionStarted",
        "MapStateEntered Each",
        "MapStateStarted",
        "MapIterationStarted Each",
        "TaskStateEntered Fetch",
        "TaskScheduled",
        "TaskSucceeded",
        "TaskStateExited Fetch",
        "MapIterationSucceeded Each",
        "MapIterationStarted Each",
        "TaskStateEntered Fetch",
        "TaskScheduled",
        "TaskSucceeded",
        "TaskStateExited Fetch",
        "MapIterationSucceeded Each",
        "MapStateSucceeded",
        "MapStateExited Each",
        "ParallelStateEntered Both",
        "ParallelStateStarted",
        "PassStateEntered Left",
        "PassStateExited Left",
        "SucceedStateEntered Right",
        "SucceedStateExited Right",
        "ParallelStateSucceeded",
        "ParallelStateExited Both",
        "ExecutionSucceeded",
    ]
    assert _details(events[2]) == {"length": 2}
    assert [_details(events[at])["index"] for at in (3, 9)] == [0, 1]
    assert [json.loads(_details(events[at])["input"]) for at in (4, 10)] == ["a", "b"]
    assert [events[at]["previousEventId"] for at in (3, 9)] == [3, 3]
    assert json.loads(_details(events[16])["output"]) == ["a", "b"]


def test_a_map_that_is_tried_again_is_entered_once(world: World, client: Any) -> None:
    arn = started(client, "lines", '["busy"]')
    for _ in range(2):
        world.advance(10)
    names = told(events_of(client, arn))
    assert names.count("MapStateEntered Each") == 1
    assert names.count("MapStateStarted") == names.count("MapStateFailed") == 2
    assert names.count("MapIterationFailed Each") == 2
    assert "MapStateExited Each" not in names
    assert names[-1] == "ExecutionFailed"


LISTED = """
workflow: listed
StartAt: Each
States:
  Each:
    Type: Map
    ItemsPath: $.lines
    ItemProcessor: {StartAt: One, States: {One: {Type: Pass, End: true}}}
    Catch: [{ErrorEquals: [States.ALL], Next: Over}]
    End: true
  Over: {Type: Succeed}
"""


def test_a_map_whose_items_are_not_there_is_entered_and_left_by_its_catcher() -> None:
    world = World(LISTED)
    client = sfn_of(world.app, world.drain)
    events = events_of(client, started(client, "listed"))
    assert told(events)[1:-1] == ["MapStateEntered Each", "MapStateExited Each",
                                  "SucceedStateEntered Over", "SucceedStateExited Over"]  # fmt: skip
    assert json.loads(_details(events[2])["output"])["Error"] == "States.ParameterPathFailure"


READING = """
workflow: reading
StartAt: Each
States:
  Each:
    Type: Map
    ItemReader:
      Resource: read
      ReaderConfig: {InputType: JSON}
      Parameters: {Key: k}
    ItemProcessor:
      ProcessorConfig: {Mode: DISTRIBUTED}
      StartAt: One
      States: {One: {Type: Pass, End: true}}
    Catch: [{ErrorEquals: [States.ItemReaderFailed], Next: Over}]
    End: true
  Over: {Type: Succeed}
resources: {read: python:m.read}
"""


@pytest.mark.parametrize("items", [[7], "no"])
def test_a_map_that_reads_its_items_is_entered_before_and_once(items: Any) -> None:
    world = World(READING)
    world.steps.functions["python:m.read"] = lambda call: Outcome(items)
    client = sfn_of(world.app, world.drain)
    events = events_of(client, started(client, "reading"))
    over = ["MapStateExited Each", "SucceedStateEntered Over", "SucceedStateExited Over"]
    run = ["MapStateStarted", "MapIterationStarted Each", "PassStateEntered One", "PassStateExited One",
           "MapIterationSucceeded Each", "MapStateSucceeded", "MapStateExited Each"]  # fmt: skip
    assert told(events)[1:-1] == ["MapStateEntered Each", *(over if items == "no" else run)]
    assert json.loads(_details(events[1])["input"]) == {}


@pytest.mark.parametrize("is_written", [True, False])
def test_a_map_that_writes_its_results_is_left_when_they_are_written(is_written: bool) -> None:
    writer = "ResultWriter: {Resource: write, Parameters: {Bucket: b}}"
    text = READING.replace("resources: {", "resources: {write: python:m.write, ")
    world = World(text.replace("    Catch", f"    {writer}\n    Catch"))
    world.steps.functions["python:m.read"] = lambda call: Outcome([7])
    failed = Outcome(failure=Failure("Busy", "step", "try later"))
    world.steps.functions["python:m.write"] = lambda call: Outcome(None) if is_written else failed
    client = sfn_of(world.app, world.drain)
    events = events_of(client, started(client, "reading"))
    run = ["MapStateEntered Each", "MapStateStarted", "MapIterationStarted Each", "PassStateEntered One",
           "PassStateExited One", "MapIterationSucceeded Each"]  # fmt: skip
    over = ["MapStateSucceeded", "MapStateExited Each"] if is_written else ["MapStateFailed"]
    assert told(events)[1:-1] == [*run, *over]
    if is_written:
        assert json.loads(_details(events[-2])["output"]).keys() == {"MapRunArn", "ResultWriterDetails"}
    else:
        assert _details(events[-1])["error"] == "States.ResultWriterFailed"


def test_a_map_that_has_written_its_failures_has_failed() -> None:
    writer = "ResultWriter: {Resource: write, Parameters: {Bucket: b}}"
    text = READING.replace("resources: {", "resources: {write: python:m.write, ")
    text = text.replace("    Catch", f"    {writer}\n    Catch").replace(
        "{Type: Pass, End: true}", "{Type: Fail, Error: Boom}"
    )
    world = World(text)
    world.steps.functions["python:m.read"] = lambda call: Outcome([7])
    world.steps.functions["python:m.write"] = lambda call: Outcome(None)
    client = sfn_of(world.app, world.drain)
    events = events_of(client, started(client, "reading"))
    assert told(events)[-3:] == ["MapIterationFailed Each", "MapStateFailed", "ExecutionFailed"]
    assert _details(events[-1])["error"] == "Boom"


def test_an_iteration_that_never_began_is_not_told(world: World, client: Any) -> None:
    """The first one fails, so that the Map ends before the second begins."""
    arn = started(client, "lines", '["busy", "b"]')
    names = told(events_of(client, arn))
    assert names.count("MapIterationStarted Each") == names.count("MapIterationFailed Each") == 1
    assert "MapIterationAborted Each" not in names


def test_a_stopped_execution_ends_its_history(client: Any) -> None:
    arn = started(client, "order", '{"amount": 5}')
    client.stop_execution(executionArn=arn, cause="late")
    events = events_of(client, arn)
    assert told(events)[-2:] == ["TaskStateEntered approve", "ExecutionAborted"]
    assert _details(events[-1]) == {"cause": "late"}


def test_an_execution_that_ran_out_of_time_says_so(world: World, client: Any) -> None:
    arn = started(client, "labels")
    world.advance(3 * 3600)
    assert told(events_of(client, arn))[-1] == "ExecutionTimedOut"


@pytest.mark.parametrize("is_reverse", [False, True])
def test_pages_make_up_the_whole_history(client: Any, is_reverse: bool) -> None:
    arn = started(client, "lines", '["a", "b"]')
    whole = events_of(client, arn)
    pages = client.get_paginator("get_execution_history").paginate(
        executionArn=arn, maxResults=7, reverseOrder=is_reverse
    )
    found = [page["events"] for page in pages]
    assert [len(page) for page in found] == [7, 7, 7, 5]
    assert [one for page in found for one in page] == (whole[::-1] if is_reverse else whole)


def test_a_page_holds_what_an_answer_has_room_for(world: World, client: Any) -> None:
    """Each event's own data is bounded, and a page ends where they are too many."""
    text = json.dumps({"amount": 5, "text": "x" * 500_000})
    arn = started(client, "shop", text)
    pages = [page["events"] for page in client.get_paginator("get_execution_history").paginate(executionArn=arn)]
    assert told([one for page in pages for one in page]) == PAID
    assert len(pages) > 1


def test_data_that_no_answer_has_room_for_is_said_to_be_cut(client: Any) -> None:
    arn = started(client, "shop", json.dumps({"amount": 5, "text": "x" * 700_000}))
    first = events_of(client, arn)[0]
    assert _details(first) == {"inputDetails": {"truncated": True}}


@pytest.mark.parametrize("token", ["before-3", "after-x", "3", "after-99999999999"])
def test_a_made_up_token_is_refused(client: Any, token: str) -> None:
    arn = started(client, "quick")
    with pytest.raises(client.exceptions.InvalidToken):
        events_of(client, arn, nextToken=token)


def test_other_formats_have_tasks_waits_and_passes(world: World, client: Any) -> None:
    arn = started(client, "forked")
    assert told(events_of(client, arn)) == [
        "ExecutionStarted",
        "PassStateEntered start",
        "PassStateExited start",
        *("TaskStateEntered each", "TaskScheduled", "TaskSucceeded", "TaskStateExited each") * 2,
        "PassStateEntered meet",
        "PassStateExited meet",
        "ExecutionSucceeded",
    ]
