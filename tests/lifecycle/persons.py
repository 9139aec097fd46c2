"""Worlds in which one person's text stands wherever a run can put it, and a search through everything that is kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure, Status
from stepwell.engine.waits import run_topic
from stepwell.runtime.calls import kin, updates
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.steps import output
from tests.runtime.kit import World, fails

ANA, BEN = "ana-7731-of-berlin", "ben-1234-of-bonn"
DAY_MS = 24 * 3_600_000
LARGE = 70_000  # characters: more than an item takes
FLOWS = (
    """
workflow: flow
rate_limit: {limit: 600, per: 1m, key: "{{ input.who }}"}
concurrency: {limit: 10, key: "{{ input.who }}"}
snapshot: on_end
timeline:
  - {name: large, run: "python:a.large"}
  - {name: together, children: [{workflow: child, input: {who: "{{ input.who }}"}}, {workflow: forks, input: {who: "{{ input.who }}"}}], timeout: 1h}
  - {name: ask, wait: {for: approval, data: {of: "{{ input.who }}"}, timeout: 3h}}
  - {name: hear, wait: {for: event, name: paid, key: "{{ input.who }}", timeout: 9d}}
  - {name: broken, run: "python:a.broken"}
""",  # noqa: E501
    """
workflow: child
timeline:
  - {name: work, run: "python:a.work"}
""",
    """
workflow: forks
nodes:
  split: {transitions: [{to: each, foreach: "[1, 2, 3]"}]}
  each: {run: "python:a.each", transitions: [{to: inner, foreach: "[1, 2]"}]}
  inner: {run: "python:a.inner", transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}, transitions: [{to: all}]}
  all: {fan_in: {policy: all}}
""",
    """
workflow: guarded
timeline:
  - {name: check, run: "python:a.check"}
""",
)


class Files:
    """Snapshots by name."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    async def write(self, name: str, lines: AsyncIterator[str]) -> None:
        self.of[name] = "".join([line async for line in lines])

    async def drop(self, name: str) -> None:
        self.of.pop(name, None)


def world_of(**options: Any) -> World:
    return prepared(World(*FLOWS, files=Files(), **options))


def prepared(world: World) -> World:
    """A world whose steps return, and fail with, the person of their run."""
    of = world.steps.of
    of["large"] = lambda call: {"text": call.input["who"] * (LARGE // 10)}
    of["work"] = of["each"] = of["inner"] = lambda call: {"by": call.state.get("who", call.input.get("who"))}
    of["broken"] = lambda call: fails(f"No {call.input['who']}")
    of["check"] = lambda call: Outcome(failure=Failure("Blocked", "governance", f"not for {call.input['who']}"))
    return world


def plant(world: World, who: str) -> list[str]:
    """The runs of a person: one that failed and was redriven, one that waits, and one that governance blocks."""
    tags = {"customer": who}
    failed, open_ = (world.start("flow", {"who": who}, tags=tags) for _ in range(2))
    blocked = world.start("guarded", {"who": who}, tags=tags)
    world.pass_time(1_000)
    for run_id in (failed, open_):
        _fill(world, run_id, who)
    run_now(world.service.approve(failed, {"says": who}, who))
    run_now(world.service.send_event("paid", {"by": who, "text": who * (LARGE // 10)}, key=who))
    world.pass_time(1_000)
    run_now(world.service.approve(open_, {"says": who}, who))
    world.pass_time(1_000)
    again = run_now(world.service.redrive(failed)).header.run_id
    world.pass_time(1_000)
    assert [world.header(one).status for one in (failed, open_, blocked, again)] == [
        Status.FAILED, Status.WAITING, Status.WAITING, Status.FAILED,
    ]  # fmt: skip
    return [failed, open_, blocked, again]


def _fill(world: World, run_id: str, who: str) -> None:
    """Events for the run alone that nobody takes, live output, an update, a snapshot."""
    now_ms, mailbox = world.clock.now_ms(), world.parts.ports.mailbox
    for number, text in enumerate((who, who * (LARGE // 10))):
        run_now(world.service.send_event("unheard", text, run_id=run_id, event_id=f"u{number}"))
    for name in (*output.EVENTS, *updates.EVENTS, *kin.EVENTS):
        run_now(mailbox.put_event(Event(run_topic(name, run_id), "e1", who, now_ms, now_ms + DAY_MS)))
    files = world.parts.eraser._files
    assert isinstance(files, Files)
    run_now(files.write(f"runs/flow/{run_id}.jsonl", _line(who)))


async def _line(text: str) -> AsyncIterator[str]:
    yield text


def report_of(world: World, job: str) -> Json:
    return run_now(world.service.standing(job)).token.scope["report"]


def runs_of(world: World) -> list[str]:
    return [one.run_id for one in run_now(world.service.runs(RunQuery(limit=500))).headers]


def found(who: str, **places: Any) -> list[str]:
    """In which of these places the person's text stands."""
    return [name for name, kept in places.items() if who in kept]


def text_of(value: object) -> str:
    """All that an object of this process holds, as text."""
    seen: set[int] = set()

    def parts(one: object) -> Any:
        if isinstance(one, bytes):
            return one.decode(errors="replace")
        if isinstance(one, str | int | float | None):
            return one
        if id(one) in seen:
            return None
        seen.add(id(one))
        if isinstance(one, dict):
            return [[parts(key), parts(value)] for key, value in one.items() if value not in ({}, [])]  # no more in use
        if isinstance(one, list | tuple | set | frozenset):
            return [parts(each) for each in one]
        names = [*getattr(one, "__dict__", ()), *getattr(type(one), "__slots__", ())]
        return [parts(getattr(one, name, None)) for name in names]

    return json.dumps(parts(value), ensure_ascii=False)
