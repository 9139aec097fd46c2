"""Approvals: who may answer, how an answer counts, and how an approver delegates.

WAITING ── RECEIVED (ana: yes) ── RECEIVED (leo: delegated to bea) ── RESUMED (bea: yes) ──▶
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.engine.actions import Drop, Refuse
from stepwell.engine.limits import spending
from stepwell.engine.parts import as_part, open_arm, open_arms
from stepwell.engine.records import Resumption
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import APPROVAL, answer_of, approvers, delegations, has_answered
from stepwell.engine.waits.aside import is_for_limit
from stepwell.engine.waits.kind import kind_named
from stepwell.engine.waits.limit import limit_named
from stepwell.limits import DELEGATIONS

NOT_WAITING = "not_waiting"  # the code of a refusal


def open_approval(token: Token) -> int | None:
    """Returns the arm of the first open approval; None if the token waits for no approval."""
    return open_arm(token, APPROVAL.name)


def open_approvals(token: Token) -> list[int]:
    """Returns the arms of all open approvals."""
    return open_arms(token, APPROVAL.name)


def approval_for(token: Token, by: str, name: str = "") -> int | None:
    """Returns the arm of the open approval of this name; without one, of the first that `by` may give, else the first.

    None if there is none.
    """
    arms = open_approvals(token)
    if name:
        return next((arm for arm in arms if name_of(token, arm) == name), None)
    return next((arm for arm in arms if _may_give(token, by, arm)), next(iter(arms), None))


def name_of(token: Token, arm: int) -> str:
    """Returns the name of one of several approvals; "" if the wait has one alone."""
    return token.parked.arms[arm].name if token.parked else ""


def _may_give(token: Token, by: str, arm: int) -> bool:
    """Tells whether `by` may give this open approval, and has not answered it yet."""
    is_for_all = token.parked is not None and not token.parked.arms[arm].parts
    return by in asked(token, arm) or (is_for_all and not has_answered(token, by, name_of(token, arm)))


def asked(token: Token, *arms: int) -> tuple[str, ...]:
    """Returns the named approvers of these arms who have not answered yet; empty if anybody may answer."""
    named = [token.parked.arms[arm] for arm in arms] if token.parked else []
    found = (
        name for one in named for name in approvers(one, token.received) if not has_answered(token, name, one.name)
    )
    return tuple(dict.fromkeys(found))


def not_waiting(token: Token, what: str = "an approval") -> Refuse:
    """Refuses an answer to a token that does not wait for it."""
    return Refuse(f"the run does not wait for {what}; {_standing(token)}", NOT_WAITING)


def _standing(token: Token) -> str:
    if token.ended:
        return "it has ended"
    parked = token.parked
    if parked is None or token.resumption is not None or token.undoing is not None:
        return "it is being undone" if token.undoing is not None else "it is under way"
    if is_for_limit(parked):
        return f"it waits for a permit of the limit {limit_named(parked)}"
    things = [kind_named(arm.kind).awaited for arm in parked.arms] or [kind_named(parked.kind).awaited]
    return f"it waits for {', '.join(dict.fromkeys(things))}"


def vote(token: Token, resumption: Resumption, slot: int | None, name: str = "") -> Resumption | Drop | Refuse:
    """Turns an answer into a part of the wait. The same answer again is not a second one.

    `name`: of the approval, without which whoever has answered one of several answers no other: it may be a repetition.
    """
    arms = open_approvals(token)
    if not arms or slot not in {None, token.waiting_slot}:
        return not_waiting(token)
    if (refusal := spending.refusal(token, resumption)) is not None:
        return refusal
    before = answer_of(token, resumption.by, name)
    if before is not None:
        left = [arm for arm in arms if not name and _may_give(token, resumption.by, arm)]
        return _which(token, before, left) if left else _again(before, resumption)
    arm = approval_for(token, resumption.by, name)
    if arm is None:
        return not_waiting(token, f"the approval {name!r}")
    found = as_part(token, replace(resumption, arm=arm))
    return found or _not_asked(token, resumption.by, "say who answers: `by`, or --by")


def _again(before: Resumption, resumption: Resumption) -> Drop | Refuse:
    if before.kind == resumption.kind:
        return Drop()
    return Refuse(f"{resumption.by} has answered already: {before.kind}", "already_answered")


def _which(token: Token, before: Resumption, left: Sequence[int]) -> Refuse:
    """Refuses an answer that may be for another approval, or a repetition."""
    named = [f"{token.node}/{name_of(token, arm)}" for arm in left]
    message = f"{before.by} has answered {name_of(token, before.arm)}, and may answer {len(named)} more"
    return Refuse(message, "already_answered", f"name one as `wait`, or --step: {', '.join(named)}")


def delegation(token: Token, by: str, to: str, name: str = "") -> Resumption | Drop | Refuse:
    """Delegates the approval of this name from `by` to `to`; without a name, all that `by` is asked for."""
    arm = approval_for(token, by, name)
    if arm is None or token.parked is None:
        return not_waiting(token, f"the approval {name!r}" if name and open_approvals(token) else "an approval")
    if by not in asked(token, arm):
        return _not_asked(token, by, "anybody may give this approval")
    arms = [arm] if name else [one for one in open_approvals(token) if by in asked(token, one)]
    handed_on = [one for one in arms if to not in approvers(token.parked.arms[one], token.received)]
    if not handed_on or has_answered(token, to, name_of(token, handed_on[0])):
        return Refuse(f"{to} is asked for this approval already", "already_an_approver", "hand it on to somebody else")
    if delegations(token.received) >= DELEGATIONS:
        return Refuse(f"this approval was handed on {DELEGATIONS} times", "too_many_delegations")
    return Resumption("delegated", handed_on[0], payload={"to": to} | ({"approval": name} if name else {}), by=by)


def _not_asked(token: Token, by: str, otherwise: str) -> Refuse:
    names = ", ".join(asked(token, *open_approvals(token)))
    hint = f"`by`, or --by, names one of {names}" if names else otherwise
    message = f"{by} is not asked for this approval" if by else "nobody is named as the one who answers"
    return Refuse(message, "not_an_approver", hint)
