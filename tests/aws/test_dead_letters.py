"""The dead-letter queue as a person sees it: what it holds, why, and what is sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell.aws import dead_letters
from stepwell.aws.dead_letters import AwsDeadQueue
from stepwell.engine.records import Topic
from stepwell.errors import NotFound, PortError
from stepwell.runtime.calls import dead
from stepwell.runtime.log.messages import Deadline, Publish, Wake, to_json
from stepwell.runtime.log.retries import again
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event, Lane
from tests.contract.emulated import NO_WAIT, AwsQueue, answer, aws_queue

EVENT = Event(Topic("paid", "=A-1"), "e1", {"secret": "xyzzy"}, 1, 10**15)


class Dead:
    """An emulated dead-letter queue beside the queues that messages come from."""

    def __init__(self, queue: AwsQueue) -> None:
        self.queue, self.sqs = queue, queue.cloud.connect("sqs")
        self.url = self.sqs.create_queue(QueueName="dead")["QueueUrl"]
        self.port = AwsDeadQueue(self.url, queue.cloud.clients.sqs, queue, NO_WAIT)

    def send(self, body: Any) -> str:
        text = body if isinstance(body, str) else json.dumps(body)
        return str(self.sqs.send_message(QueueUrl=self.url, MessageBody=text)["MessageId"])

    def shown(self) -> dict[str, Any]:
        return {one["id"]: one for one in map(dead.show_letter, run_now(self.port.letters(100)))}

    def lane(self, lane: Lane) -> list[Any]:
        delivery = self.queue.receive((lane,), self.queue.clock.now_ms(), 60_000)
        return [] if delivery is None else [delivery.message]


@pytest.fixture
def letters() -> Iterator[Dead]:
    with aws_queue() as queue:
        made = Dead(queue)
        yield made
        made.sqs.delete_queue(QueueUrl=made.url)


def test_each_letter_says_what_it_is_of_which_run_and_why_it_lies_there(letters: Dead) -> None:
    wake = letters.send(to_json(Wake("run_1", 3)))
    event = letters.send({**to_json(Publish(EVENT)), "republished": 24})
    early = letters.send({**to_json(Deadline("run_2")), "republished": 2})
    odd = letters.send("not json")
    for _ in range(2):  # to look takes nothing
        shown = letters.shown()
        assert shown.keys() == {wake, event, early, odd}
    assert (shown[wake]["type"], shown[wake]["run_id"]) == ("wake", "run_1")
    assert shown[event]["event"] == {"name": "paid", "key": "A-1", "id": "e1"}
    assert "24 times and leaves it to you" in shown[event]["why"]
    assert "(2 of 24 times so far)" in shown[early]["why"]
    cannot = "it cannot be read, so it stays until its queue drops it, or somebody deletes it"
    assert shown[odd]["why"] == f"{cannot}: it is not a JSON object"
    assert "xyzzy" not in json.dumps(shown)
    assert run_now(dead.letter(letters.port, wake, 100)).id == wake
    with pytest.raises(NotFound):
        run_now(dead.letter(letters.port, "other", 100))


def test_what_is_sent_back_goes_to_its_own_queue_and_counts_anew(letters: Dead) -> None:
    wake = letters.send({**to_json(Wake("run_1", 3)), "put_off": 9})
    deadline = letters.send({**to_json(Deadline("run_2")), "republished": 24})
    odd = letters.send("not json")
    assert run_now(letters.port.send_back(frozenset({wake, "other"}))) == [wake]
    assert letters.lane(Lane.WORK) == [again(to_json(Wake("run_1", 3)))]
    assert letters.shown().keys() == {deadline, odd}
    assert run_now(letters.port.send_back(None)) == [deadline]
    assert letters.lane(Lane.RESUME) == [again(to_json(Deadline("run_2")))]
    assert letters.shown().keys() == {odd}


def test_a_call_sends_back_no_more_than_it_has_time_for(letters: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    """API Gateway waits for half a minute; after a long outage there may be thousands of letters."""
    monkeypatch.setattr(dead_letters, "TAKEN_AT_ONCE", 10)
    wakes = [letters.send(to_json(Wake(f"run_{number}", 3))) for number in range(25)]
    assert [len(run_now(letters.port.send_back(None))) for _ in range(3)] == [10, 10, 5]
    assert letters.shown() == {}
    assert len(wakes) == 25


def test_a_letter_that_is_found_is_taken_without_a_look_at_the_others(letters: Dead) -> None:
    wakes = [letters.send(to_json(Wake(f"run_{number}", 3))) for number in range(25)]
    before = letters.queue.cloud.calls.count("ReceiveMessage")
    assert run_now(letters.port.send_back(frozenset({wakes[0]}))) == [wakes[0]]
    assert letters.queue.cloud.calls.count("ReceiveMessage") == before + 1


def test_a_letter_that_cannot_be_sent_stays(letters: Dead) -> None:
    wake = letters.send(to_json(Wake("run_1", 3)))

    async def refuses(lane: Lane, message: Mapping[str, Any], at_ms: int = 0) -> None:
        raise PortError("away")

    letters.queue.send = refuses  # type: ignore[method-assign]  # of this queue
    with pytest.raises(PortError):
        run_now(letters.port.send_back(None))
    assert letters.shown().keys() == {wake}


def test_a_letter_is_deleted_and_the_others_stay(letters: Dead) -> None:
    wake, odd = letters.send(to_json(Wake("run_1", 3))), letters.send("not json")
    assert run_now(letters.port.delete(frozenset({odd, "other"}))) == [odd]
    assert letters.shown().keys() == {wake}


def test_who_looks_at_a_letter_is_no_delivery_of_it() -> None:
    """SQS counts both."""
    told = {"DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:1:Resume", "ApproximateReceiveCount": "17"}
    message = {"MessageId": "m1", "Body": "{}", "ReceiptHandle": "r", "Attributes": told}
    port = AwsDeadQueue("dead", lambda: Received(message), NoQueue(), NO_WAIT)  # type: ignore[arg-type, return-value]
    (letter,) = run_now(port.letters(1))
    assert (letter.queue, letter.deliveries) == ("Resume", 5)


def test_a_look_asks_all_servers_of_the_queue(letters: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receive that does not wait asks a few of them, and may find nothing in a queue that is short."""
    letters.send(to_json(Wake("run_1", 3)))
    client, asked = letters.queue.cloud.clients.sqs(), list[int]()

    def receive(**request: Any) -> Any:
        asked.append(request["WaitTimeSeconds"])
        return client.receive_message(**{**request, "WaitTimeSeconds": 0})

    watched = SimpleNamespace(receive_message=receive, change_message_visibility=client.change_message_visibility)
    port = AwsDeadQueue(letters.url, lambda: watched, letters.queue, NO_WAIT)
    assert len(run_now(port.letters(100))) == 1
    assert min(asked) >= 1


def test_letters_that_are_visible_again_already_are_shown_and_sent_back_all_the_same(letters: Dead) -> None:
    """A large queue takes longer to look through than its first messages stay hidden."""
    wake, odd = letters.send(to_json(Wake("run_1", 3))), letters.send("not json")

    def in_view(operation: str, _: Any) -> Any:
        refusal = {"__type": "com.amazonaws.sqs#MessageNotInflight", "message": "it is not in flight"}
        return answer(400, json.dumps(refusal)) if operation == "ChangeMessageVisibility" else None

    letters.queue.cloud.before = in_view
    assert letters.shown().keys() == {wake, odd}
    letters.queue.clock.advance(60_000)
    assert run_now(letters.port.send_back(None)) == [wake]


class Received:
    """A queue with one message."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message = message

    def receive_message(self, **_: Any) -> Mapping[str, Any]:
        return {"Messages": [self.message]}

    def change_message_visibility(self, **_: Any) -> None:
        pass


class NoQueue:
    """Nothing is sent."""
