"""Named limits: compiles the `throttle` of a step, and checks the folder's `limits.yaml`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.formats.common import Context, check_name
from stepwell.definition.graph import Graph, Json, Limit, RateLimit, Throttle
from stepwell.definition.side_files import SideFile, check_side_file
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem
from stepwell.limits import CONCURRENCY

FILES = ("limits.yaml", "limits.yml")
_KEYS = ("concurrency", "rate_limit")
_RATE_KEYS = ("limit", "per", "burst")
_NONE: Mapping[str, str] = {}
_OF_A_LIMIT = dict.fromkeys(
    ("limit", "max"), "write concurrency: 5 for how many at once, or rate_limit: {limit: 5, per: 1s}"
)
_OF_A_RATE = dict.fromkeys(("limit", "per", "burst"), "write rate_limit: {limit: 100, per: 1m}")
_EXAMPLE = "limits: {stripe: {concurrency: 5, rate_limit: {limit: 100, per: 1m}}}"


def throttle_of(context: Context, data: Mapping[str, Json], path: str) -> Throttle | None:
    """Compiles `throttle`: a limit's name, or `{limit, key}`; None if there is none or it has errors."""
    given = data.get("throttle")
    if given is None:
        return None
    place = f"{path}/throttle"
    name: str | None = given.get("limit") if isinstance(given, dict) else given
    key: Expression | None = context.template(given, "key", place) if isinstance(given, dict) else None
    if name is None or not check_name(context, name, place, "limit"):
        return None
    return Throttle(name, key)


def check_limits(text: str, file: str = "") -> SideFile:
    """Checks a `limits.yaml`; never raises."""
    return check_side_file(text, file, _limits)


def _limits(context: Context, data: Json) -> Mapping[str, Json]:
    given = data.get("limits") if isinstance(data, dict) and set(data) == {"limits"} else None
    if not isinstance(given, dict):
        context.add("wrong_type", "the file must be a mapping with `limits`, and nothing else", "", _EXAMPLE)
        return {}
    for name, limit in given.items():
        _check(context, str(name), limit, f"/limits/{pointer_part(str(name))}")
    return given


def _check(context: Context, name: str, given: Json, path: str) -> None:
    check_name(context, name, path, "limit")
    if not isinstance(given, dict) or not given:
        context.add("wrong_type", f"the limit `{name}` must be a mapping with {' or '.join(_KEYS)}", path, _EXAMPLE)
        return
    _check_keys(context, given, _KEYS, path, _OF_A_RATE if "per" in given else _OF_A_LIMIT)
    if "concurrency" in given and not _is_count(given["concurrency"], CONCURRENCY):
        message = f"`concurrency` must be a whole number from 1 to {CONCURRENCY}"
        context.add("bad_value", message, f"{path}/concurrency", "how many steps may hold a permit at once")
    if "rate_limit" in given:
        _check_rate(context, given["rate_limit"], f"{path}/rate_limit")


def _check_rate(context: Context, given: Json, path: str) -> None:
    if not isinstance(given, dict) or not {"limit", "per"} <= given.keys():
        context.add("wrong_type", "`rate_limit` must have `limit` and `per`", path, _EXAMPLE)
        return
    _check_keys(context, given, _RATE_KEYS, path)
    for key in ("limit", "burst"):
        if key in given and not _is_count(given[key]):
            context.add("bad_value", f"`{key}` must be a whole number of 1 or more", f"{path}/{key}")
    if context.duration_ms(given, "per", path) == 0:
        context.add("bad_value", "`per` is no time", f"{path}/per", "write a duration, such as 1m")


def _check_keys(
    context: Context, given: Mapping[str, Json], known: Collection[str], path: str, meant: Mapping[str, str] = _NONE
) -> None:
    """Reports unknown keys. `meant`: what to write in place of some."""
    for key in given:
        if key not in known:
            place, hint = f"{path}/{pointer_part(str(key))}", meant.get(str(key)) or closest(str(key), known)
            context.add("unknown_key", f"unknown key `{key}`", place, hint)


def _is_count(value: Json, most: int | None = None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1 and (most is None or value <= most)


def limits_of(document: Mapping[str, Json]) -> Mapping[str, Limit]:
    """Returns the limits of a file that was checked, by name."""
    return {
        name: Limit(given.get("concurrency"), _rate_of(given.get("rate_limit"))) for name, given in document.items()
    }


def _rate_of(given: Mapping[str, Json] | None) -> RateLimit | None:
    if given is None:
        return None
    return RateLimit(given["limit"], Context().duration_ms(given, "per", "") or 1, given.get("burst", 1))


def unknown_limits(graph: Graph, known: Collection[str], file: str = "") -> Iterator[Problem]:
    """Reports steps whose limit is not in `limits.yaml`, with their pointer in the definition."""
    paths: dict[str, str] | None = None
    for node in graph.nodes.values():
        throttle = node.step.throttle if node.step is not None else None
        if throttle is not None and throttle.limit not in known:
            paths = dict(_throttled(graph.document, "")) if paths is None else paths
            message = f"`{node.name}` is throttled by {throttle.limit!r}, which limits.yaml does not have"
            hint = closest(throttle.limit, known) or f"add it: {_EXAMPLE}"
            yield Problem("unknown_limit", message, paths.get(node.name, ""), hint, file)


def _throttled(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yields each node with a `throttle`: its name, which may be its key, and the pointer to the throttle."""
    if isinstance(value, dict):
        if "throttle" in value:
            key = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            yield str(value.get("name", key)), f"{path}/throttle"
        for key, part in value.items():
            yield from _throttled(part, f"{path}/{pointer_part(key)}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _throttled(part, f"{path}/{index}")
