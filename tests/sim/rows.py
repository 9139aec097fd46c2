"""Which rows of the reception table the schedules meet: (phase, message), and what was decided there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from stepwell.engine.actions import Action
from stepwell.engine.decide import decide as real_decide
from stepwell.engine.inputs import Input
from stepwell.engine.names import Moment
from stepwell.engine.table import RECEPTION, Message, Phase
from stepwell.engine.token import Token
from stepwell.runtime.log import door

MET: Counter[tuple[Phase, Message, str]] = Counter()

_M, _P = Message, Phase
_ELSEWHERE = frozenset({_M.REDRIVE, _M.PAUSE, _M.UNPAUSE})  # tests/lifecycle has schedules of them
_PASSING = frozenset({_P.EVALUATING_DIVERGE, _P.EVALUATING_BRANCH})  # no token rests there
_RARE = {  # a schedule meets these once in thousands, or never
    _M.CHILD: set(_P) - {_P.WAITING_FOR_CHILDREN, _P.EXECUTING_STEP},  # nobody tells a parent that has moved on
    _M.LOCKS: set(_P) - {_P.WAITING_FOR_EVENT},
    _M.PERMIT: set(_P) - {_P.WAITING_FOR_EVENT},
    _M.DELEGATE: set(_P) - {_P.INITIALIZING, _P.WAITING_FOR_APPROVAL, _P.COMPLETED},
    _M.HEARTBEAT: set(_P) - {_P.WAITING_FOR_EVENT},  # a client looks before it beats
    _M.UPDATE: set(_P) - {_P.INITIALIZING, _P.EXECUTING_STEP, _P.WAITING_FOR_EVENT, _P.WAITING_AT_FAN_IN},
    _M.GATHER: set(_P) - {_P.INITIALIZING},  # a start looks whether the run is open
    _M.LIMIT: set(_P) - {_P.INITIALIZING},  # only a late worker is refused where another was not
    _M.JOIN: set(_P) - {_P.WAITING_AT_FAN_IN},  # who arrives reads the parent first
    _M.OPERATION: set(_P) - {_P.WAITING_AT_FAN_IN},  # who ends one reads its function first
    _M.START: set(_P) - {_P.INITIALIZING},  # a client begins once
    _M.STEP: set(_P) - {_P.INITIALIZING, _P.EXECUTING_STEP, _P.COMPENSATING, _P.CANCELLED, _P.FAILED},
    _M.TERMINATE: {_P.SLEEPING, _P.WAITING_FOR_CHILDREN, _P.EXECUTING_STEP, _P.WAITING_FOR_APPROVAL, _P.COMPENSATING},
    _M.REJECT: {_P.WAITING_FOR_CHILDREN, _P.WAITING_AT_FAN_IN, _P.COMPENSATING, _P.SLEEPING, _P.EXECUTING_STEP},
    _M.APPROVE: {_P.WAITING_FOR_CHILDREN},
    _M.CLOSE: {_P.COMPENSATING},  # a branch is not undone by itself
    _M.EVENT: {_P.INITIALIZING, _P.WAITING_FOR_CHILDREN, _P.SLEEPING, _P.COMPENSATING},
    _M.TIMER: {_P.INITIALIZING},  # no wait has been begun
    _M.LOST: {_P.CANCELLED},
    _M.DEADLINE: set(),
    _M.WAKE: {_P.COMPLETED},  # a worker asks nothing of what has ended, but a copy that falls behind at that moment
}


@contextmanager
def counted() -> Iterator[None]:
    """Notes each decision of the door."""

    def decide(moment: Moment, token: Token, given: Input) -> Action:
        action = real_decide(moment, token, given)
        MET[token.phase, given.message, type(action).__name__] += 1
        return action

    with mock.patch.object(door, "decide", decide):
        yield


def expected() -> set[tuple[Phase, Message]]:
    """The rows that schedules can be relied upon to meet. A wait for code while a run is undone is for other tests."""
    return {
        (phase, message)
        for phase, message in RECEPTION
        if message not in _ELSEWHERE
        and phase not in _PASSING | {_P.WAITING_TO_COMPENSATE}
        and phase not in _RARE.get(message, set())
    }


def met() -> set[tuple[Phase, Message]]:
    return {(phase, message) for phase, message, _ in MET}
