"""Pauses: a fact of a run's header, beside the status that it comes to meanwhile."""

from __future__ import annotations

from stepwell.engine.records import Status
from stepwell.runtime.ports import Pause
from stepwell.runtime.ports.headers import Header, RunQuery, StatusChange
from stepwell.runtime.stores.answers import unpaused
from tests.contract.kit import NOW_MS, Store, header, run


def paused(store: Store, run_id: str = "r1") -> Header:
    run(store.create_run(header(run_id)))
    seen = read(store, run_id)
    assert run(store.hold(seen, Pause("ana", "the bank is down"), NOW_MS + 5))
    return read(store, run_id)


def read(store: Store, run_id: str = "r1") -> Header:
    found = run(store.get_run(run_id))
    assert found is not None
    return found


def test_a_paused_run_says_who_paused_it_and_what_it_is_but_for_that(store: Store) -> None:
    found = paused(store)
    assert (found.status, unpaused(found)) == (Status.PAUSED, Status.PENDING)
    assert (found.paused_ms, found.paused_by, found.pause_reason) == (NOW_MS + 5, "ana", "the bank is down")
    page = run(store.list_runs(RunQuery(statuses=frozenset({Status.PAUSED}))))
    assert [one.run_id for one in page.headers] == ["r1"]


def test_a_run_that_goes_on_has_the_status_that_it_came_to_meanwhile(store: Store) -> None:
    seen = paused(store)
    assert run(store.change_status(StatusChange("r1", 4, Status.WAITING, NOW_MS + 6, waiting_for="approval")))
    found = read(store)
    assert (found.status, unpaused(found), found.waiting_for) == (Status.PAUSED, Status.WAITING, "approval")
    assert not run(store.hold(seen, None, NOW_MS + 7))  # it has changed since
    assert run(store.hold(found, None, NOW_MS + 7))
    found = read(store)
    assert (found.status, found.resumes_as, found.paused_ms) == (Status.WAITING, "", 0)
    assert found.due_ms == (NOW_MS + 7) // 60_000 * 60_000


def test_the_end_of_an_earlier_pause_does_not_end_a_later_one(store: Store) -> None:
    """Who waits long for its answer may write when the run has gone on, and was paused again."""
    earlier = paused(store)
    assert run(store.hold(earlier, None, NOW_MS + 6))
    assert run(store.hold(read(store), Pause("leo", ""), NOW_MS + 7))
    assert not run(store.hold(earlier, None, NOW_MS + 8))
    assert read(store).paused_by == "leo"


def test_an_older_change_undoes_no_newer_one_of_a_paused_run(store: Store) -> None:
    paused(store)
    assert run(store.change_status(StatusChange("r1", 4, Status.WAITING, NOW_MS + 6)))
    assert not run(store.change_status(StatusChange("r1", 3, Status.RUNNING, NOW_MS + 7)))
    assert not run(store.change_status(StatusChange("r1", 4, Status.RUNNING, NOW_MS + 7)))
    assert run(store.change_status(StatusChange("r1", 4, Status.RUNNING, NOW_MS + 8, of_branch=True)))
    assert unpaused(read(store)) is Status.RUNNING


def test_a_run_that_is_paused_before_it_begins_is_not_shown_as_begun(store: Store) -> None:
    seen = paused(store)
    begins = StatusChange("r1", 4, Status.RUNNING, NOW_MS + 6, started_ms=NOW_MS + 6, unless_paused=True)
    assert not run(store.change_status(begins))
    assert read(store) == seen
    assert run(store.hold(seen, None, NOW_MS + 7))
    assert run(store.change_status(begins))
    assert (read(store).status, read(store).started_ms) == (Status.RUNNING, NOW_MS + 6)


def test_what_ends_a_pause_is_shown_of_a_paused_run(store: Store) -> None:
    """A cancelled run that cleans up, and has not begun."""
    paused(store)
    begins = StatusChange("r1", 4, Status.RUNNING, NOW_MS + 6, unless_paused=True, ends_pause=True)
    assert run(store.change_status(begins))
    assert (read(store).status, read(store).paused_ms) == (Status.RUNNING, 0)


def test_the_end_of_a_run_ends_its_pause(store: Store) -> None:
    paused(store)
    assert run(store.change_status(StatusChange("r1", 4, Status.CANCELLED, NOW_MS + 6, ends_pause=True)))
    found = read(store)
    assert (found.status, found.resumes_as, found.paused_ms) == (Status.CANCELLED, "", 0)


def test_a_run_is_paused_by_the_one_who_saw_it_as_it_is(store: Store) -> None:
    run(store.create_run(header("r1")))
    seen = read(store)
    assert run(store.hold(seen, Pause("ana", ""), NOW_MS + 5))
    assert not run(store.hold(seen, Pause("leo", ""), NOW_MS + 6))
    assert read(store).paused_by == "ana"
    assert not run(store.hold(header("nobody"), Pause("leo", ""), NOW_MS + 6))
