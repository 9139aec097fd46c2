"""Run headers: made once, changed forward only, listed by pages."""

from __future__ import annotations

import base64
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest

from stepwell.engine.records import Status
from stepwell.errors import InvalidInput, NewerFormat
from stepwell.runtime.ports.headers import Header, RunQuery, StatusChange
from tests.contract.kit import NOW_MS, Store, at_once, header, run

FULL = header(
    "full",
    input={"größe": [1, 2.5, None, True, "🧀"]},
    status=Status.IDLE,
    rev=-1,
    fingerprint="f",
    started_ms=1,
    ended_ms=2,
    start_at_ms=3,
    idle=True,
    priority=-5,
    tags={"team": "ä", "env": "prod"},
    parent="other",
    waiting_for="approval",
    waiting_node="n",
    waiting_since_ms=6,
    waiting_until_ms=7,
    changed_ms=8,
    expires_ms=9,
)


def change(rev: int, status: Status = Status.RUNNING, run_id: str = "r1", **changes: Any) -> StatusChange:
    return StatusChange(run_id=run_id, rev=rev, status=status, changed_ms=NOW_MS + rev, **changes)


def pages(store: Store, query: RunQuery) -> list[list[Header]]:
    """All pages of a list, the last one perhaps empty."""
    found = []
    while True:
        page = run(store.list_runs(query))
        found.append(list(page.headers))
        if not page.next_cursor:
            return found
        query = replace(query, cursor=page.next_cursor)


def ids(store: Store, **narrow: Any) -> list[str]:
    return [found.run_id for page in pages(store, RunQuery(**narrow)) for found in page]


def test_a_header_comes_back_with_every_field(store: Store) -> None:
    assert run(store.get_run("full")) is None
    assert run(store.create_run(FULL)) is None
    assert run(store.get_run("full")) == FULL
    assert run(store.list_runs(RunQuery())).headers == (FULL,)


def test_a_run_is_created_once_and_a_second_call_gets_the_first_header(store: Store) -> None:
    assert run(store.create_run(header(fingerprint="a", input=[1]))) is None
    assert run(store.create_run(header(fingerprint="b", tags={"x": "y"}))) == header(fingerprint="a", input=[1])
    assert ids(store, tag=("x", "y")) == []


def test_a_second_creation_gets_the_header_as_it_is_now(store: Store) -> None:
    run(store.create_run(header()))
    run(store.change_status(change(4, Status.COMPLETED)))
    again = run(store.create_run(header()))
    assert again is not None
    assert (again.status, again.rev) == (Status.COMPLETED, 4)


@pytest.mark.threads
def test_of_64_threads_that_create_a_run_exactly_one_does(store: Store) -> None:
    answers = at_once(64, lambda number: run(store.create_run(header(fingerprint=f"{number}"))))
    winner = [number for number, answer in enumerate(answers) if answer is None]
    assert len(winner) == 1
    assert {answer.fingerprint for answer in answers if answer} == {f"{winner[0]}"}


def test_what_a_caller_does_to_an_input_later_does_not_reach_the_store(store: Store) -> None:
    given = {"items": [1]}
    run(store.create_run(header(input=given)))
    given["items"].append(2)
    read = run(store.get_run("r1"))
    assert read is not None
    read.input["items"].append(3)
    assert run(store.get_run("r1")) == header(input={"items": [1]})


@pytest.mark.parametrize("value", [{"x": object()}, [float("nan")], {1, 2}], ids=["object", "nan", "set"])
def test_an_input_that_is_not_json_is_refused(store: Store, value: Any) -> None:
    with pytest.raises(InvalidInput):
        run(store.create_run(header(input=value)))
    assert run(store.get_run("r1")) is None


def test_a_status_change_replaces_the_fields_it_has_and_keeps_the_others(store: Store) -> None:
    run(store.create_run(FULL))
    assert run(store.change_status(change(0, Status.COMPLETED, "full", ended_ms=50, expires_ms=60)))
    expected = replace(
        FULL,
        rev=0,
        status=Status.COMPLETED,
        changed_ms=NOW_MS,
        ended_ms=50,
        expires_ms=60,
        waiting_for="",
        waiting_node="",
        waiting_since_ms=0,
        waiting_until_ms=None,
    )
    assert run(store.get_run("full")) == expected
    assert run(store.change_status(change(1, Status.WAITING, "full", started_ms=77, waiting_for="event")))
    now = run(store.get_run("full"))
    assert now is not None
    assert (now.started_ms, now.waiting_for, now.ended_ms, now.expires_ms) == (77, "event", 0, 0)


def test_an_older_or_equal_change_never_undoes_a_newer_one(store: Store) -> None:
    run(store.create_run(header()))
    assert run(store.change_status(change(-1)))
    assert run(store.change_status(change(7, Status.COMPLETED)))
    assert not run(store.change_status(change(7, Status.FAILED)))
    assert not run(store.change_status(change(3, Status.WAITING)))
    now = run(store.get_run("r1"))
    assert now is not None
    assert (now.status, now.rev) == (Status.COMPLETED, 7)


def test_a_change_by_a_branch_is_made_at_the_same_rev_too_and_leaves_when_the_run_is_due(store: Store) -> None:
    run(store.create_run(header()))
    assert run(store.change_status(change(6, Status.RUNNING, due_ms=50, started_ms=5)))
    assert run(store.change_status(change(6, Status.WAITING, waiting_for="approval", of_branch=True)))
    assert run(store.change_status(change(8, Status.RUNNING, of_branch=True)))
    assert not run(store.change_status(change(7, Status.WAITING, of_branch=True)))
    now = run(store.get_run("r1"))
    assert now is not None
    assert (now.status, now.rev, now.waiting_for, now.due_ms, now.started_ms) == (Status.RUNNING, 8, "", 50, 5)


def test_a_change_of_an_unknown_run_changes_nothing(store: Store) -> None:
    assert not run(store.change_status(change(1, run_id="unknown")))
    assert run(store.get_run("unknown")) is None


@pytest.mark.threads
def test_changes_from_many_threads_leave_the_newest(store: Store) -> None:
    run(store.create_run(header()))
    at_once(64, lambda number: run(store.change_status(change(number, started_ms=number))))
    now = run(store.get_run("r1"))
    assert now is not None
    assert (now.rev, now.started_ms) == (63, 63)


@pytest.mark.needs("speed")
def test_pages_over_a_thousand_runs_of_one_millisecond_miss_and_repeat_nothing(store: Store) -> None:
    names = [f"run-{number:04}" for number in range(1_000)]
    for name in sorted(names, key=lambda name: name[::-1]):
        run(store.create_run(header(name, tags={"parity": "even" if int(name[-1]) % 2 == 0 else "odd"})))
    found = pages(store, RunQuery(limit=70))
    assert [len(page) for page in found] == [70] * 14 + [20]
    assert [each.run_id for page in found for each in page] == names[::-1]
    odd = ids(store, limit=33, tag=("parity", "odd"))
    assert odd == [name for name in names[::-1] if int(name[-1]) % 2]
    assert ids(store, limit=250) == names[::-1]


def test_a_page_that_ends_with_the_last_run_has_no_cursor(store: Store) -> None:
    for number in range(4):
        run(store.create_run(header(f"r{number}")))
    assert [len(page) for page in pages(store, RunQuery(limit=2))] == [2, 2]
    assert run(store.list_runs(RunQuery(limit=4))).next_cursor == ""


def test_runs_created_while_pages_are_read_do_not_shift_them(store: Store) -> None:
    for number in range(4):
        run(store.create_run(header(f"r{number}", created_ms=NOW_MS + number)))
    first = run(store.list_runs(RunQuery(limit=2)))
    run(store.create_run(header("new", created_ms=NOW_MS + 9)))
    second = run(store.list_runs(RunQuery(limit=2, cursor=first.next_cursor)))
    assert [each.run_id for each in (*first.headers, *second.headers)] == ["r3", "r2", "r1", "r0"]


def test_a_list_is_newest_first_and_by_run_id_where_times_are_equal(store: Store) -> None:
    for name, created_ms in (("a", 5), ("b", 9), ("ä", 5), ("Z", 5), ("🧀", 5)):
        run(store.create_run(header(name, created_ms=created_ms)))
    assert ids(store, limit=2) == ["b", "🧀", "ä", "a", "Z"]


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({"workflow": "pay"}, ["r4", "r2"]),
        ({"workflow": "none"}, []),
        ({"statuses": frozenset({Status.WAITING})}, ["r3", "r2", "r1"]),
        ({"statuses": frozenset({Status.WAITING, Status.FAILED})}, ["r4", "r3", "r2", "r1"]),
        ({"tag": ("team", "a")}, ["r4", "r1"]),
        ({"tag": ("team", "b")}, ["r2"]),
        ({"tag": ("a", "team")}, []),
        ({"since_ms": NOW_MS + 3}, ["r4", "r3"]),
        ({"waiting_for": frozenset({"event"})}, ["r3", "r1"]),
        ({"waiting_for": frozenset({"event", "approval"})}, ["r3", "r2", "r1"]),
        ({"overdue_at_ms": NOW_MS + 20}, ["r1"]),
        ({"overdue_at_ms": NOW_MS + 21}, ["r2", "r1"]),
        ({"overdue_at_ms": NOW_MS + 21, "workflow": "pay"}, ["r2"]),
        ({"workflow": "ship", "tag": ("team", "a"), "statuses": frozenset({Status.WAITING})}, ["r1"]),
        ({"tag": ("team", "a"), "since_ms": NOW_MS + 2}, ["r4"]),
    ],
)
@pytest.mark.parametrize("limit", [1, 50])
def test_a_list_can_be_narrowed(store: Store, narrow: dict[str, Any], expected: list[str], limit: int) -> None:
    rows: list[tuple[str, Status, dict[str, str], str, int | None]] = [
        ("ship", Status.WAITING, {"team": "a"}, "event", NOW_MS + 10),
        ("pay", Status.WAITING, {"team": "b", "x": "a"}, "approval", NOW_MS + 20),
        ("ship", Status.WAITING, {}, "event", None),
        ("pay", Status.FAILED, {"team": "a"}, "", NOW_MS + 1),
    ]
    for number, (workflow, status, tags, waiting_for, until_ms) in enumerate(rows, 1):
        made = header(f"r{number}", workflow=workflow, status=status, tags=tags, created_ms=NOW_MS + number)
        run(store.create_run(replace(made, waiting_for=waiting_for, waiting_until_ms=until_ms)))
    assert ids(store, limit=limit, **narrow) == expected


def test_a_list_since_a_time_after_its_cursor_or_beyond_all_times_is_empty(store: Store) -> None:
    for number in range(4):
        run(store.create_run(header(f"r{number}", created_ms=NOW_MS + number)))
    cursor = run(store.list_runs(RunQuery(limit=2))).next_cursor
    assert ids(store, cursor=cursor, since_ms=NOW_MS + 3) == []
    assert ids(store, since_ms=10**17) == []
    assert ids(store, since_ms=-1) == ["r3", "r2", "r1", "r0"]


def test_a_run_is_listed_by_the_status_it_has_now(store: Store) -> None:
    run(store.create_run(header()))
    run(store.change_status(change(1, Status.WAITING, waiting_for="event", waiting_until_ms=NOW_MS)))
    assert ids(store, statuses=frozenset({Status.PENDING})) == []
    assert ids(
        store, statuses=frozenset({Status.WAITING}), waiting_for=frozenset({"event"}), overdue_at_ms=NOW_MS + 1
    ) == ["r1"]


def by_deadline(store: Store, **narrow: Any) -> list[str]:
    return ids(store, by_deadline=True, **narrow)


def waits(store: Store, run_id: str, until_ms: int | None, **changes: Any) -> None:
    made = header(run_id, status=Status.WAITING, waiting_for="event", waiting_until_ms=until_ms, **changes)
    run(store.create_run(made))


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_a_list_by_deadline_has_the_runs_that_wait_for_one_the_soonest_first(store: Store, limit: int) -> None:
    """Runs with the same deadline are in the order of their ids, over pages too."""
    for number, left_ms in enumerate((90_000, 5, 70_000, 5, 3_600_000)):
        waits(store, f"r{number}", NOW_MS + left_ms)
    waits(store, "no-deadline", None)
    run(store.create_run(header("runs", status=Status.RUNNING)))
    run(store.create_run(header("gone", status=Status.COMPLETED)))
    assert by_deadline(store, limit=limit) == ["r1", "r3", "r2", "r0", "r4"]


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_a_list_by_deadline_has_runs_that_the_sweeper_watches_in_their_place(store: Store, limit: int) -> None:
    """One is due for something else before its deadline, as a wait with a reminder is."""
    due = {"r0": 300_000, "r1": 60_000, "r2": 120_000, "r3": 120_000, "r4": 60_000}
    for number, left_ms in enumerate((310_000, 600_000, 125_000, 121_000, 61_000, 122_000)):
        waits(store, f"r{number}", NOW_MS + left_ms)
    for run_id, left_ms in due.items():
        assert run(store.watch(run_id, (NOW_MS + left_ms) // 60_000 * 60_000))
    assert by_deadline(store, limit=limit) == ["r4", "r3", "r5", "r2", "r0", "r1"]


def test_a_list_by_deadline_can_be_narrowed(store: Store) -> None:
    waits(store, "r1", NOW_MS + 2, workflow="pay", tags={"team": "a"})
    waits(store, "r2", NOW_MS + 1, workflow="pay", created_ms=NOW_MS + 9)
    waits(store, "r3", NOW_MS + 3, tags={"team": "a"})
    assert by_deadline(store, workflow="pay") == ["r2", "r1"]
    assert by_deadline(store, tag=("team", "a")) == ["r1", "r3"]
    assert by_deadline(store, since_ms=NOW_MS + 1) == ["r2"]
    assert by_deadline(store, overdue_at_ms=NOW_MS + 3) == ["r2", "r1"]
    assert by_deadline(store, waiting_for=frozenset({"approval"})) == []
    assert by_deadline(store, waiting_for=frozenset({"event"}), statuses=frozenset({Status.WAITING})) == [
        "r2",
        "r1",
        "r3",
    ]


def test_a_run_that_goes_on_leaves_the_list_by_deadline(store: Store) -> None:
    waits(store, "r1", NOW_MS + 2)
    run(store.watch("r1", NOW_MS))
    run(store.change_status(change(1, Status.RUNNING, due_ms=NOW_MS)))
    assert by_deadline(store) == []


def test_a_cursor_is_for_lists_of_its_own_order(store: Store) -> None:
    for number in range(3):
        waits(store, f"r{number}", NOW_MS + number)
    newest, soonest = (run(store.list_runs(RunQuery(limit=1, by_deadline=one))).next_cursor for one in (False, True))
    made = [RunQuery(cursor=one, by_deadline=True) for one in (newest, "x", "%%%", "käse")]
    for wrong in (RunQuery(cursor=soonest), *made):
        with pytest.raises(InvalidInput) as caught:
            run(store.list_runs(wrong))
        assert caught.value.code == "bad_cursor"


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%%%",
        "käse",
        "AAAA",
        "Og==",
        *(
            base64.urlsafe_b64encode(text.encode()).decode()
            for text in ("{}", "[1]", '["a","b"]', "[1,2]", "null", "[1e999,0]", "[1,'x']", '[1, "x", 2]', "[" * 9_999)
        ),
    ],
)
def test_a_cursor_that_no_list_made_is_refused(store: Store, cursor: str) -> None:
    run(store.create_run(header()))
    with pytest.raises(InvalidInput) as caught:
        run(store.list_runs(RunQuery(cursor=cursor)))
    assert caught.value.code == "bad_cursor"


def test_stats_count_the_runs_of_each_workflow_status_and_wait(store: Store) -> None:
    assert run(store.stats()) == []
    for number, status in enumerate([Status.COMPLETED, Status.COMPLETED, Status.WAITING]):
        waiting_for = "event" if status is Status.WAITING else ""
        made = header(f"r{number}", status=status, created_ms=NOW_MS + number, waiting_for=waiting_for)
        run(store.create_run(made))
    assert sorted(run(store.stats()), key=lambda row: str(row["status"])) == [
        {
            "workflow": "w",
            "status": "completed",
            "count": 2,
            "sum_created_ms": 2 * NOW_MS + 1,
            "oldest_created_ms": NOW_MS,
            "waiting_for": "",
        },
        {
            "workflow": "w",
            "status": "waiting",
            "count": 1,
            "sum_created_ms": NOW_MS + 2,
            "oldest_created_ms": NOW_MS + 2,
            "waiting_for": "event",
        },
    ]


class Newer(StrEnum):
    """A status that only newer code knows."""

    DREAMING = "dreaming"


@pytest.mark.needs("outlives")
def test_a_run_with_a_status_of_newer_code_is_left_to_it_and_keeps_no_other_from_a_list(store: Store) -> None:
    for number in range(5):
        status = Newer.DREAMING if number in (1, 2) else Status.RUNNING
        made: Any = {"status": status, "created_ms": NOW_MS + number, "due_ms": NOW_MS + number, "watched": True}
        run(store.create_run(header(f"r{number}", **made)))
    with pytest.raises(NewerFormat):
        run(store.get_run("r1"))
    assert [one.run_id for page in pages(store, RunQuery(limit=1)) for one in page] == ["r4", "r3", "r0"]
    due = [run(store.list_due(NOW_MS + 10, 2))]
    while due[-1].next_cursor:
        due.append(run(store.list_due(NOW_MS + 10, 2, due[-1].next_cursor)))
    assert [one.run_id for page in due for one in page.headers] == ["r0", "r3", "r4"]
    counts: Any = run(store.stats())
    assert [(row["status"], row["count"]) for row in counts] == [("running", 3)]
