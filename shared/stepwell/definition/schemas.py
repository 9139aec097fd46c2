"""Compiles JSON Schemas with fastjsonschema to the `Schema` protocol of the graph. Never fetches anything."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from stepwell.definition.compiled import Schema
from stepwell.definition.graph import Json
from stepwell.definition.text import pointer
from stepwell.errors import DefinitionError

MOST_PROBLEMS = 50  # reported for one value: more than anybody reads


class CompiledSchema:
    """One schema, whose validation returns problems and never raises."""

    __slots__ = ("_validate",)

    def __init__(self, validate: Callable[[Json], object]) -> None:
        self._validate = validate

    def problems(self, value: Json) -> tuple[tuple[str, str], ...]:
        from fastjsonschema import JsonSchemaValueException, JsonSchemaValuesException  # noqa: PLC0415 - see compile_schema

        try:
            self._validate(value)
        except JsonSchemaValuesException as error:
            return tuple(_problem(each) for each in error.errors[:MOST_PROBLEMS])
        except JsonSchemaValueException as error:
            return (_problem(error),)
        except Exception as error:  # for example a value deeper than Python's stack: the value is not valid
            return (("", f"could not be validated: {type(error).__name__}"),)
        return ()


def compile_schema(definition: Json) -> Schema:
    """Compiles a schema. Raises DefinitionError `bad_schema` if it is broken or has external references."""
    # Imported here because it costs 27 ms, and most workers compile no schema.
    import fastjsonschema  # noqa: PLC0415

    if not isinstance(definition, (dict, bool)):
        raise _bad("a schema is a mapping", hint="for example {type: object, required: [id]}")
    for word in _words(definition):
        if word in _IGNORED:
            raise _bad(f"the schema keyword {word} is not supported here", hint="use the keywords of draft 7")
    for reference in _references(definition):
        if not reference.startswith("#"):
            raise _bad(
                f"the reference {reference!r} points outside the schema", hint="copy it into $defs, use #/$defs/…"
            )
    try:
        # A copy, because the compiler writes resolved references into its argument.
        handlers = dict.fromkeys(("http", "https", "file", "ftp", ""), _refuse)
        validate = fastjsonschema.compile(copy.deepcopy(definition), handlers, use_default=False, fast_fail=False)
    except Exception as error:  # for broken schemas the compiler raises KeyError, TypeError, re.error and its own
        raise _bad(f"the schema is broken: {_reason(error)}", hint="check it against json-schema.org") from None
    return CompiledSchema(validate)


# Keywords of newer drafts that the library would ignore silently.
_IGNORED = frozenset(
    {
        "$dynamicRef",
        "$recursiveRef",
        "contentSchema",
        "dependentRequired",
        "dependentSchemas",
        "maxContains",
        "minContains",
        "prefixItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)


def _words(value: Json, names: bool = False) -> Iterator[str]:
    """Yields the schema keywords, without the user's own names under `properties` and similar keywords."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not names:
                yield key
            if names or key not in ("enum", "const", "default", "examples"):
                yield from _words(item, names=not names and key in _NAMED)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)


_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependencies")


def _refuse(uri: str) -> Json:
    raise ValueError(f"{uri} is not fetched")


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for key, item in value.items():
            if key not in ("enum", "const", "default", "examples"):
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _bad(message: str, hint: str) -> DefinitionError:
    return DefinitionError(message, code="bad_schema", hint=hint)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"unknown keyword {error}"
    return re.sub(r"\s+", " ", str(error))[:200] or type(error).__name__


def _problem(error: Any) -> tuple[str, str]:
    """Returns the place as a JSON pointer, and the message without the library's name for it."""
    path = pointer(error.path[1:])
    if error.rule == "required" and isinstance(error.value, dict):
        missing = [name for name in error.rule_definition if name not in error.value]
        return path, f"lacks {', '.join(map(str, missing))}"
    message = str(error.message)
    name = str(error.name)
    return path, message.removeprefix(name).strip() or message
