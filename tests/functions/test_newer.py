"""Messages of newer code on AWS: an older function sends them again as they are, and no queue takes them for dead."""

from __future__ import annotations

import json
import os

import pytest

from stepwell.engine.stored.formats import FORMAT, KEY, NEWEST
from stepwell.runtime.log.retries import again
from tests.functions.conftest import Deploy

FLOW = "workflow: flow\ntimeline: [{name: ask, wait: {for: approval}}, {name: b, run: python:m.b}]"
STEPS = "def b(): return 'done'"
GREETING = {"type": "greeting", "to": ["all"], "pool": "heavy", KEY: FORMAT + 1}


@pytest.mark.parametrize("queue", ["resume", "heavy", "dead-heavy"])
def test_a_message_of_newer_code_comes_again_with_all_its_fields_for_good(deployed: Deploy, queue: str) -> None:
    """Out of a dead-letter queue it goes back to the workers of its pool."""
    stack = deployed(FLOW, STEPS)
    stack.send(queue, json.dumps(GREETING))
    for _ in range(25):
        assert stack.deliver() == 1
        stack.pass_time(59)
        assert stack.deliver() == 0
        stack.pass_time(1)
    (left,) = stack.messages(queue.removeprefix("dead-"))["Records"]
    assert json.loads(left["body"]) == again(GREETING)
    assert left["attributes"]["ApproximateReceiveCount"] == "1"
    assert stack.messages("dead")["Records"] == []


def test_a_run_that_newer_code_moved_waits_for_it_and_the_api_says_so(deployed: Deploy) -> None:
    stack = deployed(FLOW, STEPS)
    run_id = stack.start()
    stack.deliver()
    dynamodb = stack.cloud.connect("dynamodb")
    table = os.environ["STEPWELL_TABLE"]
    (item,) = [one for one in dynamodb.scan(TableName=table)["Items"] if one["sk"]["S"].startswith("LOG#")]
    body = json.loads(item["body"]["S"])
    dynamodb.put_item(TableName=table, Item={**item, "body": {"S": json.dumps({**body, KEY: NEWEST + 1})}})
    status, problem = stack.call("POST", f"/runs/{run_id}/approve")
    assert (status, problem["code"]) == (503, "newer_format")
    wake = {"type": "wake", "run_id": run_id, "token": "0", "slot": 0, KEY: FORMAT}
    stack.send("default", json.dumps(wake))
    for _ in range(25):
        stack.deliver()
        stack.pass_time(60)
    (left,) = stack.messages("default")["Records"]
    assert json.loads(left["body"]) == again(wake)
    assert stack.header(run_id).status == "waiting"
    dynamodb.put_item(TableName=table, Item=item)
    assert stack.call("POST", f"/runs/{run_id}/approve")[0] == 200
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"
