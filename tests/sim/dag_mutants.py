"""Mutants of DAGs: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

from stepwell.definition.graph import Node
from stepwell.engine import decide
from stepwell.engine.forks import join
from stepwell.engine.forks.branches import fork_into
from stepwell.engine.forks.members import indexes_of
from stepwell.engine.forks.needs import knowing, view_of
from stepwell.engine.records import Fork
from stepwell.engine.token import Branch, Token
from stepwell.runtime.forks import forking
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log import logbook
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.ports import Joined

_following = Forking._following
_knowing = knowing


@contextmanager
def begun_after_one() -> Iterator[None]:
    """A step begins when one of those that it depends on has ended."""

    def ready(fork: Fork, ended: Iterable[int], last: int) -> list[int]:
        return [index for index, needs in enumerate(fork.needs) if last in needs]

    def is_passed_over(branch: Branch) -> bool:
        found = [branch.steps.get(name) for name in branch.needs]
        return bool(found) and all(view is not None and view.status == "skipped" for view in found)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(forking, "ready", ready))
        stack.enter_context(mock.patch.object(decide, "may_begin", return_value=True))
        stack.enter_context(mock.patch.object(decide, "is_passed_over", is_passed_over))
        yield


@contextmanager
def ready_before_arrival() -> Iterator[None]:
    """Which steps can begin is told by the set before this arrival: the last of their dependencies starts nothing."""

    def following(self: Forking, fork: ForkedParent, index: int, joined: Joined) -> list[int]:
        before = frozenset(one for one in joined.members if indexes_of([one]) != {index})
        return _following(self, fork, index, replace(joined, members=before, order=()))

    with mock.patch.object(Forking, "_following", following):
        yield


@contextmanager
def begun_by_nobody() -> Iterator[None]:
    """Who comes again goes on with the first step that can begin now, whichever it went on with before.

    In a fork of an earlier release: a later one keeps the order of the arrivals, so whoever comes again finds the same.
    """

    async def begun(self: Forking, *place: object) -> list[Standing]:
        return []

    def of_before(node: Node) -> Fork:
        return replace(fork_into(node), by_arrival=False)

    with (
        mock.patch.object(decide, "fork_into", of_before),
        mock.patch.object(Forking, "_pushed", begun),
    ):
        yield


@contextmanager
def arrived_by_page() -> Iterator[None]:
    """A DAG's steps arrive page by page, as the branches of a wide fork do."""

    with mock.patch.object(forking, "is_one_set", return_value=False):
        yield


@contextmanager
def knows_only_its_own() -> Iterator[None]:
    """A step knows of those that it depends on, and not of those before them."""

    def knowing(branch: Branch, ended: Iterable[Token]) -> Branch:
        known = list(ended)
        return _knowing(branch, known[-1:])

    with mock.patch.object(logbook, "knowing", knowing):
        yield


@contextmanager
def skipped_by_any() -> Iterator[None]:
    """A step is passed over when one of those that it depends on was skipped."""

    def is_passed_over(branch: Branch) -> bool:
        return any(branch.steps[name].status == "skipped" for name in branch.needs)

    with mock.patch.object(decide, "is_passed_over", is_passed_over):
        yield


@contextmanager
def brought_by_the_written() -> Iterator[None]:
    """A skipped step is missing from the run's result."""

    def outputs(ended: Sequence[Token]) -> dict[str, object]:
        found = [one for one in ended if view_of(one).status != "skipped"]
        return {one.branch.start: view_of(one).output for one in found if one.branch}

    with mock.patch.object(join, "outputs", outputs):
        yield


@contextmanager
def older_than_its_needs() -> Iterator[None]:
    """A step's records tell the time by its own machine's clock alone."""

    def knowing(branch: Branch, ended: Iterable[Token]) -> Branch:
        return replace(_knowing(branch, ended), started_ms=branch.started_ms)

    with mock.patch.object(logbook, "knowing", knowing):
        yield


OF_DAGS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    begun_after_one,
    ready_before_arrival,
    begun_by_nobody,
    arrived_by_page,
    knows_only_its_own,
    skipped_by_any,
    brought_by_the_written,
    older_than_its_needs,
)
