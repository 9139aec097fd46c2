"""Datasets: what the text of a file is, as the items of a Map.

JSON     a list, or the fields of an object; `ItemsPointer` says where in the file
JSONL    a value in each line
CSV      an object for each row, of texts by the names of the header

A list of a bucket's objects has no text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from stepwell.definition.asl.dialects import list_of
from stepwell.definition.asl.weights import has_half_a_pair
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH

FAILED = "item_reader_failed"
DELIMITERS: Mapping[str, str] = {"COMMA": ",", "PIPE": "|", "SEMICOLON": ";", "SPACE": " ", "TAB": "\t"}
FIRST_ROW, GIVEN = "FIRST_ROW", "GIVEN"
_ENDS = re.compile(r"\r\n?|\n")
_ESCAPED = re.compile(r'\\(.?)|"(")', re.S)


def failed(message: str) -> ExpressionError:
    return ExpressionError(message, code=FAILED)


def items_of(brought: Json, config: Mapping[str, Json]) -> Sequence[Json]:
    """Returns the items of a file: its text, or what JSON it holds. Raises ExpressionError for any other content."""
    if not isinstance(brought, str):
        return _listed(brought, config)
    text = brought.removeprefix("\ufeff")  # a mark of its encoding
    match config["InputType"]:
        case "CSV":
            return list(_rows(text, config))
        case "JSONL":
            lines = enumerate(_ENDS.split(text), 1)
            return [_parsed(line, f"line {at}") for at, line in lines if line.strip()]
        case _:
            return _listed(_parsed(text, "the file"), config)


def listed(brought: Json) -> Sequence[Json]:
    """Returns the objects of a bucket, as they were listed."""
    found = brought.get("Contents", []) if isinstance(brought, dict) else brought
    if not isinstance(found, list):
        raise failed(f"what was listed is {type(found).__name__}, not a list")
    return found


def _listed(value: Json, config: Mapping[str, Json]) -> Sequence[Json]:
    return list_of(_pointed(value, config.get("ItemsPointer", "")), "what the file has there", FAILED)


def _parsed(text: str, what: str) -> Json:
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise failed(f"{what} is no JSON: {error}") from None
    if _is_deeper(value, JSON_DEPTH):
        raise failed(f"{what} is nested deeper than {JSON_DEPTH} levels")
    if "\\u" in text and has_half_a_pair(value):
        raise failed(f"{what} has half a surrogate pair")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _no_constant(text)
    return value


def _is_deeper(value: Json, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        inner = (one for one in level if isinstance(one, list | dict))
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def _pointed(value: Json, pointer: str) -> Json:
    """Returns what a JSON pointer (RFC 6901) leads to."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise failed(f"the file has nothing at the ItemsPointer {pointer}: there is no {name!r:.100}")
    return value


# -- CSV


def _rows(text: str, config: Mapping[str, Json]) -> Iterator[Json]:
    """Yields the rows by the names of the header. A row may be shorter or longer than that."""
    rows = _fields(text, DELIMITERS[config.get("CSVDelimiter", "COMMA")])
    header = config["CSVHeaders"] if config.get("CSVHeaderLocation") == GIVEN else next(rows, [])
    if len(set(header)) < len(header):
        raise failed("CSV headers cannot contain duplicates")
    for row in rows:
        yield {**dict.fromkeys(header, ""), **dict(zip(header, row, strict=False))}


def _fields(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yields the fields of each line that is not empty.

    Quotation marks around a field keep delimiters and ends of lines in it, and a pair of them is one. A backslash is
    left out, and what follows it stands for itself.
    """
    row: list[str] = []
    for found in _pattern(delimiter).finditer(text):  # one after the other, and an empty one at the end
        quoted, plain, end = found.groups()
        if quoted is None and plain.startswith('"'):
            line = len(_ENDS.findall(text, 0, found.start())) + 1
            raise failed(f"the quotation mark in line {line} has no end")
        row.append(_plain(quoted or "") + _plain(plain))
        if end != delimiter:
            if row != [""] or quoted is not None:
                yield row
            row = []


def _pattern(delimiter: str) -> re.Pattern[str]:
    one = re.escape(delimiter)
    return re.compile(rf'(?:"((?:[^"\\]|""|\\.)*+)"(?!"))?+((?:[^{one}\\\r\n]|\\[^\r\n]?)*+)({one}|\r\n?|\n|\Z)', re.S)


def _plain(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text) if '"' in text or "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    return '"' if found[1] is None else found[1]
