"""The lines that a run's code logged on AWS, from the log groups of its stack's workers in CloudWatch Logs.

A page is of one group at a time, and costs LOG_CALLS requests at the most: a cursor says in which group, and where.

    0        the first group, from its beginning
    1:TOKEN  the second group, where CloudWatch's own token says
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepwell.aws.calls import Retry
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import LogsClient
from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput, PortError
from stepwell.limits import LOG_CALLS
from stepwell.runtime.starts.admission import place_in
from stepwell.runtime.stores.log_lines import Asked, LogLine, LogPage, branch_of

_TRIES = 3  # the caller waits


class CloudWatchLogs:
    """The RunLogs port. `groups`: the names of the workers' log groups."""

    def __init__(self, groups: Sequence[str], client: Callable[[], LogsClient]) -> None:
        self._groups, self._client, self._retry = groups, client, Retry(attempts=_TRIES)

    async def read(self, asked: Asked) -> LogPage:
        number, token = _place(asked.cursor)
        if asked.until_ms is not None and asked.until_ms < asked.since_ms:
            return LogPage([])  # CloudWatch refuses a time that ends before it begins
        lines: list[LogLine] = []
        for _ in range(LOG_CALLS):
            if number >= len(self._groups) or len(lines) >= asked.limit:
                break
            answer = self._page(self._groups[number], asked, asked.limit - len(lines), token)
            lines += [line for event in answer.get("events", ()) if (line := _line(event, asked.run_id))]
            token = answer.get("nextToken", "")
            number += 0 if token else 1
        cursor = f"{number}:{token}" if number < len(self._groups) else ""
        return LogPage(lines[: asked.limit], cursor)

    def _page(self, group: str, asked: Asked, limit: int, token: str) -> Mapping[str, Any]:
        request: dict[str, Any] = {
            "logGroupName": group,
            "startTime": asked.since_ms,
            "filterPattern": f'"{asked.run_id}"',  # lines that have it; `_line` leaves out those of other runs
            "limit": limit,
        }
        if asked.until_ms is not None:
            request["endTime"] = asked.until_ms
        if token:
            request["nextToken"] = token
        try:
            return self._retry.call("FilterLogEvents", lambda: self._client().filter_log_events(**request))
        except PortError as error:
            if token and code_of(error.__cause__) == "InvalidParameterException":
                raise _bad_cursor() from error
            raise


def _place(cursor: str) -> tuple[int, str]:
    """The group's number and CloudWatch's token."""
    number, _, token = cursor.partition(":")
    place = place_in(number or "0")
    if place is None:
        raise _bad_cursor()
    return place, token


def _bad_cursor() -> InvalidInput:
    return InvalidInput("the cursor is of another list, or too old", code="bad_cursor", hint="pass next_cursor")


def _line(event: Mapping[str, Any], run_id: str) -> LogLine | None:
    """The line of an event; None for one of another run, which names this one."""
    try:
        line = json.loads(event["message"])
    except ValueError:
        return None
    if not isinstance(line, dict) or line.get("run_id") != run_id:
        return None
    message = line.get("message")
    text = message if isinstance(message, str) else json.dumps(message)
    if trace := line.get("exception"):
        text = f"{text}\n{trace}"
    name = event.get("eventId") or f"{event['timestamp']} {event['message']}"  # the emulator gives none
    return LogLine(str(name), int(event["timestamp"]), str(line.get("level", "")).lower(),
                   str(line.get("step") or ""), _attempt(line.get("attempt")), text,
                   branch_of(line.get("token")))  # fmt: skip


def _attempt(told: Json) -> int:
    """The attempt's number; 0 where the user's code has logged something else by this name."""
    return told if isinstance(told, int) else 0
