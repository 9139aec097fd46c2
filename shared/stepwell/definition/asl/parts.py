"""Parts of a compiled state: the expressions and shapings that the engine evaluates at its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stepwell.definition.asl.dialects import Dialect, key_and_value
from stepwell.definition.asl.frames import MADE, Frame
from stepwell.definition.asl.names import TOO_WIDE, cause_of, name_of, takes
from stepwell.definition.backoff import growing_ms
from stepwell.definition.graph import GIVEN, ITEM, KEPT, READ, Json, Retrier
from stepwell.errors import ExpressionError
from stepwell.limits import FORK_WIDTH
from stepwell.values import dataclass

Compute = Callable[[Frame], Json]


@dataclass(frozen=True, slots=True)
class ErrorNames:
    """The errors of `ErrorEquals`."""

    names: tuple[str, ...]

    def take(self, failure_type: str, category: str, data: Json = None) -> bool:
        return takes(self.names, failure_type, category, data)

    def take_error(self, error: Mapping[str, Json] | None) -> bool:
        return error is not None and self.take(error["type"], error["category"], error["data"])


class Computed:
    """An expression of a state, by a function of its frame."""

    reads_error = False
    names: frozenset[str] = frozenset()  # it has names of its own

    def __init__(self, state: str, text: str, compute: Compute) -> None:
        self.state, self.text, self._compute = state, text, compute

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        return self._compute(Frame(names, self.state))

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        made: Sequence[Json] = self.evaluate(names)
        return made


class OnError(Computed):
    """A condition that holds where a rule takes the error of the node that has just ended."""

    reads_error = True


class Shaped:
    """Makes a state's output, and what it assigns."""

    def __init__(
        self,
        state: str,
        dialect: Dialect,
        wrap: Callable[[Frame, Json], Json] | None = None,
        *,
        has_read: bool = False,
        has_kept: bool = False,
    ) -> None:
        """`wrap`: turns what the task returned into the state's result, such as `{"Payload": …}`.

        `has_read`, `has_kept`: the items that a node of it has read, the results that one has kept, are let go.
        """
        self._state, self._dialect, self._wrap = state, dialect, wrap
        self._left = _left(has_read=has_read, has_kept=has_kept)

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        frame = Frame(names, self._state)
        came = brought if self._wrap is None else self._wrap(frame, brought)
        beside = {**MADE, **frame.assigned(self._dialect.assigned(frame, came)), **frame.with_retries([])}
        return self._dialect.output(frame, came), {**beside, **self._left}


class Tried:
    """Makes nothing of what came, and fails where a Map cannot fork over its items, before the node's rules do."""

    def __init__(self, items: Computed, bounds: Computed | None) -> None:
        self._items, self._bounds = items, bounds

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        width = len(self._items.items(names))
        if width > FORK_WIDTH:
            message = f"{self._items.state} forks into {width} branches; at most {FORK_WIDTH}: fork over batches"
            raise ExpressionError(message, code=TOO_WIDE)
        if self._bounds is not None:
            self._bounds.evaluate(names)
        return brought, {}


class Given:
    """Makes the input of a branch, which the state gives all of them."""

    def __init__(self, state: str, dialect: Dialect) -> None:
        self._state, self._dialect = state, dialect

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        return self._dialect.given(Frame(names, self._state)), MADE


class Caught:
    """Makes the output of a state whose error a catcher has taken."""

    def __init__(self, state: str, dialect: Dialect, *, has_read: bool = False, has_kept: bool = False) -> None:
        self._state, self._dialect = state, dialect
        self._left = _left(has_read=has_read, has_kept=has_kept)

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        frame = Frame(names, self._state)
        error = error_output(names["error"])
        beside = frame.assigned(self._dialect.assigned(frame, error, is_error=True))
        return self._dialect.caught(frame, error), {**MADE, **beside, **frame.with_retries([]), **self._left}


class ItemShaped:
    """Makes the input of a branch of a Map state from its item."""

    def __init__(
        self, state: str, select: Callable[[Frame, Json], Json], *, has_read: bool = False, is_kept: bool = False
    ) -> None:
        """`is_kept`: the input stays in the branch's scope, for those who look at it after its end."""
        self._state, self._select, self._has_read, self._is_kept = state, select, has_read, is_kept

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        branch = names["branch"]
        data, value, is_field = key_and_value(branch["item"])
        item = {"Index": branch["index"], **({"Key": data["Key"]} if is_field else {}), "Value": value}
        if self._has_read:
            item["Source"] = Frame(names, self._state).read("source")
        frame = Frame(_WithItem(names, item), self._state)
        given = self._select(frame, data)
        return given, {**MADE, ITEM: item, **({GIVEN: given} if self._is_kept else {})}


def _left(*, has_read: bool, has_kept: bool) -> Mapping[str, Json]:
    return {**({READ: None} if has_read else {}), **({KEPT: None} if has_kept else {})}


class _WithItem(Mapping[str, Json]):
    """The names of a branch whose item has just been taken."""

    def __init__(self, names: Mapping[str, Json], item: Json) -> None:
        self._names, self._item = names, item

    def __getitem__(self, name: str) -> Json:
        return {**self._names[name], ITEM: self._item} if name == "scope" else self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def error_output(error: Mapping[str, Json] | None) -> dict[str, Json]:
    """Returns `{"Error", "Cause"}` of a failure as expressions see it."""
    if error is None:
        return {"Error": "", "Cause": ""}
    return {"Error": name_of(error), "Cause": cause_of(error)}


# -- retries of what is no step: a loop that counts in the scope


def is_due(retriers: Sequence[Retrier], at: int, frame: Frame) -> bool:
    """Tells whether the error is for this retrier, and it has not been used up."""
    error = frame.names["error"]
    if error is None:
        return False
    what = (error["type"], error["category"], error["data"])
    found = next((one for one, r in enumerate(retriers) if r.errors.take(*what)), None)
    return found == at and _count(frame, at) < retriers[at].max_retries


def counted(retriers: Sequence[Retrier], at: int, frame: Frame) -> dict[str, Json]:
    """Returns what is written when this retrier is used once more."""
    counts = [_count(frame, one) + (one == at) for one in range(len(retriers))]
    return frame.with_retries(counts)


def delay_seconds(retrier: Retrier, at: int, frame: Frame) -> float:
    """Returns the delay before the next try."""
    return growing_ms(retrier, _count(frame, at) + 1, 1.0) / 1000


def _count(frame: Frame, at: int) -> int:
    counts = frame.retries()
    return counts[at] if at < len(counts) else 0
