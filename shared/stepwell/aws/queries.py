"""Queries on AWS: the API has none of the users' code, so it calls a worker, and waits for what that says.

API ── {"stepwell_query": {run_id, name}} ──▶ worker ── {"value": …} or {"error": {…}} ──▶ API
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stepwell.definition.graph import Json
from stepwell.errors import Conflict, InvalidInput, NotFound, PortError, UserError
from stepwell.limits import ANSWER_BYTES
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.lambdas import Invoker

_QUERY = "stepwell_query"
_REFUSALS: Mapping[str, type[UserError]] = {one.__name__: one for one in (Conflict, InvalidInput, NotFound, UserError)}


def is_query(event: Mapping[str, Any]) -> bool:
    """Whether it is the API that calls, and not the queue."""
    return _QUERY in event


def answer(parts: Assembly, event: Mapping[str, Any]) -> dict[str, Json]:
    """The worker's side. A refusal is an answer too; what is no answer is raised, and fails the invocation."""
    asked = event[_QUERY]
    try:
        return {"value": run_now(parts.service.query(asked["run_id"], asked["name"]))}
    except UserError as error:
        kind = next(name for name, one in _REFUSALS.items() if isinstance(error, one))
        return {"error": {"kind": kind, "code": error.code, "message": error.message, "hint": error.hint}}


def ask(invoker: Invoker, worker: str, run_id: str, name: str) -> Json:
    """The API's side. Raises what the worker refused with, PortError where it gave no answer."""
    payload = json.dumps({_QUERY: {"run_id": run_id, "name": name}}).encode()
    try:
        invoked = invoker.invoke(worker, payload, {"run_id": run_id})
    except CallError as error:
        raise PortError(f"the worker was not asked: {error}") from error
    if invoked.failed:
        raise PortError(f"the worker failed: {invoked.payload[:500].decode(errors='replace')}")
    if len(invoked.payload) > ANSWER_BYTES:
        raise InvalidInput(f"the answer to {name} has more than {ANSWER_BYTES} bytes", code="answer_too_large")
    told = json.loads(invoked.payload)
    if (refused := told.get("error")) is not None:
        raise _REFUSALS[refused["kind"]](refused["message"], code=refused["code"], hint=refused["hint"])
    return told["value"]
