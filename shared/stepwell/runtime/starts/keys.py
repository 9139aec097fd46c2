"""What a start asks for: the header of its run, whose id and fingerprint make the start repeatable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from stepwell.definition.graph import Graph
from stepwell.engine.records import Status
from stepwell.runtime.log.tracing import checked
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.starts.versions import PIN


def id_of_key(workflow: str, key: str) -> str:
    """Returns the run id of a key: the same for each repeated start, so creating the run is the lock."""
    return "run_" + hashlib.sha256(json.dumps([workflow, key]).encode()).hexdigest()[:26]


def fingerprint_of(request: Start) -> str:
    """Returns the fingerprint of a request, which distinguishes a repeated start from another one."""
    body = [request.workflow, request.input, sorted(request.tags.items()), request.priority,
            request.start_at_ms, request.create_only, *([request.origin] if request.origin else []),
            *([{"version": request.version}] if request.version else [])]  # fmt: skip
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def header_of(graph: Graph, request: Start, new_id: Callable[[], str], now_ms: int) -> Header:
    """Returns the header of the run that the start would make by itself. `new_id`: if it has no key and no id."""
    idle = request.create_only
    return Header(
        run_id=request.run_id or (id_of_key(graph.name, request.key) if request.key else f"run_{new_id()}"),
        workflow=graph.name,
        version=graph.version,
        input=request.input,
        created_ms=now_ms,
        status=Status.IDLE if idle else Status.PENDING,
        fingerprint=fingerprint_of(request),
        start_at_ms=request.start_at_ms,
        idle=idle,
        priority=graph.priority if request.priority is None else request.priority,
        tags=dict(request.tags),
        origin=request.origin,
        trace=checked(request.trace),
        pinned=request.version == PIN,
        changed_ms=now_ms,
    )
