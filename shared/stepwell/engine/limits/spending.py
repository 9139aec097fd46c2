"""Spending: a run that has cost more than its `max_cost` steps aside for an approval before its next step.

    STEP is next ── too dear? ── WAITING for an approval ── approved ── the step, under another limit or none
                                                       └── rejected ── the run fails, `max_cost`
    of a branch  └── the run is PAUSED ── unpaused ── branches go on until the root has another limit

The cost is computed from the records, so it takes no write. A branch cannot ask: nothing is appended to its parent's
log while the fork is open, so an answer could not be recorded. A pause can: the header says who paused the run last.
Child runs have limits of their own.
"""

from __future__ import annotations

from typing import Any

from stepwell.definition.graph import Graph
from stepwell.engine.actions import AskCost, Hold, Refuse, RunStep
from stepwell.engine.names import Moment, Spent, usd
from stepwell.engine.records import Arm, Failure, Kind, Parked, Record, Resumption, Status
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import COST
from stepwell.engine.waits.kind import kind_named
from stepwell.engine.writing import ended_record

MAX_COST = "max_cost"  # the type of the approval, and of the error of a run that does not get it
_PAUSER = f"its {MAX_COST} of "  # before the limit, which an unpause lifts for the branches


def cap_of(graph: Graph, token: Token) -> float | None:
    """Returns what the run may cost, in USD; None for a run without a limit, or no longer with one."""
    return (token.cost_cap or graph.max_cost_usd) if token.cost_cap >= 0 else None


def cap_of_branches(graph: Graph, spent: Spent) -> float | None:
    """Returns what the run may cost while a fork is open; None if there is no limit, or it was unpaused at this one."""
    cap_usd = (spent.cost_cap or graph.max_cost_usd) if spent.cost_cap >= 0 else None
    return None if cap_usd is None or spent.paused_by == _pauser(cap_usd) else cap_usd


def ask(moment: Moment, token: Token, action: RunStep) -> AskCost | Record | Hold | None:
    """Returns what comes before the step: a look at the cost, the approval, or the pause of a fork. None: the step."""
    cap_usd = cap_of(moment.graph, token)
    if cap_usd is None or action.undo is not None or token.cleaning is not None:
        return None
    spent = moment.spent
    if spent is None:
        return AskCost(cap_usd)
    if token.branch is not None:
        return _of_branch(moment.graph, spent)
    return _asked(moment, token, action, cap_usd, spent.usd) if spent.usd > cap_usd else None


def _of_branch(graph: Graph, spent: Spent) -> Hold | None:
    """Returns a pause of the run, or that it is paused already; None if the branch may go on."""
    if spent.is_paused:
        return Hold()
    cap_usd = cap_of_branches(graph, spent)
    if cap_usd is None or spent.usd <= cap_usd:
        return None
    return Hold(_pauser(cap_usd), f"it has cost {usd(spent.usd)} USD, and goes on once it is unpaused")


def _pauser(cap_usd: float) -> str:
    return f"{_PAUSER}{usd(cap_usd)} USD"


def is_pauser(who: str) -> bool:
    """Tells whether a run was paused for its cost. `who`: by whom it was paused."""
    return who.startswith(_PAUSER)


def _asked(moment: Moment, token: Token, action: RunStep, cap_usd: float, spent_usd: float) -> Record:
    spent = round(spent_usd, 9)
    data: dict[str, Any] = {"type": MAX_COST, "spent_usd": spent, "max_cost_usd": cap_usd, "step": action.node}
    parked = Parked("approval", (Arm("approval"),), data=data, since_ms=moment.now_ms)
    node = moment.graph.start if moment.turn else action.node
    return Record(token.next_slot, Kind.WAITING, moment.by, moment.ms_after(token), node, parked=parked, rules=(COST,))


def rejected(moment: Moment, token: Token) -> Record | None:
    """Returns the end of a run whose approval was refused."""
    resumption = token.resumption
    if resumption is None or resumption.kind != "rejected" or not is_for_cost(token):
        return None
    data = token.parked.data if token.parked else {}
    reason = (resumption.payload or {}).get("reason") or "rejected"
    message = f"the run has cost {usd(data['spent_usd'])} USD of {usd(data['max_cost_usd'])}, and may cost no more"
    failure = Failure(MAX_COST, "governance", f"{message}: {reason}", data["step"])
    return ended_record(moment, token, Status.FAILED, failure, reason=reason, who=resumption.by)


def is_for_cost(token: Token) -> bool:
    """Tells whether the token waits, or has just waited, because of what its run has cost."""
    parked = token.parked
    return token.aside is not None and parked is not None and kind_named(parked.kind).asks_people


def refusal(token: Token, resumption: Resumption) -> Refuse | None:
    """Refuses an approval with a limit that is none."""
    if resumption.kind != "approved" or not is_for_cost(token) or token.parked is None or token.resumption is not None:
        return None
    given, spent = limit_in(resumption), token.parked.data["spent_usd"]
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if given is None or (is_number and given > spent):
        return None
    return Refuse(f"max_cost is {given!r:.40}, and not a number of USD above {usd(spent)}", "bad_max_cost",
                  "the run has cost so much; leave it out, and it has no limit any more")  # fmt: skip


def limit_in(resumption: Resumption) -> Any:
    """Returns the new limit that an approval gives; None if it gives none."""
    data = (resumption.payload or {}).get("data")
    return data.get(MAX_COST) if isinstance(data, dict) else None
