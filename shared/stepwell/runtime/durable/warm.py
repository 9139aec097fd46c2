"""Warm sessions: those of durable functions that a process keeps, to go on without a replay."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

from stepwell.engine.durable.journal import PATCH
from stepwell.engine.durable.turns import Asked
from stepwell.limits import SESSION_SECONDS
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.running import FunctionSession
from stepwell.runtime.durable.turning import NO_LONGER, branches_of
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass

T = TypeVar("T")
_Life: TypeAlias = tuple[str, int]  # a run's id and when it was made: the id may have been a deleted run's


class Threads(Protocol):
    """Runs users' code in threads."""

    def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
        """Returns the function's result and its exception: an AttemptTimeoutError once the time is up."""


@dataclass(slots=True)
class Forked:
    """The branches that a function awaits: its session, and which coroutines were taken from it."""

    asked: Asked
    session: FunctionSession
    state: Mapping[str, Any]  # as the branches see it: the function may change it later
    taken: set[int]
    is_kept: bool = True  # kept for its other branches
    is_own: bool = True  # False: the session is the parent's own, which goes on


class Warm:
    """The sessions that a process keeps, the latest `most` of them. Safe to use from many threads."""

    def __init__(self, threads: Threads, most: int) -> None:
        self.most = most
        self.closed = 0  # how often all sessions were closed
        self._threads, self._lock = threads, Lock()
        self._sessions: OrderedDict[tuple[_Life, str], FunctionSession] = OrderedDict()
        self._forked: OrderedDict[tuple[_Life, str, int], Forked] = OrderedDict()

    def take(self, at: Standing) -> FunctionSession | None:
        """Returns the token's session, for this caller alone until it is kept again."""
        with self._lock:
            return self._sessions.pop((_life(at), at.token.id), None)

    def keep(self, at: Standing, session: FunctionSession) -> None:
        key = (_life(at), at.token.id)
        with self._lock:
            before, self._sessions[key] = self._sessions.get(key), session
        if before is not None and before is not session:  # kept by another caller meanwhile
            self.let_go(before)
        for dropped in self._dropped(self._sessions):
            self.let_go(dropped)

    def branches(self, branch: Standing, parent: str, slot: int) -> Forked | None:
        """Returns the branches of a parent whose session this process holds; None if it holds none at that slot.

        Nor does it if another worker, with code from before the session's patches, wrote the record that forked.
        """
        key = (_life(branch), parent, slot)
        with self._lock:
            found, held = self._forked.get(key), self._sessions.get(key[:2])
            session = held if found is None else found.session
            if session is not None and not _has_all(branch, session.patches()):
                return None
            asked = None if found is not None or held is None else branches_of(held, slot)
            if held is not None and asked is not None:
                found = self._forked[key] = Forked(asked, held, dict(held.state), set(), is_own=False)
        self._drop_forked()
        return found

    def keep_branches(self, branch: Standing, parent: str, slot: int, forked: Forked) -> None:
        with self._lock:
            self._forked[_life(branch), parent, slot] = forked
        self._drop_forked()

    def take_branch(self, forked: Forked, index: int) -> bool:
        """Tells whether the branch can begin from this session. A coroutine can once, unless it was closed."""
        branches = forked.asked.branches
        one: object = branches[index] if index < len(branches) else None
        if one is None or (isinstance(one, Operation) and one.asked is NO_LONGER):
            return False  # the parent is further and has cancelled it
        if forked.session.is_closed:
            return False
        with self._lock:
            is_fresh = index not in forked.taken
            if not isinstance(one, Operation):
                forked.taken.add(index)
        return is_fresh and not (inspect.iscoroutine(one) and inspect.getcoroutinestate(one) != inspect.CORO_CREATED)

    def drop_branches(self, at: Standing) -> None:
        """Closes the sessions of an ended function's branches: nobody asks for them again."""
        life = _life(at)
        with self._lock:
            forked = [self._forked.pop(key) for key in [*self._forked] if key[0] == life]
            branches = [self._sessions.pop(key) for key in [*self._sessions] if key[0] == life] if forked else []
        for session in (*branches, *(one.session for one in forked if one.is_own)):
            self.let_go(session)

    def close(self) -> None:
        """Closes all sessions."""
        with self._lock:
            self.closed += 1
            held = [*self._sessions.values(), *(one.session for one in self._forked.values() if one.is_own)]
            self._sessions.clear()
            self._forked.clear()
        for session in held:
            self.let_go(session)

    def let_go(self, session: FunctionSession) -> None:
        """Closes a session, and that of the code whose objects it needs."""
        self._threads.run(session.close, SESSION_SECONDS)
        if session.outer is not None:
            self.let_go(session.outer)

    def _drop_forked(self) -> None:
        for dropped in self._dropped(self._forked):
            if dropped.is_own:
                self.let_go(dropped.session)

    def _dropped(self, held: OrderedDict[Any, T]) -> list[T]:
        """Takes out the oldest of too many."""
        with self._lock:
            return [held.popitem(last=False)[1] for _ in range(len(held) - self.most)]


def _has_all(branch: Standing, patches: Iterable[str]) -> bool:
    """Tells whether the record that forked the branch has these patches."""
    rules = branch.token.branch.rules if branch.token.branch else ()
    return all(PATCH + name in rules for name in patches)


def _life(at: Standing) -> _Life:
    return at.run_id, at.run.created_ms
