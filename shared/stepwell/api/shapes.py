"""The shapes of all answers: those that have no place of their own, and the list for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from stepwell.api.checked import CheckView
from stepwell.api.deliveries import DeliveryPage, ReplayView
from stepwell.api.failures import FailureView
from stepwell.api.graphs import GraphView, WorkflowSummary, WorkflowView
from stepwell.api.limits import InLineView, LimitPage, LimitView, LineView, RateView
from stepwell.api.log_lines import LogLineView
from stepwell.api.pauses import WorkflowPausedView, WorkflowPauseView
from stepwell.api.runs.branches import BranchView
from stepwell.api.runs.explain import Explanation
from stepwell.api.runs.moments import StateView
from stepwell.api.runs.steps import StepResult
from stepwell.api.runs.views import RunSummary, RunView, StartedView
from stepwell.api.runs.vocabulary import AgentRunView, MachineRunView
from stepwell.api.runs.waiting import LinksView
from stepwell.api.schedules import SchedulePage, SchedulePausedView, ScheduleView
from stepwell.api.stats import StatsView
from stepwell.api.versions import AliasView, VersionsView, VersionView
from stepwell.definition.graph import Json

EntryView = TypedDict(
    "EntryView",
    {
        "id": str,
        "at": str,
        "type": str,
        "token": str,
        "step": str | None,
        "attempt": int | None,
        "from": str | None,
        "to": str | None,
        "trigger": str | None,
        "by": str | None,
        "data": Json,
    },
)


class RunPage(TypedDict):
    items: list[RunSummary]
    next_cursor: str | None


class FailurePage(TypedDict):
    """The groups of a page of failed runs: the same fingerprint may be in the next page again."""

    items: list[FailureView]
    next_cursor: str | None


class LogPage(TypedDict):
    """Lines; a page may have none, and a cursor: there is more to look through."""

    items: list[LogLineView]
    next_cursor: str | None


class HistoryPage(TypedDict):
    items: list[EntryView]
    next_cursor: str | None


class EmittedView(TypedDict):
    cursor: str
    at: str
    token: str
    step: str
    attempt: int
    first: bool
    data: Json


class OutputPage(TypedDict):
    items: list[EmittedView]
    next_cursor: str | None


class StreamView(TypedDict):
    """`url`: of the WebSocket, absolute or relative to the API's; to be opened before `expires_at`."""

    url: str
    expires_at: str


class ExportLine(TypedDict, total=False):
    """The first line has `format`, `run` and `definition`; each further one a record of a token."""

    format: str
    run: dict[str, Json]
    definition: Json
    token: str
    record: dict[str, Json]


class ExportPage(TypedDict):
    items: list[ExportLine]
    next_cursor: str | None


class BranchPage(TypedDict):
    items: list[BranchView]
    next_cursor: str | None


class WorkflowPage(TypedDict):
    items: list[WorkflowSummary]
    next_cursor: str | None


class ResultView(TypedDict):
    run_id: str
    status: str
    result: Json


class ValueView(TypedDict):
    """A value of a run. `path`: where it stands in the answer that links to it."""

    run_id: str
    path: str
    value: Json


class AnswerView(TypedDict):
    run_id: str
    name: str
    value: Json


class UpdateView(TypedDict):
    run_id: str
    name: str
    update_id: str
    pending: bool
    output: Json
    error: dict[str, Json] | None


class EndedView(TypedDict, total=False):
    run_id: str
    status: str
    cancelled: bool
    terminated: bool


class LetterEvent(TypedDict):
    name: str
    key: str
    id: str


class LetterView(TypedDict, total=False):
    id: str
    queue: str
    type: str
    run_id: str | None
    token: str | None
    event: LetterEvent | None
    why: str
    sent_at: str | None
    deliveries: int
    sent_again: int
    message: dict[str, Json]


class LetterPage(TypedDict):
    items: list[LetterView]
    next_cursor: str | None


class SentBackView(TypedDict):
    sent: list[str]
    left: list[str]


class DeletedLettersView(TypedDict):
    deleted: list[str]
    left: list[str]


class RecoveredView(TypedDict):
    run_id: str
    why: str


class RecoveryView(TypedDict):
    looked: int
    woken: dict[str, int]
    first: list[RecoveredView]
    rearmed: int
    next_cursor: str | None


class ErasedView(TypedDict):
    run_id: str
    deleted_runs: int
    deleted_items: int


class ForetoldStep(TypedDict):
    slot: int
    step: str
    by: str  # what answered it: log, caller, or nothing, because nothing had to
    output: Json
    to: str  # where the run goes next


class ForetoldView(TypedDict):
    """The way that a fork of a run would take, as far as the run's log has the results."""

    run_id: str
    workflow: str
    version: str
    at: int
    kept: int
    steps: list[ForetoldStep]
    stops: str  # end, step, wait, fork, function, compensation or limit: why it is told no further
    stops_at: str | None
    status: str | None
    state: dict[str, Json]


class RedrivePart(TypedDict):
    token: str
    step: str  # or operation; "" for what a function's code does next


class RedrivenView(RunView):
    """A run, as the answer to the redrive that made it. `dropped`: as in a dry run; empty in a repeated call."""

    dropped: list[RedrivePart]


class PausedView(RunView):
    """A run, as the answer to the call that pauses it. `paused_before`: it was paused already, and that pause stays."""

    paused_before: bool


class SentAgainView(TypedDict):
    """An event that a failed wait had taken, and that the new run is sent."""

    token: str  # the branch of the new run that it is sent to; "0" for the run
    event: str
    document: str  # "" if the wait is for events
    event_id: str
    at: str  # when it came


class RedriveView(TypedDict):
    """What a redrive of a run would keep, and what would run again."""

    run_id: str
    workflow: str
    version: str
    redriven_as: str | None  # the run that an earlier call made: the redrive answers with it, and does nothing more
    refused: str | None  # already_redriven: that call named another step or version, so this one would be refused
    kept_records: int
    kept: list[RedrivePart]
    again: list[RedrivePart]  # where it goes on; steps behind these are not listed
    dropped: list[RedrivePart]  # operations of a function that completed after it failed, and are not kept
    sent_again: list[SentAgainView]


class SentView(TypedDict):
    """An event that was sent. `waits`: those for its name and key, or of its run, when it came; 100 are 100 or more.

    `starts`: workflows with a trigger for it. `kept_until`: until when a wait that begins later finds it; null: it does
    not. `duplicate`: an event of this id was sent before, and this one changes nothing.
    """

    event_id: str
    duplicate: bool
    waits: int
    starts: list[str]
    kept_until: str | None


class TakenView(TypedDict, total=False):
    event_id: str
    run_id: str
    duplicate: bool  # the delivery was accepted before
    ignored: bool  # the source's `match` is false


class TakenCallbackView(TypedDict):
    status: str


class HealthView(TypedDict):
    status: str
    version: str
    dependencies: dict[str, str]


class RunGraph(GraphView):
    """`taken`: how often each edge was taken, by its id, also by branches of forks of up to 500."""

    states: dict[str, str]
    steps: dict[str, StepResult]
    taken: dict[str, int]


class FieldProblem(TypedDict):
    path: str
    message: str


class ProblemView(TypedDict):
    """RFC 9457. `code`, the end of `type`, is stable, so programs can match on it."""

    type: str
    code: str
    title: str
    status: int
    detail: str
    hint: str
    errors: list[FieldProblem]


SHAPES: tuple[Any, ...] = (
    RunView, AgentRunView, MachineRunView, StartedView, RedrivenView, PausedView, RunPage, FailurePage, HistoryPage,
    OutputPage, LogLineView, LogPage, StreamView, ExportPage, BranchPage, ResultView, ValueView, AnswerView, UpdateView,
    EndedView, ErasedView, RecoveryView, LetterPage, LetterView, SentBackView, DeletedLettersView, ForetoldView,
    RedriveView, SentView, TakenView, DeliveryPage, ReplayView, TakenCallbackView, LinksView, Explanation, RunGraph,
    WorkflowPage, WorkflowView, WorkflowPauseView, WorkflowPausedView, VersionView, VersionsView, AliasView, CheckView,
    StateView, StatsView, ScheduleView, SchedulePausedView, SchedulePage, RateView, LimitView, LimitPage, InLineView,
    LineView, HealthView, ProblemView,
)  # fmt: skip
