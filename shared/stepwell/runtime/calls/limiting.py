"""The current state of limits: who holds their permits, who waits, and when a rate's next turn comes."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.definition.graph import Graph, RateLimit
from stepwell.definition.text import closest
from stepwell.engine.actions import Share
from stepwell.engine.records import ROOT
from stepwell.errors import InvalidInput, NotFound
from stepwell.limits import PENDING_SHOWN
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.ports import Clock, Notes
from stepwell.runtime.waits.claimants import parts_of, run_of
from stepwell.runtime.waits.lines import read_line
from stepwell.runtime.waits.paces import due_ms
from stepwell.values import dataclass

STEPS, RUNS = "steps", "runs"  # what a limit applies to


@dataclass(frozen=True, slots=True)
class Known:
    """A deployed limit: a named one for steps, or a workflow's own for its runs."""

    name: str
    of: str
    concurrency: int | None
    rate: RateLimit | None
    concurrency_key: str = ""  # the key expression of a workflow's `concurrency`, and
    rate_key: str = ""  # of its `rate_limit`

    @property
    def key(self) -> str:
        return self.concurrency_key or self.rate_key

    @property
    def has_key(self) -> bool:
        return bool(self.key)

    def name_of(self, expression: str, key: str) -> str:
        """Returns the name of the line that runs, or steps, with this key are in. `expression`: the limit's key."""
        is_keyed = bool(key) and (self.of == STEPS or bool(expression))
        return f"{'@' if self.of == STEPS else ''}{self.name}{f'/{key}' if is_keyed else ''}"


@dataclass(frozen=True, slots=True)
class InLine:
    """A run, or a step's token of one, that holds a permit or waits for it."""

    run_id: str
    token: str


@dataclass(frozen=True, slots=True)
class Line:
    """The state of a limit, or of one of its keys. Lists at most a thousand waiters."""

    known: Known
    key: str
    under_way: tuple[InLine, ...]
    waiting: tuple[InLine, ...]
    next_turn_ms: int | None  # if it has a rate: when another one may begin


class Limiting:
    """Reads limits, and changes nothing."""

    def __init__(self, notes: Notes, catalog: Catalog, clock: Clock) -> None:
        self._notes, self._catalog, self._clock = notes, catalog, clock

    def all(self) -> list[Known]:
        """Returns the deployed limits by name, those of steps first."""
        limits = self._catalog.limits
        named = [Known(name, STEPS, limits[name].concurrency, limits[name].rate) for name in sorted(limits)]
        graphs = self._catalog.current
        return [*named, *(known for name in sorted(graphs) for known in _of_workflow(graphs[name]))]

    def named(self, name: str, of: str = "") -> Known:
        """Returns the limit of this name. Raises NotFound.

        `of`: steps or runs, in case a named limit and a workflow share a name.
        """
        for known in self.all():
            if known.name == name and of in ("", known.of):
                return known
        near = closest(name[:80], [known.name for known in self.all() if of in ("", known.of)])
        hint = near or "limits.yaml and the workflows' own limits are listed by: stepwell limits"
        raise NotFound(f"there is no limit {name!r}", code="unknown_limit", hint=hint)

    async def line(self, known: Known, key: str = "") -> Line:
        """Returns the state of the limit for this key, or of a limit without keys.

        Raises InvalidInput if the limit counts by key and none is given: it has a line for each value.
        """
        if not key and (known.concurrency_key or (known.rate_key and known.concurrency is None)):
            raise InvalidInput(
                f"the limit of {known.name} counts by key, {known.key}, and no key is named",
                code="key_needed",
                hint="name a value of the key, as in --key ana or ?key=ana",
            )
        board = None
        if known.concurrency is not None:
            share = Share(known.name_of(known.concurrency_key, key), known.concurrency, "queue")
            board = await read_line(self._notes, share, PENDING_SHOWN)
        turn_ms = None
        if known.rate is not None and (key or not known.rate_key):
            due = await due_ms(self._notes, known.name_of(known.rate_key, key))
            turn_ms = max(due, self._clock.now_ms())
        return Line(
            known,
            key,
            tuple(_in_line(known, who) for who in (board.under_way if board else ())),
            tuple(_in_line(known, board.left[place]) for place in sorted(board.left)) if board else (),
            turn_ms,
        )


def _of_workflow(graph: Graph) -> Iterator[Known]:
    concurrency, rate = graph.concurrency, graph.rate_limit
    if concurrency is None and rate is None:
        return
    keys = (limit.key.text if limit is not None and limit.key is not None else "" for limit in (concurrency, rate))
    yield Known(graph.name, RUNS, concurrency.limit if concurrency else None, rate, *keys)


def _in_line(known: Known, who: str) -> InLine:
    if known.of == RUNS:
        return InLine(run_of(who), ROOT)
    run_id, token, _ = parts_of(who)
    return InLine(run_id, token)
