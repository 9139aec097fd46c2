"""The engine over emulated AWS: DynamoDB with a meter, SQS, Scheduler and S3, under one virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.definition.expressions import compile_expression
from stepwell.runtime.assembly import assemble
from stepwell.testing.backend import ports_of
from tests.aws.meter import Meter
from tests.contract.emulated import NO_WAIT, AwsQueue, Cloud, aws_queue, item_of, s3_blobs, table_of
from tests.runtime.kit import CountingStore, World


class AwsWorld(World):
    """One Stepwell whose ports are those on AWS."""

    queue: AwsQueue  # type: ignore[assignment]  # a queue of another kind
    blobs: S3Blobs  # type: ignore[assignment]  # the same

    def __init__(
        self, cloud: Cloud, table: Table, queue: AwsQueue, blobs: S3Blobs, *definitions: str, **options: Any
    ) -> None:
        """`options` are those of `assemble`; `steps`: others than those that the test names one by one."""
        super().__init__(*definitions)
        self.steps = options.pop("steps", self.steps)
        self.cloud, self.table, self.blobs = cloud, table, blobs
        self.meter = Meter(cloud.connect("dynamodb"), item_of)
        metered = Table(table.name, lambda: self.meter, blobs, retry=NO_WAIT, now_ms=queue.clock.now_ms)
        self.clock, self.queue = queue.clock, queue
        self.sent = queue.cloud.calls
        self.stored: list[str] = []  # requests to S3
        self.store = CountingStore(DynamoStore(metered))
        numbers = count(1)
        self.parts = assemble(
            ports_of(self.store, queue, self.clock, blobs=blobs, timers=queue.timers),
            self.catalog,
            self.steps,
            compile_expression=compile_expression,
            new_id=lambda: f"{next(numbers):026d}",  # as long as a real one
            jitter=lambda: 0.5,
            **options,
        )
        self.service, self.sweeper = self.parts.service, self.parts.sweeper


@contextmanager
def aws_world(*definitions: str, **options: Any) -> Iterator[AwsWorld]:
    cloud, objects = Cloud(), Cloud()
    with table_of(cloud) as table, aws_queue() as queue, s3_blobs(cloud=objects) as blobs:
        world = AwsWorld(cloud, table, queue, blobs, *definitions, **options)
        world.stored = objects.calls
        yield world


def values_of(item: Any) -> dict[str, Any]:
    """An item without its types."""
    return {name: next(iter(value.values())) for name, value in item.items()}
