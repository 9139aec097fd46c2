"""Live output: what steps emit and yield reaches whoever reads along, and stands in no record."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import InvalidInput, NotFound, PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows

CODE = """
import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from datetime import date
from stepwell import Retry, Transient, step, workflow

@step
def says(ctx, words: list):
    for word in words:
        ctx.emit({"word": word})
    return len(words)

@step
async def says_later(ctx, word: str):
    ctx.emit(word)

@step
def yields(words: list):
    for word in words:
        yield word
    return "".join(words)

@step
async def yields_later(words: list):
    for word in words:
        await asyncio.sleep(0)
        yield word

@step
def yields_typed(words: list[str]) -> Generator[str, None, date]:
    yield from words
    return date(2026, 1, 2)

@step
def yields_iterated(words: list[str]) -> Iterator[str]:
    yield from words
    return "".join(words)

@step
async def yields_typed_later(words: list[str]) -> AsyncIterator[str]:
    for word in words:
        yield word

TRIES = []

@step(retry=Retry(1, initial_delay="1s"))
def stumbles(ctx):
    TRIES.append(1)
    ctx.emit("a")
    if len(TRIES) == 1:
        raise Transient("again")
    ctx.emit("b")

@step
def silent():
    return 1

@step
def wrong(ctx):
    ctx.emit(object())

@workflow
async def flow(ctx, name: str, words: list = ["a", "b"]):
    match name:
        case "says":
            return await ctx.step(says, words)
        case "later":
            return await ctx.step(says_later, "a")
        case "twice":
            return [await ctx.step(says, words), await ctx.step(says_later, "c")]
        case "yields":
            return await ctx.step(yields, words)
        case "yields later":
            return await ctx.step(yields_later, words)
        case "yields typed":
            day = await ctx.step(yields_typed, words)
            return [day.year, await ctx.step(yields_iterated, words), await ctx.run(yields_typed_later, words)]
        case "run later":
            return await ctx.run(yields_later, words)
        case "run":
            return await ctx.run(lambda: (yield from words), name="words")
        case "stumbles":
            return await ctx.step(stumbles)
        case "silent":
            return await ctx.step(silent)
        case "map":
            return await ctx.map(says, [["a"], ["b"]])
        case "wrong":
            return await ctx.step(wrong)
"""


@pytest.fixture
def kit(flows: Flows) -> Stepwell:
    return flows(CODE)


def output(kit: Stepwell, run: Run, after: str = "", limit: int = 500) -> list[Any]:
    kit.settle()
    return list(run_now(kit.service.output(run.id, after, limit)))


@pytest.mark.parametrize(
    ("name", "data", "result"),
    [
        ("says", [{"word": "a"}, {"word": "b"}], 2),
        ("later", ["a"], None),
        ("yields", ["a", "b"], "ab"),
        ("yields later", ["a", "b"], None),
        ("yields typed", ["a", "b", "a", "b", "a", "b"], [2026, "ab", None]),
        ("run later", ["a", "b"], None),
    ],
)
def test_readers_get_what_a_step_emits_or_yields(kit: Stepwell, name: str, data: object, result: object) -> None:
    run = kit.start("flow", {"name": name})
    assert [one.data for one in output(kit, run)] == data
    assert run.result == result
    assert "emit" not in str(run.history)


def test_so_they_do_of_steps_that_follow_each_other_at_once(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "twice"})
    assert [one.data for one in output(kit, run)] == [{"word": "a"}, {"word": "b"}, "c"]


def test_so_they_do_of_what_the_function_itself_runs(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "run"})
    assert ([one.data for one in output(kit, run)], run.status) == (["a", "b"], "completed")


def test_it_is_read_from_a_cursor_on_and_is_gone_after_an_hour(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "says"})
    (first,) = output(kit, run, limit=1)
    assert [one.data["word"] for one in output(kit, run, first.cursor)] == ["b"]
    kit.advance("59m")
    assert len(output(kit, run)) == 2
    kit.advance("2m")
    assert output(kit, run) == []


def test_a_further_attempt_begins_with_a_mark(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "stumbles"})
    kit.advance("2s")
    found = output(kit, run)
    assert [(one.attempt, one.is_first, one.data) for one in found] == [(1, True, "a"), (2, True, "a"), (2, False, "b")]


def test_branches_say_which_they_are(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "map"})
    assert {(one.token, one.data["word"]) for one in output(kit, run)} == {("0/0.0", "a"), ("0/0.1", "b")}


def test_a_step_that_emits_nothing_writes_nothing(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    put = kit.service.ports.mailbox.put_event

    async def noted(event: Any, *given: Any) -> bool:
        written.append(event)
        return await put(event, *given)

    monkeypatch.setattr(kit.service.ports.mailbox, "put_event", noted)
    assert (kit.start("flow", {"name": "silent"}).result, written) == (1, [])
    assert (kit.start("flow", {"name": "says"}).result, len(written)) == (2, 2)


def test_a_store_that_is_away_loses_the_output_and_not_the_step(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*given: object) -> bool:
        raise PortError("away")

    monkeypatch.setattr(kit.service.ports.mailbox, "put_event", away)
    run = kit.start("flow", {"name": "says"})
    assert (run.result, output(kit, run)) == (2, [])


def test_what_is_no_json_fails_the_step(kit: Stepwell) -> None:
    run = kit.start("flow", {"name": "wrong"})
    assert (run.status, run.error and run.error["type"]) == ("failed", "bad_output")


def test_what_cannot_be_read_is_refused(kit: Stepwell) -> None:
    with pytest.raises(NotFound):
        run_now(kit.service.output("run_none", "", 1))
    with pytest.raises(InvalidInput):
        run_now(kit.service.output(kit.start("flow", {"name": "silent"}).id, "\n", 1))
