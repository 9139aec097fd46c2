"""The fixture `stepwell` over SQLite and over the emulated AWS: what passes in memory passes there too, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from stepwell.local.blobs import FolderBlobs
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.clocks import VirtualClock
from stepwell.testing.backend import START_MS, Backend, ports_of
from stepwell.testing.kit import Stepwell
from tests.aws.ledger_kit import metered

# A day of polls: the emulator slows down as its table grows.
_SLOW = "test_it_asks_every_quarter_of_an_hour_at_most_and_gives_up_after_a_day[aws]"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that use no backend: each runs where it is written."""
    here = Path(__file__).parent
    for item in items:
        if item.name == _SLOW:
            item.add_marker(pytest.mark.slow)
    written = [item for item in items if item.path.is_relative_to(here) and "stepwell" not in _fixtures(item)]
    config.hook.pytest_deselected(items=written)
    items[:] = [item for item in items if item not in written]


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Backend]:
    clock, database = VirtualClock(START_MS), Database(folder / "stepwell.db")
    queue = SqliteQueue(database, clock)
    ports = ports_of(SqliteStore(database), queue, clock, blobs=FolderBlobs(folder / "blobs"))
    yield Backend(ports, queue, clock)
    database.close()


@contextmanager
def on_aws(_: Path) -> Iterator[Backend]:
    """DynamoDB, SQS, EventBridge Scheduler and S3, emulated in this process."""
    with metered() as world:
        yield world.backend


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[Backend]]] = {"sqlite": on_sqlite, "aws": on_aws}
_ESTIMATED = 0.01  # of a fork that is too wide to be read, its first page stands for the others
_ONE_MS = "of what happens within one millisecond of virtual time, no record says what came first"
_TWICE = "it was done twice: for a caller who asked again, or by whoever went on after a cancel"
_NESTED = "the run is shown waiting for branches of forks in forks, beside which others wait"
# Write units that a ledger lacks or has too many, and why no record tells it.
_OFF: Mapping[str, tuple[int, str]] = {
    "test_a_thousand_documents_are_read_and_summed_up_though_ten_are_smudges": (-5, _ONE_MS),
    "test_of_a_thousand_each_is_made_but_for_those_that_cannot_be_read": (-10, _ONE_MS),
    "test_each_contract_is_filed_in_a_run_of_its_own": (2, _ONE_MS),
    "test_a_contract_that_cannot_be_filed_is_a_document_that_failed": (2, _ONE_MS),
    "test_the_branches_that_nobody_waits_for_run_to_their_ends_and_change_nothing": (2, _ONE_MS),
    "test_a_critical_section_is_entered_by_one_thread_at_a_time": (-2, _ONE_MS),
    "test_cancelled_instances_end_and_the_thread_goes_on": (-1, _NESTED),
    "test_interleaved_tasks_are_done_one_at_a_time_after_those_before_them": (-1, _TWICE),
    "test_a_cancelled_order_takes_no_payment_and_ships_nothing": (-3, _TWICE),
    "test_a_cancel_of_the_run_cancels_its_children_which_withdraw": (-6, _TWICE),
    "test_the_screening_of_a_cancelled_order_is_cancelled": (-1, _TWICE),
    "test_all_that_github_tells_of_one_release_is_one_run": (-27, _TWICE),
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
        off, why = _OFF.get(request.node.originalname, (0, ""))
        units = ledger["write_units"] - counted["write_units"]
        estimated = 0 if world.is_whole(kit) else round(_ESTIMATED * counted["write_units"])
        told = f"ledger {ledger}, counted {counted}; {why}"
        assert min(off, 0) - estimated <= units <= max(off, 0) + estimated, told
        assert ledger["schedules"] == counted["schedules"] or why == _TWICE, told
