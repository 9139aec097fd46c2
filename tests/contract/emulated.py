"""AWS in this process: boto3 clients whose requests never reach a network but a handler of ministack.

A client is for one test, so that a test may break its calls: `before` may answer or raise in place of the service,
`after` may replace an answer that the service has given.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
from botocore.awsrequest import AWSResponse
from ministack.services import dynamodb, eventbridge, s3, scheduler, secretsmanager, sqs, ssm

from stepwell.aws.calls import Retry
from stepwell.aws.clients import Clients
from stepwell.aws.dynamodb_store import DynamoStore
from stepwell.aws.protocols import Item
from stepwell.aws.queues import Queues
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.scheduler_timers import SchedulerTimers, Schedules
from stepwell.aws.sqs_queue import SqsQueue
from stepwell.aws.table import SHAPE, Table
from stepwell.local.blobs import MemoryBlobs
from stepwell.local.clocks import VirtualClock
from stepwell.local.inbox import Delivery
from stepwell.runtime.ports import Lane
from stepwell.runtime.stores.jsontext import decode
from stepwell.settings import QueuePlace

SERVICES = {
    "dynamodb": dynamodb,
    "eventbridge": eventbridge,
    "s3": s3,
    "scheduler": scheduler,
    "secrets-manager": secretsmanager,
    "sqs": sqs,
    "ssm": ssm,
}
NO_WAIT = Retry(attempts=200, sleep=lambda _: None)  # many tries: 64 threads on one item
_ONE_AT_A_TIME = threading.RLock()  # as its server's event loop has them: an UpdateItem is not atomic among threads
_NUMBERS = itertools.count(1)
_SESSION = boto3.Session(aws_access_key_id="1" * 12, aws_secret_access_key="none", region_name="us-east-1")


def partitions_of(table: str) -> dict[str, dict[str, Item]]:
    """The items of an emulated table by their keys, to be changed past every client."""
    partitions: dict[str, dict[str, Item]] = dynamodb._tables[table]["items"]
    return partitions


def items_of(table: str) -> list[Item]:
    """All items of an emulated table, as they are: nobody asked for them, and nobody pays."""
    return [item for items in partitions_of(table).values() for item in items.values()]


def item_of(table: str, where: Item) -> Item | None:
    """A copy of one of them."""
    return deepcopy(dynamodb._tables[table]["items"].get(where["pk"]["S"], {}).get(where["sk"]["S"]))


class _Raw(io.BytesIO):
    """What AWSResponse reads the body from."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        while chunk := self.read(1 << 20):
            yield chunk


def answer(status: int, body: bytes | str, headers: Mapping[str, str] | None = None) -> AWSResponse:
    """A response as botocore parses it."""
    raw = body.encode() if isinstance(body, str) else body
    return AWSResponse("http://emulated", status, dict(headers or {}), _Raw(raw))


class Cloud:
    """Clients of emulated services, and what happens to their calls."""

    def __init__(self) -> None:
        self.clients = Clients(_SESSION)
        self.calls: list[str] = []
        self.heal()

    def heal(self) -> None:
        """Nothing goes wrong from now on."""
        self.before: Callable[[str, Any], AWSResponse | None] = lambda operation, request: None
        self.after: Callable[[str, AWSResponse], AWSResponse | None] = lambda operation, response: None

    def connect(self, service: str) -> Any:
        """The service's client, made at its first use."""
        fresh = service not in self.clients._made
        client = getattr(self.clients, service)()
        if fresh:
            client.meta.events.register(f"before-send.{service.rstrip('_')}", self._send)
        return client

    def _send(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        service, operation = event_name.split(".")[1:]
        self.calls.append(operation)
        response = self.before(operation, request) or _ask(SERVICES[service], request)
        return self.after(operation, response) or response


def _ask(service: Any, request: Any) -> AWSResponse:
    url = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    content = request.body or b""
    body = content.encode() if isinstance(content, str) else content if isinstance(content, bytes) else content.read()
    if headers.get("content-encoding") == "aws-chunked":
        body = _unchunked(body)
    bucket, dot, _ = url.netloc.partition(".s3.")
    path = unquote(f"/{bucket}{url.path}" if dot else url.path)  # a bucket is named by the host or by the path
    query = parse_qs(url.query, keep_blank_values=True)
    coroutine = service.handle_request(request.method, path, headers, body, query)
    with _ONE_AT_A_TIME:
        try:
            coroutine.send(None)
        except StopIteration as done:
            status, found, given = done.value
        else:
            coroutine.close()
            raise AssertionError("the emulator waited")
    return answer(status, given, found)


def _unchunked(body: bytes) -> bytes:
    """What S3 makes of a body that comes in chunks, each behind its size, with a checksum at the end."""
    found, rest = b"", body
    while size := int((parted := rest.partition(b"\r\n"))[0], 16):
        found, rest = found + parted[2][:size], parted[2][size + 2 :]
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def table_of(cloud: Cloud, **options: Any) -> Iterator[Table]:
    """An empty table."""
    client, name = cloud.connect("dynamodb"), f"table-{next(_NUMBERS)}"
    client.create_table(TableName=name, **SHAPE)
    blobs = options.pop("blobs", None) or MemoryBlobs()
    yield Table(name, cloud.clients.dynamodb, blobs, **{"retry": NO_WAIT, **options})
    cloud.heal()
    client.delete_table(TableName=name)


@contextmanager
def dynamo_store(_: Any = None) -> Iterator[DynamoStore]:
    with table_of(Cloud()) as table:
        yield DynamoStore(table)


@contextmanager
def s3_blobs(_: Any = None, cloud: Cloud | None = None) -> Iterator[S3Blobs]:
    cloud, name = cloud or Cloud(), f"bucket-{next(_NUMBERS)}"
    cloud.connect("s3").create_bucket(Bucket=name)
    yield S3Blobs(name, cloud.clients.s3, retry=NO_WAIT)


class _Time:
    """The module `time` as the emulator sees it: its clock is the test's."""

    def __init__(self, real: Any, clock: VirtualClock) -> None:
        self._real, self._clock = real, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def time(self) -> float:
        return self._clock.now_ms() / 1_000


class AwsQueue(SqsQueue):
    """SQS and Scheduler as the engine sees them, with just enough of a receiving side to see what was sent."""

    def __init__(self, cloud: Cloud, urls: Mapping[Lane, str], clock: VirtualClock) -> None:
        places = {lane: QueuePlace(url, _arn(cloud, url)) for lane, url in urls.items()}
        queues = Queues(places[Lane.RESUME], {"default": places[Lane.WORK]})
        super().__init__(queues, cloud.clients.sqs, clock, NO_WAIT)
        cloud.connect("scheduler")
        schedules = Schedules("default", "arn:aws:iam::000000000000:role/timers", queues)
        self.timers = SchedulerTimers(schedules, cloud.clients.scheduler, self, clock, NO_WAIT)
        self.cloud, self.clock, self.urls = cloud, clock, urls
        self.set = self.timers.set

    def receive(self, lanes: Any, now_ms: int, lease_ms: int) -> Delivery | None:
        self.clock.set(now_ms)
        with _ONE_AT_A_TIME:
            scheduler._tick_schedules()
        for lane in lanes:
            found = self.cloud.connect("sqs").receive_message(
                QueueUrl=self.urls[lane], MaxNumberOfMessages=1, VisibilityTimeout=lease_ms // 1_000,
                WaitTimeSeconds=0, MessageSystemAttributeNames=["ApproximateReceiveCount"],
            ).get("Messages", [])  # fmt: skip
            for message in found:
                return _delivery(lane, message)
        return None

    def delete(self, delivery: Delivery) -> None:
        self.cloud.connect("sqs").delete_message(QueueUrl=self.urls[delivery.lane], ReceiptHandle=delivery.receipt)

    def next_due_ms(self, _: Any = None) -> int | None:
        """When a message can be had, or a schedule fires: what only the emulator can tell."""
        messages = (message["visible_at"] for queue in sqs._queues._data.values() for message in queue["messages"])
        schedules = (scheduler._at_time_epoch(one["ScheduleExpression"]) for one in scheduler._schedules._data.values())
        first = min((*messages, *schedules), default=None)
        return None if first is None else round(first * 1_000) + (round(first * 1_000) / 1_000 < first)


def _arn(cloud: Cloud, url: str) -> str:
    answered = cloud.connect("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answered["Attributes"]["QueueArn"])


def _delivery(lane: Lane, message: Mapping[str, Any]) -> Delivery:
    count = int(message["Attributes"]["ApproximateReceiveCount"])
    return Delivery(message["MessageId"], lane, decode(message["Body"]), count, message["ReceiptHandle"])


@contextmanager
def aws_queue(_: Any = None, now_ms: int = 1_700_000_000_000) -> Iterator[AwsQueue]:
    cloud, clock = Cloud(), VirtualClock(now_ms)
    real = {module: module.time for module in (eventbridge, scheduler, sqs)}
    for module, clocked in real.items():
        module.time = _Time(clocked, clock)
    try:
        client = cloud.connect("sqs")
        urls = {lane: client.create_queue(QueueName=f"{lane}-{next(_NUMBERS)}")["QueueUrl"] for lane in Lane}
        yield AwsQueue(cloud, urls, clock)
    finally:
        scheduler.reset()
        sqs.reset()
        for module, clocked in real.items():
            module.time = clocked
