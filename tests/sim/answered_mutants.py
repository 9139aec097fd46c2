"""Mutants of answered steps: an answer is lost, counts for another attempt, or its time is another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import answered, attempts
from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.names import Moment
from stepwell.engine.pushing import pushes
from stepwell.engine.records import Failure, Parked, Pause, Resumption, Topic
from stepwell.engine.retry import Policy
from stepwell.engine.token import Token
from stepwell.engine.waits.callback import CallbackWait
from stepwell.engine.waits.topics import callback_topic
from stepwell.runtime.calls import callbacks
from stepwell.runtime.calls.callbacks import Callbacks
from stepwell.runtime.forks import forking

Mutant = Callable[[], AbstractContextManager[None]]
_pause_for, _failure = answered.pause_for, CallbackWait.failure


def _without_pause(is_left_out: Callable[[Failure], bool]) -> AbstractContextManager[Any]:
    """No look for an answer after such a failure."""

    def pause_for(
        moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None
    ) -> Pause | None:
        if outcome.failure is not None and is_left_out(outcome.failure):
            return None
        return _pause_for(moment, token, action, outcome, policy)

    return mock.patch.object(attempts, "pause_for", pause_for)


@contextmanager
def early_answer_lost_by_a_failure() -> Iterator[None]:
    """A step that fails is not asked whether its answer has come."""
    with _without_pause(lambda _: True):
        yield


@contextmanager
def early_answer_lost_with_its_worker() -> Iterator[None]:
    """Nor an at_most_once step whose worker died."""
    with _without_pause(lambda failure: failure.category == "worker_lost"):
        yield


@contextmanager
def answer_of_an_earlier_attempt() -> Iterator[None]:
    """Each attempt takes what is sent to any token before its own."""

    def topics_of(self: CallbackWait, moment: Moment, token: Token, pause: Pause) -> tuple[Topic, ...]:
        places = range(token.entered_slot, -1, -1)
        return tuple(callback_topic(f"{moment.run.run_id}|{token.id}|s{slot}") for slot in places)

    with mock.patch.object(CallbackWait, "topics_of", topics_of):
        yield


@contextmanager
def limit_from_the_wait() -> Iterator[None]:
    """The time that the step itself took does not count."""

    def pause_for(
        moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None
    ) -> Pause | None:
        wait = action.step.callback
        pause = _pause_for(moment, token, action, outcome, policy)
        return replace(pause, timeout_ms=wait.timeout_ms) if pause and wait and outcome.failure is None else pause

    with mock.patch.object(attempts, "pause_for", pause_for):
        yield


@contextmanager
def early_answer_dropped_by_its_wait() -> Iterator[None]:
    """What came before the pause for the callback is not for it."""

    def takes(self: CallbackWait, moment: Moment, token: Token, at_ms: int) -> bool:
        return token.parked is None or at_ms >= token.parked.since_ms

    with mock.patch.object(CallbackWait, "takes", takes):
        yield


@contextmanager
def failure_forgotten_by_its_pause() -> Iterator[None]:
    """A step that failed, and has no answer, ends as if nobody had answered in time."""

    def failure(self: CallbackWait, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        asked = parked.asked_by_step
        forgot = replace(parked, asked_by_step=replace(asked, failing=None)) if asked is not None else parked
        return _failure(self, forgot, resumption, node, waited)

    with mock.patch.object(CallbackWait, "failure", failure):
        yield


@contextmanager
def answer_accepted_when_over() -> Iterator[None]:
    """Whoever answers does not look whether the wait has ended meanwhile."""

    with mock.patch.object(callbacks, "_is_open", return_value=True):
        yield


@contextmanager
def told_over_though_taken() -> Iterator[None]:
    """An answer that its wait takes between two looks is said to have come too late."""
    is_taken = Callbacks._is_taken
    before: dict[int, bool] = {}

    async def told_once(self: Callbacks, topic: Topic) -> bool:
        if before.pop(id(topic), None) is None:
            before[id(topic)] = found = await is_taken(self, topic)
            return found
        return False

    with mock.patch.object(Callbacks, "_is_taken", told_once):
        yield


@contextmanager
def part_hides_a_parent() -> Iterator[None]:
    """Who began a wait behind the join of its branch leaves it unregistered once a part of it has come."""
    with mock.patch.object(forking, "is_left_to", pushes):
        yield


OF_ANSWERED: tuple[Mutant, ...] = (
    early_answer_lost_by_a_failure,
    early_answer_lost_with_its_worker,
    answer_of_an_earlier_attempt,
    limit_from_the_wait,
    early_answer_dropped_by_its_wait,
    failure_forgotten_by_its_pause,
    answer_accepted_when_over,
    told_over_though_taken,
)
OF_BEATEN: tuple[Mutant, ...] = (part_hides_a_parent,)
