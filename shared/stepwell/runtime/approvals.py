"""Approvals: who may answer now, what an answer does, and how an approver hands the approval on.

WAITING ── RECEIVED (ana: yes) ── RECEIVED (leo: delegated to bea) ── RESUMED (bea: yes) ──▶
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from stepwell.engine.forks import branch_id, fork_id, is_branch_id
from stepwell.engine.parts import answer_of, approvers, as_part, has_answered, is_complete
from stepwell.engine.records import ROOT, Resumption
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.token import Token
from stepwell.errors import Conflict, InvalidInput
from stepwell.limits import DELEGATIONS
from stepwell.runtime.coordinator import Coordinator
from stepwell.runtime.logbook import Standing

SHOWN = 10  # branches that a message names

_RECEIVED = {"approved": Received.APPROVE, "rejected": Received.REJECT}


class Approvals:
    """What a caller may do with a wait for an approval. Each answer is definite: it counts, or a Conflict says why."""

    def __init__(
        self,
        coordinator: Coordinator,
        standing: Callable[[str, str], Awaitable[Standing]],
        forked: Callable[[Standing], Awaitable[Standing]],
    ) -> None:
        """`standing`: a token as its log has it; raises NotFound. `forked`: with its branches, where it forked."""
        self._coordinator, self._standing, self._forked = coordinator, standing, forked

    async def find(self, run_id: str, wait: str) -> Standing:
        """The token that `wait` means: the root, the id of a branch, or a step of a DAG. Raises NotFound, Conflict."""
        at = await self._standing(run_id, wait if is_branch_id(wait) else ROOT)
        members = list(at.graph.first.members) if at.token.fork is not None else []
        if wait in members:
            return await self._standing(run_id, branch_id(fork_id(ROOT, at.token.slot), members.index(wait)))
        return at if wait or at.token.fork is None else await self._only(at)

    async def _only(self, at: Standing) -> Standing:
        """The branch that waits for an approval where no other does; else the root. Raises Conflict for several."""
        there = await self._forked(at)
        waiting = [one for one in there.branches if open_approval(one) is not None]
        if len(waiting) > 1:
            names = ", ".join(one.id for one in waiting[:SHOWN])
            raise Conflict(f"{len(waiting)} branches wait for an approval", code="several_waits",
                           hint=f"name one of them as `wait`: {names}{' …' if waiting[SHOWN:] else ''}")  # fmt: skip
        return await self._standing(at.run_id, waiting[0].id) if waiting else at

    async def answer(self, run_id: str, came: Resumption, wait: str = "", slot: int | None = None) -> None:
        """Takes a yes or a no. `slot`: of the very wait that is meant. Raises NotFound, Conflict."""
        at = await self.find(run_id, wait)
        token, last, named = at.token, at.token.last, wait in {"", at.token.node, at.token.id}
        named = named and slot in {None, token.waiting_slot}
        by = _answer_id(came, token.waiting_slot)
        if named and last and last.by == by:
            await self._coordinator.push(at, by)  # again: the first call may have died before this
            return
        arm = open_approval(token)
        if receive(token.phase, _RECEIVED[came.kind]) is not Verdict.TAKE or arm is None or not named:
            what = f"the approval {wait!r}" if wait else "an approval"
            raise Conflict(f"the run does not wait for {what}; it is {token.phase}", code="not_waiting")
        if (before := answer_of(token, came.by)) is not None:
            _check_same(before, came)
            return
        answer = replace(came, arm=arm)
        winner = await self._coordinator.resume(at, by, _vote(at, answer), lambda later: _vote(later, answer))
        if winner is not None:
            raise Conflict("the approval ended before this answer came", code="not_waiting")

    async def delegate(self, run_id: str, by: str, to: str, wait: str = "") -> None:
        """From now on `to` is asked, and `by` no more. Raises NotFound, InvalidInput, Conflict."""
        if not to or to == by:
            raise InvalidInput("`to` names who is asked instead", code="bad_delegate", hint="another approver's name")
        at = await self.find(run_id, wait)
        token, last, named = at.token, at.token.last, wait in {"", at.token.node, at.token.id}
        arm = open_approval(token)
        if arm is None or not named or receive(token.phase, Received.APPROVE) is not Verdict.TAKE:
            raise Conflict(f"the run does not wait for an approval; it is {token.phase}", code="not_waiting")
        came = Resumption("delegated", arm, payload={"to": to}, by=by)
        call = _answer_id(came, token.waiting_slot)
        if last and last.by == call:
            return  # again
        _check_delegation(at, came)

        def anew(later: Standing) -> Resumption:
            _check_delegation(later, came)
            return came

        if await self._coordinator.resume(at, call, came, anew) is not None:
            raise Conflict("the approval ended before it was handed on", code="not_waiting")


def open_approval(token: Token) -> int | None:
    """The first approval that is still to be given, by its arm; None where the token waits for nobody."""
    if token.ended or token.parked is None or token.resumption is not None:
        return None
    arms = enumerate(token.parked.arms)
    return next((index for index, arm in arms if arm.kind == "approval" and not is_complete(token, index)), None)


def asked(token: Token, arm: int) -> tuple[str, ...]:
    """Who may still answer, by name: those who are asked and have not. Nobody is named where anybody may."""
    names = approvers(token.parked.arms[arm], token.received) if token.parked else ()
    return tuple(name for name in names if not has_answered(token, name))


def _vote(at: Standing, answer: Resumption) -> Resumption:
    """The answer as a part of what is waited for. Raises Conflict for one who is not asked, or has answered."""
    if (before := answer_of(at.token, answer.by)) is not None:
        raise Conflict(f"{answer.by} has answered already: {before.kind}", code="already_answered")
    vote = as_part(at.token, answer)
    if vote is None:
        names = ", ".join(asked(at.token, answer.arm))
        raise Conflict(f"{answer.by or 'nobody'} is not asked for this approval", code="not_an_approver",
                       hint=f"`by` names one of {names}" if names else "say who answers: `by`")  # fmt: skip
    return vote


def _check_same(before: Resumption, came: Resumption) -> None:
    """To say the same again is no second answer. Raises Conflict for another one."""
    if before.kind != came.kind:
        raise Conflict(f"{came.by} has answered already: {before.kind}", code="already_answered")


def _check_delegation(at: Standing, came: Resumption) -> None:
    token, to = at.token, came.payload["to"]
    if came.by not in asked(token, came.arm):
        names = ", ".join(asked(token, came.arm))
        raise Conflict(f"{came.by or 'nobody'} is not asked for this approval", code="not_an_approver",
                       hint=f"`by` names one of {names}" if names else "anybody may give this approval")  # fmt: skip
    arms = token.parked.arms if token.parked else ()
    if to in approvers(arms[came.arm], token.received) or has_answered(token, to):
        raise Conflict(f"{to} is asked for this approval already", code="already_an_approver",
                       hint="hand it on to somebody else")  # fmt: skip
    if sum(one.kind == "delegated" for one in token.received) >= DELEGATIONS:
        raise Conflict(f"this approval was handed on {DELEGATIONS} times", code="too_many_delegations")


def _answer_id(came: Resumption, slot: int) -> str:
    """The same answer of the same person to the same wait is one call, however often it is made."""
    said = json.dumps([came.payload, came.by], sort_keys=True)
    return f"{came.kind}:{slot}:{hashlib.sha256(said.encode()).hexdigest()[:12]}"
