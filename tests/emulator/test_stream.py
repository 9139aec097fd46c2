"""What others are told of runs after the fact: events on the bus, the history of an ended run in the bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.emulator.kit import World, until


@pytest.fixture
def subscriber(world: World) -> Iterator[str]:
    """A queue that gets all that is told on the bus."""
    queues, rules = world.emulator.client("sqs"), world.emulator.client("events")
    bus = world.stack.outputs["BusName"]
    url = queues.create_queue(QueueName="subscriber")["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rules.put_rule(Name="all", EventBusName=bus, EventPattern=json.dumps({"source": ["stepwell"]}))
    rules.put_targets(Rule="all", EventBusName=bus, Targets=[{"Id": "subscriber", "Arn": arn}])
    yield url
    rules.remove_targets(Rule="all", EventBusName=bus, Ids=["subscriber"])
    rules.delete_rule(Name="all", EventBusName=bus)
    queues.delete_queue(QueueUrl=url)


def told(world: World, subscriber: str, run_id: str) -> list[Mapping[str, Any]]:
    """The events of a run that the queue has got."""
    events = [json.loads(message["Body"])["detail"] for message in world.messages(subscriber)]
    return [event for event in events if event["run_id"] == run_id]


def test_a_subscriber_is_told_of_a_run_from_its_start_to_its_end(world: World, subscriber: str) -> None:
    run_id = world.start("greet", {"name": "you"})

    def kinds() -> set[str]:  # a bus keeps no order
        return {event["entry"]["type"] for event in told(world, subscriber, run_id)}

    until(lambda: kinds() == {"run.created", "run.started", "step.completed", "run.completed"}, "all of it is told")
    (last,) = (event for event in told(world, subscriber, run_id) if event["entry"]["type"] == "run.completed")
    assert (last["workflow"], last["status"]) == ("greet", "completed")


def test_a_subscriber_is_told_of_every_branch_that_one_message_brought(world: World, subscriber: str) -> None:
    """Such branches are written together, in batches of their lane."""
    run_id = world.start("fan", {"names": ["ann", "bob", "cy"]})

    def branches() -> int:
        kinds = [event["entry"]["type"] for event in told(world, subscriber, run_id)]
        return kinds.count("branch.completed")

    until(lambda: branches() == 3, "each branch is told")


def test_a_workflow_that_asks_for_it_leaves_its_runs_in_the_bucket(world: World) -> None:
    run_id = world.start("nap", {"name": "you"})
    world.end(run_id)
    store, place = world.emulator.client("s3"), {"Bucket": world.stack.outputs["BucketName"]}
    key = f"runs/nap/{run_id}.jsonl"
    until(lambda: store.list_objects_v2(**place, Prefix=key)["KeyCount"], "the snapshot is written")
    lines = store.get_object(**place, Key=key)["Body"].read().decode().splitlines()
    assert json.loads(lines[0])["result"] == "hello you"
    assert json.loads(lines[-1])["type"] == "run.completed"
