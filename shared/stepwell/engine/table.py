"""The transition table: every legal change of a token's phase, and each phase's reaction to each message.

All rules of legality are rows of this module. A record is a walk of signals through
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

from enum import StrEnum
from functools import cache

from stepwell.errors import EngineFault


class Phase(StrEnum):
    """The phase of a token. The two `evaluating` phases take no time: a token passes them within one record."""

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
    """One event that a record tells."""

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
    SPREAD = "spread"  # the tasks of a durable function wait for several things
    STUCK = "stuck"  # its code cannot be loaded
    RECEIVED = "received a part"
    RESUMED = "resumed"
    FORKED = "forked"
    JOINED = "joined"
    LOOKED = "looked"  # a durable function whose tasks wait has taken a turn
    INTERRUPTED = "interrupted"  # a durable function is told of its run's end
    BROKEN = "broken off"  # the run has failed, and is to be undone
    UNDONE = "undone"
    REDRIVEN = "redriven"  # the log of a failed run goes on in this one
    REOPENED = "reopened"  # and the fork in which it failed
    GATHERED = "gathered a start"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


P, S = Phase, Signal

LEGAL: dict[tuple[Phase, Signal], Phase] = {
    (P.INITIALIZING, S.STARTED): P.INITIALIZING,
    (P.INITIALIZING, S.GATHERED): P.INITIALIZING,
    (P.INITIALIZING, S.PICKED_UP): P.EXECUTING_STEP,
    (P.INITIALIZING, S.REDRIVEN): P.EXECUTING_STEP,
    (P.INITIALIZING, S.CANCELLED): P.CANCELLED,
    (P.INITIALIZING, S.FAILED): P.FAILED,
    (P.EXECUTING_STEP, S.REDRIVEN): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.REOPENED): P.WAITING_AT_FAN_IN,
    (P.EXECUTING_STEP, S.BEGAN): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.ACTED): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.ASKED): P.EXECUTING_STEP,
    (P.EXECUTING_STEP, S.NODE_ENDED): P.EVALUATING_DIVERGE,
    (P.EXECUTING_STEP, S.SLEPT): P.SLEEPING,
    (P.EXECUTING_STEP, S.AWAITED_APPROVAL): P.WAITING_FOR_APPROVAL,
    (P.EXECUTING_STEP, S.AWAITED_EVENT): P.WAITING_FOR_EVENT,
    (P.EXECUTING_STEP, S.CALLED): P.WAITING_FOR_CHILDREN,
    (P.EXECUTING_STEP, S.STUCK): P.WAITING_FOR_EVENT,
    (P.EXECUTING_STEP, S.SPREAD): P.WAITING_AT_FAN_IN,
    (P.EXECUTING_STEP, S.RECEIVED): P.EXECUTING_STEP,  # the end of a function's operation, before its tasks wait again
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
    (P.WAITING_AT_FAN_IN, S.RECEIVED): P.WAITING_AT_FAN_IN,  # of a function's tasks: an end, a timer, an update
    (P.WAITING_AT_FAN_IN, S.RESUMED): P.EXECUTING_STEP,
    (P.WAITING_AT_FAN_IN, S.LOOKED): P.EXECUTING_STEP,
    (P.WAITING_AT_FAN_IN, S.REDRIVEN): P.EXECUTING_STEP,
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
    """The columns of RECEPTION: the messages that can reach a token. engine/inputs.py has the data of each."""

    WAKE = "wake"
    STEP = "step"  # a step is about to run, or its attempt has ended
    LOST = "lost"  # its workers died
    TIMER = "timer"
    EVENT = "event"
    CHILD = "child"  # child runs have ended
    LOCKS = "locks"  # they are granted, or refused
    PERMIT = "permit"  # of a named limit: it is granted, or refused
    JOIN = "join"  # the join is complete
    OPERATION = "operation"  # of a durable function's tasks: it has ended
    UPDATE = "update"  # of a durable function
    APPROVE = "approve"
    REJECT = "reject"
    DELEGATE = "delegate"
    HEARTBEAT = "heartbeat"
    START = "start"
    GATHER = "gather"  # another start is to become part of the run, or no more are
    REDRIVE = "redrive"  # the run is to go on from where another failed
    LIMIT = "limit"  # its workflow's limit is reached
    PAUSE = "pause"
    UNPAUSE = "unpause"
    CLOSE = "close"  # no join waits for the branch
    CANCEL = "cancel"
    TERMINATE = "terminate"
    DEADLINE = "deadline"


class Verdict(StrEnum):
    """A phase's reaction to a message: act on it, drop it (late or duplicate), or refuse it to the caller."""

    TAKE = "take"
    DROP = "drop"
    REFUSE = "refuse"


# From left to right: initializing, executing_step, sleeping, waiting_for_approval, _event, _children, _at_fan_in,
# compensating, waiting_to_compensate, completed, failed, cancelled. t: take, d: drop, r: refuse.
# A capital: the message never meets the phase, as its sender reads the token first: tests/engine/test_unmet_rows.py.
_PHASES = (
    P.INITIALIZING, P.EXECUTING_STEP, P.SLEEPING, P.WAITING_FOR_APPROVAL, P.WAITING_FOR_EVENT, P.WAITING_FOR_CHILDREN,
    P.WAITING_AT_FAN_IN, P.COMPENSATING, P.WAITING_TO_COMPENSATE, P.COMPLETED, P.FAILED, P.CANCELLED,
)  # fmt: skip
_RECEPTION = """
           init exec  sleep approval event children fan_in  comp  to_comp completed failed cancelled
wake       t    t     t     t        t     t        t       t     t       t         t      t
step       t    t     D     D        d     D        d       t     d       d         d      d
lost       t    t     t     t        t     t        t       t     t       d         d      d
timer      d    d     t     t        t     t        t       d     t       d         d      d
event      D    d     d     t        t     d        d       d     t       d         d      d
child      D    d     D     D        D     t        D       d     D       D         d      d
locks      D    d     D     D        t     D        D       d     D       D         d      d
permit     D    d     D     D        t     D        D       d     t       D         d      d
join       D    d     D     D        D     D        t       d     D       d         d      d
operation  D    t     D     D        t     D        t       D     D       d         d      d
update     d    d     t     t        t     t        t       D     D       D         d      d
approve    r    r     r     t        r     r        r       r     r       r         r      r
reject     r    r     r     t        r     r        r       r     r       r         r      r
delegate   r    r     r     t        r     r        r       r     r       r         r      r
heartbeat  R    r     R     t        t     R        R       r     R       R         r      r
start      t    r     r     r        r     r        r       r     r       r         r      r
gather     t    r     r     r        r     r        r       r     r       r         r      r
redrive    t    t     R     R        R     R        t       R     R       R         R      R
limit      t    d     d     d        d     d        d       d     D       d         d      d
pause      t    t     t     t        t     t        t       r     r       r         r      r
unpause    t    t     t     t        t     t        t       r     r       r         r      r
close      t    t     t     t        t     t        t       D     D       d         d      d
cancel     t    t     t     t        t     t        t       r     r       d         d      d
terminate  t    t     t     t        t     t        t       t     t       d         d      d
deadline   t    t     t     t        t     t        t       d     d       d         d      d
"""  # an ended token takes a wake only to repeat the effects of its last record


_ROWS = [
    (phase, Message(message), letter)
    for message, *letters in map(str.split, _RECEPTION.strip().splitlines()[1:])
    for phase, letter in zip(_PHASES, letters, strict=True)
]
_VERDICTS = {verdict.value[0]: verdict for verdict in Verdict}
RECEPTION = {(phase, message): _VERDICTS[letter.lower()] for phase, message, letter in _ROWS}
UNMET = frozenset([(phase, message) for phase, message, letter in _ROWS if letter.isupper()])  # met in no run


@cache  # there are few ways through the table, and each record takes one
def walk(phase: Phase, signals: tuple[Signal, ...]) -> tuple[Phase, ...]:
    """Returns the phases passed; the token rests in the last one.

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
    """Returns a resting phase's reaction to a message."""
    return RECEPTION[phase, message]
