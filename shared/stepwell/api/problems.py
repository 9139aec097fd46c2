"""Turns errors into RFC 9457 problem documents with a stable type and no internal details."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from stepwell.api.exchange import Answer
from stepwell.definition.graph import Json
from stepwell.error_hints import hint_for
from stepwell.errors import Conflict, EngineFault, InvalidInput, NewerFormat, NotFound, PortError, UserError
from stepwell.limits import NEWER_FORMAT_MS, SECOND_MS
from stepwell.violations import worded

log = logging.getLogger("stepwell.api")

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1
SECRET_CODES = frozenset({"secret_missing", "secret_unavailable"})

_BY_CODE = {
    "body_too_large": 413,
    "too_many_pending": 429,
    "not_an_approver": 403,
    "links_not_allowed": 403,
    "callback_expired": 410,
    "callback_over": 410,
    "approval_expired": 410,
    "bad_json": 400,
    "unknown_route": 404,
    "method_not_allowed": 405,
    "bad_query": 422,
    "queries_not_here": 501,
}
_WRONG = frozenset({400, 413, 422})  # what was sent is wrong
_PATHS = {  # of the mistakes that only one field can have
    "bad_cursor": "/cursor",
    "bad_run_id": "/run_id",
    "bad_schedule": "/schedule",
    "bad_timezone": "/timezone",
    "empty_filter": "/filter",
    "no_canary": "/canary",
    "no_run_id": "/run_id",
    "too_far_ahead": "/start_at",
    "too_many_tags": "/tags",
    "unknown_slot": "/at",
    "unknown_vocabulary": "/as",
    "unsupported_schedule": "/schedule",
}
_BY_CLASS: tuple[tuple[type[UserError], int], ...] = ((NotFound, 404), (Conflict, 409), (InvalidInput, 422))


def problem_answer(error: Exception) -> Answer:
    """Builds the answer for any exception. Logs errors that are not the caller's fault; defects get an id."""
    if isinstance(error, UserError):
        return refused(error)
    if isinstance(error, NewerFormat):
        log.warning("%s: %s", error.code, error)
        return problem(503, error.code, "a newer version of Stepwell wrote what this needs; what was asked may be done",
                       hint="send the same again in a while: a deploy is under way, or was rolled back",
                       headers={"Retry-After": str(NEWER_FORMAT_MS // SECOND_MS)})  # fmt: skip
    if isinstance(error, PortError):
        log.warning("%s: %s", error.code, error)
        if error.code in SECRET_CODES:  # only the log names the secret, because webhook callers may be anybody
            return problem(503, error.code, "a required secret is missing or cannot be read at the moment",
                           hint="the log names the secret, and how to create a missing one",
                           headers={"Retry-After": str(RETRY_AFTER_SECONDS)})  # fmt: skip
        if error.code == "disk_full":
            return problem(503, error.code, "the server's disk is full; the request may have taken effect",
                           hint="free some space on it (df -h), then send the same request again",
                           headers={"Retry-After": str(RETRY_AFTER_SECONDS)})  # fmt: skip
        return problem(503, error.code, "the store or queue did not answer; the request may have taken effect",
                       hint="send the same request again; with the same run_id or Idempotency-Key it takes effect once",
                       headers={"Retry-After": str(RETRY_AFTER_SECONDS)})  # fmt: skip
    error_id = secrets.token_hex(8)
    log.error("error %s", error_id, exc_info=error)
    return problem(500, "internal_error", f"an internal error; search the log for {error_id}",
                   more={"error_id": error_id})  # fmt: skip


def unreadable(error: EngineFault, detail: str) -> Answer:
    """Builds the answer for a run whose log cannot be read."""
    error_id = secrets.token_hex(8)
    log.error("error %s: %s", error_id, detail, exc_info=error)
    what = error.hint or "stepwell recover lists such runs; point-in-time recovery restores their table"
    return problem(500, error.code, detail, hint=f"other runs go on; {what}", more={"error_id": error_id})


def refused(error: UserError, more: Mapping[str, Json] | None = None) -> Answer:
    """Builds the answer for an error that the caller can fix."""
    status = status_of(error)
    errors = [{"path": problem.path, "message": problem.message} for problem in error.problems]
    if not errors and status in _WRONG:
        errors = [{"path": _PATHS.get(error.code, ""), "message": error.message}]
    return problem(status, error.code, worded(error.message), hint=error.hint, more={**(more or {}), "errors": errors})


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Json] | None = None,
) -> Answer:
    """Builds a problem document; `more` has extra members. Without a `hint` it has that of its code."""
    body = {
        "type": f"urn:stepwell:{code}",
        "code": code,
        "title": code.replace("_", " ").capitalize() or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "hint": hint or hint_for(code, status),
        "errors": [],
        **(more or {}),
    }
    return Answer(status, body, PROBLEM_TYPE, headers or {})


def status_of(error: UserError) -> int:
    """Returns the HTTP status of an error that the caller can fix."""
    by_class = next((status for kind, status in _BY_CLASS if isinstance(error, kind)), 400)
    return _BY_CODE.get(error.code, by_class)
