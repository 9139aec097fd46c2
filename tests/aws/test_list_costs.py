"""What a page of a list reads on DynamoDB: as much beside 3,000 runs as beside 500, or 100,000."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stepwell.aws.store import listing
from stepwell.aws.store.items import header_item
from stepwell.aws.store.keys import STATE_SHARDS
from stepwell.aws.store.listing import ENTRIES
from stepwell.engine.records import Status
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.rounds import NOTE, Rounds
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery
from tests.aws.kit import AwsWorld, aws_world
from tests.contract.emulated import partitions_of

PAGE = 50
YOUNG = 10  # runs that the sweeper has not met
FLOW = """
workflow: flow
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input }}"}]}
  ask: {wait: {for: approval, timeout: 3d}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
LISTS: dict[str, dict[str, Any]] = {
    "newest": {},
    "for approval": {"waiting_for": "approval"},
    "failed": {"statuses": frozenset({Status.FAILED})},
    "by deadline": {"by_deadline": True},
    "by deadline, for approval": {"by_deadline": True, "waiting_for": "approval", "workflow": "flow"},
}


def filled(world: AwsWorld, count: int) -> None:
    """So many runs: forks whose branches all wait, and others, put past the store."""
    waits = world.start(given=[1, 2, 3])
    world.deliver()
    header, items, now_ms = world.header(waits), partitions_of(world.table.name), world.clock.now_ms()
    assert (header.status, header.waiting_for) == (Status.WAITING, "approval")
    for number in range(count):
        old_ms = 0 if number < YOUNG else HOUR_MS
        one = _like(header, number, now_ms)
        item = header_item(replace(one, created_ms=now_ms - old_ms - number, watched=number >= YOUNG))
        items[item["pk"]["S"]] = {item["sk"]["S"]: {**item, "input": {"S": "null"}}}
    met = Rounds(until_ms=now_ms - HOUR_MS + 1, swept_ms=now_ms)
    assert run_now(world.store.put_note(*NOTE, met.note(), None))


def _like(header: Header, number: int, now_ms: int) -> Header:
    """Of four runs two wait, one runs and one has ended; a deadline every 90 seconds, the soonest among the oldest."""
    until_ms = now_ms + (100_000 - number) * 90_000
    due_ms = until_ms // MINUTE_MS * MINUTE_MS
    one = replace(header, run_id=f"more_{number:05d}", waiting_until_ms=until_ms, due_ms=due_ms)
    if number % 4 > 1:
        status = Status.RUNNING if number % 4 == 2 else Status.FAILED
        return replace(one, status=status, waiting_for="", waiting_until_ms=None, due_ms=None)
    return one


def read_by(world: AwsWorld, query: RunQuery) -> tuple[RunPage, Counter[str]]:
    return asked_by(world, lambda runs: runs.list_runs(query))


def asked_by(world: AwsWorld, ask: Callable[[Any], Any]) -> tuple[Any, Counter[str]]:
    """An answer, and what it read: requests and items by kind of request."""
    client, found = world.meter._client, Counter[str]()

    def counted(name: str) -> Any:
        def call(**request: Any) -> Any:
            answer = getattr(client, name)(**request)
            tables = answer.get("Responses", {})
            found[name] += 1
            found[f"{name} items"] += answer.get("ScannedCount", 0) + sum(len(one) for one in tables.values())
            return answer

        return call

    for name in ("query", "batch_get_item"):
        setattr(world.meter, name, counted(name))
    return run_now(ask(world.store)), found


@pytest.fixture(scope="module")
def spent() -> dict[int, dict[str, list[Counter[str]]]]:
    """By the number of runs and by list: what its first and its second page read."""
    found: dict[int, dict[str, list[Counter[str]]]] = {}
    for count in (500, 3_000):
        with aws_world(FLOW) as world:
            filled(world, count)
            found[count] = {name: _pages(world, RunQuery(limit=PAGE, **narrow)) for name, narrow in LISTS.items()}
    return found


def _pages(world: AwsWorld, query: RunQuery) -> list[Counter[str]]:
    found = []
    for _ in range(2):
        page, read = read_by(world, query)
        assert len(page.headers) == PAGE
        found.append(read)
        query = replace(query, cursor=page.next_cursor)
    return found


def test_statistics_read_the_newest_runs_and_say_that_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside 500 runs or 1,500 as many headers, and no run too many: what may be alive is not counted as ended."""
    found = []
    for count in (500, 1_500):
        with aws_world(FLOW) as world:
            filled(world, count)
            run_id = world.start(given=[])
            world.deliver()
            assert world.header(run_id).status == "completed"
            whole, _ = asked_by(world, lambda runs: runs.stats())
            monkeypatch.setattr(listing, "STATS_LIVE", 80)
            part, read = asked_by(world, lambda runs: runs.stats())
            monkeypatch.undo()
        exactly, at_least = ({row["status"]: row["count"] for row in rows} for rows in (whole, part))
        assert not any("at_least" in row for row in whole)
        assert exactly["completed"] == at_least["completed"] == 1
        assert all(at_least[status] <= exactly[status] for status in at_least)
        assert {row["status"] for row in part if row.get("at_least")} == {"completed", "running", "waiting"}
        assert at_least["running"] + at_least["waiting"] == 80 == read["batch_get_item items"]
        found.append(read["batch_get_item items"])
    assert found == [80, 80]


@pytest.mark.parametrize("name", LISTS)
def test_a_page_reads_the_same_beside_ten_times_as_many_runs(
    spent: dict[int, dict[str, list[Counter[str]]]], name: str
) -> None:
    """One request for each partition of an index, up to 200 entries of each, and three headers at most for each run."""
    for few, many in zip(spent[500][name], spent[3_000][name], strict=True):
        assert {**many, "query items": 0} == {**few, "query items": 0}
        assert many["query"] <= 8
        assert many["query items"] <= ENTRIES * STATE_SHARDS
        assert many["batch_get_item items"] <= 3 * PAGE + YOUNG
