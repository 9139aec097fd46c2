"""Translates a run's status to a format's own vocabulary (`?as=`), by a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from stepwell.api.requests import VOCABULARIES
from stepwell.api.runs.children import waited_for
from stepwell.api.runs.states import error_of, status_unpaused
from stepwell.api.runs.views import RunView
from stepwell.definition.asl.names import cause_of, name_of
from stepwell.definition.graph import END, Json
from stepwell.engine.records import Status
from stepwell.engine.results import HISTORY
from stepwell.engine.stored.codec import told_failure
from stepwell.engine.table import Phase
from stepwell.engine.waits.children import AGENT
from stepwell.engine.waits.kind import kind_named
from stepwell.errors import InvalidInput
from stepwell.runtime.log.standing import Standing

MACHINE = "asl"  # the vocabulary of state machines, which names the states that were entered too
SAME = "*"  # the phase itself, if it is one of a running timeline, else that of its steps: it forked
_RUNNING = frozenset({Phase.EVALUATING_DIVERGE.value, Phase.EVALUATING_BRANCH.value})
_WITHOUT_PAUSE = frozenset({AGENT.name, "timeline"})
_BOTH = ("result_type", "result_summary", "cancelled_by", "cancel_reason")  # of an agent's end, in both spellings
_OF_USERS = frozenset({"data", "input", "item", "output", "result", "state", "tags", "waiting_data"})

# For a waiting run, the row is the phase that its kind of wait parks in. Only the dag format has `idle`. A paused run
# has the word of an agent or a timeline that it had before.
_TABLE = """
status                timeline                  agent      session    dag           asl
idle                  idle                      idle       idle       idle          RUNNING
pending               initializing              PENDING    Running    queued        RUNNING
running               *                         RUNNING    Running    executing     RUNNING
sleeping              sleeping                  WAITING    Suspended  executing     RUNNING
waiting_for_approval  waiting_for_approval      WAITING    Suspended  blocked       RUNNING
waiting_for_children  waiting_for_subworkflows  WAITING    Suspended  executing     RUNNING
waiting               executing_step            WAITING    Suspended  blocked       RUNNING
paused                executing_step            RUNNING    Suspended  blocked       RUNNING
compensating          executing_step            RUNNING    Running    compensating  RUNNING
completed             completed                 COMPLETED  Succeeded  completed     SUCCEEDED
compensated           failed                    FAILED     Failed     completed     FAILED
failed                failed                    FAILED     Failed     failed        FAILED
timed_out             failed                    TIMEOUT    Failed     failed        TIMED_OUT
cancelled             failed                    CANCELLED  Cancelled  failed        ABORTED
"""


def _rows(text: str) -> dict[tuple[str, str], str]:
    (_, *formats), *rows = [line.split() for line in text.strip().splitlines()]
    return {(status, name): word for status, *words in rows for name, word in zip(formats, words, strict=True)}


WORDS = _rows(_TABLE)


class AgentRunView(TypedDict):
    """A run with `as=agent`: these keys, and those of RunView in camelCase. Its end is there in both spellings."""

    runId: str
    workflow: str
    status: str
    currentActionId: str | None
    nextActionId: str | None
    waitingFor: str | None
    variables: dict[str, Json]
    conversationHistory: Json
    completedAt: str | None
    errorMessage: str | None
    failedActionId: str | None
    completed_at: str | None
    error_message: str | None
    failed_action_id: str | None
    result_type: str | None
    result_summary: str | None
    cancelled_by: str | None
    cancel_reason: str | None


class MachineRunView(TypedDict):
    """A run with `as=asl`: these keys, and the others of RunView."""

    status: str
    output: Json
    error: str | None
    cause: str | None
    states_entered: list[str]


def in_words_of(vocabulary: str, view: RunView, at: Standing) -> dict[str, Any]:
    """Returns the run's view with its status in this vocabulary. Raises InvalidInput."""
    if vocabulary not in VOCABULARIES:
        raise InvalidInput(f"{vocabulary[:40]!r} is not a vocabulary", code="unknown_vocabulary",
                           hint=f"as={' | '.join(VOCABULARIES)}")  # fmt: skip
    word = _word(vocabulary, view, at)
    phase = view["phase"] if view["phase"] in _RUNNING else Phase.EXECUTING_STEP.value
    shown: dict[str, Any] = {**view, "status": phase if word == SAME else word}
    return {**(_camel(shown) if vocabulary == AGENT.name else shown), **_OWN[vocabulary](view, at)}


def _camel(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The view with its own keys in camelCase. Names and values of users stay as they are."""
    return {to_camel(key): value if key in _OF_USERS else _camel_in(key, value) for key, value in shown.items()}


def _camel_in(key: str, value: Any) -> Any:
    if key == "estimated":  # it names keys
        return [to_camel(one) for one in value]
    if isinstance(value, list):
        return [_camel_in("", one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _camel(one) for name, one in value.items()} if key == "steps" else _camel(value)


def _row_of(view: RunView) -> str:
    phase = _parked_in(view)
    is_row = view["status"] == Status.WAITING.value and (phase, VOCABULARIES[0]) in WORDS
    return phase if is_row else view["status"]


def _word(vocabulary: str, view: RunView, at: Standing) -> str:
    """Returns the status's word. A paused agent, or timeline, has that of its status before."""
    row = _row_of(view)
    is_before = row == Status.PAUSED.value and vocabulary in _WITHOUT_PAUSE
    return WORDS[_row_of({**view, "status": status_unpaused(at).value}) if is_before else row, vocabulary]


def _parked_in(view: RunView) -> str:
    """Returns the phase of the waiting token that the view shows; "" if no token waits."""
    return kind_named(view["waiting_for"]).phase.value if view["waiting_for"] else ""


def _agent(view: RunView, at: Standing) -> dict[str, Any]:
    """Builds an agent's checkpoint: current and next action, variables, conversation, and end."""
    error = view["error"] if view["ended_at"] else None
    given = view["input"] if isinstance(view["input"], dict) else {}
    variables = {**given, **view["state"]}
    shown: Mapping[str, object] = view
    end = {
        "completed_at": view["ended_at"],
        "error_message": error["message"] if error else None,
        "failed_action_id": (error["step"] or None) if error else None,
    }
    return {
        **{name: shown[name] for name in _BOTH},
        **end,
        **{to_camel(name): value for name, value in end.items()},
        "waitingFor": AGENT.name if _parked_in(view) == Phase.WAITING_FOR_CHILDREN else view["waiting_for"],
        "currentActionId": next(iter(view["current_steps"]), None),
        "nextActionId": _next_action(view, at),
        "conversationHistory": variables.pop(HISTORY, []),
        "variables": variables,
    }


def _next_action(view: RunView, at: Standing) -> str | None:
    """Returns the next action; None at the end, and if a condition decides."""
    node = next((at.graph.nodes[name] for name in view["current_steps"] if name in at.graph.nodes), None)
    if node is None or len(node.rules) != 1 or node.rules[0].when is not None:
        return None
    return node.rules[0].to if node.rules[0].to != END else None


def _timeline(view: RunView, at: Standing) -> dict[str, Any]:
    """How many of the children that it waits for have ended, null where that is not known; and where it failed."""
    statuses = {one["run_id"]: one["status"] or "" for one in view["children"]}
    waited = [one["status"] for one in waited_for(at, at.token, statuses)]
    done = None if not waited or "" in waited else sum(Status(one).terminal for one in waited if one)
    return {
        "pending_count": None if done is None else len(waited) - done,
        "completed_count": done,
        "failed_at_step": (view["error"]["step"] or None) if view["error"] and view["ended_at"] else None,
    }


def _dag(view: RunView, at: Standing) -> dict[str, Any]:
    return {"outcome": "partial" if view["outcome"] == "partial_rollback" else view["outcome"]}


def _machine(view: RunView, at: Standing) -> dict[str, Any]:
    """What DescribeExecution tells: the output, or the error and its cause."""
    error = told_failure(error_of(at.token)) if view["ended_at"] else None
    cause = (cause_of(error) if error else view["cancel_reason"]) if view["ended_at"] else None
    return {
        "output": view["result"],
        "error": name_of(error) if error else None,
        "cause": cause,
    }


def _nothing(view: RunView, at: Standing) -> dict[str, Any]:
    return {}


_OWN = {"timeline": _timeline, "agent": _agent, "session": _nothing, "dag": _dag, MACHINE: _machine}
