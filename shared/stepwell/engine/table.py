"""The transition table: every legal change of a token's phase, and what each phase does with each message.

Everything that decides whether something is legal lives here, as rows. A record is a walk of signals through
LEGAL; a signal without a row raises and nothing happens. Late and duplicate messages are rows of RECEPTION
(`drop`), not ifs elsewhere. The diagrams in docs/ are drawn from these two tables, and a test holds them to it.

    initializing -> executing_step -> evaluating_diverge -> evaluating_branch -> executing_step … -> completed
                          |  ^                |                                         failed, cancelled
                          v  |                +-> executing_step (retry, back_to, skip_to)
        sleeping, waiting_for_approval, waiting_for_event, waiting_for_children, waiting_at_fan_in

    any of these where the run has begun -> compensating -> failed
                                                 ^  v
                                        waiting_to_compensate
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from stepwell.errors import EngineFault


class Phase(StrEnum):
    """Where a token is. The two `evaluating` phases take no time: they are passed within one record."""

    INITIALIZING = "initializing"
    EXECUTING_STEP = "executing_step"
    EVALUATING_DIVERGE = "evaluating_diverge"
    EVALUATING_BRANCH = "evaluating_branch"
    SLEEPING = "sleeping"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_EVENT = "waiting_for_event"
    WAITING_FOR_CHILDREN = "waiting_for_children"
    WAITING_AT_FAN_IN = "waiting_at_fan_in"
    COMPENSATING = "compensating"
    WAITING_TO_COMPENSATE = "waiting_to_compensate"  # for code
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Signal(StrEnum):
    """One thing that a record tells."""

    PICKED_UP = "picked up"
    STARTED = "started"
    BEGAN = "began"
    NODE_ENDED = "node ended"  # an attempt ended, a wait is over, a node without code was passed
    ACTED = "acted"
    ASKED = "asked to pause"  # the step returned a directive
    RETRIED = "retried"
    CONTINUED = "continued"
    ROUTED = "routed"
    SLEPT = "slept"
    AWAITED_APPROVAL = "awaited approval"
    AWAITED_EVENT = "awaited event"
    CALLED = "called child runs"
    STUCK = "stuck"  # its code cannot be loaded
    RECEIVED = "received a part"
    RESUMED = "resumed"
    FORKED = "forked"
    JOINED = "joined"
    INTERRUPTED = "interrupted"  # a durable function is told of its run's end
    BROKEN = "broken off"  # the run has failed, and is to be undone
    UNDONE = "undone"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


P, S = Phase, Signal

LEGAL: dict[tuple[Phase, Signal], Phase] = {
    (P.INITIALIZING, S.STARTED): P.INITIALIZING,
    (P.INITIALIZING, S.PICKED_UP): P.EXECUTING_STEP,
    (P.INITIALIZING, S.CANCELLED): P.CANCELLED,
    (P.INITIALIZING, S.FAILED): P.FAILED,
    (P.EXECUTING_STEP, S.BEGAN): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.ACTED): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.ASKED): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.NODE_ENDED): P.EVALUATING_DIVERGE,
    (P.EXECUTING_STEP, S.SLEPT): P.SLEEPING,
    (P.EXECUTING_STEP, S.AWAITED_APPROVAL): P.WAITING_FOR_APPROVAL,
    (P.EXECUTING_STEP, S.AWAITED_EVENT): P.WAITING_FOR_EVENT,
    (P.EXECUTING_STEP, S.CALLED): P.WAITING_FOR_CHILDREN,
    (P.EXECUTING_STEP, S.STUCK): P.WAITING_FOR_EVENT,
    (P.EXECUTING_STEP, S.CANCELLED): P.CANCELLED,
    (P.EXECUTING_STEP, S.FAILED): P.FAILED,
    (P.EVALUATING_DIVERGE, S.RETRIED): P.EXECUTING_STEP,
    (P.EVALUATING_DIVERGE, S.ASKED): P.EXECUTING_STEP,  # governance: the step may go on once approved
    (P.EVALUATING_DIVERGE, S.ROUTED): P.EXECUTING_STEP,
    (P.EVALUATING_DIVERGE, S.CONTINUED): P.EVALUATING_BRANCH,
    (P.EVALUATING_DIVERGE, S.COMPLETED): P.COMPLETED,
    (P.EVALUATING_DIVERGE, S.FAILED): P.FAILED,
    (P.EVALUATING_BRANCH, S.ROUTED): P.EXECUTING_STEP,
    (P.EVALUATING_BRANCH, S.FORKED): P.WAITING_AT_FAN_IN,
    (P.EVALUATING_BRANCH, S.COMPLETED): P.COMPLETED,
    (P.EVALUATING_BRANCH, S.FAILED): P.FAILED,
    (P.EVALUATING_BRANCH, S.CANCELLED): P.CANCELLED,  # a durable function has cleaned up
    (P.SLEEPING, S.RECEIVED): P.SLEEPING,  # an update
    (P.SLEEPING, S.RESUMED): P.EXECUTING_STEP,
    (P.SLEEPING, S.CANCELLED): P.CANCELLED,
    (P.SLEEPING, S.FAILED): P.FAILED,
    (P.WAITING_FOR_APPROVAL, S.RECEIVED): P.WAITING_FOR_APPROVAL,
    (P.WAITING_FOR_APPROVAL, S.RESUMED): P.EXECUTING_STEP,
    (P.WAITING_FOR_APPROVAL, S.CANCELLED): P.CANCELLED,
    (P.WAITING_FOR_APPROVAL, S.FAILED): P.FAILED,
    (P.WAITING_FOR_EVENT, S.RECEIVED): P.WAITING_FOR_EVENT,
    (P.WAITING_FOR_EVENT, S.RESUMED): P.EXECUTING_STEP,
    (P.WAITING_FOR_EVENT, S.CANCELLED): P.CANCELLED,
    (P.WAITING_FOR_EVENT, S.FAILED): P.FAILED,
    (P.WAITING_FOR_CHILDREN, S.RECEIVED): P.WAITING_FOR_CHILDREN,
    (P.WAITING_FOR_CHILDREN, S.RESUMED): P.EXECUTING_STEP,
    (P.WAITING_FOR_CHILDREN, S.CANCELLED): P.CANCELLED,
    (P.WAITING_FOR_CHILDREN, S.FAILED): P.FAILED,
    (P.WAITING_AT_FAN_IN, S.JOINED): P.EVALUATING_BRANCH,
    (P.WAITING_AT_FAN_IN, S.CANCELLED): P.CANCELLED,
    (P.WAITING_AT_FAN_IN, S.FAILED): P.FAILED,
}

_BEGUN = (
    P.EXECUTING_STEP,
    P.SLEEPING,
    P.WAITING_FOR_APPROVAL,
    P.WAITING_FOR_EVENT,
    P.WAITING_FOR_CHILDREN,
    P.WAITING_AT_FAN_IN,
)
LEGAL |= {(phase, S.BROKEN): P.COMPENSATING for phase in (*_BEGUN, P.EVALUATING_DIVERGE, P.EVALUATING_BRANCH)}
LEGAL |= {(phase, S.INTERRUPTED): P.EXECUTING_STEP for phase in _BEGUN}
LEGAL |= {
    (P.COMPENSATING, S.UNDONE): P.COMPENSATING,
    (P.COMPENSATING, S.FAILED): P.FAILED,  # at its end, or terminated; it cannot be cancelled
    (P.COMPENSATING, S.STUCK): P.WAITING_TO_COMPENSATE,
    (P.WAITING_TO_COMPENSATE, S.RESUMED): P.COMPENSATING,
    (P.WAITING_TO_COMPENSATE, S.FAILED): P.FAILED,
}

ENDED = frozenset({P.COMPLETED, P.FAILED, P.CANCELLED})
PARKED = frozenset({P.SLEEPING, P.WAITING_FOR_APPROVAL, P.WAITING_FOR_EVENT, P.WAITING_FOR_CHILDREN})


class Message(StrEnum):
    """What can reach a token from outside its own worker."""

    WAKE = "wake"
    TIMER = "timer"
    EVENT = "event"
    CHILD = "child"  # the end of a child run
    APPROVE = "approve"
    REJECT = "reject"
    START = "start"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    DEADLINE = "deadline"


class Verdict(StrEnum):
    """What a phase does with a message: act on it, pass over it (late, or twice), or tell the caller it cannot be."""

    TAKE = "take"
    DROP = "drop"
    REFUSE = "refuse"


_RECEPTION = """
                       wake  timer  event  child  approve  reject  start   cancel  terminate  deadline
initializing           take  drop   drop   drop   refuse   refuse  take    take    take       take
executing_step         take  drop   drop   drop   refuse   refuse  refuse  take    take       take
sleeping               take  take   drop   drop   refuse   refuse  refuse  take    take       take
waiting_for_approval   take  take   take   drop   take     take    refuse  take    take       take
waiting_for_event      take  take   take   drop   refuse   refuse  refuse  take    take       take
waiting_for_children   take  take   drop   take   refuse   refuse  refuse  take    take       take
waiting_at_fan_in      take  drop   drop   drop   refuse   refuse  refuse  take    take       take
compensating           take  drop   drop   drop   refuse   refuse  refuse  refuse  take       drop
waiting_to_compensate  take  take   take   drop   refuse   refuse  refuse  refuse  take       drop
completed              take  drop   drop   drop   refuse   refuse  refuse  drop    drop       drop
failed                 take  drop   drop   drop   refuse   refuse  refuse  drop    drop       drop
cancelled              take  drop   drop   drop   refuse   refuse  refuse  drop    drop       drop
"""  # an ended token takes a wake only to repeat the effects of its last record


def _rows(text: str) -> dict[tuple[Phase, Message], Verdict]:
    head, *lines = [line.split() for line in text.strip().splitlines()]
    return {
        (Phase(phase), Message(message)): Verdict(verdict)
        for phase, *verdicts in lines
        for message, verdict in zip(head, verdicts, strict=True)
    }


RECEPTION: dict[tuple[Phase, Message], Verdict] = _rows(_RECEPTION)


def walk(phase: Phase, signals: Iterable[Signal]) -> tuple[Phase, ...]:
    """The phases passed, the last one being where the token rests.

    Raises EngineFault for a signal that the phase has no row for; nothing is changed then.
    """
    path: list[Phase] = []
    for signal in signals:
        after = LEGAL.get((phase, signal))
        if after is None:
            raise EngineFault(f"a token that is {phase} cannot be {signal}", code="illegal_transition")
        path.append(after)
        phase = after
    return tuple(path)


def receive(phase: Phase, message: Message) -> Verdict:
    """What a resting phase does with a message."""
    return RECEPTION[phase, message]
