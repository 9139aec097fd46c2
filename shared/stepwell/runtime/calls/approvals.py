"""Approvals: finds the wait that a caller means, and brings the answer to it. Each answer is definite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.actions import Refuse
from stepwell.engine.approvals import NOT_WAITING, not_waiting, open_approval
from stepwell.engine.forks.branches import branch_id, fork_id, is_branch_id
from stepwell.engine.holding import can_be_held
from stepwell.engine.inputs import Approved, Delegated, Rejected
from stepwell.engine.limits.permits import Held
from stepwell.engine.limits.spending import is_pauser
from stepwell.engine.names import iso
from stepwell.engine.pushing import pushes
from stepwell.engine.records import ROOT, Fork, Resumption, Status
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import split_name
from stepwell.engine.waits.aside import is_for_limit, is_limit
from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.starts.admission import check_json
from stepwell.runtime.waits.permits import Permits

SHOWN = 10  # branches that a message names
_LATER = "answer once it asks: stepwell explain RUN says what it waits for"


class Approvals:
    """Answers and delegates approvals. Each answer is definite: it counts, or a Conflict says why."""

    def __init__(
        self,
        advance: Advance,
        standing: Callable[[str, str], Awaitable[Standing]],
        forked: Callable[[Standing], Awaitable[Standing]],
        permits: Permits,
    ) -> None:
        """`standing` loads a token, or raises NotFound; `forked` adds its branches if it forked."""
        self._advance, self._standing, self._forked, self._permits = advance, standing, forked, permits

    async def find(self, run_id: str, wait: str, resumption: Resumption | None = None, approval: str = "") -> Standing:
        """Returns the token that `wait` names: the root, a branch by its id, or a step. Raises NotFound, Conflict.

        `resumption`: the answer, which its caller may repeat. `approval`: to which of several.
        """
        at = await self._standing(run_id, wait if is_branch_id(wait) else ROOT)
        members = list(at.graph.first.members) if at.token.fork is not None else []
        if wait in members:
            return await self._standing(run_id, branch_id(fork_id(ROOT, at.token.slot), members.index(wait)))
        if wait != at.token.id and (at.token.has_open_tasks or at.token.fork is not None):
            return await self._only(at, wait, None if resumption is None else (resumption, approval))
        return at

    async def _only(self, at: Standing, name: str, answer: tuple[Resumption, str] | None) -> Standing:
        """Returns the only branch that waits for an approval, of this name if one is given; the root if none does.

        If none waits, a branch that has received this very answer counts: its caller may have died before the branch
        was woken. Raises Conflict if several wait, or may: more than a page of branches is not read for an answer.
        """
        if (width := _wide(at)) is not None:
            _check_cost(at)
            raise Conflict(f"some of {width} branches wait for an approval", code="several_waits",
                           hint="name one as `wait`, or --step, by its id in GET /runs/{id}/branches")  # fmt: skip
        there = [one for one in (await self._forked(at)).branches if name in {"", one.node}]
        waiting = [one for one in there if open_approval(one) is not None]
        waiting = waiting or [one for one in there if answer is not None and _has_had(one, *answer)][:1]
        if len(waiting) > 1:
            names = ", ".join(one.id for one in waiting[:SHOWN]) + (" …" if waiting[SHOWN:] else "")
            raise Conflict(f"{len(waiting)} branches wait for an approval", code="several_waits",
                           hint=f"name one of them as `wait`, or --step: {names}")  # fmt: skip
        if not waiting:
            _check_cost(at)
        return await self._standing(at.run_id, waiting[0].id) if waiting else at

    async def answer(self, run_id: str, resumption: Resumption, wait: str = "", slot: int | None = None) -> None:
        """Approves or rejects. `slot`: of the wait that is meant, to be sure of it. Raises NotFound, Conflict."""
        where, name = split_name(wait)
        made = Approved if resumption.kind == "approved" else Rejected
        at = await self._named(run_id, where, name, resumption)
        await self._take(at, made(resumption, slot, name), _answer_id(resumption, at.token.waiting_slot, name))

    async def delegate(self, run_id: str, by: str, to: str, wait: str = "") -> None:
        """Asks `to` for the approval, and `by` no more. Raises NotFound, InvalidInput, Conflict."""
        if not to or to == by:
            raise InvalidInput("`to` names who is asked instead", code="bad_delegate", hint="another approver's name")
        resumption = Resumption("delegated", payload={"to": to}, by=by)
        where, name = split_name(wait)
        at = await self._named(run_id, where, name, resumption)
        await self._take(at, Delegated(by, to, name), _answer_id(resumption, at.token.waiting_slot, name))

    async def _named(self, run_id: str, wait: str, name: str, resumption: Resumption) -> Standing:
        """Returns the token that is meant. Raises Conflict if it is at another node than the caller thinks."""
        at = await self.find(run_id, wait, resumption, name)
        if wait not in {"", at.token.node, at.token.id}:
            raise refused(await self._as_it_is(at, not_waiting(at.token, f"the approval {wait!r}")))
        return at

    async def _take(self, at: Standing, given: Approved | Rejected | Delegated, by: str) -> None:
        answer = await self._advance.take(at, given, by)
        if isinstance(answer.action, Refuse):
            raise refused(await self._as_it_is(answer.at, answer.action))

    async def _as_it_is(self, at: Standing, refusal: Refuse) -> Refuse:
        """Says that the run is paused, or has not begun, and why: its log does not tell."""
        if refusal.code != NOT_WAITING or not can_be_held(at.token) or _is_waiting(at.token):
            return refusal
        hint = _LATER
        if at.run.is_paused:
            does, hint = "is paused", f"stepwell unpause RUN has it go on; {_LATER}"
        elif (held := (await self._permits.with_reason(at)).held) is not None:
            does = f"waits for {_held_words(held)}"
        elif at.token.phase is Phase.INITIALIZING and not at.run.started_ms and at.token.branch is None:
            does = "has not begun"
        elif at.token.fork is not None and at.header.status is Status.WAITING:
            return replace(refusal, message=f"{refusal.message.rpartition('; ')[0]}; {_branches_words(at)}", hint=hint)
        else:
            return refusal
        return replace(refusal, message=f"{refusal.message.rpartition('; ')[0]}; it {does}", hint=hint)


def answered(kind: str, payload: dict[str, Json], by: str, named: str) -> Resumption:
    """Returns a checked approval or rejection. `named`: the person for whom `by` acts; kept, decides nothing."""
    given = {**payload, **({"named": named} if named else {})}
    check_json([given, by], "approval" if kind == "approved" else "rejection")
    return Resumption(kind, payload=given, by=by)


def refused(refusal: Refuse) -> Conflict:
    """Returns a refusal of the engine as the Conflict that its caller gets."""
    return Conflict(refusal.message, code=refusal.code, hint=refusal.hint or None)


def _is_waiting(token: Token) -> bool:
    """Tells whether the token waits, but for a permit: a pause ends that wait."""
    return token.parked is not None and token.resumption is None and not is_for_limit(token.parked)


def _held_words(held: Held) -> str:
    if held.at_ms:
        return f"its turn under the rate limit of {held.limit}, which comes at {iso(held.at_ms)}"
    return f"a permit of the limit {held.limit}"


def _branches_words(at: Standing) -> str:
    """Says what the branches of a fork wait for, by the wait that the run's header shows: theirs are not read."""
    header = at.header
    node = at.graph.nodes.get(header.waiting_node)
    throttle = node.step.throttle if node is not None and node.step is not None else None
    of_limit = throttle is not None and is_limit(header.waiting_for)
    what = f"a permit of the limit {throttle.limit}" if throttle and of_limit else header.waiting_for.replace("_", " ")
    return f"all its branches that are under way wait, first of them {header.waiting_node} for {what}"


def _wide(at: Standing) -> int | None:
    """Returns the width of the fork that a run is at, if the logbook does not read its branches for an answer."""
    there = at.token.last.next if at.token.last is not None and not at.token.ended else None
    is_wide = isinstance(there, Fork) and len(there.pages) > 1 and not at.graph.first.members
    return there.width if isinstance(there, Fork) and is_wide else None


def _check_cost(at: Standing) -> None:
    """Raises Conflict if the run is paused because its branches have cost too much: no approval ends that."""
    if at.run.is_paused and is_pauser(at.header.paused_by):
        raise Conflict(f"the run is paused by {at.header.paused_by}, which no approval ends", code="paused_for_cost",
                       hint="stepwell unpause RUN lets its branches go on")  # fmt: skip


def _has_had(token: Token, resumption: Resumption, name: str) -> bool:
    return pushes(token, _answer_id(resumption, token.waiting_slot, name))


def _answer_id(resumption: Resumption, slot: int, name: str) -> str:
    """Returns the id of an answer: a person who repeats it to the same approval makes the same call."""
    said = json.dumps([resumption.payload, resumption.by, *([name] if name else [])], sort_keys=True)
    return f"{resumption.kind}:{slot}:{hashlib.sha256(said.encode()).hexdigest()[:12]}"
