"""Explains the approvals of a wait: who is still asked, what has been answered, and when others are asked too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stepwell.engine.approvals import asked, name_of, open_approvals
from stepwell.engine.records import Arm, Parked
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import APPROVAL, approvers, asks_several, has_votes, votes_of
from stepwell.engine.waits.kind import Waker

_BY = re.compile(r'^(POST /runs/\S+/approve or /reject(?: with "wait": "[^"]+")?) (?:with|and) "by": (.+)$')


def approvals_text(token: Token) -> str:
    """Returns who must agree to each open approval, and who has answered; "" if anybody may, alone."""
    return " ".join(_texts(token))


def _texts(token: Token) -> Iterator[str]:
    for index, arm in _open(token):
        if has_votes(arm):
            name = f"{arm.name}: " if _is_one_of_several(token.parked) else ""
            votes = votes_of(one for one in token.received if one.arm == index)
            answers = listed([f"{one['by']} {one['decision']}" for one in votes], "and")
            who = _who(token, arm, "one" if name else "One")
            yield f"{name}{who} must agree; {answers or 'nobody has answered yet'}."


def _who(token: Token, arm: Arm, one: str) -> str:
    """Returns who must agree. `one`: that word, as it is written here."""
    names = approvers(arm, token.received)
    if not names:
        return f"{arm.need} people"
    if len(names) == arm.need:
        return listed(names, "and")
    return f"{one if arm.need == 1 else arm.need} of {listed(names, 'and')}"


def with_approvers(found: Sequence[Waker], token: Token, run_id: str, branch: str) -> list[Waker]:
    """Returns what can end a wait, with who may answer its approvals, and when others are asked too."""
    plain = {waker for _, arm in _open(token) for waker in APPROVAL.wakers(arm, run_id, branch)}
    calls = list(dict.fromkeys(_call(token, index, run_id, branch) for index, _ in _open(token)))
    whole = [two for one in found for two in (calls if one in plain else [one])]
    timers = [*_escalation(token), *(one for one in whole if one.what == "timer")]
    return [*(one for one in whole if one.what != "timer"), *sorted(timers, key=lambda one: one.at_ms or 0)]


def by_credentials(detail: str) -> str:
    """Returns a waker's detail for a caller whom credentials name: there `by` decides nothing."""
    return _BY.sub(r"\1 by \2, whose credentials must say so", detail)


def _call(token: Token, arm: int, run_id: str, branch: str) -> Waker:
    wait = f"{branch or token.node}/{name_of(token, arm)}" if _is_one_of_several(token.parked) else branch
    where = f' with "wait": "{wait}"' if wait else ""
    by = listed([f'"{name}"' for name in asked(token, arm)], "or")
    whom = f'{" and" if wait else " with"} "by": {by}' if by else " by the approver"
    return Waker("call", f"POST /runs/{run_id}/approve or /reject{where}{whom}")


def _escalation(token: Token) -> list[Waker]:
    """Returns the timer after which others are asked too; it is the wait's own, whatever approval asks for it."""
    parked = token.parked
    if parked is None:
        return []
    for at_ms, escalated in (due for index, _ in _open(token) for due in APPROVAL.dues(parked, index, token.received)):
        names = escalated.payload["to"]
        return [Waker("timer", f"{listed(names, 'and')} {'is' if len(names) == 1 else 'are'} asked too", at_ms)]
    return []


def _open(token: Token) -> list[tuple[int, Arm]]:
    return [(index, token.parked.arms[index]) for index in open_approvals(token)] if token.parked else []


def _is_one_of_several(parked: Parked | None) -> bool:
    return parked is not None and asks_several(parked)


def listed(names: Sequence[str], last: str) -> str:
    """Returns names as a list for people: `ana, leo and kim`."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
