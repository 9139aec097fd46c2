"""The workflows that every deployment has. The colon in their names keeps them apart from those of definitions."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Json

BATCH = "stepwell:batch"  # its name, and the `run` of its step

BUILT_IN: Mapping[str, Mapping[str, Json]] = {
    BATCH: {
        "workflow": BATCH,
        "description": "Acts on all runs of a filter, a page at a time",
        "internal": True,
        "nodes": {
            "act": {
                "run": BATCH,
                "input": "{{ input }}",
                "output": {"report": "{{ result }}"},
                "timeout": "1m",
                "max_visits": 100_000,
                "transitions": [{"to": "act", "when": "!result.is_over", "priority": 1}, {"to": "done", "priority": 2}],
            },
            "done": {},
        },
    },
}
