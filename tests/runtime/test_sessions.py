"""Sessions of durable functions: what the simulator found, each as the shortest story that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell import workflow
from stepwell.definition.durable import durable_nodes
from stepwell.definition.graph import Durable, Graph, Step
from stepwell.engine.actions import Outcome, RunStep, Write
from stepwell.engine.attempts import commit
from stepwell.engine.decide import decide
from stepwell.engine.durable.journal import LOST
from stepwell.engine.durable.operations import with_operation
from stepwell.engine.durable.turns import Asked, Completed, Stuck, Suspended, Turn
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import Branches, parent_of
from stepwell.engine.names import Moment
from stepwell.engine.records import (
    Failure,
    Fork,
    Goto,
    Group,
    Kind,
    Record,
    Resumption,
    RetryAt,
    RunInfo,
)
from stepwell.engine.retry import Policy
from stepwell.engine.token import Token
from stepwell.engine.writing import began_record
from stepwell.runtime.durable import gathering
from stepwell.runtime.durable.context import Context
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell

Start = Callable[[str], tuple[Stepwell, Run]]


@pytest.fixture
def started(tmp_path: Path) -> Start:
    """A run of the workflow `flow` in a module of this text."""

    def start(text: str) -> tuple[Stepwell, Run]:
        (tmp_path / "flows.py").write_text(f"from stepwell import Retry, step, workflow\n{text}")
        kit = Stepwell(tmp_path)
        return kit, kit.start("flow", {})

    return start


def test_a_step_that_is_run_at_most_once_ends_like_any_other(started: Start) -> None:
    _, run = started("""
@step(at_most_once=True)
def charge(): return 12

@workflow
async def flow(ctx): return await ctx.step(charge)
""")
    assert (run.status, run.result) == ("completed", 12)


def test_a_child_run_beside_a_coroutine_brings_its_result(started: Start) -> None:
    _, run = started("""
def one(): return 1

@workflow
async def kid(ctx): return await ctx.step(one)

async def both(ctx): return [await ctx.step(one), await ctx.step(one)]

@workflow
async def flow(ctx): return await ctx.all(ctx.child(kid), both(ctx))
""")
    assert (run.status, run.result) == ("completed", [1, [1, 1]])


def test_the_time_of_a_new_life_is_when_it_began(started: Start) -> None:
    kit, run = started("""
@workflow
async def flow(ctx, again: bool = True):
    if not again:
        return ctx.now().isoformat()
    await ctx.sleep("1h")
    return ctx.continue_as(flow, again=False)
""")
    kit.advance("1h")
    assert run.result == "2030-01-01T10:00:00+00:00"


# -- sessions beside their logs

_GRAPH = Graph("flow", "sha256:flow", "function", "flow", durable_nodes("flow", Durable("python:f.flow")), {})
_RUN = RunInfo("run", "flow", _GRAPH.version, {}, created_ms=0)


def one() -> None:
    """A step that nobody runs here."""


@workflow
async def flow(ctx: Context) -> object:
    """Two branches of two steps, and a step."""

    async def twice() -> None:
        await ctx.step(one, name="first")
        await ctx.step(one, name="second")

    await ctx.all(twice(), twice())
    return await ctx.step(one, name="last")


class _Here:
    """Users' code in this thread; and where it is found."""

    def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
        return function(), None

    def function(self, run: str) -> Callable[..., object]:
        return flow


class _Logs:
    """A logbook of one run, which may know more than who asks."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Record]] = {}

    def at(self, token: str, records: int) -> Standing:
        place = parent_of(token)
        begun = Token(token)
        if place is not None:
            begun = Branches(Moment(_GRAPH, _RUN, 0, ""), self.at(place[0], place[1] + 1).token).at(place[2])
        log = self.logs.get(token, [])[:records]
        header: Any = SimpleNamespace(run_id="run")
        return Standing(header, _RUN, _GRAPH, fold(log, begun), -1)

    async def history(self, run_id: str, token: str, after: int, limit: int | None) -> list[Record]:
        return self.logs.get(token, [])[after + 1 :][:limit]

    async def in_full(self, run_id: str, token: str, records: list[Record]) -> list[Record]:
        return records

    async def fork(self, run_id: str, parent: str, slot: int) -> ForkedParent:
        return ForkedParent(
            self.at(parent, slot + 1), Branches(Moment(_GRAPH, _RUN, 0, ""), self.at(parent, slot + 1).token)
        )

    def step(self, token: str, name: str) -> None:
        log = self.logs.setdefault(token, [])
        log.append(Record(len(log), Kind.STEP, "me", 0, name, attempt=1, writes={}, next=Goto("flow")))


@pytest.fixture
def logs() -> _Logs:
    made = _Logs()
    made.logs["0"] = [Record(0, Kind.MOVED, "me", 0, "all", writes={}, next=Fork((Group("", "flow", 2),), "all"))]
    return made


@pytest.fixture
def sessions(logs: _Logs) -> Iterator[Sessions]:
    book: Any = logs
    made = Sessions(book, _Here(), threads=_Here())
    yield made
    made.close()


def awaited(sessions: Sessions, at: Standing) -> str:
    """The operation that the function awaits there."""
    turn = run_now(sessions.asked(at)).turn
    assert turn is not None
    assert isinstance(turn.result, Suspended), turn
    return turn.result.asked.name


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coroutines are the branches of a fork, as in the logs of releases before 0.2."""
    monkeypatch.setattr(gathering, "_need_tasks", lambda awaited: False)


@pytest.mark.usefixtures("forked")
def test_who_looks_at_a_function_twice_leaves_its_branches_alone(sessions: Sessions, logs: _Logs) -> None:
    """A second delivery of the wake asks before the fork is recorded, and again while its branches begin."""
    assert awaited(sessions, logs.at("0", 0)) == awaited(sessions, logs.at("0", 0)) == "all"
    assert awaited(sessions, logs.at("0/0.0", 0)) == "first"


@pytest.mark.usefixtures("forked")
def test_a_branch_that_begins_when_its_function_has_gone_on_begins_all_the_same(
    sessions: Sessions, logs: _Logs
) -> None:
    """It is about to be cancelled; until then it is what it is."""
    assert awaited(sessions, logs.at("0", 0)) == "all"
    assert awaited(sessions, logs.at("0/0.0", 0)) == "first"
    logs.logs["0"].append(Record(1, Kind.JOINED, "me", 0, "all", output=[None, None], next=Goto("flow"), writes={}))
    assert awaited(sessions, logs.at("0", 2)) == "last"
    assert awaited(sessions, logs.at("0/0.1", 0)) == "first"


def test_a_function_is_asked_for_where_its_token_stands_not_where_its_log_ends(sessions: Sessions, logs: _Logs) -> None:
    """Another worker has gone on meanwhile: whoever stands behind must not run the step after the next."""
    logs.step("0/0.0", "first")
    assert awaited(sessions, logs.at("0/0.0", 0)) == "first"
    assert awaited(sessions, logs.at("0/0.0", 1)) == "second"


# -- records of functions


def moment(turn: Turn | None) -> Moment:
    return Moment(with_operation(_GRAPH, turn), _RUN, 5, "me", turn=turn)


def asks(name: str, slot: int = -1, **options: Any) -> Turn:
    return Turn(Suspended(Asked("step", name, step=Step("python:f.one", **options)), slot), patches=("new",))


def test_the_record_of_a_step_names_the_patches_that_were_found_in_force() -> None:
    """Else a replay takes the old way to this very step."""
    now = moment(asks("one"))
    action = decide(now, Token())
    assert isinstance(action, RunStep)
    policy = Policy(None, 1_000, at_most_once=True)
    assert commit(now, Token(), action, Outcome(value=1), policy).rules == ("patch:new",)
    assert began_record(now, Token(), action, 1_000).rules == ("patch:new",)


def broken_between(first: Record) -> Token:
    """A token whose function could not be imported after this record, and can be again."""
    stuck = Turn(Stuck(Failure("ImportError", "step", "no module")))
    token = fold([first], Token())
    action = decide(replace(moment(stuck), now_ms=10_000), token)
    assert isinstance(action, Write)
    token = fold([action.record], token)
    return fold([Record(2, Kind.RESUMED, "timer", 70_000, "flow", resumption=Resumption("timer"))], token)


def test_a_retry_goes_on_counting_when_the_code_was_broken_meanwhile() -> None:
    failed = Record(0, Kind.STEP, "me", 0, "one", attempt=1, error=Failure("Flaky", "step", "no"), next=RetryAt(9_000))
    token = broken_between(failed)
    action = decide(replace(moment(asks("one", slot=0)), now_ms=70_000), token)
    assert isinstance(action, RunStep)
    assert action.attempt == 2
    assert action.key == "run:0:0"


def test_a_function_that_has_ended_when_its_worker_is_lost_ends_as_it_did(sessions: Sessions, logs: _Logs) -> None:
    """Nobody lived to write its end; it awaits nothing that could fail instead."""
    logs.logs["0"].append(Record(1, Kind.JOINED, "me", 0, "all", output=[None, None], next=Goto("flow"), writes={}))
    logs.step("0", "last")
    lost = Failure("worker_lost", "worker_lost", "five times")
    logs.logs["0"].append(Record(3, Kind.STEP, "dead", 0, "flow", error=lost, rules=(LOST,), next=Goto("flow")))
    turn = run_now(sessions.asked(logs.at("0", 4))).turn
    assert turn is not None
    assert turn.result == Completed(None)
