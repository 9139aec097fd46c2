"""The requests of callers: strict models of bodies and query strings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.fields import FieldInfo

from stepwell.definition.durations import parse_duration
from stepwell.engine.records import ROOT, Status
from stepwell.errors import UserError
from stepwell.limits import (
    FORK_WIDTH,
    KEY_CHARACTERS,
    NAME_CHARACTERS,
    PAGE_ITEMS,
    PAGE_ITEMS_MAX,
    PENDING_SHOWN,
    WAIT_ANSWER_SECONDS,
)

REASON_CHARACTERS = 4_000
PRIORITY = 1_000_000  # the greatest, either way


def _instant_ms(value: object) -> object:
    """Converts RFC 3339 with an offset to milliseconds."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("a time is text, such as 2030-01-31T09:00:00Z")
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return max(int(moment.astimezone(UTC).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise ValueError("give a time with its offset, such as 2030-01-31T09:00:00Z") from None


def several(value: object) -> object:
    """Splits a filter: status=running&status=waiting, or status=running,waiting."""
    given = value if isinstance(value, list) else [value]
    return [part.strip() for one in given for part in str(one).split(",") if part.strip()]


def _duration_ms(value: object) -> object:
    if value is None:
        return None
    try:
        return parse_duration(value)
    except UserError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None


InstantMs = Annotated[
    int | None, BeforeValidator(_instant_ms), WithJsonSchema({"type": ["string", "null"], "format": "date-time"})
]
DurationMs = Annotated[
    int | None, BeforeValidator(_duration_ms), WithJsonSchema({"type": ["string", "number", "null"]})
]
# The limits of admission, for the OpenAPI document; admission itself enforces them.
NAME_PATTERN = f"^(?!.*\\.\\.)[A-Za-z0-9][A-Za-z0-9._:-]{{0,{NAME_CHARACTERS - 1}}}$"
RUN_ID_PATTERN = f"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{NAME_CHARACTERS - 1}}}$"
ENTRY_PATTERN = r"^([0-9][0-9/.]*@-?[0-9]{1,9}\.[0-9]{1,9})?$"
BRANCH_PATTERN = r"^0(/[0-9]{1,9}\.[0-9]{1,9}){0,20}$"
EXPORT_CURSOR_PATTERN = r"^(0[0-9/.]{0,400}@(-1|[0-9]{1,9}))?$"
PRINTABLE: dict[str, Any] = {"pattern": r"^[^\x00-\x1f\x7f-\xa0]*$", "maxLength": KEY_CHARACTERS}  # also beyond ASCII
HEADER_KEY: dict[str, Any] = {"pattern": "^[ -~]*[!-~][ -~]*$", "maxLength": KEY_CHARACTERS}
VOCABULARIES = ("timeline", "agent", "session", "dag", "asl")

By = Annotated[
    str,
    Field(max_length=KEY_CHARACTERS, description="who does it, for the history; a caller known by name is that one"),
]
Reason = Annotated[str, Field(max_length=REASON_CHARACTERS)]
_APPROVAL = "the node of the approval that is meant; of several in one wait, such as hold/approval_2"


def _is_left_out_by_null(field: FieldInfo) -> bool:
    """Whether null means the field's default. Null is itself a value of a field of any JSON."""
    return not field.is_required() and field.annotation is not Any and field.default is not None


def _with_nulls(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Says in the schema of a body which of its fields may be null."""
    for name, field in model.model_fields.items():
        part = schema["properties"].get(field.alias or name)
        if part and _is_left_out_by_null(field):
            schema["properties"][field.alias or name] = {**part, **_or_null(part)}


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in part:
        return {"anyOf": [*part["anyOf"], {"type": "null"}]}
    words = {"enum": [*part["enum"], None]} if "enum" in part else {}
    return {"type": [part["type"], "null"], **words}


class Body(BaseModel):
    """The base of request bodies, and the empty body: exact types, no unknown fields.

    Null for a field that may be left out leaves it out, because many programs send each field that they know.
    """

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True, json_schema_extra=_with_nulls)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict) or None not in given.values():
            return given
        left_out = {field.alias or name for name, field in cls.model_fields.items() if _is_left_out_by_null(field)}
        return {name: value for name, value in given.items() if value is not None or name not in left_out}


class Query(BaseModel):
    """The base of query strings: text that converts to the field's type."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class RunEventBody(Body):
    name: str = Field(json_schema_extra={"pattern": NAME_PATTERN})
    payload: Any = None
    id: str = Field("", description="taken once; without one, an id is made", json_schema_extra=PRINTABLE)


class StartBody(Body):
    input: Any = Field(default_factory=dict, description="what the run works on; checked against the input_schema")
    run_id: str | None = Field(
        None,
        description="the run's id; a repeated start with it gets the first run",
        json_schema_extra={"pattern": RUN_ID_PATTERN},
    )
    tags: dict[str, str] | None = None
    priority: int | None = Field(None, ge=-PRIORITY, le=PRIORITY)
    start_at: InstantMs = Field(None, description="not before this time")
    version: str = Field(
        "",
        description="latest (default): the one deployed now. pin: that one too, and what is made of the run keeps it. "
        "Else a version's hash or its beginning, a durable function's number, or an alias",
    )
    event: RunEventBody | None = Field(None, description="for the run of this id: one that runs, else the new one")
    create_only: bool = Field(False, description="leave the run idle until POST /runs/{run_id}/start")


class StartIdleBody(Body):
    by: By = ""


class EndBody(Body):
    reason: Reason = ""
    by: By = ""


_OF_VERSION: str = Field(
    "",
    description="of the definition: latest, pin (that of the run), a hash or its beginning, a durable function's "
    "number, or an alias; default: latest, of a pinned run pin",
)


class RerunBody(Body):
    version: str = _OF_VERSION


class RedriveBody(Body):
    from_: str = Field("", alias="from", description="the step to go on from; default: the one that failed")
    version: str = _OF_VERSION
    dry_run: bool = Field(False, description="answer what the new run would keep and run again, and do nothing")
    by: By = ""


class ForkBody(Body):
    at: int = Field(ge=0, description="the slot to go on from; the records before it are kept")
    input: Any = Field(None, description="another input; default: that of the run")
    state: dict[str, Any] = Field({}, description="names to set in the state that the run had there")
    result: Any = Field(None, description="what the step in that slot returns, instead of running")
    workflow: str = Field("", description="another workflow that is deployed; default: the run's own")
    version: str = _OF_VERSION
    dry_run: bool = Field(False, description="answer which way the run would take, and do nothing")
    by: By = ""


class ApproveBody(Body):
    data: Any = Field(None, description="becomes part of the approval's result")
    by: By = ""
    wait: str = Field("", description=_APPROVAL)


class RejectBody(Body):
    reason: Reason = ""
    by: By = ""
    wait: str = Field("", description=_APPROVAL)


class DelegateBody(Body):
    to: str = Field(min_length=1, max_length=KEY_CHARACTERS, description="who is asked instead")
    by: By = ""
    wait: str = Field("", description=_APPROVAL)


class LinksBody(Body):
    wait: str = Field("", description="the id of a branch, or the step of a DAG, whose wait is meant")


class CallbackFailBody(Body):
    type: str = Field("callback_failed", min_length=1, max_length=NAME_CHARACTERS, description="what rules match on")
    message: Reason = ""
    data: Any = None


def _key_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


EventKey = Annotated[  # a whole number is as good as its digits
    str, BeforeValidator(_key_text), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})
]


class EventBody(RunEventBody):
    key: EventKey = Field("", description="whom it concerns; waits name the same key", json_schema_extra=PRINTABLE)


class UpdateBody(Body):
    input: Any = Field(None, description="the handler's arguments, by name")
    id: str = Field("", description="sent twice, it is made once", json_schema_extra=PRINTABLE)


class ScheduleBody(Body):
    name: str = Field(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"})
    workflow: str = Field(json_schema_extra={"pattern": NAME_PATTERN})
    schedule: str = Field(description="cron(0 9 * * ? *), rate(5 minutes), or five fields of a crontab")
    timezone: str = Field("UTC", description="a name of the IANA database")
    input: Any = Field(default_factory=dict, description="of each run; checked against the input_schema")
    version: str = Field("", description="of each run: as a start names it, read whenever the schedule fires")
    overlap: Literal["skip", "allow"] = "skip"
    catch_up: DurationMs = Field(
        None, description="how late a firing is made up for; default: the last one, however late"
    )


class FireBody(Body):
    at: InstantMs = Field(None, description="the time to fire it for, as if it had come then; default: now")


class ReplayBody(Body):
    source: str = Field(json_schema_extra={"pattern": NAME_PATTERN})
    delivery: str = Field(min_length=1, max_length=KEY_CHARACTERS, description="its id, as GET /deliveries has it")
    again: bool = Field(False, description="even though it became an event or a run before")


class WaitQuery(Query):
    wait: float = Field(
        0, ge=0, le=WAIT_ANSWER_SECONDS, allow_inf_nan=False, description="seconds to wait for the end, or the answer"
    )


class StatsQuery(Query):
    costs: bool = Field(False, description="with the mean ledger of the newest ended runs of each workflow")


class UpdateWaitQuery(WaitQuery):
    """The same, for the answer of an update."""


class LettersQuery(Query):
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)


class EraseQuery(Query):
    force: bool = Field(False, description="terminate the run, and its child runs, if they have not ended")


class RunQueryString(Query):
    as_: str = Field(
        "", alias="as", description="the words of a format", json_schema_extra={"enum": ["", *VOCABULARIES]}
    )


class WholeListQueryString(Query):
    limit: int | None = Field(None, ge=1, le=PAGE_ITEMS_MAX, description="default: all of them")
    cursor: int = Field(0, ge=0, description="next_cursor of the page before")


class RunsQueryString(Query):
    workflow: str = ""
    status: Annotated[list[Status], BeforeValidator(several)] = Field(default_factory=list)
    tag: str = Field("", description="name=value", json_schema_extra={"pattern": "^([^=:]+=.*)?$"})
    since: InstantMs = Field(None, description="created at or after this time")
    before: InstantMs = Field(None, description="created before this time; not with parent, origin, key or sort")
    waiting_for: Annotated[list[str], BeforeValidator(several)] = Field(
        default_factory=list, description="the kinds of the wait: approval, event, sleep, …"
    )
    failure: str = Field("", description="the fingerprint of an error, as GET /failures lists them")
    parent: str = Field("", description="the runs that this run started, also those that it does not wait for")
    origin: str = Field("", description="the runs that were made of this run: redriven, run again, forked")
    key: str = Field(
        "",
        description="the Idempotency-Key of a start, with its `workflow`: the run that it made",
        max_length=KEY_CHARACTERS,
    )
    overdue: bool = Field(False, description="only runs whose wait should have ended by now")
    sort: str = Field("", pattern="^(waiting_until)?$",
                      description="`waiting_until`: runs that wait for a deadline, the soonest first")  # fmt: skip
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    cursor: str = Field("", description="next_cursor of the page before")


class HistoryQueryString(Query):
    after: str = Field(
        "", description="the id of the last entry that is known", json_schema_extra={"pattern": ENTRY_PATTERN}
    )
    cursor: str = Field(
        "",
        description="next_cursor of the page before: the same as `after`",
        json_schema_extra={"pattern": ENTRY_PATTERN},
    )
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    token: str = Field(
        ROOT,
        description="a branch, such as 0/3.17, for its history; else that of the whole run, with the branches of "
        "forks of up to 100",
        json_schema_extra={"pattern": BRANCH_PATTERN},
    )
    phases: bool = Field(False, description="the changes of phase too")


class ExportQueryString(Query):
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    cursor: str = Field(
        "", description="next_cursor of the page before", json_schema_extra={"pattern": EXPORT_CURSOR_PATTERN}
    )


class BranchesQueryString(Query):
    fork: str = Field("", description="a fork's id, such as 0/3; else the one that the run stands at")
    status: Annotated[list[Status], BeforeValidator(several)] = Field(
        default_factory=list, description="only branches of these; a page may then hold fewer than there are"
    )
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    cursor: int = Field(0, ge=0, le=FORK_WIDTH, description="next_cursor of the page before")


class DeliveriesQueryString(Query):
    source: str = Field("", description="else all sources that keep what they bring")
    since: InstantMs = Field(None, description="came at or after this time")
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    cursor: str = Field("", description="next_cursor of the page before")


class LimitQueryString(Query):
    key: str = Field("", description="the value whose line it is, of a limit with a key")
    of: str = Field("", pattern="^(steps|runs)?$", description="where a named limit and a workflow share the name")
    limit: int = Field(PAGE_ITEMS, ge=1, le=PAGE_ITEMS_MAX)
    cursor: int = Field(0, ge=0, le=PENDING_SHOWN, description="next_cursor of the page before")


class GraphQueryString(Query):
    format: str = Field("svg", pattern="^(svg|mermaid|dot|json)$")


class NoQuery(Query):
    """A route without a query string."""
