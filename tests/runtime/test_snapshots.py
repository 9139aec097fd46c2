"""Snapshots: which runs are kept and when, what is in the file, and how much of a long run is in memory at once."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepwell.api.runs.histories import read_history
from stepwell.api.runs.views import read_run, view_of
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Json
from stepwell.engine.entries import entry_json
from stepwell.engine.records import Goto, Kind, Record, Status
from stepwell.engine.stored.codec import encode_record
from stepwell.errors import PortError
from stepwell.runtime.calls.snapshots import Snapshots, is_due
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.stores.files import name_of
from tests.runtime.kit import World, fails, graph_of

WAITS = "workflow: flow\nsnapshot: {}\ntimeline: [{{name: a, run: python:m.a}}, {{name: ok, wait: {{for: approval}}}}]"
LOOP = (
    "workflow: flow\nsnapshot: on_wait\n"
    "nodes: {a: {run: python:m.a, max_visits: 10000, transitions: [{to: a, when: 'state.more'}, {to: end}]}}"
)


class KeptFiles:
    """Files in memory."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    async def write(self, name: str, lines: AsyncIterator[str]) -> None:
        self.of[name] = "".join([line async for line in lines])

    def lines(self, name: str) -> list[dict[str, Json]]:
        return [json.loads(line) for line in self.of[name].splitlines()]


def opened(definition: str) -> tuple[World, KeptFiles, Snapshots]:
    world, files = World(definition), KeptFiles()
    return world, files, Snapshots(world.service, files, view_of)


def write(world: World, snapshots: Snapshots, run_id: str) -> bool:
    return run_now(snapshots.write_if_due(world.header(run_id)))


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [
        ("none", frozenset()),
        ("on_end", {Status.COMPLETED, Status.COMPENSATED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}),
        ("on_wait", {*(status for status in Status if status.terminal), Status.WAITING}),
    ],
)
def test_a_run_is_kept_when_its_definition_says_so(mode: str, statuses: frozenset[Status]) -> None:
    graph = graph_of(WAITS.format(mode))
    assert graph.snapshot == mode
    assert {status for status in Status if is_due(graph, status)} == statuses


def test_no_snapshot_is_made_of_what_does_not_ask_for_one() -> None:
    assert graph_of("workflow: flow\ntimeline: [{name: a}]").snapshot == "none"


def test_another_word_for_a_snapshot_is_refused_with_those_there_are() -> None:
    (problem,) = compile_definition("workflow: flow\nsnapshot: always\ntimeline: [{name: a}]", "flow.yaml").errors
    assert (problem.code, problem.line) == ("bad_value", 2)
    assert "none, on_end, on_wait" in problem.message


def test_the_file_of_an_ended_run_is_the_run_and_its_history_as_the_api_shows_them() -> None:
    world, files, snapshots = opened(WAITS.format("on_end"))
    world.steps.of["a"] = lambda _: {"score": 7}
    run_id = world.start(given={"order": 1})
    world.deliver()
    assert not write(world, snapshots, run_id)
    run_now(world.service.approve(run_id, who="eva"))
    world.deliver()
    assert write(world, snapshots, run_id)
    run, *entries = files.lines(f"runs/flow/{run_id}.jsonl")
    assert run == json.loads(json.dumps(run_now(read_run(world.service, run_id))))
    assert (run["status"], run["state"]["a"], run["input"]) == ("completed", {"score": 7}, {"order": 1})
    page = run_now(read_history(world.service, run_id, "", 500, phases=True))
    assert entries == [entry_json(entry) for entry in page.entries]
    assert entries[-1]["type"] == "run.completed"


def test_a_run_that_waits_is_kept_as_it_waits_and_again_when_it_ends() -> None:
    world, files, snapshots = opened(WAITS.format("on_wait"))
    run_id = world.start()
    world.deliver()
    assert write(world, snapshots, run_id)
    (name,) = files.of
    first, *before = files.lines(name)
    assert (first["status"], first["waiting_for"], before[-1]["to"]) == ("waiting", "approval", "waiting_for_approval")
    run_now(world.service.reject(run_id, "no"))
    world.deliver()
    assert write(world, snapshots, run_id)
    last, *after = files.lines(name)
    assert (last["status"], after[: len(before)], after[-1]["type"]) == ("failed", before, "run.failed")


def test_an_older_change_that_comes_late_leaves_the_newest_file() -> None:
    world, files, snapshots = opened(WAITS.format("on_wait"))
    run_id = world.start()
    world.deliver()
    waiting = world.header(run_id)
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert write(world, snapshots, run_id)
    ended = dict(files.of)
    assert run_now(snapshots.write_if_due(waiting))
    assert files.of == ended
    assert files.lines(name_of(waiting))[0]["status"] == "cancelled"


def test_a_run_that_is_picked_up_and_has_no_record_yet_shows_so() -> None:
    world, files, snapshots = opened(WAITS.format("on_end"))
    run_id = world.start()
    run_now(world.service.cancel(run_id, "never mind"))
    assert write(world, snapshots, run_id)
    assert [line["type"] for line in files.lines(f"runs/flow/{run_id}.jsonl")[1:]] == [
        "run.created", "run.pending", "phase.changed", "run.cancelled",
    ]  # fmt: skip


def test_the_version_that_the_run_is_pinned_to_decides() -> None:
    world, files, snapshots = opened(WAITS.format("on_end"))
    world.steps.of["a"] = lambda _: fails()
    run_id = world.start()
    world.deliver()
    world.catalog.replace([graph_of(WAITS.format("none"))])
    assert write(world, snapshots, run_id)
    later = world.start()
    world.deliver()
    assert world.header(later).status is Status.FAILED
    assert not write(world, snapshots, later)
    assert list(files.of) == [f"runs/flow/{run_id}.jsonl"]


def test_a_run_whose_retention_is_over_keeps_the_file_it_has() -> None:
    world, files, snapshots = opened(WAITS.format("on_end"))
    run_id = world.start()
    run_now(world.service.cancel(run_id))
    ended = world.header(run_id)
    world.store.inner.purge(ended.expires_ms + 1)
    assert not run_now(snapshots.write_if_due(ended))
    assert files.of == {}


def test_what_the_definition_does_not_ask_for_costs_no_read() -> None:
    world, _, snapshots = opened(WAITS.format("on_end"))
    run_id = world.start()
    world.deliver()
    waiting = world.header(run_id)
    world.store.calls.clear()
    run_now(snapshots.write_if_due(waiting))
    assert not world.store.calls


def test_a_file_that_cannot_be_written_is_told_to_the_caller() -> None:
    class Full:
        async def write(self, name: str, lines: AsyncIterator[str]) -> None:
            raise PortError("full")

    world = World(WAITS.format("on_end"))
    run_id = world.start()
    run_now(world.service.cancel(run_id))
    with pytest.raises(PortError, match="full"):
        run_now(Snapshots(world.service, Full(), view_of).write_if_due(world.header(run_id)))


def grown(world: World, run_id: str, slots: range) -> None:
    """Records of 20 kB, written straight into the log."""
    for slot in slots:
        at_ms = world.clock.now_ms() + slot
        output: Any = {"number": slot, "padding": "x" * 20_000}
        body = encode_record(
            Record(slot, Kind.STEP, "wake", at_ms, "a", attempt=1, started_ms=at_ms, output=output, next=Goto("a"))
        )
        run_now(world.store.inner.append(run_id, "0", slot, body))


def test_the_history_ends_where_the_state_stands_although_the_run_goes_on_meanwhile() -> None:
    world, files, snapshots = opened(LOOP)
    run_id = world.start()
    world.lose_messages()
    grown(world, run_id, range(3))
    at = run_now(world.service.standing(run_id))
    grown(world, run_id, range(3, 5))
    run_now(files.write("kept", snapshots._lines(at)))
    run, *entries = files.lines("kept")
    assert run["state"]["a"]["number"] == 2
    assert [entry["data"]["output"]["number"] for entry in entries if entry["type"] == "step.completed"] == [0, 1, 2]


def test_a_long_run_is_never_in_memory_as_a_whole() -> None:
    class Counted:
        def __init__(self) -> None:
            self.lines, self.bytes = 0, 0

        async def write(self, name: str, lines: AsyncIterator[str]) -> None:
            async for line in lines:
                self.lines += 1
                self.bytes += len(line)

    world = World(LOOP)
    run_id = world.start()
    world.lose_messages()
    grown(world, run_id, range(1_500))
    at, files = run_now(world.service.standing(run_id)), Counted()
    snapshots = Snapshots(world.service, files, view_of)
    tracemalloc.start()
    try:
        run_now(files.write("", snapshots._lines(at)))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files.bytes > 30_000_000
    assert files.lines == 1 + 2 + 2 + 5 * 1_500  # the run, how it began, what each record tells
    assert peak_bytes < 6_000_000
