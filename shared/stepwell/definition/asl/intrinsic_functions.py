"""What each intrinsic function of Amazon States Language computes."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import uuid
from collections.abc import Callable
from typing import Any

from stepwell.definition.asl.path_steps import kind
from stepwell.definition.asl.weights import has_half_a_pair, is_number, key_of
from stepwell.definition.graph import Json
from stepwell.definition.text import compact_json, one_line
from stepwell.errors import ExpressionError
from stepwell.values import dataclass

RANGE_ITEMS = 1_000
CODED_CHARACTERS = 10_000  # that Base64Encode, Base64Decode and Hash take
_BITS = 1_000  # of an integer in a text of JSON
_HOLE = re.compile(r"\\(['{}\\])|\{\}")
_HASHES: dict[str, Callable[[bytes], Any]] = {
    "MD5": lambda data: hashlib.md5(data, usedforsecurity=False),
    "SHA-1": lambda data: hashlib.sha1(data, usedforsecurity=False),
    "SHA-256": hashlib.sha256,
    "SHA-384": hashlib.sha384,
    "SHA-512": hashlib.sha512,
}


@dataclass(frozen=True, slots=True)
class Function:
    """An intrinsic function. If it is `seeded`, the call's own seed comes before its arguments."""

    least: int
    most: int | None  # None: any number
    compute: Callable[..., Json]
    seeded: bool = False
    looks: bool = False  # at one place of its arguments alone: so these may be of any size


def failure(message: str, hint: str = "") -> ExpressionError:
    return ExpressionError(message, code="intrinsic_failure", hint=hint or None)


def holes(template: str) -> int:
    """Returns how many values a template of States.Format takes."""
    return sum(found[0] == "{}" for found in _HOLE.finditer(template))


def _format(template: Json, *values: Json) -> str:
    text = _text(template, "the template")
    if holes(text) != len(values):
        raise failure(f"the template has {holes(text)} {{}} for {len(values)} values", "give a value for each {}")
    left = iter(values)
    return _HOLE.sub(lambda found: found[1] or _shown(next(left)), text)


def _shown(value: Json) -> str:
    """Writes a value into a text; objects and lists as AWS does, which is not JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={_shown(item)}' for key, item in value.items())}}}"
    return compact_json(value)


def _string_to_json(text: Json) -> Json:
    try:
        value = json.loads(_text(text, "the argument"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise failure(f"the text is no JSON: {error}") from None
    if "\\u" in text and has_half_a_pair(value):
        raise failure("the text has half a surrogate pair")
    return value


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def _partition(items: Json, size: Json) -> Json:
    found, length = _list(items), _integer(size, "the size")
    if length < 1:
        raise failure(f"the size of the parts is {length}", "it must be 1 or more")
    return [found[at : at + length] for at in range(0, len(found), length)]


def _contains(items: Json, value: Json) -> bool:
    wanted = key_of(value)
    return any(key_of(item) == wanted for item in _list(items))


def _range(first: Json, end: Json, step: Json) -> Json:
    start, last, by = _integer(first, "the first"), _integer(end, "the last"), _integer(step, "the step")
    if by == 0:
        raise failure("the step of a range is 0", "write 1, or -1 to count down")
    size = max(0, (last - start) // by + 1)
    if size > RANGE_ITEMS:
        raise failure(f"the range has {size} items; {RANGE_ITEMS} are allowed")
    return [start + by * at for at in range(size)]


def _get_item(items: Json, index: Json) -> Json:
    found = _list(items)
    if not is_number(index) or index != int(index):
        raise failure(f"the index is {_described(index)}, not a whole number")
    if not 0 <= index < len(found):
        raise failure(f"the list has {len(found)} items, and no index {int(index)}", "the first has index 0")
    return found[int(index)]


def _unique(items: Json) -> Json:
    return list({key_of(item): item for item in reversed(_list(items))}.values())[::-1]


def _encode(text: Json) -> str:
    return base64.b64encode(_short(text).encode()).decode()


def _decode(text: Json) -> str:
    try:
        return base64.b64decode(_short(text), validate=True).decode()
    except ValueError as error:
        raise failure(f"this is no Base64 of a text: {error}") from None


def _hash(data: Json, algorithm: Json) -> str:
    make = _HASHES.get(algorithm) if isinstance(algorithm, str) else None
    if make is None:
        raise failure(f"there is no algorithm {_described(algorithm)}", f"known: {', '.join(_HASHES)}")
    return str(make(_short(data).encode()).hexdigest())


def _merge(first: Json, second: Json, deep: Json) -> Json:
    for value in (first, second):
        if not isinstance(value, dict):
            raise failure(f"an object is needed, and this is {_described(value)}")
    if deep is not False:
        raise failure(f"the third argument is {_described(deep)}", "write false: the merge is not deep")
    return {**first, **second}


def _random(seed: str, start: Json, end: Json, own_seed: Json = None) -> int:
    first, stop = _integer(start, "the start"), _integer(end, "the end")
    if stop <= first:
        raise failure(f"no number is from {first} up to, and without, {stop}", "write a larger end")
    if own_seed is not None:
        seed = f"MathRandom:{_integer(own_seed, 'the seed')}"
    drawn = int.from_bytes(hashlib.sha512(seed.encode()).digest())
    return first + drawn % (stop - first)


def _add(first: Json, second: Json) -> int:
    return _integer(first, "the first number") + _integer(second, "the second number")


def _split(text: Json, marks: Json) -> Json:
    """Splits at each of the characters. There are no empty parts."""
    found, characters = _text(text, "the first argument"), _text(marks, "the second argument")
    if not characters:
        return [found] if found else []
    one = characters[0]
    alike = found.translate(dict.fromkeys(map(ord, characters), one))
    return [part for part in alike.split(one) if part]


def uuid_of(seed: str) -> str:
    """Returns the UUID that chance draws by this seed."""
    return str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))


def _list(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    raise failure(f"a list is needed, and this is {_described(value)}")


def _text(value: Json, what: str) -> str:
    if isinstance(value, str):
        return value
    raise failure(f"{what} must be a string, and is {_described(value)}")


def _short(value: Json) -> str:
    text = _text(value, "the data")
    if len(text) > CODED_CHARACTERS:
        raise failure(f"the data has {len(text)} characters; {CODED_CHARACTERS} are allowed")
    return text


def _integer(value: Json, what: str) -> int:
    """Returns the nearest integer, as AWS does: a half is rounded up."""
    if not is_number(value):
        raise failure(f"{what} must be a number, and is {_described(value)}")
    found = math.floor(value + 0.5) if isinstance(value, float) else int(value)
    if found.bit_length() > _BITS * 2:
        raise failure(f"{what} is too large a number")
    return found


def _described(value: Json) -> str:
    if value is None or isinstance(value, (bool, list, dict)):
        return kind(value)
    return one_line(value if isinstance(value, str) and value else compact_json(value))


def _listed(*items: Json) -> Json:
    return list(items)


def _length(items: Json) -> int:
    return len(_list(items))


FUNCTIONS: dict[str, Function] = {
    "States.Format": Function(1, None, _format),
    "States.StringToJson": Function(1, 1, _string_to_json),
    "States.JsonToString": Function(1, 1, compact_json),
    "States.Array": Function(0, None, _listed),
    "States.ArrayPartition": Function(2, 2, _partition),
    "States.ArrayContains": Function(2, 2, _contains),
    "States.ArrayRange": Function(3, 3, _range),
    "States.ArrayGetItem": Function(2, 2, _get_item, looks=True),
    "States.ArrayLength": Function(1, 1, _length, looks=True),
    "States.ArrayUnique": Function(1, 1, _unique),
    "States.Base64Encode": Function(1, 1, _encode),
    "States.Base64Decode": Function(1, 1, _decode),
    "States.Hash": Function(2, 2, _hash),
    "States.JsonMerge": Function(3, 3, _merge),
    "States.MathRandom": Function(2, 3, _random, seeded=True),
    "States.MathAdd": Function(2, 2, _add),
    "States.StringSplit": Function(2, 2, _split),
    "States.UUID": Function(0, 0, uuid_of, seeded=True),
}
