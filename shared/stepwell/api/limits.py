"""The API's views of limits."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.definition.graph import RateLimit
from stepwell.engine.names import iso
from stepwell.runtime.calls.limiting import InLine, Known, Line


class RateView(TypedDict):
    limit: int
    per: float  # seconds
    burst: int


class LimitView(TypedDict):
    """A limit. Its numbers are null where it has a key: each key has a line of its own."""

    name: str
    of: str  # steps | runs
    concurrency: int | None
    rate_limit: RateView | None
    key: str | None  # of a workflow's limit, as its definition has it
    under_way: int | None
    waiting: int | None  # at most 1,000
    next_turn_at: str | None  # of a rate: when another one may begin
    links: dict[str, str]


class LimitPage(TypedDict):
    items: list[LimitView]
    next_cursor: str | None


class InLineView(TypedDict):
    """A run, or the token of its step. `place`: how many are before it; null if it holds a permit."""

    run_id: str
    token: str
    place: int | None
    links: dict[str, str]


class LineView(TypedDict):
    """A limit with who holds its permits and who waits for one, in the order of their turns."""

    name: str
    of: str
    concurrency: int | None
    rate_limit: RateView | None
    key: str | None  # the value whose line this is
    next_turn_at: str | None
    under_way: list[InLineView]
    items: list[InLineView]
    next_cursor: str | None


def limit_view(known: Known, line: Line | None) -> LimitView:
    """Builds the view; `line`: None for a limit with a key."""
    return LimitView(
        name=known.name,
        of=known.of,
        concurrency=known.concurrency,
        rate_limit=_rate(known.rate),
        key=known.key or None,
        under_way=len(line.under_way) if line is not None and known.concurrency is not None else None,
        waiting=len(line.waiting) if line is not None and known.concurrency is not None else None,
        next_turn_at=_turn(line),
        links={"self": f"/limits/{known.name}?of={known.of}"},
    )


def line_view(line: Line, first: int, limit: int) -> LineView:
    """Builds a page of the line: those who wait from place `first` on."""
    known, following = line.known, first + limit
    return LineView(
        name=known.name,
        of=known.of,
        concurrency=known.concurrency,
        rate_limit=_rate(known.rate),
        key=line.key or None,
        next_turn_at=_turn(line),
        under_way=[_in_line(one, None) for one in line.under_way],
        items=[_in_line(one, first + index) for index, one in enumerate(line.waiting[first:following])],
        next_cursor=str(following) if following < len(line.waiting) else None,
    )


def _in_line(one: InLine, place: int | None) -> InLineView:
    return InLineView(run_id=one.run_id, token=one.token, place=place, links={"run": f"/runs/{one.run_id}"})


def _rate(rate: RateLimit | None) -> RateView | None:
    return None if rate is None else RateView(limit=rate.limit, per=rate.per_ms / 1000, burst=rate.burst)


def _turn(line: Line | None) -> str | None:
    return None if line is None or line.next_turn_ms is None else iso(line.next_turn_ms)
