"""A worker dies in a step, its code cannot be loaded when it is to run again, and then it can: the key is the same."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import DefinitionError, PortError
from stepwell.testing.kit import Run, Stepwell

HEAD = """
import asyncio
from pathlib import Path
from stepwell import Retry, step, workflow
def note(ctx):
    with Path(__file__).with_name("keys.txt").open("a") as keys:
        keys.write(f"{ctx.step} {ctx.attempt} {ctx.idempotency_key}\\n")
def work(ctx, n=0):
    note(ctx)
    return n
def refuse():
    raise ValueError("no luck")
@step(retry=Retry(1, on=["step"]))
def flaky(ctx):
    note(ctx)
    if ctx.attempt == 1:
        raise ValueError("not yet")
@step(at_most_once=True)
def once(ctx):
    note(ctx)
@workflow
async def flow(ctx):
"""
FUNCTIONS = {
    "the first step": "    await ctx.step(work)",
    "a later step": "    await ctx.step(work)\n    await ctx.step(flaky)",
    "a step after a wait": "    await ctx.sleep(60)\n    await ctx.step(flaky)",
    "a step of its function's name": "    await ctx.step(flaky, name='flow')\n    await ctx.step(flaky, name='flow')",
    "ctx.all": "    await ctx.all(ctx.step(work), ctx.step(flaky))",
    "ctx.map": "    await ctx.map(work, [1, 2])",
    "asyncio": "    await asyncio.gather(ctx.step(work), ctx.step(flaky))",
    "a throttled step": """
    await ctx.step(flaky, throttle='few')
    await ctx.step(flaky, throttle='few', name='flow')
""",
}
GRAPHS = {
    "a graph": "timeline: [{name: a, run: python:shop.work}, {name: b, run: python:shop.flaky}]",
    "a DAG": "steps: [{name: a, run: python:shop.work}, {name: b, run: python:shop.flaky}]",
    "a rollback": """
failure_policy: compensate
timeline: [{name: a, run: python:shop.work, compensate: {run: python:shop.flaky}}, {name: b, run: python:shop.refuse}]
""",
    "a batch": """
durability: batch
timeline: [{name: a, run: python:shop.work}, {name: b, run: python:shop.work}, {name: c, run: python:shop.flaky}]
""",
    "branches": """
nodes:
  begin: {transitions: [{to: a, foreach: "{{ [1, 2] }}"}]}
  a: {run: python:shop.work, transitions: [{to: b}]}
  b: {run: python:shop.flaky}
""",
}


class Shop:
    """A folder whose code can be broken, and whose workers die before the n-th of their records."""

    def __init__(self, path: Path, body: str) -> None:
        self._path, self._mended, self.dies_at, self.appended = path, HEAD + body, 0, 0
        (path / "shop.py").write_text(self._mended)
        (path / "limits.yaml").write_text("limits: {few: {concurrency: 1}}")
        self.kit = Stepwell(path)
        log = self.kit.service.ports.log
        self._append: Callable[..., Any] = log.append
        log.append = self._dying  # type: ignore[method-assign]  # of this log

    async def _dying(self, *given: Any, **named: Any) -> Any:
        self.appended += 1
        if self.appended == self.dies_at:
            raise PortError("the worker died")
        return await self._append(*given, **named)

    def deploy(self, *, is_broken: bool) -> None:
        (self._path / "shop.py").write_text("def work(:\n" if is_broken else self._mended)
        with suppress(DefinitionError):
            self.kit.reload()

    def breaks(self, dies_at: int) -> None:
        """The worker dies before this append; what it did is done again by broken code, and then by mended code."""
        self.dies_at = dies_at
        for _ in range(3):
            with suppress(PortError):
                self.kit.advance("50s")
            if self.appended >= dies_at:
                break
        self.deploy(is_broken=True)
        self.kit.advance("3m")
        self.deploy(is_broken=False)
        self.kit.advance("1h")

    @property
    def keys(self) -> dict[tuple[str, str], set[str]]:
        """The keys of each step: by its name, and the attempts of each by theirs."""
        found = defaultdict[tuple[str, str], set[str]](set)
        file = self._path / "keys.txt"
        for line in file.read_text().splitlines() if file.exists() else ():
            name, attempt, key = line.split()
            found[name, attempt].add(key)
        return dict(found)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Shop]]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before, made = set(sys.modules), list[Shop]()

    def make(body: str) -> Shop:
        path = tmp_path / str(len(made))
        path.mkdir()
        made.append(Shop(path, body))
        return made[-1]

    yield make
    for one in made:
        one.kit.close()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def played(shop: Shop, definition: str, dies_at: int) -> Run:
    """A run whose worker dies before this append, and then waits for code."""
    if definition:
        shop.kit.define(f"workflow: flow\n{definition}")
    run = shop.kit.start("flow")
    shop.breaks(dies_at)
    return run


@pytest.mark.parametrize("name", [*FUNCTIONS, *GRAPHS])
def test_a_step_keeps_its_key_over_a_wait_for_code(shop: Callable[[str], Shop], name: str) -> None:
    """Wherever the worker dies: each visit of a step has one key, in all of its attempts."""
    body, definition = FUNCTIONS.get(name, "    await ctx.step(work)"), GRAPHS.get(name, "")
    whole = shop(body)
    status = played(whole, definition, 0).status
    assert status in ("completed", "compensated")
    for at in range(1, whole.appended + 1):
        broken = shop(body)
        assert played(broken, definition, at).status == status, at
        assert {step: len(keys) for step, keys in broken.keys.items()} == {
            step: len(keys) for step, keys in whole.keys.items()
        }, (at, broken.keys)
        for (step, attempt), keys in broken.keys.items():
            assert keys == broken.keys[step, "1"], (at, step, attempt)


@pytest.mark.parametrize("body", ["await ctx.step(once)", "await ctx.all(ctx.step(once), ctx.step(work))", ""])
def test_a_step_that_runs_at_most_once_still_does(shop: Callable[[str], Shop], body: str) -> None:
    definition = "" if body else "timeline: [{name: once, run: python:shop.work, at_most_once: true}]"
    whole = shop(f"    {body or 'pass'}")
    assert played(whole, definition, 0).status == "completed"
    for at in range(1, whole.appended + 1):
        broken = shop(f"    {body or 'pass'}")
        run = played(broken, definition, at)
        ran = (broken._path / "keys.txt").read_text().count("once 1") if broken.keys else 0
        assert run.status == "completed" or (run.error or {})["type"] == "outcome_unknown", at
        assert ran == 1, at


def test_a_step_that_is_redriven_keeps_the_key_that_it_kept_over_a_wait_for_code(shop: Callable[[str], Shop]) -> None:
    body = """
    await ctx.step(work)
    await ctx.step(fails)
@step
def fails(ctx):
    note(ctx)
    raise ValueError("no luck")
"""
    for at in (1, 2):  # the records of the redriven run
        broken = shop(body)
        run = played(broken, "", 2)
        assert run.status == "failed"
        again = run.redrive()
        broken.breaks(broken.appended + at)
        assert again.status == "failed"
        assert again.redrive().status == "failed"
        assert broken.keys["fails", "1"] == {f"{run.id}:0:1"}, at
