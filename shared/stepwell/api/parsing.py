"""Reads what was sent: bodies of strict JSON, query strings, and each mistake with its path."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stepwell.definition.graph import Json
from stepwell.definition.text import closest, did_you_mean, pointer
from stepwell.errors import InvalidInput, Problem, UserError
from stepwell.limits import BODY_BYTES, JSON_DEPTH
from stepwell.runtime.starts.admission import check_json

M = TypeVar("M", bound=BaseModel)

QUERY_FIELDS = 100  # of one query string
_WORDS = re.compile(r"\^\(\w+(\|\w+)*\)\$")  # a pattern that takes one of some words
_SPACED = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+) (\d\d:\d\d)")  # a time whose `+` was not percent-encoded
_TOO_MANY_DIGITS = "integer string conversion"  # what Python says of a number that it takes too long to read


def body_bytes(body: str | None, is_base64: bool) -> bytes:
    """Returns the body as it was sent. Raises UserError if it is too large or not the declared base64."""
    text = body or ""
    if len(text) > BODY_BYTES * 2:
        raise too_large()
    if not is_base64:
        return text.encode(errors="surrogatepass")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad_json("the body is said to be base64 and is not") from error


def too_large() -> UserError:
    """Returns the error for a body over the limit."""
    return UserError(f"the body has more than {BODY_BYTES} bytes", code="body_too_large",
                     hint="store large data elsewhere and send a reference")  # fmt: skip


def read_json(raw: bytes, what: str = "body") -> Json:
    """Parses JSON; nothing is an empty object. `what` it is, in messages. Raises UserError: too large, not storable."""
    if len(raw) > BODY_BYTES:
        raise too_large()
    if not raw.strip(b" \t\r\n"):  # JSON's blanks, not Python's
        return {}
    try:
        value = json.loads(raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise InvalidInput(f"the {what} is nested deeper than {JSON_DEPTH} levels", code="too_deep",
                           hint="flatten it, or send it as a string") from error  # fmt: skip
    except ValueError as error:  # also raised for the encoding
        if _TOO_MANY_DIGITS in str(error):
            raise InvalidInput(f"the {what} has a number beyond 64 bits", code="number_too_large",
                               hint="send a string") from error  # fmt: skip
        raise _bad_json(f"the {what} is not JSON: {error}") from error
    check_json(value, what)
    return value


def parse_body(raw: bytes, model: type[M]) -> M:
    """Parses a body. Raises UserError with each mistake and its path."""
    return _validated(model, read_json(raw), "body")


def parse_query(query: str, model: type[M]) -> M:
    """Parses a query string, where a repeated name is a list. Raises UserError with each mistake."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput(f"cannot parse the query string: {error}", code="bad_query") from error
    found: dict[str, Any] = {}
    for name, text in pairs:
        value = "+".join(spaced.groups()) if (spaced := _SPACED.fullmatch(text)) else text
        found[name] = value if name not in found else [*_as_list(found[name]), value]
    return _validated(model, found, "query string")


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _validated(model: type[M], value: Json, what: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems = tuple(Problem(one["type"], _message(one, model), path=pointer(one["loc"])) for one in found)
        flaws = "; ".join(f"{problem.path or what}: {problem.message}" for problem in problems[:3])
        raise InvalidInput(f"the {what} is wrong: {flaws}", hint=_takes(model, what), problems=problems) from error


def _takes(model: type[BaseModel], what: str) -> str:
    names = [field.alias or name for name, field in model.model_fields.items()]
    return f"the {what} takes {', '.join(names)}; GET /docs describes them" if names else f"this call takes no {what}"


def _message(mistake: ErrorDetails, model: type[BaseModel]) -> str:
    place = mistake["loc"]
    match mistake["type"]:
        case "missing":
            return "it is missing"
        case "model_type" | "dataclass_type":
            return "it must be a JSON object"
        case "extra_forbidden":
            names = [field.alias or name for name, field in model.model_fields.items()] if len(place) == 1 else []
            return "; ".join(filter(None, ("it is not known", closest(str(place[0]), names))))
        case "literal_error" | "enum":
            return _not_one_of(mistake["input"], re.findall(r"'([^']+)'", mistake["ctx"]["expected"]))
        case "string_pattern_mismatch" if _WORDS.fullmatch(pattern := mistake["ctx"]["pattern"]):
            return _not_one_of(mistake["input"], pattern[2:-2].split("|"))
        case _:
            return mistake["msg"].removeprefix("Value error, ")


def _not_one_of(given: Json, words: list[str]) -> str:
    near = did_you_mean(given, words) if isinstance(given, str) else ""
    return "; ".join(filter(None, (f"it must be one of {', '.join(words)}", near)))


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON value; use null")


def _unique(pairs: list[tuple[str, Json]]) -> Mapping[str, Json]:
    """Refuses an object with a duplicate name, because parsers disagree about which value counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} occurs twice in one object")
    return found


def _bad_json(message: str) -> UserError:
    return UserError(message, code="bad_json", hint="send JSON in UTF-8")
