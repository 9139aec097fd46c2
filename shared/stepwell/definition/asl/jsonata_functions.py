"""The functions that JSONata has in Step Functions only, and repeatable or bounded ones in place of its own.

Each is a few words of JSONata, put before an expression that names it. They pass on what is undefined, and check types
as JSONata does; the work is done by a function of Python, which is registered under the same name after `__`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from stepwell.definition.graph import Json

MAX_ITEMS = 100_000  # of any list that an expression makes
MAX_WIDTH = 1_000_000  # of `$pad`, in characters
_MAX_ROMAN = 1_000_000  # a numeral of a thousand letters; the library would make one of any length
_ALGORITHMS = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
CLOCK = "__ms"  # the variable that has the time
TIMED = frozenset({"now", "millis"})
Host = Callable[..., Json]

# What goes before an expression, by the name that it defines. The library's own function is kept under `$__…` first.
PRELUDE: Mapping[str, str] = {
    "millis": f"$millis := function(){{${CLOCK}}};",
    "now": "$now := function($p, $z){"
    f"$exists($z) ? $fromMillis(${CLOCK}, $p, $z) : $exists($p) ? $fromMillis(${CLOCK}, $p) : $fromMillis(${CLOCK})}};",
    "random": "$random := function($s){$exists($s) ? $__random($s) : $__random()};",
    "uuid": "$uuid := function(){$__uuid()};",
    "shuffle": "$shuffle := function($a){$exists($a) ? $__shuffle($a)};",
    "distinct": "$distinct := function($a){$type($a) = 'array' ? $__distinct($a) : $a};",
    "partition": "$partition := function($a, $n){$exists($a) ? $__partition($a, $n)};",
    "range": "$range := function($a, $b, $d){$__range($a, $b, $d)};",
    "hash": "$hash := function($t, $a){$exists($t) ? $__hash($t, $a)};",
    "parse": "$parse := function($t){$exists($t) ? $__parse($t)};",
    "pad": "$__pad := $pad; $pad := function($s, $w, $c)<s-ns?:s>{"
    f"$abs($w) > {MAX_WIDTH} ? $error('$pad makes at most {MAX_WIDTH} characters') : "
    "$exists($c) ? $__pad($s, $w, $c) : $__pad($s, $w)};",
    "formatInteger": "$__formatInteger := $formatInteger; $formatInteger := function($n, $p)<n-s:s>{"
    f"$abs($n) > {_MAX_ROMAN} and $contains($p, /i/i) ? $error('Roman numerals end at {_MAX_ROMAN}') : "
    "$__formatInteger($n, $p)};",
    "eval": "$eval := function(){$error('Step Functions has no $eval: $parse reads JSON')};",
}


def hosts(names: Sequence[str], seed: str) -> dict[str, Host]:
    """Returns the functions of Python that the functions of these names call. Those of one call share their chance."""
    chance = Chance(seed)
    every: Mapping[str, Host] = {
        "random": chance.number,
        "uuid": chance.uuid,
        "shuffle": chance.shuffled,
        "distinct": _distinct,
        "partition": _partition,
        "range": _range,
        "hash": _hash,
        "parse": parsed,
    }
    return {f"__{name}": every[name] for name in names if name in every}


class Chance:
    """Random values that repeat: the same seed gives the same ones, in every release of Python."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._drawn = 0

    def number(self, *own: Json) -> float:
        """Returns a number from 0 to below 1: the next one, or for a seed always the same."""
        drawn = _digest(f"own {json.dumps(own[0], sort_keys=True)}") if own else self._next()
        return (int.from_bytes(drawn[:8], "big") >> 11) / 2**53

    def uuid(self) -> str:
        """Returns a UUID of version 4."""
        drawn = bytearray(self._next()[:16])
        drawn[6], drawn[8] = drawn[6] & 0x0F | 0x40, drawn[8] & 0x3F | 0x80
        text = drawn.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def shuffled(self, items: Json) -> list[Json]:
        left = list(_items(items))
        for last in range(len(left) - 1, 0, -1):
            other = int(self.number() * (last + 1))
            left[last], left[other] = left[other], left[last]
        return left

    def _next(self) -> bytes:
        self._drawn += 1
        return _digest(f"{self._drawn} {self._seed}")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def parsed(text: Json) -> Json:
    """Reads JSON. Numbers are doubles, as in JSONata, so that whole ones beyond 64 bits are rounded."""
    if not isinstance(text, str):
        raise ValueError(f"$parse reads a string, not {_kind(text)}")
    try:
        return json.loads(text, parse_int=whole, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("$parse: this JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"$parse: this is no JSON: {error}") from None


def whole(text: str) -> int | float:
    """Returns a whole number as JSONata's library takes it: of 64 bits, or else rounded."""
    is_short = len(text) <= 20
    return int(text) if is_short and -(2**63) <= int(text) < 2**63 else _finite(text)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:  # infinity and NaN
        raise ValueError(f"{text[:20]} is not a number that JSON can have")
    return number


def _distinct(items: Sequence[Json]) -> list[Json]:
    """Keeps the first of equal items. The library compares each with each, and no limit stops it."""
    found: dict[Json, Json] = {}
    for item in items:
        is_plain = isinstance(item, str | int | float) and not isinstance(item, bool)  # True would be 1
        found.setdefault(item if is_plain else (json.dumps(item, sort_keys=True),), item)
    return list(found.values())


def _partition(items: Json, size: Json) -> list[list[Json]]:
    step = round(_number(size, "the size of $partition"))
    if step < 1:
        raise ValueError(f"the size of $partition must be 1 or more, not {size}")
    every = _items(items)
    return [list(every[start : start + step]) for start in range(0, len(every), step)]


def _range(first: Json, last: Json, delta: Json) -> list[Json]:
    start, end, step = (round(_number(value, "each argument of $range")) for value in (first, last, delta))
    if step == 0:
        raise ValueError("the step of $range must not be 0")
    found = range(start, end + (1 if step > 0 else -1), step)
    if len(found) > MAX_ITEMS:
        raise ValueError(f"$range makes at most {MAX_ITEMS} items, not {len(found)}")
    return list(found)


def _hash(text: Json, algorithm: Json) -> str:
    if not isinstance(text, str):
        raise ValueError(f"$hash takes a string, not {_kind(text)}")
    name = _ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if name is None:
        raise ValueError(f"$hash knows {', '.join(_ALGORITHMS)}, not {str(algorithm)[:40]}")
    return hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else [value]  # JSONata writes a list of one as the one


def _number(value: Json, what: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 2**53:
        raise ValueError(f"{what} must be a number, up to 2**53, not {_kind(value)}")
    return value


def _kind(value: Json) -> str:
    return "null or nothing" if value is None else type(value).__name__
