"""AWS in this process: clients whose requests never reach a network but a handler of ministack.

DynamoDB and SQS are called by the thin client, or by boto3 where `CLIENT` says so; everything else by boto3.

A client is for one test, so that a test may break its calls: `before` may answer or raise in place of the service,
`after` may replace an answer that the service has given.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectTimeoutError, HTTPClientError
from ministack.services import dynamodb, eventbridge, s3, scheduler, secretsmanager, sns, sqs, ssm

from stepwell.aws.calls import Retry
from stepwell.aws.clients import Clients
from stepwell.aws.emulation.server import keep_expressions
from stepwell.aws.failures import NoAnswer, NotSent
from stepwell.aws.protocols import Item
from stepwell.aws.queues import Queues
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.scheduler_timers import SchedulerTimers, Schedules
from stepwell.aws.sqs_queue import SqsQueue
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import SHAPE, Table
from stepwell.aws.thin.opening import Thin
from stepwell.aws.thin.signer import Key
from stepwell.aws.thin.wire import Place, Reply
from stepwell.engine.names import iso
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.ports import Lane
from stepwell.runtime.stores.jsontext import decode
from stepwell.settings import QueuePlace, read_aws

SERVICES = {
    "dynamodb": dynamodb,
    "eventbridge": eventbridge,
    "s3": s3,
    "scheduler": scheduler,
    "sns": sns,
    "secrets-manager": secretsmanager,
    "sqs": sqs,
    "ssm": ssm,
}
_NAMES = {"events": "eventbridge", "secretsmanager": "secrets-manager"}  # boto3's events have others than endpoints
NO_WAIT = Retry(attempts=200, sleep=lambda _: None)  # many tries: 64 threads on one item
_ONE_AT_A_TIME = threading.RLock()  # as its server's event loop has them: an UpdateItem is not atomic among threads
_NUMBERS = itertools.count(1)
_CONFLICT = 409
CLIENT = "thin"  # what a Cloud calls DynamoDB and SQS with, unless it is told; tests of both change it
_AWS = read_aws({"AWS_DEFAULT_REGION": "us-east-1"})
_KEY = Key("1" * 12, "none")


class _Session:
    """A session of boto3 that reads what a client needs once: 30 ms of it, and each test has clients of its own."""

    def __init__(self) -> None:
        self._real = boto3.Session(aws_access_key_id="1" * 12, aws_secret_access_key="none", region_name="us-east-1")
        self._made: dict[str, Any] = {}

    def client(self, service: str, config: Any, endpoint_url: str | None) -> Any:
        """A client whose calls have hooks of its own."""
        key = f"{service} {config.read_timeout} {endpoint_url}"
        if key not in self._made:
            self._made[key] = self._real.client(service, config=config, endpoint_url=endpoint_url)
        made = self._made[key]
        client = object.__new__(type(made))
        vars(client).update(vars(made), meta=copy(made.meta), _endpoint=copy(made._endpoint))
        client.meta.events = client._endpoint._event_emitter = copy(made.meta.events)
        return client


_SESSION = _Session()
keep_expressions()  # as the emulator's process does


def partitions_of(table: str) -> dict[str, dict[str, Item]]:
    """The items of an emulated table by their keys, to be changed past every client."""
    partitions: dict[str, dict[str, Item]] = dynamodb._tables[table]["items"]
    return partitions


def items_of(table: str) -> list[Item]:
    """All items of an emulated table, as they are: nobody asked for them, and nobody pays."""
    return [item for items in partitions_of(table).values() for item in items.values()]


def item_of(table: str, where: Item) -> Item | None:
    """A copy of one of them."""
    return deepcopy(partitions_of(table).get(where["pk"]["S"], {}).get(where["sk"]["S"]))


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

    def __init__(self, client: str = "") -> None:
        is_thin = (client or CLIENT) == "thin"
        thin = Thin(_AWS, lambda: _KEY, lambda place: _EmulatedWire(self, place)) if is_thin else None
        self.clients = Clients(_SESSION, thin)
        self._admin = Clients(_SESSION) if thin else self.clients
        self.calls: list[str] = []
        self.heard: Callable[[str, str, Any], None] = lambda service, operation, request: None  # of the thin client
        self.heal()

    def heal(self) -> None:
        """Nothing goes wrong from now on."""
        self.before: Callable[[str, Any], AWSResponse | None] = lambda operation, request: None
        self.after: Callable[[str, AWSResponse], AWSResponse | None] = lambda operation, response: None

    def connect(self, service: str) -> Any:
        """The service's client, made at its first use. It makes and deletes tables and queues too."""
        fresh = service not in self._admin._made
        admin = getattr(self._admin, service)()
        if fresh:
            admin.meta.events.register(f"before-send.{service.rstrip('_')}", self._send)
        if self._admin is self.clients:
            return admin
        if service in ("lambda_", "logs", "s3", "scheduler"):  # boto3's in any case
            self.clients._made[service.rstrip("_")] = admin
            return admin
        return _Both(getattr(self.clients, service)(), admin)

    def service(self, name: str) -> Any:
        """boto3's client of any emulated service, as steps call one."""
        fresh = f"{name} for steps" not in self.clients._made
        client = self.clients.service(name)
        if fresh:
            client.meta.events.register("before-send", self._send)
        return client

    def _send(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        service, operation = event_name.split(".")[1:]
        return self.answered(service, operation, request)

    def answered(self, service: str, operation: str, request: Any) -> AWSResponse:
        """What the service says, or the test in its place."""
        self.calls.append(operation)
        response = self.before(operation, request) or _ask(SERVICES[_NAMES.get(service, service)], request)
        if operation == "CreateSchedule" and response.status_code == _CONFLICT:
            self.calls[-1] += " that is there"  # which costs nothing
        return self.after(operation, response) or response


class _Both:
    """The thin client, and boto3's for all that it has not."""

    def __init__(self, thin: Any, admin: Any) -> None:
        self._thin, self._admin = thin, admin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thin if hasattr(self._thin, name) else self._admin, name)


class _EmulatedWire:
    """The bytes of the thin client's requests, as boto3 shows its own to tests."""

    def __init__(self, cloud: Cloud, place: Place) -> None:
        self._cloud, self.place = cloud, place
        self._service = place.host.partition(".")[0]

    def send(self, request: bytes) -> Reply:
        head, _, body = request.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        sent = SimpleNamespace(method="POST", url=f"https://{headers['host']}/", headers=headers, body=body)
        operation = headers["x-amz-target"].partition(".")[2]
        self._cloud.heard(self._service, operation, json.loads(body))
        try:
            found = self._cloud.answered(self._service, operation, sent)
        except ConnectTimeoutError as error:
            raise NotSent(str(error)) from error
        except HTTPClientError as error:
            raise NoAnswer(str(error)) from error
        return Reply(
            found.status_code, {name.lower(): _text(one) for name, one in found.headers.items()}, found.content
        )


def _ask(service: Any, request: Any) -> AWSResponse:
    url = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    content = request.body or b""
    body = content.encode() if isinstance(content, str) else content if isinstance(content, bytes) else content.read()
    if headers.get("content-encoding") == "aws-chunked":
        body = _unchunked(body)
    body = re.sub(rb'("WaitTimeSeconds": ?)\d+', rb"\g<1>0", body)  # in one process nothing comes meanwhile
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
def dynamo_store(_: Any = None, client: str = "", **options: Any) -> Iterator[DynamoStore]:
    with table_of(Cloud(client), **options) as table:
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

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
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

    def extend(self, delivery: Delivery, now_ms: int, lease_ms: int) -> bool:
        self.cloud.connect("sqs").change_message_visibility(
            QueueUrl=self.urls[delivery.lane], ReceiptHandle=delivery.receipt, VisibilityTimeout=lease_ms // 1_000
        )
        return True

    def release(self, delivery: Delivery, at_ms: int) -> None:
        self.extend(delivery, self.clock.now_ms(), at_ms - self.clock.now_ms())

    def forgive(self, delivery: Delivery) -> None:
        raise NotImplementedError("SQS counts each delivery")

    def pending(self) -> int:
        return sum(len(queue["messages"]) for queue in sqs._queues._data.values())

    def reclaim(self) -> int:
        raise NotImplementedError("no lease of SQS can be taken away from who holds it")

    def purge(self, now_ms: int) -> int:
        raise NotImplementedError("the Scheduler deletes what has fired")

    def next_due_ms(self, lanes: Collection[Lane] = ALL_LANES) -> int | None:
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
def aws_queue(_: Any = None, now_ms: int = 1_700_000_000_000, client: str = "") -> Iterator[AwsQueue]:
    cloud, clock = Cloud(client), VirtualClock(now_ms)
    real = {module: module.time for module in (eventbridge, scheduler, sqs)}
    for module, clocked in real.items():
        module.time = _Time(clocked, clock)
    s3_now, s3.now_iso = s3.now_iso, lambda: iso(clock.now_ms())
    try:
        made = cloud.connect("sqs")
        urls = {lane: made.create_queue(QueueName=f"{lane}-{next(_NUMBERS)}")["QueueUrl"] for lane in Lane}
        yield AwsQueue(cloud, urls, clock)
    finally:
        scheduler.reset()
        sqs.reset()
        s3.now_iso = s3_now
        for module, clocked in real.items():
            module.time = clocked
