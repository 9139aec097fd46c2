"""Warns about `state.NAME` where nothing of the definition writes that name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json, Node
from stepwell.definition.text import closest

# Names that waits and detached child runs write, beside their nodes' own.
OF_WAITS = frozenset({
    "approval", "lastResponse", "documentUrls", "signedDocumentUrl", "signedAt", "testScore", "testResult",
    "triggeredExecutionId", "childExecutionStatus", "childExecutionSuccess",
})  # fmt: skip
_HINT = "the state has results under their nodes' names, and what `output` writes; the run's own input is `input`"


def check_state_read(context: Context, nodes: Mapping[str, Node], document: Mapping[str, Json]) -> None:
    """Warns once about each name in `state` that no node writes. Says nothing if one may write any name.

    Names that begin with an underscore are the engine's.
    """
    if context.trusted or not context.state_read or any(writes_any(node) for node in nodes.values()):
        return
    written = {name for node in nodes.values() for name in written_by(node)} | properties_of(document, "state_schema")
    unknown: dict[str, str] = {}  # each with the first place that reads it
    for name, path in context.state_read:
        if name not in written and name not in OF_WAITS and not name.startswith("_"):
            unknown.setdefault(name, path)
    for name, path in unknown.items():
        message = f"`state.{name}` is read, and nothing writes it"
        hint = f"write input.{name}: it is a name of the input" if name in context.inputs else ""
        hint = hint or closest(name, sorted(written)) or _HINT
        context.add("unknown_state", message, path, hint, severity="warning")


def _outputs(node: Node) -> Iterator[Expression]:
    found = (one.output for one in (node.step, node.wait, node.call) if one is not None)
    yield from (output for output in found if output is not None)


def _keys(output: Expression) -> set[str] | None:
    """Returns the names that an output writes; None if it is a single template, which may make any."""
    try:
        named = json.loads(output.text)
    except ValueError:
        return None
    return set(named) if isinstance(named, dict) else None


def writes_any(node: Node) -> bool:
    step, wait, call = node.step, node.wait, node.call
    by_keys = step is not None and (step.writes != "result" or step.window is not None)
    of_agent = (call is not None and call.brings_variables) or (wait is not None and wait.window is not None)
    return by_keys or of_agent or any(_keys(output) is None for output in _outputs(node))


def written_by(node: Node) -> Iterator[str]:
    yield node.name
    for output in _outputs(node):
        yield from _keys(output) or ()
    if node.fan_in is not None:
        yield node.fan_in.target or node.name
    yield from (rule.item_name or "item" for rule in node.rules if rule.foreach is not None)


def properties_of(document: Mapping[str, Json], key: str) -> set[str]:
    """Returns the names that `state_schema` or `input_schema` has."""
    schema = document.get(key)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return set(properties) if isinstance(properties, dict) else set()
