"""Warns about `input.NAME` where the input's schema has a name that is nearly the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.patterns import lazy
from stepwell.definition.text import did_you_mean, pointer_part

_READ = lazy(r"(?<![\w.])input\.([A-Za-z_]\w*)(?!\w*\()")
_CONDITIONS = frozenset({"when", "match", "foreach", "next_when"})  # expressions without braces
_ELSEWHERE = frozenset({"description", "input_schema", "triggers"})  # a trigger reads its event


def check_input_read(context: Context, document: Mapping[str, Json]) -> None:
    """Warns once about each misspelt name. A name that is like no other is accepted: a schema may be open."""
    schema = document.get("input_schema")
    declared = schema.get("properties") if isinstance(schema, dict) else None
    if context.trusted or not isinstance(declared, dict):
        return
    places: dict[str, str] = {}
    for name, path in _read(document, "", ""):
        if name not in declared:
            places.setdefault(name, path)
    for name, path in places.items():
        if hint := did_you_mean(name, declared):
            message = f"`input.{name}` is read, and input_schema does not have it"
            context.add("unknown_input", message, path, hint, severity="warning")


def _read(value: Json, key: str, path: str) -> Iterator[tuple[str, str]]:
    """Yields each name that a template or a condition reads of the run's input, and the place of the text."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in _ELSEWHERE:
                yield from _read(item, name, f"{path}/{pointer_part(name)}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _read(item, key, f"{path}/{at}")
    elif isinstance(value, str) and ("{{" in value or key in _CONDITIONS):
        yield from ((name, path) for name in dict.fromkeys(_READ.findall(value)))
