"""Map states: the nodes of one, in the order in which it passes them.

    A.reader   reads the items, if it has an ItemReader
    A.fork     forks over them
    A.item     makes the input of each branch, from its item
    A.join     is where the branches meet, if their results are written
    A          makes the output; here the branches meet, or their results are written

The state's own rules take what any of them fails with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stepwell.definition.asl import parts
from stepwell.definition.asl.dialects import Dialect
from stepwell.definition.asl.readers import reader_of
from stepwell.definition.asl.tasks import Unsupported
from stepwell.definition.asl.values import item_value, items_value, numbers_value
from stepwell.definition.asl.writers import writer_of
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import FanIn, Json, Node, Rule

State = Mapping[str, Json]
_BOUNDS = {"concurrency": "MaxConcurrency", "count": "ToleratedFailureCount", "percent": "ToleratedFailurePercentage"}


def begins_at(name: str, state: State) -> str:
    """Returns the node where a Map begins."""
    return f"{name}.reader" if "ItemReader" in state else f"{name}.fork"


def meets_at(name: str, state: State) -> str:
    """Returns the node where the branches of a Map meet."""
    return f"{name}.join" if "ResultWriter" in state else name


class MapNodes:
    """The nodes of one Map state without mistakes."""

    def __init__(
        self, name: str, state: State, language: str, dialect: Dialect, rules: Sequence[Rule], mapped: Mapping[str, str]
    ) -> None:
        """`rules`: the ways on from the state, the last without an error. `mapped`: what runs in place of resources."""
        self._name, self._state, self._language, self._dialect = name, state, language, dialect
        self._rules, self._mapped = tuple(rules), mapped
        self._reads, self._writes = "ItemReader" in state, "ResultWriter" in state

    def compile(self, context: Context, path: str, start: str) -> Iterator[Node]:
        """Yields the nodes. `start`: the first one of a branch after its item."""
        yield from self._reading(context, path)
        yield from self._forking(start)
        yield from self._meeting(context, path)

    def _reading(self, context: Context, path: str) -> Iterator[Node]:
        if not self._reads:
            return
        found = reader_of(self._name, self._state, self._language, self._mapped)
        if isinstance(found, Unsupported):
            context.add("unsupported_resource", found.message, f"{path}/ItemReader/Resource", found.hint)
            return
        name = begins_at(self._name, self._state)
        yield Node(name, step=found.step, shaping=found.shaping, rules=self._before(name, "fork"), is_made=True)

    def _forking(self, start: str) -> Iterator[Node]:
        name, state, first = self._name, self._state, f"{self._name}.item"
        select = item_value(state, self._language)
        shaping = parts.ItemShaped(name, select, has_read=self._reads, is_kept=self._writes)
        yield Node(first, shaping=shaping, rules=(Rule(f"{first}.Next", "transition", to=start),), is_made=True)
        items = parts.Computed(name, "items", items_value(name, state, self._language))
        bounds = numbers_value(name, state, _BOUNDS, self._language)
        most = int(written(state, "MaxConcurrency") or 0) or None
        rule = Rule(f"{name}.items", "transition", to=first, foreach=items, bounds=bounds, max_concurrency=most)
        forks = Node(f"{name}.fork", fan_out="all", rules=(rule,), join=meets_at(name, state), is_made=True)
        if caught := self._rules[:-1]:  # they take what the items and the bounds fail with, too
            forks = replace(forks, fan_out="first_match", rules=(rule, *caught), shaping=parts.Tried(items, bounds))
        yield forks

    def _meeting(self, context: Context, path: str) -> Iterator[Node]:
        name, fan_in = self._name, self._fan_in()
        if not self._writes:
            shaping = parts.Shaped(name, self._dialect, has_read=self._reads)
            yield Node(name, fan_in=fan_in, shaping=shaping, rules=self._rules)
            return
        found = writer_of(name, self._state, self._language, self._mapped)
        if isinstance(found, Unsupported):
            context.add("unsupported_resource", found.message, f"{path}/ResultWriter/Resource", found.hint)
            return
        met = meets_at(name, self._state)
        yield Node(met, fan_in=fan_in, shaping=found.keeping, rules=self._before(met, ""), is_made=True)
        shaping = parts.Shaped(name, self._dialect, found.told, has_read=self._reads, has_kept=True)
        yield Node(name, step=found.step, shaping=shaping, rules=self._rules)

    def _fan_in(self) -> FanIn:
        count, percent = (written(self._state, _BOUNDS[bound]) for bound in ("count", "percent"))
        is_tolerant = any(name.startswith("Tolerated") for name in self._state)
        return FanIn(
            merge="outcomes" if self._writes else "results",
            target=self._name,
            tells="unmet" if is_tolerant else "error",
            tolerate_count=None if count is None else int(count),
            tolerate_percent=percent,
        )

    def _before(self, node: str, following: str) -> tuple[Rule, ...]:
        """Returns the ways on from a node before the last one: to another of the Map's, or to that."""
        to = f"{self._name}.{following}" if following else self._name
        return (*self._rules[:-1], Rule(f"{node}.Next", "transition", to=to))


def written(state: State, name: str) -> float | None:
    """Returns a number that is written, not computed."""
    value = state.get(name)
    return None if isinstance(value, str) else value
