"""The session whose function is running now: what `ctx` asks, and what it is not asked for in a query."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.codec import failure_to_json
from stepwell.engine.records import Failure, Record, Resumption
from stepwell.engine.session import CURRENT, Session
from stepwell.engine.turns import Asked
from stepwell.errors import InvalidInput, NotFound
from stepwell.runtime.durable.kept import Kept, check_rebinding
from stepwell.runtime.durable.made import Made
from stepwell.runtime.durable.operations import stored
from stepwell.runtime.durable.places import no_workflow
from stepwell.runtime.steps.binding import binding_of

_ENDED_BEFORE = Failure("cancelled", "step", "the function ended before the handler of its update did")


class FunctionSession(Session):
    """A session with what its function has beside its journal: its state, and chance that is the same each time."""

    state: MutableMapping[str, Any]
    chance: random.Random
    queries: dict[str, Callable[[], Any]]  # what it answers who asks, by name
    updates: dict[str, Callable[..., Any]]  # what changes it when somebody asks, by name
    validators: dict[str, Callable[..., Any]]  # what may refuse that, by name
    is_answering = False  # a query, which changes nothing
    kept: Kept | None = None  # by the function, while it answers
    is_updating = False  # a handler of an update runs
    callbacks = 0  # given out so far
    made: Made  # its operations
    running_loop: Callable[[], AbstractContextManager[None]]  # while records are taken
    outer: FunctionSession | None = None  # the parent's, of no use but for this branch
    parent: FunctionSession | None = None  # whose code made what this branch does
    place = ""  # of its callbacks: the run and the token

    def go_on(self, records: list[Record]) -> None:
        with self.running_loop():  # once for all of them
            super().go_on(records)

    @property
    def takes_updates(self) -> bool:
        return bool(self.updates)

    @property
    def awaits_in_updates(self) -> bool:
        return any(inspect.iscoroutinefunction(handler) for handler in self.updates.values())

    @property
    def is_stale(self) -> bool:
        """Tells whether its parent was let go: what that has made is as its log says no more."""
        return self.parent is not None and (self.parent.is_closed or self.parent.is_stale)

    def unawaited(self) -> Iterable[Asked]:
        return self.made.unawaited()

    def forgotten(self) -> Failure | None:
        return self.made.forgotten()

    def answer(self, name: str) -> Json:
        """What the query's handler says, as the function stands. Raises NotFound; what the handler raises, too."""
        if name not in self.queries:
            known = ", ".join(sorted(self.queries)) or "none"
            raise NotFound(f"the run answers no query {name!r}", code="unknown_query", hint=f"it answers: {known}")
        with self._reading(self.queries[name]):
            return stored(self.queries[name](), f"the answer to {name}")

    @contextmanager
    def _reading(self, handler: Callable[..., Any]) -> Iterator[None]:
        """Makes it the session that `ctx` finds, for a handler that changes nothing."""
        check_rebinding(handler, "read_only_query")
        token = CURRENT.set(self)
        self.is_answering, self.kept = True, Kept(handler, "read_only_query")
        try:
            yield
        finally:
            self.is_answering, self.kept = False, None
            CURRENT.reset(token)

    def bound(self, came: Resumption) -> Callable[[], dict[str, Json]]:
        """The call of the update's handler, which gives the answer; empty for one that awaits, which goes on.

        Raises UserError where there is none, or its input does not fit it.
        """
        handler = self.updates.get(came.name)
        if handler is None:
            known = ", ".join(sorted(self.updates)) or "none"
            raise NotFound(f"the run takes no update {came.name!r}", code="unknown_update", hint=f"it takes: {known}")
        binding = binding_of.__wrapped__(handler)  # a cache would keep it, and with it the whole session
        arguments = binding.bind(came.payload["input"], None, came.name)
        return lambda: self._handled(handler, arguments, came)

    def check(self, came: Resumption) -> None:
        """Has the update's validator look at it, which changes nothing. Raises what that raises."""
        validator = self.validators.get(came.name)
        if validator is None:
            return
        arguments = binding_of.__wrapped__(validator).bind(came.payload["input"], None, came.name)
        with self._reading(validator):
            validator(**arguments)

    def _handled(
        self, handler: Callable[..., Any], arguments: Mapping[str, object], came: Resumption
    ) -> dict[str, Json]:
        if inspect.iscoroutinefunction(handler):
            self._runner.start(self._awaited(handler, arguments, came))
            return {}
        token = CURRENT.set(self)
        self.is_updating = True
        try:
            with self._runner.at(self.now_ms):
                made = handler(**arguments)
            if inspect.iscoroutine(made):
                made.close()
            return {"output": stored(made, f"the answer to {came.name}")}
        finally:
            self.is_updating = False
            CURRENT.reset(token)

    async def _awaited(self, handler: Callable[..., Any], arguments: Mapping[str, object], came: Resumption) -> None:
        """Goes on with a handler beside the function. The next record has its answer."""
        try:
            answer: Json = {"output": stored(await handler(**arguments), f"the answer to {came.name}")}
        except GeneratorExit:  # closed with its session
            raise
        except asyncio.CancelledError:
            self._answer(came, {"error": failure_to_json(_ENDED_BEFORE)})
            raise
        except BaseException as error:  # of any type: it is users' code
            answer = {"error": failure_to_json(self._told(error))}
        self._answer(came, answer)

    def _answer(self, came: Resumption, answer: Json) -> None:
        if not came.has_answer:  # else it was given at once, by a handler of other code
            self.answers[came.event_id] = answer

    def update(self, came: Resumption) -> Failure | None:
        try:
            answer = self.bound(came)()
        except Exception as error:  # of any type: it is users' code
            return self._told(error)
        if answer:
            self._answer(came, answer)
        return None


class Outside:
    """In place of a session, where a step runs that closes over `ctx`."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    @property
    def made(self) -> Made:
        raise no_workflow()


class Logger(logging.LoggerAdapter[logging.Logger]):
    """Says nothing while the function goes over what it said already."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's name
        session = CURRENT.get(None)
        return (session is None or not session.is_replaying) and super().isEnabledFor(level)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **kwargs.get("extra", {})}}


def read_only(state: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """A branch's: the run's state has one writer."""
    return MappingProxyType(dict(state))  # type: ignore[return-value]  # to write raises TypeError, as it should


def running() -> FunctionSession:
    """Raises InvalidInput where none is: `ctx` has left its workflow."""
    session = CURRENT.get(None)
    if not isinstance(session, FunctionSession):
        raise no_workflow()
    return session


def going_on() -> FunctionSession:
    """The same, where what is asked for changes what the function does next."""
    session = running()
    if session.is_answering:
        raise InvalidInput("a query changes nothing", code="read_only_query",
                           hint="let the function do it, and the query read what came of it")  # fmt: skip
    return session
