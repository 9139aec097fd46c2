"""The fixture `stepwell` over SQLite and over the emulated AWS: what passes in memory passes there too, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from stepwell.local.blobs import FolderBlobs
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.ports import Ports
from stepwell.testing.backend import START_MS, Backend
from stepwell.testing.kit import Stepwell
from tests.aws.ledger_kit import metered


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Backend]:
    clock, database = VirtualClock(START_MS), Database(folder / "stepwell.db")
    queue = SqliteQueue(database, clock)
    store = SqliteStore(database)
    yield Backend(
        Ports(store, store, store, store, store, store, queue, queue, FolderBlobs(folder / "blobs"), clock),
        queue,
        clock,
    )
    database.close()


@contextmanager
def on_aws(_: Path) -> Iterator[Backend]:
    """DynamoDB, SQS, EventBridge Scheduler and S3, emulated in this process."""
    with metered() as world:
        yield world.backend


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[Backend]]] = {"sqlite": on_sqlite, "aws": on_aws}
_TOLERATED = 0.06  # of the write units; of a small run, these units: events that no run took, and what is done twice
_TOLERATED_UNITS = 5
_NOT_COMPARED = {
    "test_all_that_github_tells_of_one_release_is_one_run",  # asks for the same start four times
    "test_waits_go_on_and_what_they_got_is_kept",  # its run's end ended a wait
    "test_a_fork_of_a_run_amid_its_tasks_begins_what_was_under_way_and_disturbs_nothing",  # two waits for one event
    "test_a_refusal_and_a_tool_that_fails_are_for_the_model_to_read",  # eight pieces of live output, in no record
}


@pytest.fixture(params=BACKENDS)
def stepwell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stepwell]:
    """Over the workflow folder that the test's module names as FOLDER.

    On AWS, the ledgers of the test's runs are compared with what AWS was called for.
    """
    folder = getattr(request.module, "FOLDER", Path(__file__).parent)
    if request.param == "sqlite":
        with on_sqlite(tmp_path_factory.mktemp("data")) as backend:
            yield Stepwell(folder, backend)
        return
    with metered() as world:
        kit = Stepwell(folder, world.backend)
        yield kit
        kit.settle()
        ledger, counted = world.ledger(kit), world.counted()
        tolerated = max(_TOLERATED_UNITS, _TOLERATED * counted["write_units"])
        is_near = abs(ledger["write_units"] - counted["write_units"]) <= tolerated
        assert is_near or request.node.originalname in _NOT_COMPARED, f"ledger {ledger}, counted {counted}"
