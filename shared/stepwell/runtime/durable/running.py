"""The session of the function that runs now: what `ctx` uses, and what it refuses within a query."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.durable.session import CURRENT, Session
from stepwell.engine.durable.turns import Asked, Failed, Result
from stepwell.engine.records import Failure, Record, Resumption
from stepwell.engine.stored.codec import failure_to_json
from stepwell.errors import InvalidInput, NotFound
from stepwell.runtime.durable.kept import Kept, check_rebinding
from stepwell.runtime.durable.made import Made
from stepwell.runtime.durable.operations import returned, stored, unawaited_in
from stepwell.runtime.durable.places import no_workflow
from stepwell.runtime.steps.binding import binding_of
from stepwell.runtime.steps.context import ContextLogger

_LOCK_IN_TASK = "lock_in_task"  # the type of the failure
_ENDED_BEFORE = Failure("cancelled", "step", "the function ended before the handler of its update did")


class FunctionSession(Session):
    """A session with its function's state and handlers, and random numbers that are the same each time."""

    state: MutableMapping[str, Any]
    chance: random.Random
    queries: dict[str, Callable[[], Any]]  # handlers of queries, by name
    updates: dict[str, Callable[..., Any]]  # handlers of updates, by name
    validators: dict[str, Callable[..., Any]]  # validators of updates, by name
    is_answering = False  # whether a query or a validator runs, which changes nothing
    kept: Kept | None = None  # what the handler must not change, while it answers
    is_updating = False  # whether a handler of an update runs
    leaves_with: Exception | None = None  # with which its code leaves the block of a lock
    _left: tuple[Exception, Failure] | None = None  # the last of these, as a failure
    callbacks = 0  # made so far
    links: set[str]  # the signed parts of the callbacks' URLs that its code has read
    made: Made  # the operations that it made
    running_loop: Callable[[], AbstractContextManager[None]]  # entered while records are replayed
    outer: FunctionSession | None = None  # the parent's session if only this branch needs it
    parent: FunctionSession | None = None  # the session whose code made this branch
    run_id = ""
    place = ""  # prefix of its callbacks' ids: the run and the token
    is_reading = False  # its code runs for a reader, who moves nothing: whoever does has told of it, or will
    has_muted = False  # its code told something then

    def go_on(self, records: list[Record], start: int = 0, end: int | None = None) -> None:
        with self.running_loop():  # once for all of them
            super().go_on(records, start, end)

    def tells(self) -> bool:
        """Tells whether what the code says now is new, and to be logged."""
        if self.is_replaying:
            return False
        self.has_muted = self.has_muted or self.is_reading
        return not self.is_reading

    @property
    def takes_updates(self) -> bool:
        return bool(self.updates)

    @property
    def awaits_in_updates(self) -> bool:
        return any(inspect.iscoroutinefunction(handler) for handler in self.updates.values())

    @property
    def is_stale(self) -> bool:
        """Tells whether its parent session was let go: what that made no longer matches its log."""
        return self.parent is not None and (self.parent.is_closed or self.parent.is_stale)

    def result(self) -> Result:
        """An error that leaves a lock's block beside other operations comes before that of leaving it there."""
        found, error = super().result(), self.leaves_with
        if error is None or not isinstance(found, Failed) or found.failure.type != _LOCK_IN_TASK:
            return found
        if self._left is None or self._left[0] is not error:
            self._left = error, self._failed(error)
        first = self._left[1]
        return Failed(replace(first, message=f"{first.message} (then {_LOCK_IN_TASK}: {found.failure.message})"))

    def unawaited(self) -> Iterable[Asked]:
        return self.made.unawaited()

    def forgotten(self, value: object) -> Failure | None:
        number, is_several = returned(value) if self.made.unawaited() else (0, False)
        return self.made.forgotten(value, number, is_several=is_several)

    def holds_link(self, asked: Asked) -> bool:
        if asked.branches:  # any of them may
            return bool(self.links)
        if not self.links or asked.step is None or asked.step.input is None:
            return False
        given = json.dumps(asked.step.input.evaluate({}))
        return any(link in given for link in self.links)

    def answer(self, name: str) -> Json:
        """Returns the answer of a query's handler. Raises NotFound, and what the handler raises."""
        if name not in self.queries:
            known = ", ".join(sorted(self.queries)) or "none"
            raise NotFound(f"the run answers no query {name!r}", code="unknown_query", hint=f"it answers: {known}")
        with self._reading(self.queries[name]):
            return stored(self.queries[name](), f"the answer to {name}")

    @contextmanager
    def _reading(self, handler: Callable[..., Any]) -> Iterator[None]:
        """Makes this the current session of `ctx` for a handler that changes nothing."""
        check_rebinding(handler, "read_only_query")
        token = CURRENT.set(self)
        self.is_answering, self.kept = True, Kept(handler, "read_only_query")
        try:
            yield
        finally:
            self.is_answering, self.kept = False, None
            CURRENT.reset(token)

    def bound(self, resumption: Resumption) -> Callable[[], dict[str, Json]]:
        """Returns the call of the update's handler. It returns the answer, or nothing if the handler is `async`.

        Raises NotFound if there is no handler, and InvalidInput if its input does not fit.
        """
        handler = self.updates.get(resumption.name)
        if handler is None:
            known = ", ".join(sorted(self.updates)) or "none"
            raise NotFound(
                f"the run takes no update {resumption.name!r}", code="unknown_update", hint=f"it takes: {known}"
            )
        binding = binding_of.__wrapped__(handler)  # a cache would keep it, and with it the whole session
        arguments = binding.bind(resumption.payload["input"], None, resumption.name)
        return lambda: self._handled(handler, arguments, resumption)

    def check(self, resumption: Resumption) -> None:
        """Has the update's validator check it, which changes nothing. Raises what the validator raises."""
        validator = self.validators.get(resumption.name)
        if validator is None:
            return
        arguments = binding_of.__wrapped__(validator).bind(resumption.payload["input"], None, resumption.name)
        with self._reading(validator):
            validator(**arguments)

    def _handled(
        self, handler: Callable[..., Any], arguments: Mapping[str, object], resumption: Resumption
    ) -> dict[str, Json]:
        if inspect.iscoroutinefunction(handler):
            self._runner.start(self._awaited(handler, arguments, resumption))
            return {}
        token = CURRENT.set(self)
        self.is_updating = True
        try:
            with self._runner.at(self.now_ms):
                made = handler(**arguments)
            if asyncio.iscoroutine(made) and (what := unawaited_in(made)):
                own = getattr(handler, "__name__", "handler")
                message = f"the handler of update {resumption.name} returns {what}, and does not await it"
                raise InvalidInput(message, code="never_awaited", hint=f"async def {own}(…), and return await {what}")
            return {"output": stored(made, f"the answer to {resumption.name}")}
        finally:
            self.is_updating = False
            CURRENT.reset(token)

    async def _awaited(
        self, handler: Callable[..., Any], arguments: Mapping[str, object], resumption: Resumption
    ) -> None:
        """Runs an `async` handler beside the function. The next record holds its answer."""
        try:
            answer: Json = {"output": stored(await handler(**arguments), f"the answer to {resumption.name}")}
        except GeneratorExit:  # closed with its session
            raise
        except asyncio.CancelledError:
            self._answer(resumption, {"error": failure_to_json(_ENDED_BEFORE)})
            raise
        except BaseException as error:  # of any type: it is users' code
            answer = {"error": failure_to_json(self._failed(error))}
        self._answer(resumption, answer)

    def _answer(self, resumption: Resumption, answer: Json) -> None:
        if not resumption.has_answer:  # else an earlier, plain handler answered at once
            self.answers[resumption.event_id] = answer

    def update(self, resumption: Resumption) -> Failure | None:
        try:
            answer = self.bound(resumption)()
        except Exception as error:  # of any type: it is users' code
            return self._failed(error)
        if answer:
            self._answer(resumption, answer)
        return None


class Outside:
    """Stands in for a session while a step runs that closes over `ctx`."""

    run_id = ""  # that of no `ctx`

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def tells(self) -> bool:
        """An attempt is never a replay."""
        return True

    @property
    def made(self) -> Made:
        raise no_workflow()


class Logger(ContextLogger):
    """Logs nothing while the function is replayed."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's name
        session: Any = CURRENT.get(None)
        return super().isEnabledFor(level) and (session is None or session.tells())


def read_only(state: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns a read-only copy of the state, for branches and queries: the run's state has one writer."""
    return MappingProxyType(dict(state))  # type: ignore[return-value]  # writing raises TypeError, as it should


def running(run_id: str | None = None) -> FunctionSession:
    """Returns the current session. Raises InvalidInput if `ctx` was used outside its workflow, or this run."""
    session = CURRENT.get(None)
    if not isinstance(session, FunctionSession) or run_id not in (None, session.run_id):
        raise no_workflow()
    return session


def check_own(run_id: str) -> None:
    """Raises InvalidInput if another run's function uses this run's `ctx`. Cheap: each operation calls it.

    Outside of any function nothing is wrong yet: an operation that is made there raises once it is awaited.
    """
    session: Any = CURRENT.get(None)
    if session is not None and session.run_id != run_id:
        raise no_workflow()


def going_on(run_id: str | None = None) -> FunctionSession:
    """Returns the session for a change of what the function does next. Raises InvalidInput in a query, too."""
    session = running(run_id)
    if session.is_answering:
        raise InvalidInput("a query changes nothing", code="read_only_query",
                           hint="let the function do it, and the query read what came of it")  # fmt: skip
    return session
