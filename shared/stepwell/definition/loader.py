"""Parses the text of a definition (YAML or JSON) to plain data with the place of each value. Reads no files.

YAML is built from the parser's events instead of object constructors: no tags, no Python objects, limited aliases and
depth, no duplicate keys, and words as in YAML 1.2 (`on` and `no` are strings).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import yaml

from stepwell.definition.graph import Json
from stepwell.definition.text import pointer_part
from stepwell.errors import Problem
from stepwell.limits import DEFINITION_BYTES, JSON_DEPTH
from stepwell.values import dataclass

VALUES = 200_000  # values after the expansion of aliases, which limits how often they repeat an anchor

Place = tuple[int, int]  # line and column, from 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """A document: its data (None if it could not be parsed), places by JSON pointer, and problems."""

    data: Json = None
    places: dict[str, Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def placed(self, problem: Problem, file: str) -> Problem:
        """Adds the line and column of the problem's value, or of the nearest enclosing value with a place."""
        path = problem.path
        while path and path not in self.places:
            path = path.rpartition("/")[0]
        line, column = self.places.get(path, (0, 0))
        return replace(problem, file=file, line=line, column=column)


class _MalformedError(Exception):
    def __init__(self, code: str, message: str, mark: Place = (0, 0), hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.mark, self.hint = code, message, mark, hint


def load_document(text: str, file: str = "") -> Loaded:
    """Parses a document. Never raises: errors become Problems with line and column."""
    try:
        if len(text.encode("utf-8", "surrogatepass")) > DEFINITION_BYTES:
            raise _MalformedError("definition_too_large", f"the definition is larger than {DEFINITION_BYTES} bytes")
        return _load(text.removeprefix("\ufeff"))
    except _MalformedError as found:
        is_json = found.code == "bad_syntax" and file.endswith(".json")
        error = (_json_error(text.removeprefix("\ufeff")) if is_json else None) or found
        line, column = error.mark
        problem = Problem(error.code, error.message, hint=error.hint, file=file, line=line, column=column)
        return Loaded(problems=(problem,))


def _load(text: str) -> Loaded:
    looks_like_json = text.lstrip()[:1] in ("{", "[")
    data = _json(text) if looks_like_json else None
    if data is None:
        reader = _Reader(text)
        return Loaded(reader.document(), reader.places)
    # The json module reads the data, because YAML lacks some of JSON's escapes. YAML finds only the places, with
    # surrogates and tabs blanked out (in valid JSON tabs are always white space).
    reader = _Reader(_SURROGATE.sub(r"\\u0020", text.replace("\t", " ")))
    try:
        reader.document()
    except _MalformedError as error:
        if error.code != "bad_syntax":
            raise
    return Loaded(data, reader.places)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _json(text: str) -> Json:
    """Parses JSON; returns None for other text, which may be YAML in flow style."""

    def no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("duplicate")  # reported by the YAML reader, which knows where
        return made

    try:
        data = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=_not_json, parse_float=_finite)
        json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return data


def _json_error(text: str) -> _MalformedError | None:
    """Returns what is wrong with text that is to be JSON; None if it is only too deep, say."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            return _MalformedError("bad_syntax", "not readable as JSON: this is not closed", _unclosed(text))
        hint = _COMMENT if _SLASHES.search(text) else "check the commas, brackets and quotes before this place"
        message = f"not readable as JSON: {error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')}"
        return _MalformedError("bad_syntax", message, (error.lineno, error.colno), hint)
    except RecursionError:
        return None
    return None


def _unclosed(text: str) -> Place:
    """Returns the place of the last bracket that is not closed."""
    opened = [0]
    for found in re.finditer(r'"(?:\\.|[^"\\])*"?|[\[\]{}]', text):
        if found[0] in "[{":
            opened.append(found.start())
        elif found[0] in "]}" and len(opened) > 1:
            opened.pop()
    return text.count("\n", 0, opened[-1]) + 1, opened[-1] - text.rfind("\n", 0, opened[-1])


def _finite(digits: str) -> float:
    if math.isfinite(number := float(digits)):
        return number
    raise ValueError(digits)


def _not_json(word: str) -> float:
    raise ValueError(word)


class _Reader:
    """Builds plain data from the events of one YAML document."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, Place] = {}
        self._text = text
        self._next: Callable[[], Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_event
        self._anchors: dict[str, Json] = {}
        self._left = VALUES

    def document(self) -> Json:
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            place = _error_place(error, self._text)
            raise _MalformedError("bad_syntax", _yaml_message(error), place, _yaml_hint(error, self._text)) from None
        except (yaml.YAMLError, UnicodeError) as error:
            raise _MalformedError("bad_syntax", f"not readable as YAML: {str(error).splitlines()[0]}") from None

    def _document(self) -> Json:
        self._next()  # the stream begins
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            raise _MalformedError(
                "empty_definition", "the definition is empty", (1, 1), "write `workflow: name` and `timeline:`"
            )
        event = self._next()
        self.places[""] = _mark(event)
        data = self._value(event, "", 0)
        self._next()  # the document ends
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _MalformedError("bad_syntax", "a second document begins here", _mark(event), "one workflow per file")
        return data

    def _value(self, event: Any, path: str, depth: int) -> Json:
        """Builds the value that begins here. The caller has noted the place of `path`."""
        self._left -= 1
        if self._left < 0:
            raise _too_many(event)
        if depth > JSON_DEPTH:
            raise _MalformedError("too_deep", f"nested deeper than {JSON_DEPTH}", _mark(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise _MalformedError("bad_tag", f"the tag {event.tag} is not allowed", _mark(event), "remove the tag")
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path, depth)
        else:
            value = self._mapping(path, depth)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _alias(self, event: Any, path: str) -> Json:
        if event.anchor not in self._anchors:
            raise _MalformedError("bad_alias", f"*{event.anchor} is used before its anchor is complete", _mark(event))
        return self._copy(self._anchors[event.anchor], path, event)

    def _copy(self, value: Json, path: str, event: Any) -> Json:
        """Copies an alias as a separate value, counted and placed like a written one."""
        self._left -= 1
        if self._left < 0:
            raise _too_many(event)
        self.places.setdefault(path, _mark(event))
        if isinstance(value, dict):
            return {key: self._copy(item, f"{path}/{pointer_part(key)}", event) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, f"{path}/{index}", event) for index, item in enumerate(value)]
        return value

    def _sequence(self, path: str, depth: int) -> Json:
        made: list[Json] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            item_path = f"{path}/{len(made)}"
            self.places[item_path] = _mark(event)
            made.append(self._value(event, item_path, depth + 1))
        return made

    def _mapping(self, path: str, depth: int) -> Json:
        made: dict[str, Json] = {}
        merged: list[Json] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            self.places[value_path := f"{path}/{pointer_part(key)}"] = place = _mark(event)
            if key in made:
                raise _MalformedError("duplicate_key", f"the key `{key}` is written twice", place, "keep one of them")
            value = self._value(self._next(), value_path, depth + 1)
            if key == "<<" and not event.style:
                merged += value if isinstance(value, list) else [value]
            else:
                made[key] = value
        for other in merged:  # YAML's merge key: what is written here wins over what is merged in
            if not isinstance(other, dict):
                raise _MalformedError("bad_syntax", "<<: takes a mapping", self.places[path])
            for key, value in other.items():
                made.setdefault(key, value)
                self.places.setdefault(f"{path}/{pointer_part(key)}", self.places[path])
        return made

    def _key(self, event: Any) -> str:
        if isinstance(event, yaml.ScalarEvent):
            # A key is a name: `on:`, `1:` and `null:` are the strings they look like.
            return str(event.value)
        key = self._alias(event, "") if isinstance(event, yaml.AliasEvent) else None
        if not isinstance(key, str):
            raise _MalformedError("bad_key", "a key must be a string", _mark(event), "quote it")
        return key


def _too_many(event: Any) -> _MalformedError:
    message = f"more than {VALUES} values once aliases are expanded"
    return _MalformedError("definition_too_large", message, _mark(event))


_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASED = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Json] = {"": None, "~": None} | {
    spelled: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelled in (word, word.capitalize(), word.upper())
}


def _scalar(event: Any) -> Json:
    """Converts plain words by YAML 1.2's core schema; quoted words and `007` stay strings."""
    text: str = event.value
    if event.style or event.tag is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-." or len(text) > 400:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise _MalformedError("bad_number", f"{text} is not a finite number", _mark(event), "quote it if it is text")
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text):
        if not math.isfinite(number := float(text)):
            raise _MalformedError("bad_number", f"{text} is too large for a number", _mark(event))
        return number
    return text


def _mark(event: Any) -> Place:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _error_place(error: yaml.MarkedYAMLError, text: str) -> Place:
    """Returns the place of a parser error, or of the unclosed construct if the error is at the end of the text."""
    last = text.rstrip("\n").count("\n")
    for mark in (error.problem_mark, error.context_mark):
        if mark is not None and mark.line <= last:
            return mark.line + 1, mark.column + 1
    return last + 1, 1


def _yaml_message(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return "not readable as YAML: " + ", ".join(parts)


_COMMENT = "begin a comment with #, not with //; JSON has no comments"
_SLASHES = re.compile(r"(^|[\s,{\[])//", re.MULTILINE)


def _yaml_hint(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = error.problem or ""
    if _SLASHES.search(text):
        return _COMMENT
    mark = error.problem_mark
    line = text.splitlines()[mark.line] if mark is not None and mark.line < len(text.splitlines()) else ""
    if "tab" in problem or "\\t" in problem or "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces"
    if "mapping values are not allowed" in problem:
        return "quote text that contains `: `"
    if "block" in problem or "expected" in problem:
        return "check the indentation, brackets and quotes above this line"
    return ""
