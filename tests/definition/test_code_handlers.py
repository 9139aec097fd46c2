"""`stepwell check` finds handlers of queries and updates that nobody can call, and that change nothing."""

from __future__ import annotations

import pytest

from tests.definition.test_context_calls import problems

ADD = "@ctx.update('add')\n    def add(n): given.append(n)\n    "
TAKE = "@ctx.update('{}')\n    def take(n): given.remove(n)\n    "


def test_a_second_update_of_a_name_is_told_with_the_line_of_the_first() -> None:
    (found,) = problems(ADD + TAKE.format("add") + "await ctx.sleep(1)")
    assert (found.code, found.line) == ("duplicate_handler", 14)
    assert found.message == "the update 'add' of line 12 is replaced by this one, and never called"
    assert found.hint == "give one of them another name"


def test_so_is_a_second_query_however_it_is_registered() -> None:
    (found,) = problems("ctx.query('all', lambda: given)\n    ctx.query('all', lambda: 1)\n    await ctx.sleep(1)")
    assert (found.code, found.line) == ("duplicate_handler", 13)


@pytest.mark.parametrize(
    "line",
    [
        ADD + TAKE.format("take") + "await ctx.sleep(1)",
        ADD + "await ctx.sleep(1)\n    " + TAKE.format("add") + "await ctx.sleep(1)",
        ADD + "if not given: return 1\n    " + TAKE.format("add") + "await ctx.sleep(1)",
        "if given: ctx.query('all', lambda: 1)\n    else: ctx.query('all', lambda: 2)",
        "ctx.query('all', lambda: 1)\n    " + ADD.replace("add", "all"),
        "for name in ('a', 'b'): ctx.query(name, lambda: 1)",
    ],
)
def test_handlers_that_take_turns_are_left_alone(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("handler", "hint"),
    [
        ("async def progress(): return 1", "def progress():"),
        ("def progress(n): return n", "read the variables of the function; an update takes an input"),
        ("def progress(n=1, *, of): return n", "read the variables of the function; an update takes an input"),
    ],
)
def test_a_query_that_cannot_be_answered_is_told(handler: str, hint: str) -> None:
    (found,) = problems(f"@ctx.query('progress')\n    {handler}\n    await ctx.sleep(1)")
    assert (found.code, found.hint) == ("bad_query_handler", hint)


@pytest.mark.parametrize("handler", ["def progress(): return 1", "def progress(n=1, *all, of=2): return n"])
def test_a_query_without_parameters_is_left_alone(handler: str) -> None:
    assert problems(f"@ctx.query('progress')\n    {handler}\n    await ctx.sleep(1)") == []


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ("paid = False", "paid = True"),
        ("paid: str = ''", "paid = n"),
        ("paid = 0", "paid += 1"),
        ("paid: bool = False", "paid: bool = True"),
    ],
)
def test_an_update_that_changes_a_variable_of_its_own_is_told(before: str, change: str) -> None:
    text = f"{before}\n    @ctx.update('pay')\n    def pay(n): {{}}\n    await ctx.until(lambda: paid)"
    (found,) = problems(text.format(change))
    assert (found.code, found.line, found.hint) == ("not_nonlocal", 14, "write `nonlocal paid` as its first line")
    assert problems(text.format(f"nonlocal paid; {change.replace(': bool', '')}")) == []


@pytest.mark.parametrize(
    "text",
    [
        "paid = await ctx.step(any_of, 1)\n    @ctx.update('pay')\n    def pay(n): paid = n\n    return paid",
        "paid = 1\n    @ctx.update('pay')\n    def pay(n):\n        paid = n\n        return paid\n    return paid",
        "@ctx.update('pay')\n    def pay(n): paid = n\n    await ctx.sleep(1)",
        "paid = {}\n    @ctx.update('pay')\n    def pay(n): paid['n'] = n\n    return paid",
        "paid = 0\n    def made():\n        class Card: paid = 1\n        return Card()\n    return paid, made().paid",
    ],
)
def test_a_variable_that_only_the_update_needs_is_left_alone(text: str) -> None:
    assert problems(text) == []


def test_an_update_that_wants_a_ctx_of_its_own_is_told() -> None:
    (found,) = problems("@ctx.update('add')\n    def add(ctx, n): ctx.state['n'] = n\n    await ctx.sleep(1)")
    assert found.code == "bad_update_handler"
    assert found.hint == "leave it out: the handler has the ctx of the function around it"


@pytest.mark.parametrize("made", ["ctx.step(pay, n)", "other(n)"])
def test_an_update_that_returns_what_nobody_awaits_is_told(made: str) -> None:
    text = "async def leg(n): ...\n    @ctx.update('pay')\n    {}def take(n): return {}{}\n    await ctx.sleep(1)"
    made = made.replace("other", "leg")
    (found,) = problems(text.format("", "", made))
    name = made.partition("(")[0]
    assert (found.code, found.hint) == ("never_awaited", f"async def take(…), and return await {name}(…)")
    assert problems(text.format("async ", "await ", made)) == []


def test_so_is_a_task_that_gives_a_value_to_a_variable_of_its_own() -> None:
    text = "done = False\n    async def watch():\n        {}done = True\n    {}\n    return done"
    (found,) = problems(text.format("", "await watch()"))
    assert found.message == "watch gives a value to a variable done of its own, not to that of the function"
    assert problems(text.format("nonlocal done; ", "await watch()")) == []
    (found,) = problems(text.format("nonlocal done; ", "await ctx.run(watch)"))
    assert found.code == "lost_in_branch"  # `nonlocal` would not help


def test_variables_of_two_functions_within_it_are_left_alone() -> None:
    first = "async def a():\n        done = ''\n        return done\n    "
    assert problems(f"{first}async def b(): done = 'b'\n    await a(), await b()") == []
