"""`stepwell check` finds options that an operation of `ctx` does not have, and literals that it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.modules import read_code
from stepwell.errors import Problem

HEAD = """
from stepwell import Retry, WorkflowContext, step, workflow

@step
def pay(n, *, card=""): ...
@step
def any_of(n, **more): ...
@workflow
async def other(ctx, n, *, retry=0, match=1): ...
"""


def problems(body: str) -> list[Problem]:
    text = f"{HEAD}@workflow\nasync def flow(ctx, given):\n    {body}\n"
    return check_code(read_code({"shop": ("shop.py", text)}))


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("ctx.approval('buy', aprovers=['ana'])", "ctx.approval has no option 'aprovers'", "approvers"),
        ("ctx.event('x', keys='a')", "ctx.event has no option 'keys'", "key"),
        ("ctx.callback(tiemout='1h')", "ctx.callback has no option 'tiemout'", "timeout"),
        ("ctx.all(other(ctx, 1), max_concurency=2)", "ctx.all has no option 'max_concurency'", "max_concurrency"),
        ("ctx.first(ctx.timer(1), nam='a')", "ctx.first has no option 'nam'", "name"),
        ("ctx.map(pay, [1, 2], max_concurency=2)", "ctx.map has no option 'max_concurency'", "max_concurrency"),
        ("ctx.map(pay, [1, 2], tiemout=2)", "ctx.map has no option 'tiemout'", "timeout"),
        ("ctx.map(lambda n: other(ctx, n), [1, 2], tolarate={})", "ctx.map has no option 'tolarate'", "tolerate"),
        ("ctx.run(lambda: 1, tiemout=2)", "ctx.run has no option 'tiemout'", "timeout"),
        ("ctx.child('other', {}, detatched=True)", "ctx.child has no option 'detatched'", "detached"),
        ("ctx.send('x', {}, keys='a')", "ctx.send has no option 'keys'", "key"),
        ("ctx.until(lambda: given, tiemout=2)", "ctx.until has no option 'tiemout'", "timeout"),
        ("ctx.transact([], nane='a')", "ctx.transact has no option 'nane'", "name"),
    ],
)
def test_an_option_that_an_operation_does_not_have_is_found(call: str, message: str, hint: str) -> None:
    (found,) = problems(f"return await {call}")
    assert (found.code, found.message, found.line, found.severity) == ("bad_arguments", message, 12, "error")
    assert f"`{hint}`" in found.hint or f"known: {hint}" in found.hint


def test_a_sleep_until_a_time_is_given_the_time_itself() -> None:
    (found,) = problems("return await ctx.sleep(until=given)")
    assert (found.code, found.hint) == ("bad_arguments", "give the datetime itself, as in ctx.sleep(when)")


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("ctx.step(pay, 1, retry=3)", "bad_value", "`retry` must be a Retry or a dict, not 3"),
        ("ctx.step(pay, 1, retry={'max_retires': 3})", "bad_value", "a retry policy has no 'max_retires'"),
        ("ctx.map(pay, [1], retry={'max_retries': '3'})", "bad_value", "`max_retries` must be a whole number"),
        ("ctx.run(lambda: 1, retry=True)", "bad_value", "`retry` must be a Retry or a dict, not True"),
        ("ctx.approval('buy', need='1')", "bad_value", "`need` must be a whole number, not '1'"),
        ("ctx.approval('buy', need=0)", "bad_value", "0 of approvers cannot be asked for"),
        ("ctx.approval('buy', need=2, approvers=['ana'])", "bad_value", "2 of 1 approvers cannot be asked for"),
        ("ctx.approval('buy', approvers='ana')", "bad_value", "approvers is a list of names"),
        ("ctx.event('x', match=5)", "bad_value", "`match` must be text, not 5"),
        ("ctx.event('x', match='event.n >')", "bad_expression", "`match` cannot be read"),
        ("ctx.event('x', timeout='soon')", "bad_duration", "'soon' is not a duration"),
        ("ctx.event('x', timeout=[1])", "bad_duration", "a duration cannot be a list"),
        ("ctx.event('x', timeout='400d')", "timeout_too_long", "400d is over the maximum of ctx.event"),
        ("ctx.sleep('soon')", "bad_duration", "'soon' is not a duration"),
        ("ctx.timer(-1)", "bad_duration", "the duration -1 is negative"),
        ("ctx.sleep('400d')", "timeout_too_long", "400d is over the maximum of ctx.sleep"),
        ("ctx.callback(heartbeat='soon')", "bad_duration", "'soon' is not a duration"),
        ("ctx.callback(heartbeat='2h', timeout='1h')", "bad_value", "`heartbeat` of 2h is not shorter than the wait"),
        ("ctx.step(pay, 1, at_most_once='yes')", "bad_value", "`at_most_once` must be True or False, not 'yes'"),
        ("ctx.run(lambda: 1, at_most_once=1)", "bad_value", "`at_most_once` must be True or False, not 1"),
        ("ctx.map(pay, [1], at_most_once='yes')", "bad_value", "`at_most_once` must be True or False, not 'yes'"),
        ("ctx.step(pay, 1, pool=5)", "bad_value", "`pool` cannot be 5"),
        ("ctx.step(pay, 1, pool='a b')", "bad_value", "`pool` cannot be 'a b'"),
        ("ctx.map(pay, [1], pool='')", "bad_value", "`pool` cannot be ''"),
        ("ctx.step(pay, 1, name=5)", "bad_name", "5 cannot be a name"),
        ("ctx.step(pay, 1, name=0)", "bad_name", "0 cannot be a name"),
        ("ctx.run(lambda: 1, name='two words')", "bad_name", "'two words' cannot be a name"),
        ("ctx.all(other(ctx, 1), name=['a'])", "bad_name", "['a'] cannot be a name"),
        ("ctx.map(pay, [1], name=5)", "bad_name", "5 cannot be a name"),
        ("ctx.callback(name='')", "bad_name", "'' cannot be a name"),
        ("ctx.transact([], name=None)", "bad_name", "None cannot be a name"),
        ("ctx.map(pay, [1], max_concurrency='2')", "bad_value", "`max_concurrency` must be a whole number, not '2'"),
        ("ctx.all(other(ctx, 1), max_concurrency=-1)", "bad_value", "`max_concurrency` must be a whole number, not -1"),
        ("ctx.all(other(ctx, 1), max_concurrency=True)", "bad_value", "must be a whole number, not True"),
        ("ctx.map(pay, [1], tolerate={'percent': 300})", "bad_value", "must be a number from 0 to 100, not 300"),
        ("ctx.map(pay, [1], tolerate={'count': 1, 'percent': 2})", "bad_value", "`tolerate` has count and percent"),
        ("ctx.approval('buy', need=1.5)", "bad_value", "`need` must be a whole number, not 1.5"),
        ("ctx.step(pay, 1, timeout=0)", "bad_value", "`timeout` must be longer than 0"),
        ("ctx.map(pay, [1], timeout='0s')", "bad_value", "`timeout` must be longer than 0"),
        ("ctx.callback(heartbeat=0)", "bad_value", "`heartbeat` must be longer than 0"),
        ("ctx.map(pay, [1], tolerate=3)", "bad_value", "3 does not say how many may fail"),
        ("ctx.all(other(ctx, 1), tolerate={'percents': 3})", "bad_value", "{'percents': 3} does not say how many"),
        (
            "ctx.all(other(ctx, 1), tolerate={'count': '3'})",
            "bad_value",
            "{'count': '3'} does not say how many may fail",
        ),
    ],
)
def test_a_literal_that_an_operation_refuses_is_found(call: str, code: str, message: str) -> None:
    (found,) = problems(f"return await {call}")
    assert (found.code, found.line, found.severity) == (code, 12, "error")
    assert message in found.message


@pytest.mark.parametrize(
    "call",
    [
        "ctx.step(pay, 1, card='visa', retry={'maxRetries': 3}, timeout=None)",
        "ctx.step(pay, 1, retry=Retry(3))",
        "ctx.map(any_of, [1], colour='red', max_concurrency=2)",
        "ctx.map(pay, [1], card='visa', retry=Retry(3), pool='big')",
        "ctx.map(given.of, [1], colour='red')",
        "ctx.map(function=pay, items=[1])",
        "ctx.run(lambda n, colour: n, 1, colour='red')",
        "ctx.run(given.of, colour='red')",
        "ctx.event(name='x', key=3, match='event.n > 5', timeout=given)",
        "ctx.event('x', **given)",
        "ctx.approval(type='buy', data={}, approvers=['ana', 'leo'], need=2)",
        "ctx.approval('buy', approvers=given, need=2)",
        "ctx.callback(heartbeat='1h', timeout='2h', type=int)",
        "ctx.callback(heartbeat='1h')",
        "ctx.child('other', {}, detached=True)",
        "ctx.child(other, 1, retry=3, match=5)",
        "ctx.until(lambda: given, timeout='900d')",
        "ctx.sleep(duration=given)",
        "ctx.step(pay, 1, at_most_once=True, pool='big', name='own')",
        "ctx.step(pay, 1, at_most_once=None, pool=None, name=None)",
        "ctx.step(pay, 1, at_most_once=given, pool=given, name=given)",
        "ctx.map(pay, [1], name='', max_concurrency=None, tolerate=None)",
        "ctx.map(pay, [1], max_concurrency=given, tolerate={'count': given})",
        "ctx.all(other(ctx, 1), name='', max_concurrency=0, tolerate={'percent': 2.5})",
        "ctx.all(other(ctx, 1), return_exceptions=given, tolerate=3)",
        "ctx.start(other(ctx, 1), name='two words')",
    ],
)
def test_what_an_operation_takes_is_left_alone(call: str) -> None:
    assert problems(f"return await {call}") == []


@pytest.mark.parametrize(
    ("annotation", "count"), [("", 1), (": WorkflowContext", 1), (": 'stepwell.WorkflowContext'", 1), (": Till", 0)]
)
def test_a_helper_is_checked_unless_its_ctx_is_another(annotation: str, count: int) -> None:
    text = f"""
    from stepwell import workflow
    from tills import Till
    async def leg(ctx{annotation}, n): return await ctx.event("x", keys=n)
    @workflow
    async def flow(ctx): return await leg(ctx, 1)
    """
    assert len(check_code(read_code({"shop": ("shop.py", dedent(text))}))) == count


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            "ctx.event('paid', 'A-1')",
            "ctx.event takes 1 argument by position, not 2",
            "it is ctx.event(name, *, key, match, timeout, type)",
        ),
        (
            "ctx.approval('buy', given, ['ana'])",
            "ctx.approval takes 2 arguments by position, not 3",
            "it is ctx.approval(type, data, *, approvers, need, timeout)",
        ),
        ("ctx.event()", "ctx.event needs 'name'", "it is ctx.event(name, *, key, match, timeout, type)"),
        ("ctx.sleep()", "ctx.sleep needs 'duration'", "it is ctx.sleep(duration)"),
    ],
)
def test_arguments_that_do_not_fit_an_operation_are_told(call: str, message: str, hint: str) -> None:
    (found,) = problems(f"return await {call}")
    assert (found.code, found.message, found.hint) == ("bad_arguments", message, hint)


@pytest.mark.parametrize(
    "call",
    ["ctx.event(*given)", "ctx.event(**given)", "ctx.event(name='paid')", "ctx.approval()", "ctx.step(any_of, 1)",
     "ctx.all(other(ctx, 1), other(ctx, 2))", "ctx.map(items=given, function=pay)", "ctx.send('paid', given, key='a')"],
)  # fmt: skip
def test_arguments_that_fit_an_operation_are_left_alone(call: str) -> None:
    assert problems(f"return await {call}") == []
