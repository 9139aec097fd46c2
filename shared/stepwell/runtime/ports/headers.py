"""The headers of runs: what is known of a run without its log, how it changes, and how runs are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.engine.copying import quick
from stepwell.engine.names import iso
from stepwell.engine.records import Status
from stepwell.errors import RunDeleted
from stepwell.values import dataclass

REDRIVE, RERUN, FORK = "redrive", "rerun", "fork"  # prefixes of the run's id in a header's `origin`
STARTS = "starts"  # prefix in the `origin` of a run that gathers starts, before the place where they find it


@dataclass(frozen=True)  # no slots: `changed` copies it at every reading
class Header:
    """A run's header: written at the start, when the status changes, at the end. `rev` orders the changes."""

    run_id: str
    workflow: str
    version: str
    input: Json
    created_ms: int
    status: Status = Status.PENDING
    rev: int = -2  # -2 created, -1 picked up, then the slot of the root record that changed the status
    fingerprint: str = ""  # of the request that started it: distinguishes a repeated start from another one
    started_ms: int = 0
    ended_ms: int = 0
    start_at_ms: int = 0
    idle: bool = False
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    parent: str | None = None
    waiting_for: str = ""
    waiting_node: str = ""
    waiting_since_ms: int = 0
    waiting_until_ms: int | None = None
    changed_ms: int = 0  # when `status` last changed
    expires_ms: int = 0  # ended runs: when their data may be dropped
    due_ms: int | None = None  # when progress is expected of the run; None: it waits for the outside world
    origin: str = ""  # what it was made from: redrive:<run>, rerun:<run>, fork:<run>; starts:<place>
    watched: bool = False  # the sweeper has looked at it once: `list_due` lists it when it is due
    paused_ms: int = 0  # since when it is paused; 0: it is not
    paused_by: str = ""
    pause_reason: str = ""
    pause_of: str = ""  # the workflow whose pause stopped it, EVERY for a pause of all; "": it was paused by itself
    resumes_as: str = ""  # of a paused run: the status to resume with
    trace: str = ""  # the caller's `traceparent`
    failure: str = ""  # of a failed run: the error's fingerprint, its type and its step
    pinned: bool = False  # runs made from it use its version unless they name one; else the one deployed then


def check_held(header: Header, held_until_ms: int) -> None:
    """Raises RunDeleted if the id of a new run is held for longer than until the run was made."""
    if header.created_ms < held_until_ms:
        free_at = iso(held_until_ms)
        raise RunDeleted(f"run {header.run_id} was deleted a moment ago: its id is free from {free_at} on",
                         code="run_deleted", hint="start it then, or with another id or key")  # fmt: skip


@quick
@dataclass(frozen=True)
class StatusChange:
    """A later state of a header: applied only if `rev` is greater than the stored one. Replaces these fields.

    `of_branch`: the status comes from the branches of the fork in this record. It is applied at the same `rev` too, and
    leaves `started_ms` and `due_ms` as they are. A paused run stays paused, and keeps `status` as the one to resume
    with, unless `ends_pause`; otherwise, with `unless_paused`, it is left as it is.
    """

    run_id: str
    rev: int
    status: Status
    changed_ms: int
    started_ms: int | None = None  # None: keep what is there
    ended_ms: int = 0
    waiting_for: str = ""
    waiting_node: str = ""
    waiting_since_ms: int = 0
    waiting_until_ms: int | None = None
    expires_ms: int = 0
    due_ms: int | None = None
    of_branch: bool = False
    ends_pause: bool = False
    unless_paused: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list, newest first; `by_deadline`: those whose wait has a deadline, the soonest first.

    Empty fields do not narrow. `cursor` is what the previous page returned.
    """

    workflow: str = ""
    statuses: frozenset[Status] = frozenset()
    tag: tuple[str, str] | None = None
    since_ms: int = 0
    waiting_for: frozenset[str] = frozenset()  # kinds of waits
    failure: str = ""  # an error's fingerprint
    overdue_at_ms: int | None = None  # waiting runs whose waiting_until_ms is before it
    by_deadline: bool = False
    limit: int = 50
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class RunPage:
    headers: tuple[Header, ...]
    next_cursor: str = ""
