"""The fixture `stepwell` over SQLite and over the emulated AWS: what passes in memory passes there too, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from stepwell.aws.dynamodb_store import DynamoStore
from stepwell.local.blobs import FolderBlobs
from stepwell.local.clocks import VirtualClock
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.ports import Ports
from stepwell.testing.kit import START_MS, Backend, Stepwell
from tests.contract.emulated import Cloud, aws_queue, s3_blobs, table_of


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Backend]:
    clock, database = VirtualClock(START_MS), Database(folder / "stepwell.db")
    queue = SqliteQueue(database, clock)
    store = SqliteStore(database)
    yield Backend(
        Ports(store, store, store, store, store, queue, queue, FolderBlobs(folder / "blobs"), clock), queue, clock
    )
    database.close()


@contextmanager
def on_aws(_: Path) -> Iterator[Backend]:
    """DynamoDB, SQS, EventBridge Scheduler and S3, emulated in this process."""
    with table_of(Cloud()) as table, aws_queue(now_ms=START_MS) as queue, s3_blobs() as blobs:
        store = DynamoStore(table)
        yield Backend(
            Ports(store, store, store, store, store, queue, queue.timers, blobs, queue.clock), queue, queue.clock
        )


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[Backend]]] = {"sqlite": on_sqlite, "aws": on_aws}


@pytest.fixture(params=BACKENDS)
def stepwell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stepwell]:
    """Over the workflow folder that the test's module names as FOLDER."""
    with BACKENDS[request.param](tmp_path_factory.mktemp("data")) as backend:
        yield Stepwell(getattr(request.module, "FOLDER", Path(__file__).parent), backend)
