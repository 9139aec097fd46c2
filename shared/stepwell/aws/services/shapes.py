"""What a service takes and what it answers, from and to JSON, by its model.

          of a task                                  of botocore
member    any case: `TableName`, `DbName`            as the model writes it
blob      text, or JSON                              bytes
string    text, a number; of an integration's, JSON  text
time      ISO 8601                                   datetime
stream    text, or base64                            bytes to read
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from stepwell.aws.services.names import java_name, operation
from stepwell.definition.graph import Json
from stepwell.definition.text import compact_json
from stepwell.limits import ANSWER_BYTES

_UNTOLD = "ResponseMetadata"


def request_of(shape: Any, given: Json, *, takes_json: bool = False) -> Any:
    """Returns parameters as botocore takes them. Unknown names stay, for botocore to refuse.

    `takes_json`: text may be given as an object, and is sent as JSON.
    """
    if shape is None or given is None:
        return given
    match shape.type_name:
        case "structure" if isinstance(given, dict):
            named = names_of(shape)
            found = {named.get(key.lower(), key): value for key, value in given.items() if value is not None}
            return {name: request_of(shape.members.get(name), value, takes_json=takes_json)
                    for name, value in found.items()}  # fmt: skip
        case "map" if isinstance(given, dict):
            return {key: request_of(shape.value, value, takes_json=takes_json) for key, value in given.items()}
        case "list" if isinstance(given, list):
            return [request_of(shape.member, value, takes_json=takes_json) for value in given]
        case "blob":
            return given.encode() if isinstance(given, str) else compact_json(given).encode()
        case "string" if not isinstance(given, str):
            return compact_json(given) if takes_json or not isinstance(given, dict | list) else given
        case "integer" | "long" if isinstance(given, float) and given.is_integer():
            return int(given)
        case _:
            return given


def names_of(shape: Any) -> dict[str, str]:
    """Returns a structure's members by their names in small letters: the model's, and those of the SDK for Java."""
    return {written.lower(): name for name in shape.members for written in (java_name(name), name)}


def answer_of(shape: Any, answer: Any, *, is_native: bool) -> Json:
    """Returns an answer as JSON, with names in capital letters. `is_native`: as the model writes them otherwise."""
    named = operation if is_native else java_name
    if shape is None:
        return {}
    told = {name: value for name, value in answer.items() if name != _UNTOLD}
    return _told(shape, told, named)


def _told(shape: Any, value: Any, named: Callable[[str], str]) -> Json:
    if hasattr(value, "read"):
        return _text(value.read(ANSWER_BYTES + 1))
    match shape.type_name if shape is not None else "":
        case "structure" if isinstance(value, dict):
            return {named(name): _told(shape.members.get(name), one, named) for name, one in value.items()}
        case "map" if isinstance(value, dict):
            return {key: _told(shape.value, one, named) for key, one in value.items()}
        case "list":
            return [_told(shape.member, one, named) for one in value]
    return _plain(value)


def _plain(value: Any) -> Json:
    if isinstance(value, bytes | bytearray):
        return _text(bytes(value))
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").replace(".000Z", "Z")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one) for one in value]
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
