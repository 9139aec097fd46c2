"""What a caller is told whose input the table refuses: what happened, under a stable code, and what to do."""

from __future__ import annotations

from stepwell.engine import approvals, gathering
from stepwell.engine.actions import Refuse
from stepwell.engine.inputs import Input
from stepwell.engine.table import Message
from stepwell.engine.token import Token


def refusal(token: Token, given: Input) -> Refuse:
    """Returns the refusal of this input, as the token stands."""
    match given.message:
        case Message.PAUSE | Message.UNPAUSE if token.ended:
            return Refuse("the run has ended", "run_ended")
        case Message.PAUSE | Message.UNPAUSE if token.cleaning is not None:
            return Refuse("the run was cancelled, and cleans up", "cleaning_up", "terminate ends it at once")
        case Message.PAUSE | Message.UNPAUSE:
            return Refuse("the run is being undone, which cannot be paused", "compensating",
                          "terminate ends it at once, without the rest of its compensations")  # fmt: skip
        case Message.START:
            return Refuse("the run is not idle", "not_idle")
        case Message.CANCEL if token.cleaning is not None:
            return Refuse("the run is cancelled already, and cleans up", "cleaning_up",
                          "terminate ends it at once, without the rest of its clean-up")  # fmt: skip
        case Message.GATHER:
            return Refuse("the run has begun", gathering.IS_OVER)
        case Message.REDRIVE:
            return Refuse("the run is under way", "not_ended")
        case Message.CANCEL:
            return Refuse("the run is being undone, which cannot be cancelled", "compensating",
                          "terminate ends it at once, without the rest of its compensations")  # fmt: skip
        case Message.HEARTBEAT:
            return Refuse("the wait for this callback is over", "not_waiting")
        case _:
            return approvals.not_waiting(token)
