"""What is given to `ctx` in a wrong form fails the function with an error that says what to write instead."""

from __future__ import annotations

import warnings

import pytest

from tests.durable.conftest import Flows

HEAD = """
from stepwell import StepFailed, step, workflow

@step
def pay(order: dict) -> dict:
    return {}

async def leg(ctx, order):
    return await ctx.step(pay, order)

@workflow
async def other(ctx, order): ...

@workflow
async def flow(ctx):
    BODY
"""
HANDLER = "\n    def progress(n=0): return n\n    await ctx.event('go')"


@pytest.mark.parametrize(
    ("body", "code", "hint"),
    [
        ("return await ctx.step(pay({}))", "bad_step", "give a function of a module, uncalled, and then its arguments"),
        ("return await ctx.step('pay', {})", "bad_step", "give a function of a module, uncalled"),
        ("return await ctx.step(leg(ctx, {}))", "bad_step", "give the function itself: ctx.step(leg, …)"),
        ("return await ctx.child(other(ctx, {}))", "bad_value", "give the function itself: ctx.child(other, …)"),
        ("return leg(ctx, {})", "never_awaited", "await leg(…)"),
        ("return await ctx.all([ctx.step(pay, {})])", "bad_value", "write an asterisk: ctx.all(*…)"),
        ("return await ctx.first(ctx.step(pay, n) for n in [{}])", "bad_value", "write an asterisk: ctx.first(*…)"),
        ("done = False\n    return await ctx.until(done)", "bad_value", "await ctx.until(lambda: …)"),
        (
            "order = {'id': 1}\n    return await ctx.event('paid', key=order)",
            "bad_key",
            "give a text or a number of it",
        ),
        (r"return await ctx.event('paid', key='a\0')", "bad_key", "a key has printable characters"),
        ("return await ctx.send('paid', key=['A-1'])", "bad_key", "give a text or a number of it"),
        ("async with ctx.lock({'id': 1}): ...", "bad_key", "give a text or a number of it"),
        ("raise StepFailed('no')", "bad_value", "raise an exception of your own"),
        ("@ctx.query" + HANDLER, "bad_query_handler", '@ctx.query("progress")'),
        ("@ctx.update" + HANDLER, "bad_update_handler", '@ctx.update("progress")'),
    ],
)
def test_a_wrong_form_is_told_with_the_right_one(flows: Flows, body: str, code: str, hint: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a coroutine that nobody awaits
        run = flows(HEAD.replace("BODY", body)).start("flow")
    assert run.error is not None, run.view
    assert run.error["type"] == code
    assert f"({hint}" in run.error["message"]


@pytest.mark.parametrize("kind", ["query", "update"])
def test_a_run_that_began_with_a_handler_without_a_name_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An earlier release registered nothing, and said nothing."""
    with monkeypatch.context() as patched:
        patched.setattr("stepwell.runtime.durable.context.check_handler_name", lambda *given: None)
        kit = flows(HEAD.replace("BODY", f"@ctx.{kind}{HANDLER}\n    return 7"), sessions=0)
        run = kit.start("flow")
        assert run.waiting_for == "event"
    kit.event("go")
    assert (run.status, run.result) == ("completed", 7), run.view


def test_a_run_that_waits_for_the_text_of_a_dict_goes_on(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier release began it."""
    with monkeypatch.context() as patched:
        for module in ("arguments", "sending"):
            patched.setattr(f"stepwell.runtime.durable.{module}.check_plain_key", lambda *given: None)
        kit = flows(HEAD.replace("BODY", "return await ctx.event('paid', key={'id': 1})"), sessions=0)
        run = kit.start("flow")
        assert run.waiting_for == "event"
    kit.event("paid", 7, key="{'id': 1}")
    assert (run.status, run.result) == ("completed", 7), run.view
