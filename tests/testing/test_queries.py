"""Queries: a durable function answers as it stands, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.api.problems import problem_answer
from stepwell.aws.wiring import NoSteps
from stepwell.errors import Conflict, InvalidInput, NotFound, UserError
from stepwell.testing.kit import Run, Stepwell

CODE = """
from stepwell import step, workflow

@step
def fetch(n: int) -> int:
    return n

@workflow
async def load(ctx, most: int = 3):
    done = []

    @ctx.query("progress")
    def progress():
        return {"done": done, "of": most, "state": dict(ctx.state), "now": ctx.now()}

    ctx.query("double", lambda: len(done) * 2)
    ctx.query("broken", lambda: 1 / 0)
    ctx.query("writes", lambda: ctx.state.update(a=1))
    ctx.query("rolls", lambda: ctx.random())
    ctx.query("odd", lambda: object())
    for n in range(most):
        done.append(await ctx.step(fetch, n))
        ctx.state["last"] = n
        await ctx.event("more")
    ctx.query("double", lambda: "ended")
    return done
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "loading_queries.py").write_text(CODE)
    return Stepwell(tmp_path)


@pytest.fixture
def run(kit: Stepwell) -> Run:
    return kit.start("load")


def test_a_query_is_answered_from_where_the_function_stands(run: Run) -> None:
    assert run.query("progress") == {"done": [0], "of": 3, "state": {"last": 0}, "now": "2030-01-01T09:00:00Z"}
    run.event("more")
    assert run.query("double") == 4


def test_a_process_that_never_saw_the_run_replays_it_first(run: Run, kit: Stepwell) -> None:
    run.event("more")
    before = run.export()
    sessions = kit._steps._real._sessions
    assert sessions is not None
    sessions.close()
    assert run.query("double") == 4
    assert run.export() == before


def test_a_run_that_ended_still_answers(run: Run) -> None:
    for _ in range(3):
        run.event("more")
    assert run.status == "completed"
    assert run.query("double") == "ended"


def test_a_run_goes_on_after_a_query_that_failed(run: Run) -> None:
    with pytest.raises(Conflict, match="broken raised ZeroDivisionError"):
        run.query("broken")
    run.event("more")
    assert run.query("double") == 4


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("none", NotFound, "it answers: broken, double, odd, progress, rolls, writes"),
        ("writes", Conflict, "writes raised AttributeError"),
        ("rolls", InvalidInput, "a query changes nothing"),
        ("odd", InvalidInput, "the answer to odd cannot be stored"),
    ],
)
def test_what_is_no_answer_says_why(run: Run, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run.query(name)


def test_a_run_that_has_not_begun_and_one_of_a_graph_answer_nothing(kit: Stepwell) -> None:
    with pytest.raises(Conflict, match="has not begun"):
        kit.start("load", create_only=True).query("progress")
    kit.define("workflow: flow\ntimeline: [{name: nap, sleep: 60s}]")
    with pytest.raises(Conflict, match="a graph, which answers no queries"):
        kit.start("flow").query("progress")


def test_an_api_without_the_code_says_that_it_is_not_answered_there(run: Run, kit: Stepwell) -> None:
    kit.service._steps = NoSteps()
    with pytest.raises(
        UserError, match=r"no worker that can answer queries of load.*put the values into ctx.state"
    ) as refused:
        run.query("progress")
    assert problem_answer(refused.value).status == 501
