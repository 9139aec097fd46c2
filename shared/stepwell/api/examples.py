"""Examples of the OpenAPI document, by the name of their schema; a test checks each against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.definition.graph import Json

_RUN_ID = "run_01KB2Q8W3N5T7V9X1Z3B5D7F9H"
_LINKS = {"self": f"/runs/{_RUN_ID}", "history": f"/runs/{_RUN_ID}/history"}
_SUMMARY: Mapping[str, Any] = {
    "run_id": _RUN_ID,
    "workflow": "order",
    "version": "sha256:7a2a67bc9eca8f36",
    "pinned": False,
    "status": "waiting",
    "current_steps": ["approve"],
    "waiting_for": "approval",
    "waiting_since": "2026-03-01T13:00:04.120Z",
    "waiting_until": "2026-03-02T13:00:04.120Z",
    "pending_reason": None,
    "failure": None,
    "tags": {"team": "shop"},
    "priority": 0,
    "parent": None,
    "origin": None,
    "created_at": "2026-03-01T13:00:00.000Z",
    "start_at": None,
    "started_at": "2026-03-01T13:00:00.015Z",
    "ended_at": None,
    "links": _LINKS,
}
EXAMPLES: Mapping[str, Json] = {
    # what is sent
    "StartBody": {"input": {"order_id": "A-1", "amount": 121}, "tags": {"team": "shop"}},
    "EndBody": {"reason": "the customer changed their mind", "by": "ana"},
    "ForkBody": {"at": 2, "state": {"limit": 500}, "by": "ana"},
    "ApproveBody": {"data": {"limit": 500}, "by": "ana"},
    "RejectBody": {"reason": "no budget", "by": "ana"},
    "BatchBody": {"action": "redrive", "filter": {"workflow": "order", "failure": "9f2c61d07b3a"}, "canary": True},
    "DelegateBody": {"to": "ben", "by": "ana"},
    "RunEventBody": {"name": "parcel.sent", "payload": {"tracking": "PX1"}, "id": "evt-1"},
    "EventBody": {"name": "parcel.sent", "key": "A-1", "payload": {"tracking": "PX1"}, "id": "evt-1"},
    "UpdateBody": {"input": {"sku": "LAMP-07"}, "id": "upd-1"},
    "ScheduleBody": {"name": "nightly", "workflow": "report", "schedule": "cron(30 2 * * ? *)", "timezone": "UTC"},
    "CallbackFailBody": {"type": "CardDeclined", "message": "no funds"},
    "ReplayBody": {"source": "stripe", "delivery": "evt_1", "again": False},
    # what is answered
    "RunPage": {"items": [_SUMMARY], "next_cursor": None},
    "FailurePage": {
        "items": [
            {"fingerprint": "9f2c61d07b3a", "workflow": "order", "type": "CarrierDown", "step": "ship", "count": 412,
             "first_at": "2026-03-01T13:00:00.105Z", "last_at": "2026-03-01T14:10:41.300Z", "run_id": _RUN_ID}
        ],
        "next_cursor": None,
    },
    "ResultView": {"run_id": _RUN_ID, "status": "completed", "result": {"tracking": "PX1"}},
    "UpdateView": {"run_id": _RUN_ID, "name": "add_item", "update_id": "upd-1", "pending": False, "output": 3,
                   "error": None},
    "AnswerView": {"run_id": _RUN_ID, "name": "progress", "value": {"done": 2, "of": 3}},
    "EndedView": {"run_id": _RUN_ID, "cancelled": True, "status": "cancelled"},
    "ErasedView": {"run_id": _RUN_ID, "deleted_runs": 2, "deleted_items": 14},
    "ForetoldView": {
        "run_id": _RUN_ID, "workflow": "order", "version": "sha256:4c1f", "at": 1, "kept": 1, "stops": "end",
        "stops_at": None, "status": "completed", "state": {"charge": {"total": 121}},
        "steps": [{"slot": 2, "step": "ship", "by": "log", "output": None, "to": ""}],
    },
    "RedriveView": {
        "run_id": _RUN_ID, "workflow": "order", "version": "sha256:4c1f", "redriven_as": None, "refused": None,
        "kept_records": 1, "kept": [{"token": "0", "step": "charge"}], "again": [{"token": "0", "step": "ship"}],
        "dropped": [], "sent_again": [],
    },
    "SentView": {"event_id": "evt-1", "duplicate": False, "waits": 1, "starts": [],
                 "kept_until": "2026-03-08T13:00:00.000Z"},
    "HealthView": {"status": "ok", "version": "0.1.0", "dependencies": {"store": "reached"}},
    "HistoryPage": {
        "items": [
            {"id": "0@2.0", "at": "2026-03-01T13:00:00.105Z", "type": "step.completed", "token": "0", "step": "charge",
             "attempt": 1, "from": None, "to": None, "trigger": "internal", "by": "wake:0:1",
             "data": {"output": {"total": 121}}}
        ],
        "next_cursor": "0@2.0",
    },
    "OutputPage": {
        "items": [
            {"cursor": "1772370000105-000000-0", "at": "2026-03-01T13:00:00.105Z", "token": "0", "step": "answer",
             "attempt": 1, "first": True, "data": {"text": "Hello"}}
        ],
        "next_cursor": "1772370000105-000000-0",
    },
    "LogPage": {
        "items": [
            {"id": "1772370000105000000", "at": "2026-03-01T13:00:00.105Z", "level": "info", "step": "charge",
             "branch": "0/1.3", "attempt": 1, "message": "charged 121 EUR"}
        ],
        "next_cursor": None,
    },
    "ProblemView": {
        "type": "urn:stepwell:invalid_input",
        "code": "invalid_input",
        "title": "Invalid input",
        "status": 422,
        "detail": "the input does not fit its schema",
        "hint": "give it what input_schema of order asks for, as `input` or with -i FILE|JSON",
        "errors": [{"path": "/input/amount", "message": "is not a number"}],
    },
}  # fmt: skip
