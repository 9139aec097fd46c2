"""Explains the forks that a run is at: how its branches are, which limits they wait for, and what lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from stepwell.api.runs.explained_waits import Waker, Why
from stepwell.api.runs.states import fork_at, live_tokens
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.names import node_of
from stepwell.engine.parts import shown_kind
from stepwell.engine.records import Status
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import is_for_limit
from stepwell.engine.waits.limit import limit_named
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing

_WAITING = Status.WAITING.value
_OVER = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class Tally:
    """The branches of the run's fork by what each does. `forks`: read where there are too many branches for `at`."""

    def __init__(self, at: Standing, forks: Iterable[Surveyed]) -> None:
        read = next((one for one in forks if one.id == fork_id(at.token.id, at.token.slot)), None)
        seen = at if at.branches or read is None else replace(at, branches=read.branches)
        self._counts = Counter[str]()
        self._limits = Counter[str]()
        live = {one.id for one in live_tokens(seen)}
        for token in seen.branches:
            self._count(at, token, is_live=token.id in live)
        for counts in read.counts.values() if read is not None and not at.branches else ():
            self._counts.update(counts)
        self._counts = +self._counts  # without what is none
        self._read = dict.fromkeys(_awaited(one) for one in read.some_waiting) if read is not None else {}
        self._is_all = read is not None and len(read.some_waiting) == self._counts[_WAITING]
        self._named = [*self._limits, *(limit for limit, _ in self._read if limit)]

    def _count(self, at: Standing, token: Token, *, is_live: bool) -> None:
        if token.end is not None:
            self._counts[token.end.status.value] += 1
        elif not is_live:
            self._counts[Status.PENDING.value] += 1
        elif token.parked is None or not is_waiting(token):
            self._counts["paused" if at.run.is_paused and fork_at(token) is None else "running"] += 1
        elif is_for_limit(token.parked):
            self._limits[limit_named(token.parked)] += 1
        else:
            self._counts[f"wait for {shown_kind(token, token.parked)}"] += 1

    @property
    def text(self) -> str:
        """How the branches are, such as `75 completed, 38 wait for the limit ocr`; "" if they are all alike."""
        if len(self._counts) + len(self._limits) < 2:
            return ""
        over = [one.value for one in _OVER if one.value in self._counts]
        names = [*over, *sorted(self._counts.keys() - {*over})]
        waits = {f"wait for the limit {name}": count for name, count in self._limits.items()}
        whole = {name: self._counts[name] for name in names} | waits
        return ", ".join(self._told(name, count) for name, count in whole.items())

    def _told(self, name: str, count: int) -> str:
        """A count in words; of the waiting branches of a wide fork, with what those wait for that were read."""
        if name != _WAITING or not self._read:
            return _counted(name, count)
        whose = "" if self._is_all else "some "
        return f"{count} waiting, {whose}for {' and '.join(text for _, text in self._read)}"

    def wakers(self, run_id: str) -> Iterator[Waker]:
        """Yields what shows the line of each limit, and the branches."""
        for name in dict.fromkeys(one.partition("/")[0] for one in self._named):
            yield Waker(what="limit", at=None, detail=f"GET /limits/{name} shows who has its permits")
        waits = self._limits or any(name == "waiting" or name.startswith("wait ") for name in self._counts)
        listed = "?status=waiting lists the branches that wait" if waits else " lists the branches"
        yield Waker(what="branch", at=None, detail=f"GET /runs/{run_id}/branches{listed}")


def _awaited(token: Token) -> tuple[str, str]:
    """Returns the limit that a branch waits for, "" for another wait, and what it waits for in words."""
    if token.parked is None:
        return "", "nothing"
    if is_for_limit(token.parked):
        return limit_named(token.parked), f"the limit {limit_named(token.parked)}"
    return "", shown_kind(token, token.parked)


def _counted(name: str, count: int) -> str:
    return f"{count} {name}" if count != 1 or not name.startswith("wait ") else f"1 waits{name.removeprefix('wait')}"


def at_forks(at: Standing) -> list[Why]:
    """Explains the tokens beside others that stand at a fork of their own, and wait for its branches."""
    found: list[Why] = []
    for one in at.branches:
        fork = fork_at(one)
        if fork is None or is_waiting(one):
            continue
        name = at.graph.seen_as(node_of(at.graph, one))
        listed = f"GET /runs/{at.run_id}/branches?fork={fork_id(one.id, one.slot)} lists the branches of {name}"
        waker = Waker(what="branch", at=None, detail=listed)
        found.append(Why(f"It waits for the {fork.width} branches of {name}.", (waker,), one.last_ms))
    return found
