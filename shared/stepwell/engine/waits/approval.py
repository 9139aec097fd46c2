"""A wait for people: who may answer, how many must agree, and who is asked next if nobody answers.

WAITING ── RECEIVED (ana: yes) ── RECEIVED (leo: delegated to bea) ── RESUMED (bea: yes) ──▶
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from stepwell.definition.graph import Json, Wait
from stepwell.engine.names import usd
from stepwell.engine.records import Arm, Failure, Parked, Record, Resumption
from stepwell.engine.table import Signal
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import is_aside, step_aside
from stepwell.engine.waits.kind import Coming, Place, Reason, WaitKind, Waker
from stepwell.engine.waits.templates import texts
from stepwell.errors import ExpressionError

_ANSWERS = frozenset({"approved", "rejected"})


class ApprovalWait(WaitKind):
    """Its parts are the votes by approver, if several people or named ones are asked."""

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """One that the run asks for, for what it costs, is beside its work."""
        if not is_aside(record):
            return super().parked(token, record, parked)
        return {"aside": step_aside(token, record), "parked": parked, "resumption": None, "received": (),
                "received_slot": -1, "fork": None}  # fmt: skip

    def resumed(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        resumption = record.resumption
        if token.aside is None or resumption is None or resumption.kind != "approved":
            return super().resumed(token, record, parked)
        given = (resumption.payload or {}).get("data")
        cap = given.get("max_cost") if isinstance(given, dict) else None
        return {"resumption": resumption, "cost_cap": -1.0 if cap is None else float(cap)}

    def arm(self, wait: Wait, place: Place) -> Arm:
        if wait.approvers is None:
            return Arm(self.name)
        named, need = wait.approvers.of, wait.approvers.need
        of = texts(named, place.names, "approvers.of")
        if named is not None and len(of) < need:  # of nobody, anybody could answer
            raise ExpressionError(
                f"`approvers.of` named {len(of)}, and {need} must agree", hint="name as many at least"
            )
        return Arm(self.name, parts=of, need=need)

    def dues(self, parked: Parked, index: int, received: Sequence[Resumption]) -> list[tuple[int, Resumption]]:
        """Once, others are asked too, and it goes on waiting. Its time limit, `until_ms`, ends it as that of any wait.

        Then it has the failure `approval_timeout`, for the node's rules or `on_timeout`.
        """
        if parked.escalate_ms is None or any(one.kind == "escalated" for one in received):
            return []
        if self.is_complete(parked.arms[index], [one for one in received if one.arm == index]):
            return []
        return [(parked.escalate_ms, Resumption("escalated", index, payload={"to": list(parked.escalate_to)}))]

    def part(
        self, arm: Arm, resumption: Resumption, received: Sequence[Resumption], *, complete: bool
    ) -> Resumption | None:
        if complete or not has_votes(arm):
            return None if complete else resumption
        is_asked = not arm.parts or resumption.by in approvers(arm, received)
        return replace(resumption, part=resumption.by) if resumption.by and is_asked else None

    def is_complete(self, arm: Arm, resumptions: Sequence[Resumption]) -> bool:
        return super().is_complete(arm, [one for one in resumptions if one.kind == "approved"])

    def is_refused(self, arm: Arm, index: int, resumptions: Sequence[Resumption]) -> bool:
        """So many have said no that the others are not enough. Where nobody is named, one no ends it."""
        if resumptions[-1].kind != "rejected":
            return False
        noes = {one.part for one in resumptions if one.arm == index and one.kind == "rejected"}
        return not arm.parts or len(approvers(arm, resumptions)) - len(noes) < arm.need

    def value(self, arm: Arm, resumptions: Sequence[Resumption]) -> Json:
        if not resumptions:
            return None
        return (
            {**_decision(resumptions[-1]), "votes": votes_of(resumptions)}
            if arm.need > 1
            else _decision(resumptions[-1])
        )

    def brought(self, resumption: Resumption) -> dict[str, Json]:
        return {"approval": _decision(resumption)}

    def failure(self, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        if resumption.kind != "rejected":
            return super().failure(parked, resumption, node, waited)
        payload = resumption.payload if isinstance(resumption.payload, dict) else {}
        message = str(payload.get("reason") or "rejected") + (f" (by {resumption.by})" if resumption.by else "")
        return Failure("rejected", "step", message, step=node, attempts=1, data=_decision(resumption))

    def forgives(self, wait: Wait, resumption: Resumption) -> bool:
        return resumption.kind == "rejected" and wait.on_reject == "route"

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason | None:
        """Names what the run has cost, where it asks for that."""
        data = parked.data if isinstance(parked.data, dict) else {}
        if not {"spent_usd", "max_cost_usd"} <= data.keys():
            return None
        text = f"It has cost {usd(data['spent_usd'])} USD, more than its max_cost of {usd(data['max_cost_usd'])}"
        return Reason(
            f"{text}: it asks for an approval before {data['step']}.", tuple(self.wakers(parked.arms[0], run_id, ""))
        )

    def wakers(self, arm: Arm, run_id: str, branch: str) -> list[Waker]:
        where = f' with "wait": "{branch}"' if branch else ""
        return [Waker("call", f"POST /runs/{run_id}/approve or /reject{where} by the approver")]


APPROVAL = ApprovalWait(
    "approval",
    Signal.AWAITED_APPROVAL,
    "approval.requested",
    sets={"approval": ()},
    comings={
        "approved": Coming("approval.received", "call", is_part=True),
        "rejected": Coming("approval.rejected", "call", is_part=True),
        "escalated": Coming("approval.escalated", "timeout", ends=False, announces="approval.escalated"),
        "delegated": Coming("approval.delegated", "call", ends=False),
    },
)


def split_name(place: str) -> tuple[str, str]:
    """Splits the name of one of several approvals off the place of their wait: `hold/approval_2`."""
    where, slash, name = place.rpartition("/")
    kind, _, number = name.partition("_")
    is_one = bool(slash) and kind == APPROVAL.name and (name == kind or number.isdecimal())
    return (where, name) if is_one else (place, "")


def asking(parked: Parked, received: Iterable[Resumption]) -> list[tuple[int, str]]:
    """Returns each arm with each of its named approvers, open or not."""
    came = list(received)
    arms = ((index, arm) for index, arm in enumerate(parked.arms) if arm.kind == APPROVAL.name and arm.parts)
    return [(index, name) for index, arm in arms for name in approvers(arm, came)]


def asks_several(parked: Parked) -> bool:
    """Tells whether the wait is for more than one approval, open or not."""
    return sum(arm.kind == APPROVAL.name for arm in parked.arms) > 1


def has_votes(arm: Arm) -> bool:
    """Tells whether the approval asks several people, or named ones."""
    return bool(arm.parts) or arm.need > 1


def approvers(arm: Arm, received: Iterable[Resumption]) -> tuple[str, ...]:
    """Returns who may answer now, after delegations and escalations.

    A delegation that names no approval counts for all of the wait that ask its approver, and not the other person
    already. An escalation counts for all.
    """
    names = list(arm.parts)
    for one in received:
        if one.kind == "delegated" and one.payload.get("approval", arm.name) == arm.name:
            to = one.payload["to"]
            names = [to if name == one.by and to not in names else name for name in names]
        elif one.kind == "escalated":
            names += [name for name in one.payload["to"] if name not in names]
    return tuple(names)


def delegations(received: Iterable[Resumption]) -> int:
    """Returns how often the approval was delegated."""
    return sum(one.kind == "delegated" for one in received)


def answer_of(token: Token, by: str, name: str = "") -> Resumption | None:
    """Returns this approver's earlier vote, if any: a second one changes nothing. `name`: in this approval alone."""
    arms = token.parked.arms if token.parked else ()
    votes = (one for one in token.received if one.part == by and one.kind in _ANSWERS)
    return next((one for one in votes if name in {"", arms[one.arm].name}), None) if by else None


def has_answered(token: Token, by: str, name: str = "") -> bool:
    """Tells whether this approver has voted already. `name`: in this approval alone."""
    return answer_of(token, by, name) is not None


def votes_of(resumptions: Iterable[Resumption]) -> list[Json]:
    """Returns the votes for people."""
    return [{"decision": one.kind, "by": one.by, **(one.payload or {})} for one in resumptions if one.kind in _ANSWERS]


def _decision(resumption: Resumption) -> dict[str, Json]:
    return {"decision": resumption.kind, "by": resumption.by or None, **(resumption.payload or {})}
