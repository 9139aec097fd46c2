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
from stepwell.engine.table import ENDED, RECEPTION, UNMET, Message, Phase
from stepwell.engine.token import Token
from stepwell.runtime.log import door

MET: Counter[tuple[Phase, Message, str]] = Counter()

_M, _P = Message, Phase
_RARELY: dict[str, set[tuple[Message, Phase]]] = {  # hardly any schedule of thousands meets these, and why
    "of two workers at one step, one finds that the code is gone, or that the step is done and its fork open": {
        (_M.STEP, _P.WAITING_FOR_EVENT), (_M.STEP, _P.WAITING_AT_FAN_IN), (_M.STEP, _P.WAITING_TO_COMPENSATE),
    },
    "an event is still on its way to a wait when the next one, for child runs, has begun": {
        (_M.EVENT, _P.WAITING_FOR_CHILDREN),
    },
    "a run is cancelled, and undone, right before it is told of its locks": {(_M.LOCKS, _P.COMPENSATING)},
    "the run that a start is to join begins between the moments when its maker names it and reads it": {
        (_M.GATHER, phase) for phase in set(_P) - {_P.INITIALIZING, *ENDED}
    },
    "of two workers of one run, one is refused the permit that the other has": {
        (_M.LIMIT, phase) for phase in set(_P) - {_P.INITIALIZING, _P.CANCELLED, _P.FAILED}
    },
}  # fmt: skip
RARE = {(phase, message) for rows in _RARELY.values() for message, phase in rows} & set(RECEPTION) - UNMET


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
    """The rows that the schedules of CI meet."""
    return set(RECEPTION) - UNMET - set(RARE)


def met() -> set[tuple[Phase, Message]]:
    return {(phase, message) for phase, message, _ in MET}
