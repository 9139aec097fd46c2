"""Places of gatherings: where the starts of one key find the run that gathers them. A place is a note.

NOTES#starts:<digest>   NOTE#open   the run, until it has begun or ended
"""

from __future__ import annotations

import hashlib
import json

from stepwell.definition.graph import Graph
from stepwell.engine.limits.permits import key_of
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import RunInfo
from stepwell.engine.token import Token
from stepwell.errors import ExpressionError, InvalidInput
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports import Notes
from stepwell.runtime.ports.headers import STARTS, Header

KEYED = "start:"  # prefix of the `by` of a record that a start with a key wrote
_OPEN = "open"


def origin_at(graph: Graph, header: Header) -> str:
    """Returns the `origin` of the run that a start belongs to, from its key, version, tags and priority.

    Raises InvalidInput for an invalid key.
    """
    key = gathering_key(graph, run_info(header))
    parts = [graph.name, graph.version, key, sorted(header.tags.items()), header.priority, *([True] * header.pinned)]
    return f"{STARTS}:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"


def gathering_key(graph: Graph, run: RunInfo) -> str:
    """Returns the key of a start, whose own input the run has; "" if there is none. Raises InvalidInput."""
    if graph.gathering is None or graph.gathering.key is None:
        return ""
    try:
        return key_of(graph.gathering.key, Names(Moment(graph, run, run.created_ms, ""), Token()), graph.gathering.mode)
    except ExpressionError as error:
        raise InvalidInput(str(error), code="bad_key", hint="the start's input must have the key") from error


async def found(notes: Notes, origin: str) -> str | None:
    """Returns the run that is named there; None if there is none. It may have begun since."""
    return await notes.get_note(origin, _OPEN)


async def name(notes: Notes, origin: str, run_id: str, before: str | None) -> bool:
    """Names a run there in place of `before`, or of none. Returns False if another one is named."""
    return await notes.put_note(origin, _OPEN, run_id, before)


async def leave(notes: Notes, header: Header) -> None:
    """Removes the name of the run, unless another one is named there. Idempotent."""
    if header.origin.startswith(f"{STARTS}:"):
        await notes.drop_note(header.origin, _OPEN, header.run_id)
