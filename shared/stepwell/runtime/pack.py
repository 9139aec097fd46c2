"""A workflow folder as one JSON document, checked: what a deployed function reads instead of the files themselves.

    python -m stepwell.runtime.pack FOLDER OUT.json

Reading YAML and checking shapes takes a cold start 200 ms; compiling what was checked before takes 50.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import DEFAULT_POOL, Graph, Json, ScheduleTrigger
from stepwell.definition.timetable import parse_schedule
from stepwell.errors import DefinitionError, StepwellError
from stepwell.runtime.folder import load_folder
from stepwell.runtime.messages import Scheduled, to_json

FORMAT = 1
BROKEN, USAGE = 1, 2  # exit statuses


def pack_folder(folder: Path) -> Mapping[str, Json]:
    """The folder's definitions, the pools they name, the webhook sources, and the schedules that the stack is to make.

    Raises NotFound; DefinitionError when a definition has errors.
    """
    loaded = load_folder(folder)
    if loaded.errors:
        raise DefinitionError(f"the definitions in {folder} have errors", problems=loaded.errors)
    return {
        "format": FORMAT,
        "pools": sorted(set(_pools(loaded.graphs))),
        "definitions": [graph.document for graph in loaded.graphs],
        "webhooks": loaded.webhooks,
        "schedules": [_schedule(one) for graph in loaded.graphs for one in graph.schedules],
    }


def unpack(packed: Mapping[str, Json]) -> tuple[Graph, ...]:
    """The graphs of what `pack_folder` made."""
    return tuple(compile_document(document, trusted=True) for document in packed["definitions"])


def _schedule(trigger: ScheduleTrigger) -> Mapping[str, Json]:
    """As EventBridge Scheduler takes it, with what it is to send."""
    return {
        "name": trigger.name,
        "expression": parse_schedule(trigger.expression, trigger.timezone).aws,
        "timezone": trigger.timezone,
        "message": to_json(Scheduled(trigger.name)),
    }


def _pools(graphs: Iterable[Graph]) -> Iterable[str]:
    yield DEFAULT_POOL
    for graph in graphs:
        for node in graph.nodes.values():
            for step in (node.step, node.compensate, *(node.wait.timeout_actions if node.wait else ())):
                if step is not None and step.pool is not None:
                    yield step.pool


def main(arguments: list[str]) -> int:
    """Exit status: 0 written, 1 the definitions have errors, 2 wrong usage."""
    if len(arguments) != 2:
        print("usage: python -m stepwell.runtime.pack FOLDER OUT.json", file=sys.stderr)
        return USAGE
    try:
        packed = pack_folder(Path(arguments[0]))
    except DefinitionError as error:
        print(error, *error.problems, sep="\n", file=sys.stderr)
        return BROKEN
    except StepwellError as error:
        print(error, file=sys.stderr)
        return USAGE
    Path(arguments[1]).write_text(json.dumps(packed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
