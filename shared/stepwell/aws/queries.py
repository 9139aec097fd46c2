"""Queries on AWS: the API has no user code, so it calls a worker and waits for the answer.

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
    """Returns whether the API makes this call instead of the queue."""
    return _QUERY in event


def answer(parts: Assembly, event: Mapping[str, Any]) -> dict[str, Json]:
    """Answers a query on the worker. A refusal is an answer too; other errors fail the invocation."""
    asked = event[_QUERY]
    try:
        return {"value": run_now(parts.service.query(asked["run_id"], asked["name"]))}
    except UserError as error:
        kind = next(name for name, one in _REFUSALS.items() if isinstance(error, one))
        return {"error": {"kind": kind, "code": error.code, "message": error.message, "hint": error.hint}}


def ask(invoker: Invoker, worker: str, run_id: str, name: str) -> Json:
    """Asks a worker, from the API. Raises the worker's refusal, or PortError without an answer."""
    payload = json.dumps({_QUERY: {"run_id": run_id, "name": name}}).encode()
    try:
        invoked = invoker.invoke(worker, payload, {"run_id": run_id})
    except CallError as error:
        raise PortError(f"could not call the worker: {error}") from error
    if invoked.failed:
        raise PortError(f"the worker failed: {invoked.payload[:500].decode(errors='replace')}")
    if len(invoked.payload) > ANSWER_BYTES:
        raise InvalidInput(f"the answer to {name} has more than {ANSWER_BYTES} bytes", code="answer_too_large")
    answer = json.loads(invoked.payload)
    if (refused := answer.get("error")) is not None:
        raise _REFUSALS[refused["kind"]](refused["message"], code=refused["code"], hint=refused["hint"])
    return answer["value"]
