"""The steps of a JSONPath after its root, and what each selects, as the Java library Jayway does for AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from stepwell.definition.asl.weights import is_number
from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH
from stepwell.values import dataclass

MISSING: Any = object()  # what a key selects that is not there

Test: TypeAlias = Callable[[Json, Json, Budget], bool]  # of an item, in the document that `$` is


class NothingError(LookupError):
    """A path to one value selects nothing. Its text says why."""


class Step(Protocol):
    """A step that may select several values of each one."""

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]: ...

    def takes(self, node: Json) -> bool:
        """Whether the step can go on from such a value; where the path has one value still, it must."""


Steps: TypeAlias = Sequence[str | int | Step]


@dataclass(frozen=True, slots=True)
class All:
    """`*`: each value of an object, each item of a list."""

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        yield from _children(node)

    def takes(self, node: Json) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Descent:
    """`..`: the value itself and all objects and lists within, each before what it holds."""

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        stack = [(node, 0)]
        while stack:
            found, depth = stack.pop()
            budget.spend(1)
            if isinstance(found, (dict, list)):
                yield found
                if depth > JSON_DEPTH * 2:
                    raise ExpressionError(f"the data is nested deeper than {JSON_DEPTH * 2}")
                stack.extend((child, depth + 1) for child in reversed(list(_children(found))))

    def takes(self, node: Json) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Keys:
    """`['a','b']`: as the last step it makes an object of these keys, else it selects each."""

    names: tuple[str, ...]
    last: bool

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        if isinstance(node, dict):
            found = {name: node[name] for name in self.names if name in node}
            yield from (found,) if self.last else found.values()

    def takes(self, node: Json) -> bool:
        return isinstance(node, dict)


@dataclass(frozen=True, slots=True)
class Indexes:
    """`[0,2]`."""

    places: tuple[int, ...]

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        found = (child(node, place) for place in self.places)
        return (item for item in found if item is not MISSING)

    def takes(self, node: Json) -> bool:
        return isinstance(node, list)


@dataclass(frozen=True, slots=True)
class Slice:
    """`[1:3]`, `[-2:]`."""

    first: int | None
    end: int | None

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        if isinstance(node, list):
            yield from node[self.first : self.end]

    def takes(self, node: Json) -> bool:
        return isinstance(node, list)


@dataclass(frozen=True, slots=True)
class Filter:
    """`[?(…)]`: the items of a list that pass, or an object itself. After `..` each object is looked at once."""

    passes: Test
    after_descent: bool

    def select(self, node: Json, document: Json, budget: Budget) -> Iterator[Json]:
        if not isinstance(node, dict) and (self.after_descent or not isinstance(node, list)):
            return
        items = [node] if isinstance(node, dict) else node
        for item in items:
            budget.spend(1)
            if self.passes(item, document, budget):
                yield item

    def takes(self, node: Json) -> bool:
        return isinstance(node, (dict, list))


def child(node: Json, key: str | int) -> Json:
    """Returns the value at a key of an object or an index of a list, or MISSING."""
    if isinstance(key, str):
        return node.get(key, MISSING) if isinstance(node, dict) else MISSING
    return node[key] if isinstance(node, list) and -len(node) <= key < len(node) else MISSING


def is_single(steps: Steps) -> bool:
    """Returns whether steps lead to one value, so that nothing there is an error."""
    return all(isinstance(step, (str, int, Keys)) and not (isinstance(step, Keys) and not step.last) for step in steps)


def follow(node: Json, keys: Sequence[str | int]) -> Json:
    """Returns the value that a path of keys alone leads to. Raises NothingError."""
    for key in keys:
        found = child(node, key)
        if found is MISSING:
            raise NothingError(_why(node, key))
        node = found
    return node


def select(node: Json, steps: Steps, budget: Budget) -> list[Json]:
    """Returns all that the steps select, in order. Raises NothingError where a path has one value still, and loses it.

    A key that some of many do not have leaves these out.
    """
    document, nodes, single = node, [node], True
    for step in steps:
        if isinstance(step, (str, int)):
            nodes = [follow(nodes[0], [step])] if single else _each(nodes, step, budget)
            continue
        if single and not step.takes(nodes[0]):
            raise NothingError(f"there is {kind(nodes[0])} where an object or a list is needed")
        found: list[Json] = []
        for one in nodes:
            for item in step.select(one, document, budget):
                budget.spend(1)
                found.append(item)
        nodes, single = found, single and is_single([step])
    return nodes


def function(name: str) -> Callable[[Json], Json] | None:
    """Returns what stands behind a path as `.length()`; None if there is no such function."""
    return _FUNCTIONS.get(name)


def kind(value: Json) -> str:
    """Names the type of a value for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    names = {str: "a string", list: "a list", dict: "an object", int: "a number", float: "a number"}
    return names.get(type(value), "a value")


def _each(nodes: Sequence[Json], key: str | int, budget: Budget) -> list[Json]:
    budget.spend(len(nodes))
    found = (child(node, key) for node in nodes)
    return [item for item in found if item is not MISSING]


def _children(node: Json) -> Sequence[Json]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else ()


def _why(node: Json, key: str | int) -> str:
    if isinstance(key, str):
        return f"there is no key {key!r}" if isinstance(node, dict) else f"{key!r} is looked for in {kind(node)}"
    if isinstance(node, list):
        return f"the list has {len(node)} items, and no index {key}"
    return f"index {key} is looked for in {kind(node)}"


def _length(value: Json) -> Json:
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise NothingError(f"{kind(value)} has no length")


def _of_numbers(compute: Callable[[list[Json]], Json]) -> Callable[[Json], Json]:
    def computed(value: Json) -> Json:
        numbers = [item for item in value if is_number(item)] if isinstance(value, list) else []
        if not numbers:
            raise NothingError(f"{kind(value)} holds no numbers to compute with")
        return compute(numbers)

    return computed


_FUNCTIONS: dict[str, Callable[[Json], Json]] = {
    "length": _length,
    "size": _length,
    "min": _of_numbers(min),
    "max": _of_numbers(max),
    "sum": _of_numbers(sum),
    "avg": _of_numbers(lambda numbers: sum(numbers) / len(numbers)),
}
