"""The invariants of DAGs: when a step may begin, what it knows then, when it is passed over, and what the run brings.

All of them by the logs and by what the definition says of `depends_on`, not by the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stepwell.definition.graph import Json
from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, End, Kind, Record, Status
from stepwell.engine.token import Token
from tests.sim.tree import Opened, fired, forks_of, is_cancel
from tests.sim.world import World


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run, by name, with their logs."""

    opened: Opened
    dag: Mapping[str, tuple[str, ...]]
    logs: Mapping[str, list[Record]]  # of those that have begun

    def last(self, name: str) -> Record | None:
        """What ended it."""
        records = self.logs.get(name)
        return records[-1] if records and isinstance(records[-1].next, End) else None

    def branch(self, name: str) -> str:
        return self.opened.branches[list(self.dag).index(name)]

    def begun(self) -> Iterator[tuple[str, list[Record]]]:
        """Those that were not cancelled before they began."""
        return ((name, records) for name, records in self.logs.items() if not is_cancel(records[0]))

    def before(self, name: str) -> set[str]:
        """All that it depends on, and what those depend on."""
        return set(self.dag[name]).union(*(self.before(need) for need in self.dag[name]))

    def is_skipped(self, name: str) -> bool:
        last = self.last(name)
        return last is not None and last.skipped

    def writes(self, name: str) -> dict[str, Json]:
        if self.is_skipped(name):
            return {name: None}
        return dict(fold(self.logs[name], Token(self.branch(name))).scope)


def laws_of_dags(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """All of them, of a run whose steps were let begin."""
    dag = world.program.graph.dependencies
    for opened in forks_of(ROOT, logs.get(ROOT, [])) if dag else ():
        begun = {name: logs[branch] for name, branch in zip(dag, opened.branches, strict=True) if logs.get(branch)}
        steps = Steps(opened, dag, begun)
        yield from _dependencies(world, steps)
        yield from _passed_over(steps)
        yield from _known(steps)
        yield from _result(steps)


def _dependencies(world: World, steps: Steps) -> Iterator[str]:
    """A step begins when all it depends on have completed, and not before: by the order of writing and the clock."""
    order = world.seen.order
    for name, records in steps.begun():
        for need in steps.dag[name]:
            last, first_at = steps.last(need), order.get((steps.branch(name), 0), 0)
            if last is None or order.get((steps.branch(need), last.slot), 0) > first_at:
                yield f"dependencies: {name} began before {need} had ended"
            elif getattr(last.next, "status", None) is not Status.COMPLETED:
                yield f"dependencies: {name} began, although {need} ended with {last.next}"
            elif records[0].at_ms < last.at_ms:
                yield f"causal times: {name} is {last.at_ms - records[0].at_ms} ms older than {need}, which it needs"


def _passed_over(steps: Steps) -> Iterator[str]:
    """A step all of whose dependencies were skipped is skipped too, and only such a one, or one that failed."""
    for name, records in steps.begun():
        needs = steps.dag[name]
        is_due = bool(needs) and all(steps.is_skipped(need) for need in needs)
        is_passed = [record.slot for record in records if record.skipped and record.error is None] == [0]
        if is_due != is_passed and records[0].kind is not Kind.ENDED:
            yield f"skips: {name} is {'' if is_passed else 'not '}passed over, and it depends on {needs}"
        if is_passed and len(records) > 1:
            yield f"skips: {name} was passed over, and has {len(records)} records"


def _known(steps: Steps) -> Iterator[str]:
    """What a step is given tells how all before it have ended, and what they have written."""
    for name, records in steps.logs.items():
        for record in records:
            given = record.output.get("given") if isinstance(record.output, dict) else None
            if given is None or record.kind is not Kind.STEP:
                continue
            before = steps.before(name)
            ended = {one: "skipped" if steps.is_skipped(one) else "completed" for one in before}
            written = sorted({key for one in before for key in steps.writes(one)})
            if given != {"steps": ended, "state": written}:
                yield f"dependencies: {name} was given {given}, not {ended} and {written}"


def _result(steps: Steps) -> Iterator[str]:
    """The run's result is what the steps brought, by name; the scope what they wrote, in the definition's order."""
    joined = steps.opened.closed_by
    if joined is None or not fired(steps.opened) or joined.error is not None:
        return
    lasts = {name: steps.last(name) for name in steps.dag}
    brought = {name: None if last is None or last.skipped else last.output for name, last in lasts.items()}
    if joined.output != brought:
        yield f"law 3: the run's result is {joined.output}, and its steps brought {brought}"
    written = _over(steps.writes(name) for name in steps.dag)
    if joined.writes != written and (joined.writes is not None or written != {joined.node: joined.output}):
        yield f"law 3: the run's steps wrote {written}, and its scope gets {joined.writes}"


def _over(writes: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    return {key: value for one in writes for key, value in one.items()}
