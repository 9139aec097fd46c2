"""Translates a run's status to a format's own vocabulary (`?as=`), by a table."""

from __future__ import annotations

from typing import Any

from stepwell.api.requests import VOCABULARIES
from stepwell.api.views import RunView
from stepwell.definition.graph import END
from stepwell.engine.records import Status
from stepwell.engine.results import HISTORY
from stepwell.engine.table import Phase
from stepwell.engine.waits.children import AGENT
from stepwell.engine.waits.kind import kind_named
from stepwell.errors import InvalidInput
from stepwell.runtime.log.logbook import Standing

SAME = "*"  # the phase itself

# For a waiting run, the row is the phase that its kind of wait parks in. Only the dag format has `idle`.
_TABLE = """
status                timeline                  agent      session    dag
idle                  idle                      idle       idle       idle
pending               initializing              PENDING    Running    queued
running               *                         RUNNING    Running    executing
sleeping              sleeping                  WAITING    Suspended  executing
waiting_for_approval  waiting_for_approval      WAITING    Suspended  blocked
waiting_for_children  waiting_for_subworkflows  WAITING    Suspended  executing
waiting               executing_step            WAITING    Suspended  blocked
paused                *                         RUNNING    Suspended  blocked
compensating          executing_step            RUNNING    Running    compensating
completed             completed                 COMPLETED  Succeeded  completed
compensated           failed                    FAILED     Failed     completed
failed                failed                    FAILED     Failed     failed
timed_out             failed                    TIMEOUT    Failed     failed
cancelled             failed                    CANCELLED  Cancelled  failed
"""


def _rows(text: str) -> dict[tuple[str, str], str]:
    (_, *formats), *rows = [line.split() for line in text.strip().splitlines()]
    return {(status, name): word for status, *words in rows for name, word in zip(formats, words, strict=True)}


WORDS = _rows(_TABLE)


def in_words_of(vocabulary: str, view: RunView, at: Standing) -> dict[str, Any]:
    """Returns the run's view with its status in this vocabulary. Raises InvalidInput."""
    if vocabulary not in VOCABULARIES:
        raise InvalidInput(f"{vocabulary[:40]!r} is not a vocabulary", code="unknown_vocabulary",
                           hint=f"as={' | '.join(VOCABULARIES)}")  # fmt: skip
    word = WORDS[_row_of(view), vocabulary]
    shown: dict[str, Any] = {**view, "status": view["phase"] if word == SAME else word}
    return {**shown, **_OWN[vocabulary](view, at)}


def _row_of(view: RunView) -> str:
    phase = _parked_in(view)
    is_row = view["status"] == Status.WAITING.value and (phase, VOCABULARIES[0]) in WORDS
    return phase if is_row else view["status"]


def _parked_in(view: RunView) -> str:
    """Returns the phase of the waiting token that the view shows; "" if no token waits."""
    return kind_named(view["waiting_for"]).phase.value if view["waiting_for"] else ""


def _agent(view: RunView, at: Standing) -> dict[str, Any]:
    """Builds an agent's checkpoint: current and next action, variables, conversation, and end."""
    error = view["error"] if view["ended_at"] else None
    given = view["input"] if isinstance(view["input"], dict) else {}
    variables = {**given, **view["state"]}
    return {
        "waitingFor": AGENT.name if _parked_in(view) == Phase.WAITING_FOR_CHILDREN else view["waiting_for"],
        "waitingUntil": view["waiting_until"],
        "waitingData": view["waiting_data"],
        "currentActionId": next(iter(view["current_steps"]), None),
        "nextActionId": _next_action(view, at),
        "conversationHistory": variables.pop(HISTORY, []),
        "variables": variables,
        "completed_at": view["ended_at"],
        "error_message": error["message"] if error else None,
        "failed_action_id": (error["step"] or None) if error else None,
    }


def _next_action(view: RunView, at: Standing) -> str | None:
    """Returns the next action; None at the end, and if a condition decides."""
    node = next((at.graph.nodes[name] for name in view["current_steps"] if name in at.graph.nodes), None)
    if node is None or len(node.rules) != 1 or node.rules[0].when is not None:
        return None
    return node.rules[0].to if node.rules[0].to != END else None


def _dag(view: RunView, at: Standing) -> dict[str, Any]:
    return {"outcome": "partial" if view["outcome"] == "partial_rollback" else view["outcome"]}


def _nothing(view: RunView, at: Standing) -> dict[str, Any]:
    return {}


_OWN = {"timeline": _nothing, "agent": _agent, "session": _nothing, "dag": _dag}
