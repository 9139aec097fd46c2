"""The step executor: one attempt from its input to an Outcome. Whatever a step does, this returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.definition.authoring import Directive, StepDefaults
from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure, Pause, Record
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.errors import PortError, StepError, Transient, UserError
from stepwell.limits import SESSIONS_KEPT, STEP_TIMEOUT_MS
from stepwell.runtime.calls.callbacks import step_callback
from stepwell.runtime.calls.links import CallbackLink, Links
from stepwell.runtime.log.logbook import Logbook, Standing
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.binding import BadOutputError, binding_of, copy_of, to_json
from stepwell.runtime.steps.calls import Calls, is_call
from stepwell.runtime.steps.context import StepContext
from stepwell.runtime.steps.failures import CallError, NotLoadedError, failure_of, not_loaded
from stepwell.runtime.steps.port import StepCall, WriteRecord
from stepwell.runtime.steps.registry import Registry, UnknownStepError
from stepwell.runtime.steps.threads import AttemptTimeoutError, StepInterrupted, StepThreads

if TYPE_CHECKING:
    from stepwell.runtime.durable.sessions import Sessions

_logger = logging.getLogger("stepwell.worker")


class FunctionSteps:
    """Runs Python functions of a workflow folder, and calls of other systems, outside any transaction."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        calls: Calls | None = None,
        links: Links | None = None,
        sessions: int = SESSIONS_KEPT,
    ) -> None:
        """`links`: for the URLs of callbacks, where steps may have any. `sessions`: how many functions are kept."""
        self._registry, self._clock, self._calls, self._links = Registry(folder), clock, calls or Calls(), links
        self._threads = StepThreads()
        self._sessions: Sessions | None = None  # of durable functions
        self._sessions_kept = sessions

    def policy(self, step: Step) -> Policy:
        """A function that cannot be found or imported has no defaults: `stuck` says what is wrong."""
        if is_call(step.run):
            return resolve_policy(step, StepDefaults())
        if self._registry.knows(step.run):
            return resolve_policy(step, self._registry.defaults(step.run))
        # its module is imported now: users' code, under a limit of its own
        found, error = self._threads.run(partial(self._registry.defaults, step.run), STEP_TIMEOUT_MS / 1000)
        if isinstance(found, StepDefaults):
            return resolve_policy(step, found)
        failure = not_loaded(step.run, error or UnknownStepError(f"{step.run} is no step"))
        return replace(resolve_policy(step, StepDefaults()), stuck=failure)

    async def run(self, call: StepCall) -> Outcome:
        if is_call(call.run):
            return await self._attempted(call, lambda over: self._calls.run(call))
        return await self.run_function(call, partial(self._registry.function, call.run))

    async def run_function(self, call: StepCall, find: Callable[[], Callable[..., object]]) -> Outcome:
        """One attempt of the function that `find` finds; where it finds none, the outcome is stuck."""
        callback = step_callback(call.run_id, call.token, call.key)
        url = partial(self._callback_url, self._links, callback) if self._links and callback else None
        return await self._attempted(call, lambda over: _call(find, call, over, url))

    def _callback_url(self, links: Links, callback: str, timeout_ms: int) -> str:
        try:
            return links.callback_url(CallbackLink(callback, self._clock.now_ms() + timeout_ms))
        except PortError as error:  # the step's own error, which a retry may cure
            raise Transient(error.message) from error

    async def _attempted(self, call: StepCall, work: Callable[[_Over], object]) -> Outcome:
        """The work in a thread of its own, for as long as the step may take."""
        started_ms = self._clock.now_ms()
        over = _Over()
        attempt = self._threads.start(partial(_attempt, work, call, over, started_ms), call.timeout_ms / 1000)
        if call.late is not None and not attempt.ends_within(call.late_ms / 1000):
            await call.late()
        made, error = attempt.result()
        over.set()
        if isinstance(made, Outcome):
            return made
        if isinstance(error, NotLoadedError):
            return Outcome(failure=not_loaded(call.run, error.why), started_ms=started_ms, is_stuck=True)
        failure = _failed(error or BadOutputError("the step came to no end"), call)
        return Outcome(failure=failure, started_ms=started_ms)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._sessions_of(logbook).asked(at)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        return await self._sessions_of(logbook).answered(at, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Standing | None:
        return await self._sessions_of(logbook).updated(at, asked, write)

    def _sessions_of(self, logbook: Logbook) -> Sessions:
        if self._sessions is None:
            self._sessions = self._new_sessions(logbook)
        return self._sessions

    def _new_sessions(self, logbook: Logbook) -> Sessions:
        from stepwell.runtime.durable.sessions import Sessions  # noqa: PLC0415 - only where a folder has functions

        links = self._links
        url = None if links is None else lambda own, until_ms: links.callback_url(CallbackLink(own, until_ms))
        return Sessions(logbook, self._registry, url, self._sessions_kept)

    def close(self) -> None:
        """Lets the durable functions go that are kept. They come back from their logs when they are needed."""
        if self._sessions is not None:
            self._sessions.close()

    def reload(self) -> None:
        """The folder changed: the next attempt runs the new code."""
        self._registry.reload()
        self.close()
        binding_of.cache_clear()


class _Over:
    """Whether an attempt's time is up, told to a step that asks by its heartbeat."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def beat(self) -> None:
        if self._is_set:
            raise StepInterrupted


def _attempt(
    work: Callable[[_Over], object], call: StepCall, over: _Over, started_ms: int
) -> Outcome | Coroutine[object, object, Outcome]:
    """The whole of what is users' code, from the import of the module to the result as JSON: all under the limit."""
    made = work(over)
    return _awaited(made, call, started_ms) if isinstance(made, Coroutine) else _outcome(made, call, started_ms)


async def _awaited(made: Coroutine[object, object, object], call: StepCall, started_ms: int) -> Outcome:
    return _outcome(await made, call, started_ms)


def _call(
    find: Callable[[], Callable[..., object]], call: StepCall, over: _Over, url: Callable[[int], str] | None
) -> object:
    function = _found(find)
    binding = binding_of(function)
    context = StepContext(
        run_id=call.run_id,
        workflow=call.workflow,
        step=call.node,
        token=call.token,
        attempt=call.attempt,
        idempotency_key=call.key,
        timeout_seconds=call.timeout_ms / 1000,
        resumed=copy_of(call.resumed),
        _scope=call.state,
        _beat=over.beat,
        _url=url,
    )
    return function(**binding.bind(call.input, context, call.node))


def _found(find: Callable[[], Callable[..., object]]) -> Callable[..., object]:
    """Raises NotLoadedError for whatever the import of the user's module raises."""
    try:
        return find()
    except StepInterrupted:
        raise
    except BaseException as error:
        raise NotLoadedError(error) from error


def _outcome(made: object, call: StepCall, started_ms: int) -> Outcome:
    if not isinstance(made, Directive):
        return Outcome(value=to_json(made), started_ms=started_ms)
    if made.kind == "fail":
        failure = Failure(made.type or "failed", "step", made.reason or "", call.node, call.attempt, to_json(made.data))
        return Outcome(failure=failure, started_ms=started_ms)
    return Outcome(pause=_pause(made), started_ms=started_ms)


def _pause(made: Directive) -> Pause:
    data = to_json(made.data)
    if made.type:
        data = {**data, "type": made.type} if isinstance(data, dict) else {"type": made.type, "data": data}
    return Pause(made.kind, made.name or "", made.key or "", data, made.timeout_ms, to_json(made.result), made.then)


_TELLING = (StepError, UserError, CallError, AttemptTimeoutError)


def _failed(error: BaseException, call: StepCall) -> Failure:
    failure = failure_of(error, call.node, call.attempt, call.timeout_ms)
    if isinstance(error, BadOutputError):
        failure = Failure("bad_output", "step", str(error), call.node, call.attempt)
    ids = {"run_id": call.run_id, "step": call.node, "attempt": call.attempt}
    told = None if isinstance(error, _TELLING) else error  # what a step raises to say what happened needs no traceback
    _logger.warning("%s %s failed: %s: %s", call.run_id, call.node, failure.type, failure.message, extra=ids,
                    exc_info=told)  # fmt: skip
    return failure
