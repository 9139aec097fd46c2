"""Approvals: who may answer, how an answer counts, and how an approver delegates.

WAITING ── RECEIVED (ana: yes) ── RECEIVED (leo: delegated to bea) ── RESUMED (bea: yes) ──▶
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine import spending
from stepwell.engine.actions import Drop, Refuse
from stepwell.engine.parts import as_part, open_arm, open_arms
from stepwell.engine.records import Resumption
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import APPROVAL, answer_of, approvers, delegations, has_answered
from stepwell.limits import DELEGATIONS


def open_approval(token: Token) -> int | None:
    """Returns the arm of the first open approval; None if the token waits for no approval."""
    return open_arm(token, APPROVAL.name)


def open_approvals(token: Token) -> list[int]:
    """Returns the arms of all open approvals."""
    return open_arms(token, APPROVAL.name)


def approval_for(token: Token, by: str) -> int | None:
    """Returns the arm of the first open approval that `by` may give, else of the first; None if there is none."""
    arms = open_approvals(token)
    named = token.parked.arms if token.parked else ()
    return next((arm for arm in arms if not named[arm].parts or by in asked(token, arm)), next(iter(arms), None))


def asked(token: Token, *arms: int) -> tuple[str, ...]:
    """Returns the named approvers of these arms who have not answered yet; empty if anybody may answer."""
    named = [token.parked.arms[arm] for arm in arms] if token.parked else []
    names = dict.fromkeys(name for one in named for name in approvers(one, token.received))
    return tuple(name for name in names if not has_answered(token, name))


def not_waiting(token: Token, what: str = "an approval") -> Refuse:
    """Refuses an answer to a token that does not wait for it."""
    return Refuse(f"the run does not wait for {what}; it is {token.phase}", "not_waiting")


def vote(token: Token, resumption: Resumption, slot: int | None) -> Resumption | Drop | Refuse:
    """Turns an answer into a part of the wait. The same answer again is not a second one."""
    arm = approval_for(token, resumption.by)
    if arm is None or slot not in {None, token.waiting_slot}:
        return not_waiting(token)
    if (refusal := spending.refusal(token, resumption)) is not None:
        return refusal
    before = answer_of(token, resumption.by)
    if before is not None:
        same = before.kind == resumption.kind
        return Drop() if same else Refuse(f"{resumption.by} has answered already: {before.kind}", "already_answered")
    found = as_part(token, replace(resumption, arm=arm))
    return found or _not_asked(token, resumption.by, "say who answers: `by`")


def delegation(token: Token, by: str, to: str) -> Resumption | Drop | Refuse:
    """Delegates the approval from `by` to `to`."""
    arm = approval_for(token, by)
    if arm is None or token.parked is None:
        return not_waiting(token)
    if by not in asked(token, arm):
        return _not_asked(token, by, "anybody may give this approval")
    if to in approvers(token.parked.arms[arm], token.received) or has_answered(token, to):
        return Refuse(f"{to} is asked for this approval already", "already_an_approver", "hand it on to somebody else")
    if delegations(token.received) >= DELEGATIONS:
        return Refuse(f"this approval was handed on {DELEGATIONS} times", "too_many_delegations")
    return Resumption("delegated", arm, payload={"to": to}, by=by)


def _not_asked(token: Token, by: str, otherwise: str) -> Refuse:
    names = ", ".join(asked(token, *open_approvals(token)))
    hint = f"`by` names one of {names}" if names else otherwise
    return Refuse(f"{by or 'nobody'} is not asked for this approval", "not_an_approver", hint)
