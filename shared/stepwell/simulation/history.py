"""Assumptions from runs that have ended: how long their steps took, how often they failed, when waits were answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stepwell.simulation.assumptions import UNKNOWN, Assumptions, StepGuess, Time, WaitGuess

_DONE, _FAILED = frozenset({"completed", "compensated"}), frozenset({"failed", "timed_out"})
_TIMEOUT = "_timeout"  # the end of the error types of waits that nobody answered


@dataclass
class _Node:
    """What the runs show of one node."""

    times_ms: list[float] = field(default_factory=list)
    attempts: int = 0
    failed: int = 0
    lost: int = 0  # of the visits, those that failed in the end
    is_final: bool = False  # a failure ended its visit at once: what was tried again failed otherwise
    unanswered: int = 0
    rejected: int = 0
    visits: int = 0
    error: str = ""
    category: str = ""
    output: Any = field(default_factory=lambda: UNKNOWN)


def assumed_from(views: Sequence[Mapping[str, Any]], given: Assumptions) -> Assumptions:
    """Returns the assumptions with those of the runs, as GET /runs/{id} shows them. What is given stays.

    A step's time is that of visits of one attempt. Its chance to fail is that of an attempt: those before a success
    failed, unless the failure that ended a visit was never tried again. Of a step that ran in branches each branch is a
    visit, whose time and output the runs do not show. A node counts as a wait or as a step for the simulation by what
    it is in the definition.
    """
    nodes: dict[str, _Node] = defaultdict(_Node)
    for view in views:
        for name, step in view["steps"].items():
            _add(nodes[name], step)
    steps = {name: _step(node, given.default) for name, node in nodes.items() if node.attempts}
    waits = {name: _wait(node) for name, node in nodes.items() if node.visits}
    source = f"times and failures of {len(views)} runs"
    first = views[0]["input"] if views and given.input is None else given.input
    return replace(given, steps={**steps, **given.steps}, waits={**waits, **given.waits}, input=first, source=source)


def _add(node: _Node, step: Mapping[str, Any]) -> None:
    branches, error = step.get("branches"), step.get("error") or {}
    by_status: Mapping[str, int] = branches or {step["status"]: 1}
    done = sum(by_status.get(status, 0) for status in _DONE)
    failed = sum(by_status.get(status, 0) for status in _FAILED)
    if not done + failed:
        return
    node.visits += done + failed
    attempts = max(step["attempts"], done + failed)  # of a wide fork, whose branches the view did not read, none
    node.attempts += attempts
    node.failed += attempts - done
    node.lost += failed
    node.is_final = node.is_final or error.get("attempts") == 1
    kind = str(error.get("type", ""))  # of branches, the first that failed
    node.error, node.category = (kind, str(error.get("category", ""))) if kind else (node.error, node.category)
    node.unanswered += failed if kind.endswith(_TIMEOUT) else 0
    node.rejected += failed if kind == "rejected" else 0
    if done and not branches:
        node.output = step["output"]
        if attempts == 1 and step["started_at"] and step["ended_at"]:
            node.times_ms.append(_ms(step["ended_at"]) - _ms(step["started_at"]))


def _step(node: _Node, default: StepGuess) -> StepGuess:
    fails = node.lost / node.visits if node.is_final else node.failed / node.attempts
    guess = replace(default, fails=fails, times_out=0.0, returns=node.output, is_given=True)
    if node.error:
        guess = replace(guess, error=node.error, category=node.category or guess.category)
    return replace(guess, takes=Time(samples_ms=node.times_ms)) if node.times_ms else guess


def _wait(node: _Node) -> WaitGuess:
    after = Time(samples_ms=node.times_ms) if node.times_ms else WaitGuess().after
    answered = max(node.visits - node.unanswered, 1)
    return WaitGuess(after, node.unanswered / node.visits, node.rejected / answered, node.output, is_given=True)


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1_000
