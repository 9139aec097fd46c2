"""The fixture `stepwell` over SQLite and over the emulated AWS: what passes in memory passes there too, unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell.local.blobs import FolderBlobs
from stepwell.local.clocks import VirtualClock
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.ports import Ports
from stepwell.testing.kit import START_MS, Backend, Stepwell
from tests.aws.ledger_kit import metered


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Backend]:
    clock, database = VirtualClock(START_MS), Database(folder / "stepwell.db")
    queue = SqliteQueue(database, clock)
    store = SqliteStore(database)
    yield Backend(
        Ports(store, store, store, store, store, queue, queue, FolderBlobs(folder / "blobs"), clock), queue, clock
    )
    database.close()


_TOLERATED = 0.06  # of the write units; of a small run, these units: events that no run took, and what is done twice
_TOLERATED_UNITS = 5
_REPEATS = "test_all_that_github_tells_of_one_release_is_one_run"  # asks for the same start four times


@pytest.fixture(params=["sqlite", "aws"])
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
        assert is_near or request.node.originalname == _REPEATS, f"ledger {ledger}, counted {counted}"
