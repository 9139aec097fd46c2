"""What the contract suite runs over: the adapters of each port, and small makers of values.

An adapter joins the suite by one line in STORES, QUEUES or BLOBS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from stepwell.engine.records import Topic
from stepwell.local.blobs import FolderBlobs
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Inbox
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.ports import Blobs, Erasure, Event, Log, Mailbox, Notes, Queue, Runs, Slots, Timers, Waiter
from stepwell.runtime.ports.headers import Header

T = TypeVar("T")
NOW_MS = 1_700_000_000_000
ORDER = Topic("order", "42")


class LocalQueue(Queue, Timers, Inbox, Protocol):
    """A queue whose messages the test can receive."""


class Store(Log, Mailbox, Runs, Notes, Slots, Erasure, Protocol):
    """An adapter of all six."""


class LocalStore(Store, Protocol):
    """A store that drops old data when told to; on AWS, DynamoDB does that by itself."""

    def purge(self, now_ms: int) -> int: ...


@dataclass(frozen=True)
class Adapter(Generic[T]):
    """One way to open a port on an empty folder. `threads`: may be called from many at once.

    `lacks` names what only some adapters have, as tests ask for it with `@pytest.mark.needs(...)`:

    - "inbox": the whole receiving side (leases, order, counts), which on AWS is Lambda's event source mapping
    - "exact": timers come at their very millisecond, and their names are kept after they fired; on AWS the Scheduler
      fires early, the receiver looks again, and a fired schedule is gone with its name
    - "fires": schedules fire; moto keeps them and no more
    - "types": values of two types are never equal, nor one more than the other; moto compares them as Python does
    - "outlives": what is stored is read by later processes, of other versions too
    - "speed": a thousand runs take seconds, not minutes
    """

    name: str
    open: Callable[[Path], AbstractContextManager[T]]
    threads: bool = False
    lacks: frozenset[str] = frozenset()


@contextmanager
def sqlite_store(folder: Path) -> Iterator[SqliteStore]:
    """NORMAL: what these tests can see is the same as with FULL, and they do not wait for the disk."""
    database = Database(folder / "stepwell.db", "NORMAL")
    yield SqliteStore(database)
    database.close()


@contextmanager
def sqlite_queue(folder: Path) -> Iterator[SqliteQueue]:
    database = Database(folder / "stepwell.db", "NORMAL")
    yield SqliteQueue(database, VirtualClock(NOW_MS))
    database.close()


@contextmanager
def memory_store(_: Path) -> Iterator[MemoryStore]:
    yield MemoryStore()


@contextmanager
def memory_queue(_: Path) -> Iterator[MemoryQueue]:
    yield MemoryQueue(VirtualClock(NOW_MS))


@contextmanager
def folder_blobs(folder: Path) -> Iterator[FolderBlobs]:
    yield FolderBlobs(folder / "blobs")


@contextmanager
def memory_blobs(_: Path) -> Iterator[MemoryBlobs]:
    yield MemoryBlobs()


def late(module: str, name: str, **options: str | bool) -> Callable[[Path], AbstractContextManager[Any]]:
    """An adapter of another module, imported when it is opened: the processes that tests start do not need AWS."""

    def opened(folder: Path) -> AbstractContextManager[Any]:
        adapter: AbstractContextManager[Any] = getattr(import_module(f"tests.contract.{module}"), name)(
            folder, **options
        )
        return adapter

    return opened


LOCAL_STORES: list[Adapter[LocalStore]] = [
    Adapter("memory", memory_store, lacks=frozenset({"outlives"})),
    Adapter("sqlite", sqlite_store, threads=True),
]
STORES: list[Adapter[Store]] = [
    *LOCAL_STORES,  # type: ignore[list-item]  # Adapter is invariant; it is only read
    Adapter("dynamodb", late("emulated", "dynamo_store", client="thin"), threads=True),
    Adapter(
        "dynamodb by boto3, compressed", late("emulated", "dynamo_store", client="boto3", compresses=True), threads=True
    ),
    Adapter("dynamodb on a bad day", late("troubled", "troubled_store", client="thin"), lacks=frozenset({"speed"})),
    Adapter(
        "dynamodb by boto3 on a bad day",
        late("troubled", "troubled_store", client="boto3"),
        lacks=frozenset({"speed"}),
    ),
    Adapter("dynamodb on moto", late("on_moto", "moto_store"), lacks=frozenset({"speed", "types"})),
]
QUEUES: list[Adapter[LocalQueue]] = [
    Adapter("memory", memory_queue),
    Adapter("sqlite", sqlite_queue, threads=True),
    Adapter(
        "sqs and scheduler",
        late("emulated", "aws_queue", client="thin"),
        threads=True,
        lacks=frozenset({"inbox", "exact"}),
    ),
    Adapter(
        "sqs by boto3 and scheduler",
        late("emulated", "aws_queue", client="boto3"),
        threads=True,
        lacks=frozenset({"inbox", "exact"}),
    ),
    Adapter("sqs and scheduler on moto", late("on_moto", "moto_queue"), lacks=frozenset({"inbox", "exact", "fires"})),
]
BLOBS: list[Adapter[Blobs]] = [
    Adapter("memory", memory_blobs),
    Adapter("folder", folder_blobs, threads=True),
    Adapter("s3", late("emulated", "s3_blobs"), threads=True),
    Adapter("s3 on moto", late("on_moto", "moto_blobs")),
]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a local adapter suspended")


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """What `call(0)` … `call(count - 1)` return, each from a thread of its own, all let go at the same moment."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def one(number: int) -> None:
        gate.wait()
        try:
            results[number] = call(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(count)]


def other_process(script: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """A Python process that can import what this one can, with pipes to talk to it."""
    places = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    return subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def header(run_id: str = "r1", **changes: Any) -> Header:
    return Header(
        **{"run_id": run_id, "workflow": "w", "version": "v1", "input": None, "created_ms": NOW_MS, **changes}
    )


def event(event_id: str = "e1", at_ms: int = NOW_MS, **changes: Any) -> Event:
    values = {"topic": ORDER, "payload": {"n": 1}, "expires_ms": at_ms + 1_000, **changes}
    return Event(id=event_id, at_ms=at_ms, **values)


def waiter(run_id: str = "r1", since_ms: int = NOW_MS, at: str = "0", **changes: Any) -> Waiter:
    return Waiter(**{"topic": ORDER, "run_id": run_id, "token": at, "slot": 3, "since_ms": since_ms, **changes})
