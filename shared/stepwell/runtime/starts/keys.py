"""Makes starts repeatable: the run id of an idempotency key, and the fingerprint of a request."""

from __future__ import annotations

import hashlib
import json

from stepwell.runtime.starts.starting import Start


def id_of_key(workflow: str, key: str) -> str:
    """Returns the run id of a key: the same for each repeated start, so creating the run is the lock."""
    return "run_" + hashlib.sha256(json.dumps([workflow, key]).encode()).hexdigest()[:26]


def fingerprint_of(request: Start) -> str:
    """Returns the fingerprint of a request, which distinguishes a repeated start from another one."""
    body = [request.workflow, request.input, sorted(request.tags.items()), request.priority,
            request.start_at_ms, request.create_only, *([request.origin] if request.origin else []),
            *([{"version": request.version}] if request.version else [])]  # fmt: skip
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
