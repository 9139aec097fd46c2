"""The runs that the sweeper watches, by when something is expected of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.records import Status
from stepwell.errors import InvalidInput
from stepwell.runtime.ports.headers import Header, RunQuery, StatusChange
from tests.contract.kit import NOW_MS, Store, header, run


def made(store: Store, run_id: str = "r1", due_ms: int | None = None, *, watched: bool = True) -> Header:
    run(store.create_run(header(run_id, input={"n": 1})))
    if watched:
        assert run(store.watch(run_id, due_ms))
    return read(store, run_id)


def read(store: Store, run_id: str = "r1") -> Header:
    found = run(store.get_run(run_id))
    assert found is not None
    return found


def due(store: Store, before_ms: int = NOW_MS, limit: int = 100) -> list[str]:
    return [one.run_id for one in run(store.list_due(before_ms, limit)).headers]


def change(rev: int, due_ms: int | None, status: Status = Status.RUNNING) -> StatusChange:
    return StatusChange("r1", rev, status, NOW_MS, due_ms=due_ms)


def test_a_run_that_nobody_watches_is_in_no_list_of_due_runs(store: Store) -> None:
    made(store, watched=False)
    run(store.change_status(change(1, NOW_MS - 1)))
    assert (read(store).due_ms, read(store).watched) == (NOW_MS - 1, False)
    assert due(store) == []


def test_a_run_that_is_watched_from_then_on_is_due_when_its_status_says(store: Store) -> None:
    made(store)
    assert due(store) == []
    run(store.change_status(change(1, NOW_MS - 1)))
    assert due(store) == ["r1"]
    run(store.change_status(change(2, NOW_MS + 5, Status.WAITING)))
    assert due(store) == []
    assert due(store, NOW_MS + 6) == ["r1"]
    run(store.change_status(change(3, None, Status.WAITING)))
    assert due(store, NOW_MS * 2) == []
    assert read(store).watched


def test_a_list_of_due_runs_begins_with_the_longest_overdue_and_ends_before_its_time(store: Store) -> None:
    for number in (3, 1, 2, 0):
        made(store, f"r{number}", NOW_MS - 10 * number)
    made(store, "other", None)
    assert due(store) == ["r3", "r2", "r1"]
    assert due(store, NOW_MS + 1) == ["r3", "r2", "r1", "r0"]
    assert due(store, 0) == due(store, -5) == []


def test_a_list_of_due_runs_comes_in_pages_and_has_whole_headers(store: Store) -> None:
    headers = [made(store, f"r{number}", NOW_MS - number // 2) for number in range(7)]
    found: list[Header] = []
    cursor = ""
    while True:
        page = run(store.list_due(NOW_MS + 1, 3, cursor))
        found.extend(page.headers)
        if not (cursor := page.next_cursor):
            break
        assert len(page.headers) == 3
    assert found == sorted(headers, key=lambda one: (one.due_ms or 0, one.run_id))


def test_a_page_that_the_due_runs_fill_exactly_is_the_last(store: Store) -> None:
    for number in range(3):
        made(store, f"r{number}", NOW_MS - 1)
    assert run(store.list_due(NOW_MS, 3)).next_cursor == ""
    with pytest.raises(InvalidInput):
        run(store.list_due(NOW_MS, 3, "nonsense"))


def test_a_watch_is_refused_when_the_run_has_changed_since_it_was_seen(store: Store) -> None:
    """Else the sweeper would undo what a caller says of the run while it looks."""
    seen = made(store, due_ms=NOW_MS)
    assert not run(store.watch("r1", 5, replace(seen, rev=seen.rev - 1)))
    assert not run(store.watch("r1", 5, replace(seen, due_ms=None)))
    assert not run(store.watch("r1", 5, replace(seen, due_ms=NOW_MS + 1)))
    assert read(store) == seen
    assert run(store.watch("r1", None, seen))
    assert not run(store.watch("r1", 5, seen))
    assert run(store.watch("r1", 5, replace(seen, due_ms=None)))
    assert read(store).due_ms == 5


def test_a_run_that_is_not_there_cannot_be_watched(store: Store) -> None:
    assert not run(store.watch("gone", 5))
    assert not run(store.watch("gone", 5, header("gone")))
    assert run(store.get_run("gone")) is None


def test_what_is_due_changes_no_other_list(store: Store) -> None:
    made(store, due_ms=NOW_MS)
    assert [one.run_id for one in run(store.list_runs(RunQuery(statuses=frozenset({Status.PENDING})))).headers] == [
        "r1"
    ]
    assert run(store.list_runs(RunQuery(overdue_at_ms=NOW_MS * 2))).headers == ()
