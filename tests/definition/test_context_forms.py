"""`stepwell check` finds forms in which `ctx` cannot be used, and says what to write."""

from __future__ import annotations

import pytest

from tests.definition.test_context_calls import problems


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("await ctx.patched('audit')", "bad_await", "it answers at once: leave out `await`"),
        ("return await ctx.now()", "bad_await", "it answers at once: leave out `await`"),
        ("await ctx.lock('till')", "bad_await", "async with ctx.lock(…): what it is for"),
        ("with ctx.lock('till'): await ctx.step(pay, 1)", "bad_await", "async with ctx.lock(…):"),
        ("await ctx.all([ctx.step(pay, 1), ctx.step(pay, 2)])", "bad_value", "write an asterisk: ctx.all(*[…])"),
        ("await ctx.first(ctx.step(pay, n) for n in given)", "bad_value", "write an asterisk: ctx.first(*[…])"),
        ("return await ctx.continue_as(flow, 1)", "bad_await", "return it: the run then begins anew"),
        ("for got in ctx.map(pay, given): given = got", "bad_await", "await it first: for … in await ctx.map(…)"),
        ("async for got in ctx.map(pay, [1]): got += 1", "bad_await", "await it first: for … in await ctx.map(…)"),
        ("return [one for one in ctx.all(*given)]", "bad_await", "await it first: for … in await ctx.all(…)"),
        ("ctx.log('paid')", "bad_value", "ctx.log.info(…)"),
        (
            "@ctx.update\n    def take(n): return n",
            "bad_update_handler",
            '@ctx.update("take")',
        ),
        (
            "one, two = await ctx.first(ctx.event('a'), ctx.timer('1h'))",
            "bad_value",
            "take as many names, or read `.winner` and `.value`",
        ),
        ("raise ctx.continue_as(flow, 1)", "never_returned", "return it"),
        (
            "ctx.log.info('paid', n=given)",
            "bad_arguments",
            'ctx.log.info("… %s", given), or extra={"n": given}',
        ),
        ("return ctx.start(other(ctx, 1))", "never_awaited", "return await ctx.start(…)"),
        ("got = ctx.start(ctx.step(pay, 1))\n    return got['id']", "never_awaited", "await ctx.start(…)"),
        ("await ctx.step(pay, ctx.step(pay, 1))", "never_awaited", "await ctx.step(…)"),
        ("got = ctx.step(pay, 1)\n    await ctx.child(other, got)", "never_awaited", "await ctx.step(…)"),
        ("ctx.state['paid'] = ctx.step(pay, 1)", "never_awaited", "await ctx.step(…)"),
        ("async def leg(): ...\n    return leg()['id']", "never_awaited", "await leg(…)"),
        ("async def leg(): ...\n    if leg(): return 1", "never_awaited", "await leg(…)"),
        ("async def leg(): ...\n    got = leg()", "never_awaited", "await leg(…)"),
        ("async def leg(): ...\n    for one in leg(): given = one", "never_awaited", "await leg(…)"),
        ("async def leg(): ...\n    await ctx.step(pay, leg())", "never_awaited", "await leg(…)"),
        ("return ctx.step(pay, 1)", "never_awaited", "return await ctx.step(…)"),
        ("async def leg(): ...\n    return leg()", "never_awaited", "return await leg(…)"),
        ("if ctx.event('paid'): return 1", "never_awaited", "await ctx.event(…)"),
        ("while given and ctx.event('paid'): given -= 1", "never_awaited", "await ctx.event(…)"),
        ("return ctx.step(pay, 1)['id']", "never_awaited", "await ctx.step(…)"),
        ("return f'paid {ctx.step(pay, 1)}'", "never_awaited", "await ctx.step(…)"),
        ("got = ctx.step(pay, 1)\n    return got.total", "never_awaited", "await ctx.step(…)"),
        ("got = ctx.step(pay, 1)", "never_awaited", "await ctx.step(…)"),
        ("got = ctx.step(pay, 1)\n    given.append(got)\n    return got['id']", "never_awaited", "await ctx.step(…)"),
        ("got = ctx.map(pay, [1])\n    return [one for one in got if one]", "never_awaited", "await ctx.map(…)"),
        ("got = ctx.map(pay, [1])\n    for one in got: given = one", "never_awaited", "await ctx.map(…)"),
        ("return await ctx.child(other(ctx, 1))", "bad_value", "give the function itself: ctx.child(other, …)"),
    ],
)
def test_a_form_that_raises_is_told_with_the_one_to_write(line: str, code: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [(code, hint)]


@pytest.mark.parametrize(
    "line",
    [
        "if ctx.patched('audit'): return ctx.now()",
        "async with ctx.lock('till'): await ctx.step(pay, 1)",
        "await ctx.all(*[ctx.step(pay, n) for n in (1, 2)])",
        "await ctx.all(*(ctx.step(pay, n) for n in (1, 2)), max_concurrency=2)",
        "with open_till() as till: await ctx.run(till.pay)",
        "async for handle in ctx.as_completed(given): await handle",
        "one, two = await ctx.first(ctx.event('a'), ctx.event('b'), ctx.timer('1h'))",
        "one, two = await ctx.first(ctx.event('a'), given)",
        "one, *two = await ctx.first(ctx.event('a'), ctx.timer('1h'))",
        "got = ctx.step(pay, 1)\n    return (await got)['id']",
        "got = ctx.step(pay, 1)\n    if given: return 1\n    return await ctx.all(got)",
        "got = ctx.start(ctx.step(pay, 1))\n    if given: got.cancel()\n    print(f'{got}')\n    return await got",
        "got = ctx.step(pay, 1)\n    got = await got\n    return got['id']",
        "got = ctx.callback()\n    await ctx.step(pay, got.url)",
        "got = ctx.step(pay, 1) if given else None\n    return got and await got",
        "def pay_one(n): return ctx.step(pay, n)\n    return await ctx.map(pay_one, given)",
        "return await ctx.map(lambda n: ctx.step(pay, n), given)",
        "return ctx.continue_as(flow, 1)",
        "ctx.log.info('paid', extra={'n': 1}, exc_info=True)",
        "got = ctx.start(ctx.step(pay, 1))\n    return await got",
        "async def leg(): ...\n    got = leg()\n    return await ctx.all(got)",
        "async def legs():\n        yield 1\n    got = legs()\n    async for one in legs(): given = one",
        "got = ctx.callback()\n    ctx.state['url'] = got.url",
        "ctx.log.info('paid')\n    @ctx.query('paid')\n    def paid(): return 1",
        "got = ctx.start(ctx.step(pay, 1))\n    got.cancel()",
        "got = ctx.step(pay, 1)\n    return given(got.__await__())",
        "@given\n    async def tell(): ...\n    tell()\n    return tell()",
    ],
)
def test_a_form_that_there_is_has_no_problem(line: str) -> None:
    assert [one.code for one in problems(line) if one.code != "bad_arguments"] == []
