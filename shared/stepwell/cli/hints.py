"""Hints for the person at a terminal: with commands in place of the calls that the API's hints name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from stepwell.error_hints import HINTS
from stepwell.errors import StepwellError

# What the API's hints name for callers over HTTP, and the command that does the same; the longer routes first.
ROUTES: Mapping[str, str] = {
    'POST /runs/{id}/fork with "at":': "stepwell fork RUN --at",
    "GET /runs/{id}/branches": "stepwell show RUN --branches all",
    "GET /runs/{id}/history": "stepwell history RUN",
    "GET /runs/{id}": "stepwell show RUN",
}
_EVENT = r"an event (\S+) sent to this run \(POST /runs/(\S+)/events\)"
# What an explanation names for them, with the id of its run or the name of a workflow, likewise.
CALLS: Mapping[str, str] = {
    r'POST /runs/(\S+)/approve or /reject with "wait": "([^"]+)"': (
        r"stepwell approve \1 --step \2, or stepwell reject \1 --step \2,"
    ),
    r"POST /runs/(\S+)/approve or /reject": r"stepwell approve \1, or stepwell reject \1,",
    _EVENT: r"stepwell event \1 --run \2",
    r"POST /runs/(\S+)/updates/NAME": r"stepwell update \1 NAME",
    r"POST /runs/(\S+)/start starts it, /cancel": r"stepwell start \1 starts it, stepwell cancel \1",
    r"POST /(?:runs|workflows)/(\S+)/unpause": r"stepwell unpause \1",
    r"POST /workflows:unpause": "stepwell unpause --all",
    r"GET /limits/(\S+) shows": r"stepwell limits \1 shows",
    r"GET /runs/(\S+)/branches\?fork=(\S+)": r"stepwell show \1 --branches all --fork \2",
    r"GET /runs/(\S+)/branches\?status=(\S+)": r"stepwell show \1 --branches \2",
    r"GET /runs/(\S+)/branches": r"stepwell show \1 --branches all",
}
WAKING = (
    "approve",
    "reject",
    "event",
    "update",
    "start",
    "cancel",
    "unpause",
    "show",
    "limits",
)  # the commands of these calls
_ANY = "the page Errors of Stepwell's documentation lists the codes; stepwell doctor checks this machine"


def hint_of(error: StepwellError) -> str:
    """Returns the error's own hint with commands for the routes that it names, else that of its code."""
    hint = str(error.hint or HINTS.get(error.code, _ANY))
    for route, command in ROUTES.items():
        hint = hint.replace(route, command)
    return hint


def with_commands(text: str) -> str:
    """Returns a part of an explanation with the commands for the calls of the API that it names."""
    text = _APPROVALS.sub(_answered, text)
    for call, command in CALLS.items():
        text = re.sub(call, command, text)
    return text


def events_in(text: str) -> list[str]:
    """Returns the names of the events that a part of an explanation has sent to the run."""
    return [found[1] for found in re.finditer(_EVENT, text)]


_APPROVALS = re.compile(
    r'POST /runs/(\S+)/approve or /reject with (?:"wait": "([^"]+)" and )?"by": "([^"]+)"((?:(?:, | or )"[^"]+")*)'
)


def _answered(call: re.Match[str]) -> str:
    """Returns the commands for an approval that names its approvers: the first of them, and who else may."""
    run_id, wait, by, others = call.groups()
    options = (f" --step {wait}" if wait else "") + f" --by {shlex.quote(by)}"
    names = re.sub("^(, | or )", "", others).replace('"', "")
    more = f"; or by {names}" if names else ""
    return f"stepwell approve {run_id}{options}, or stepwell reject {run_id}{options}{more}"
