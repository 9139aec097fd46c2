"""What `stepwell check` refuses in a function fails its run too, with the same code and the same words."""

from __future__ import annotations

import pytest

from stepwell.cli.folder.checking import check_path
from stepwell.client.errors import UpdateFailed
from tests.durable.conftest import Flows

HEAD = """
import asyncio
from stepwell import step, workflow

@step
def pay(n: int) -> int:
    return n

@workflow
async def flow(ctx, given: int = 0):
    seen = []
    BODY
"""
ASYNC = "async def paid():\n        return True\n    "


@pytest.mark.parametrize(
    "body",
    [
        ASYNC + "await ctx.until(paid)",
        ASYNC + "await ctx.until(lambda: paid())",
        "@ctx.update('add')\n    def add(ctx, n: int):\n        seen.append(n)\n    await ctx.event('go')",
        "ctx.state = {'n': 1}",
        "ctx.state |= {'n': 1}",
        "del ctx.state",
        "ctx.run_id = 'r-1'",
        "ctx.total = 1",
    ],
)
def test_a_run_fails_with_the_words_of_check(flows: Flows, body: str) -> None:
    kit = flows(HEAD.replace("BODY", body))
    run = kit.start("flow")
    (found,) = check_path(flows.folder)[1]
    assert run.error is not None, run.view
    assert run.error["type"] == found.code
    assert f"{found.message} ({found.hint})" in run.error["message"]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "await ctx.until(lambda: ctx.event('paid'))",
            "bad_condition",
            "the condition gives the operation event paid, which nobody awaits: it always holds",
        ),
        *(
            (body, "never_awaited", f"{what}: the operation step pay is not awaited, and has no result")
            for body, what in (
                ("return await ctx.step(pay, ctx.step(pay, 1))", "pay: n"),
                ("return await ctx.step(pay, [{'n': ctx.step(pay, 1)}])", "pay: n"),
                ("ctx.state['n'] = ctx.step(pay, 1)\n    await ctx.sleep(1)", "ctx.state['n']"),
            )
        ),
        (
            "return ctx.step(pay, 1)",
            "never_awaited",
            "the operation step pay at flow.py:12 is returned, and not awaited",
        ),
        (
            "return [ctx.step(pay, n) for n in (1, 2)]",
            "never_awaited",
            "the operation step pay at flow.py:12 is returned in a collection, and not awaited",
        ),
    ],
)
def test_an_operation_in_place_of_its_result_is_told(flows: Flows, body: str, code: str, message: str) -> None:
    kit = flows(HEAD.replace("BODY", body))
    run = kit.start("flow")
    assert {found.code for found in check_path(flows.folder)[1]} <= {code}
    assert run.error is not None, run.view
    assert (run.error["type"], message in run.error["message"]) == (code, True), run.error


@pytest.mark.parametrize("made", ["ctx.step(pay, n)", "leg(n)"])
def test_an_update_that_returns_what_it_does_not_await_is_answered_so(flows: Flows, made: str) -> None:
    body = "async def leg(n): ...\n    @ctx.update('pay')\n    def pays(n: int): return {}\n    await ctx.event('go')"
    run = flows(HEAD.replace("BODY", body.format(made))).start("flow")
    with pytest.raises(UpdateFailed, match=r"the handler of update pay returns .*, and does not await it") as failed:
        run.update("pay", {"n": 1})
    assert failed.value.type == "never_awaited"


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("body", "checks"),
    [
        (ASYNC + "await ctx.until(paid)", "stepwell.runtime.durable.combining.condition_of"),
        ("ctx.update('add', lambda ctx: 1)", "stepwell.runtime.durable.context.check_takes_no_context"),
    ],
)
def test_a_run_that_an_earlier_release_let_do_so_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, body: str, checks: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(checks, lambda first, *more: first)
        kit = flows(HEAD.replace("BODY", f"{body}\n    await ctx.event('go')\n    return 7"), sessions=0)
        run = kit.start("flow")
        assert run.waiting_for == "event"
    kit.event("go")
    assert (run.status, run.result) == ("completed", 7), run.view
