"""AWS as moto has it: a second opinion on what goes over the wire, for one thread.

moto is another reading of the same documentation than the emulator in emulated.py, so a request that both take is
less likely to be wrong. What moto gets wrong it is not asked:

    threads                 it loses updates, lets two writers win one condition, and a transaction that is refused
                            takes back what others wrote meanwhile
    ClientRequestToken      ignored: lost answers are for troubled.py
    schedules               kept, and never fired
    many runs               each call is slow
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import boto3
from moto import mock_aws

from stepwell.aws.clients import Clients
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.store.store import DynamoStore
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.ports import Lane
from tests.contract.emulated import NO_WAIT, AwsQueue, Cloud, table_of
from tests.contract.kit import NOW_MS

_KEYS = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
_CLIENTS = Clients(boto3.Session(region_name="us-east-1", **_KEYS))


class MotoCloud(Cloud):
    """Clients that moto answers while `mock_aws` is in force, one of each for all tests: they take long to make."""

    def __init__(self) -> None:
        super().__init__("boto3")
        self.clients = _CLIENTS

    def connect(self, service: str) -> Any:
        return getattr(self.clients, service)()


@contextmanager
def moto_store(_: Any = None) -> Iterator[DynamoStore]:
    with mock_aws(), table_of(MotoCloud()) as table:
        yield DynamoStore(table)


@contextmanager
def moto_queue(_: Any = None) -> Iterator[AwsQueue]:
    """Its queues know the test's time; its schedules are kept and never fire."""
    clock = VirtualClock(NOW_MS)
    with ExitStack() as stack:
        for name, unit in (("unix_time", 1_000), ("unix_time_millis", 1)):
            now = mock.patch(f"moto.sqs.models.{name}", lambda *_, unit=unit: clock.now_ms() / unit)
            stack.enter_context(now)
        stack.enter_context(mock_aws())
        cloud = MotoCloud()
        client = cloud.connect("sqs")
        yield AwsQueue(cloud, {lane: client.create_queue(QueueName=lane.value)["QueueUrl"] for lane in Lane}, clock)


@contextmanager
def moto_blobs(_: Any = None) -> Iterator[S3Blobs]:
    with mock_aws():
        cloud = MotoCloud()
        cloud.connect("s3").create_bucket(Bucket="blobs")
        yield S3Blobs("blobs", cloud.clients.s3, retry=NO_WAIT)
