"""Values of an input that the types of a durable function most likely refuse, told by the JSON Schema of its code.

What pydantic converts is no misfit: "5" for a number, 1 for a flag. The code of a model may convert more, so that a
misfit is no reason to refuse a start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from stepwell.definition.graph import Json

_FLAGS = frozenset({"0", "1", "true", "false", "t", "f", "yes", "no", "y", "n", "on", "off"})  # texts for a boolean
# Texts that a number stands for, too, by their formats.
_OF_NUMBERS = {"date-time": "a date and time", "date": "a date", "time": "a time of day", "duration": "a duration"}
_DEPTH, _ITEMS = 20, 20  # nested values, and items of a list, that are looked at

_Definitions = Mapping[str, Json]


def misfits(schema: Mapping[str, Json], given: Json) -> Iterator[tuple[str, str, str]]:
    """Yields the place of each value that does not fit, what it is, and what is taken there."""
    yield from _misfits(schema, given, schema.get("$defs", {}), "", _DEPTH)


def _misfits(
    schema: Mapping[str, Json], given: Json, known: _Definitions, place: str, depth: int
) -> Iterator[tuple[str, str, str]]:
    schema = _meant(schema, known)
    if not _fits(schema, given, known):
        yield place, _kind_of(given), _taken(schema, known)
    elif depth:
        yield from _within(schema, given, known, place, depth)


def _within(
    schema: Mapping[str, Json], given: Json, known: _Definitions, place: str, depth: int
) -> Iterator[tuple[str, str, str]]:
    """Yields the misfits inside an object or a list. Of several types, nothing is told of what is inside."""
    if isinstance(given, dict) and schema.get("type") == "object":
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, value in given.items():
            inner = properties.get(name, others if isinstance(others, dict) else {})
            yield from _misfits(inner, value, known, f"{place}.{name}" if place else name, depth - 1)
    elif isinstance(given, list) and schema.get("type") == "array":
        for index, value in enumerate(given[:_ITEMS]):
            yield from _misfits(schema.get("items", {}), value, known, f"{place}[{index}]", depth - 1)


def _meant(schema: Mapping[str, Json], known: _Definitions) -> Mapping[str, Json]:
    """Returns the class that a schema refers to, or the schema."""
    reference = schema.get("$ref")
    return known.get(reference.rpartition("/")[2], {}) if isinstance(reference, str) else schema


def _fits(schema: Mapping[str, Json], given: Json, known: _Definitions) -> bool:
    """Tells whether pydantic takes a value of this kind. `schema`: with its reference followed."""
    if "anyOf" in schema:
        return any(_fits(_meant(one, known), given, known) for one in schema["anyOf"])
    if "enum" in schema:
        return str(given) in map(str, schema["enum"])
    match schema.get("type"):
        case "string":
            is_number = isinstance(given, int | float) and not isinstance(given, bool)
            return isinstance(given, str) or (is_number and schema.get("format") in _OF_NUMBERS)
        case "integer" | "number" as kind:
            return _is_number(given, is_whole=kind == "integer")
        case "boolean":
            return isinstance(given, bool) or (isinstance(given, str | int | float) and _is_flag(given))
        case "null":
            return given is None
        case "array":
            return isinstance(given, list)
        case "object":
            return isinstance(given, dict)
        case _:
            return True


def _is_number(given: Json, *, is_whole: bool) -> bool:
    if not isinstance(given, str | int | float):
        return False
    try:
        number = float(given)
    except ValueError:
        return False
    except OverflowError:  # it is whole, and has more digits than a float
        return True
    return not is_whole or number.is_integer() or math.isinf(number)


def _is_flag(given: str | float) -> bool:
    return given.lower() in _FLAGS if isinstance(given, str) else given in (0, 1)


def _kind_of(given: Json) -> str:
    """Returns what a value is, and not the value: clients log what is told, and it may be a secret."""
    match given:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def _taken(schema: Mapping[str, Json], known: _Definitions) -> str:
    """Returns the types that are taken, for people."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_taken(_meant(one, known), known) for one in schema["anyOf"]))
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    if schema.get("format") in _OF_NUMBERS:
        return _OF_NUMBERS[schema["format"]]
    kinds = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "a boolean",
             "null": "null", "array": "a list", "object": "an object"}  # fmt: skip
    return kinds[schema["type"]]
