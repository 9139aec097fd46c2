"""A Stepwell on emulated AWS whose table has a stream, with a bus and a bucket that can be looked into."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from ministack.services import dynamodb, eventbridge

from stepwell.api.runs.views import view_of
from stepwell.aws.bus import Bus
from stepwell.aws.notifications import NotificationQueue, Outgoing
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.s3_snapshots import S3Snapshots
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.streaming import Stream, Taken
from stepwell.definition.graph import Json
from stepwell.runtime.calls.snapshots import Snapshots
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.endpoints import Endpoint, Notification, notification_of
from stepwell.runtime.notify.telling import Teller
from tests.aws.kit import AwsWorld, aws_world
from tests.contract.emulated import NO_WAIT

_NUMBERS = count(1)


class Streamed:
    """A world, its stream's records not taken yet, and what the bus and the bucket hold."""

    def __init__(self, world: AwsWorld) -> None:
        self.world, self.cloud = world, world.cloud
        assert isinstance(world.blobs, S3Blobs)
        self.bus, self.bucket = f"bus-{next(_NUMBERS)}", world.blobs._bucket
        self.cloud.connect("events").create_event_bus(Name=self.bus)
        self.cloud.connect("s3")
        self._notifications_url = self.cloud.connect("sqs").create_queue(QueueName=f"notifications-{self.bus}")[
            "QueueUrl"
        ]
        self.endpoints: tuple[Endpoint, ...] = ()
        self.part_bytes = 5 << 20
        self._taken = 0
        self.restart()

    def restart(self) -> None:
        """Another process, which remembers nothing."""
        store = self.world.store.inner
        assert isinstance(store, DynamoStore)
        files = S3Snapshots(self.bucket, self.cloud.clients.s3, NO_WAIT, self.part_bytes)
        bus = Bus(self.bus, self.cloud.clients.events, NO_WAIT)
        snapshots = Snapshots(self.world.service, files, view_of)
        self.teller = Teller(store, store, store, self.world.blobs)
        queue = NotificationQueue(self._notifications_url, self.cloud.clients.sqs, self.world.clock, NO_WAIT)
        outgoing = Outgoing(self.endpoints, queue) if self.endpoints else None
        self.stream = Stream(store, self.world.blobs, self.teller, bus, snapshots, outgoing)

    def records(self) -> list[dict[str, Any]]:
        """What the stream has had since `take` was last called."""
        return self.all_records()[self._taken :]

    def all_records(self) -> list[dict[str, Any]]:
        return list(dynamodb.stream_live_records(self.world.table.name))

    def take(self, records: Sequence[Mapping[str, Any]] | None = None, size: int = 100) -> list[Taken]:
        """Takes these records, or all that came since the last time, in batches; each as Lambda would hand it over."""
        if records is None:
            records = self.records()
            self._taken += len(records)
        batches = [records[at : at + size] for at in range(0, len(records), size)]
        return [run_now(self.stream.take(json.loads(json.dumps(batch)))) for batch in batches]

    def events(self) -> list[dict[str, Any]]:
        """What the bus was sent: type, and detail."""
        sent = (one for one in eventbridge._events_log_list() if one["EventBusName"] == self.bus)
        return [
            {"type": event["DetailType"], "source": event["Source"], **json.loads(event["Detail"])} for event in sent
        ]

    def types(self, run_id: str = "") -> list[str]:
        return [event["type"] for event in self.events() if run_id in {"", event["run_id"]}]

    def notifications(self) -> list[Notification]:
        """What the notifications' queue holds, taken from it."""
        found: list[Notification] = []
        while (
            messages := self.cloud.connect("sqs")
            .receive_message(
                QueueUrl=self._notifications_url, MaxNumberOfMessages=10, WaitTimeSeconds=0, VisibilityTimeout=3_600
            )
            .get("Messages")
        ):
            found += [notification_of(json.loads(message["Body"])) for message in messages]
        return found

    def file(self, run_id: str, workflow: str = "flow") -> list[Json]:
        """The lines of a run's snapshot."""
        found = self.cloud.connect("s3").get_object(Bucket=self.bucket, Key=f"runs/{workflow}/{run_id}.jsonl")
        return [json.loads(line) for line in found["Body"].read().decode().splitlines()]

    def files(self) -> list[str]:
        listed = self.cloud.connect("s3").list_objects_v2(Bucket=self.bucket, Prefix="runs/")
        return [one["Key"] for one in listed.get("Contents", [])]


@contextmanager
def streamed(*definitions: str) -> Iterator[Streamed]:
    with aws_world(*definitions) as world:
        view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        world.cloud.connect("dynamodb").update_table(TableName=world.table.name, StreamSpecification=view)
        yield Streamed(world)
        eventbridge.reset()


def sort_of(record: Any) -> str:
    return str(record["dynamodb"]["Keys"]["sk"]["S"])


def run_of(record: Any) -> str:
    return str(record["dynamodb"]["Keys"]["pk"]["S"].partition("#")[2])
