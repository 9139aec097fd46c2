"""The step executor: runs one attempt, from its input to an Outcome. Whatever a step does, this returns."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Awaitable, Callable, Sequence
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
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.binding import BadOutputError, binding_of, copy_of, to_json
from stepwell.runtime.steps.calls import Calls, is_call
from stepwell.runtime.steps.context import StepContext
from stepwell.runtime.steps.failures import (
    CallError,
    asked_to_wait,
    bases_of,
    failure_of,
    masked_failure,
    not_loaded,
    reading,
)
from stepwell.runtime.steps.output import emitting
from stepwell.runtime.steps.port import StepCall, Updated, WriteRecord
from stepwell.runtime.steps.raised import described
from stepwell.runtime.steps.registry import Function, Registry, UnknownStepError, defaults_of
from stepwell.runtime.steps.threads import AttemptTimeoutError, StepInterrupted, StepThreads

if TYPE_CHECKING:
    from stepwell.runtime.durable.sessions import Sessions

_logger = logging.getLogger("stepwell.worker")
STEP_FAILED = "%s %s failed: %s: %s"  # the log line of an attempt's failure: its run and step, and the error


class FunctionSteps:
    """Runs Python functions of a workflow folder, and calls of other systems, outside any transaction."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        calls: Calls | None = None,
        links: Links | None = None,
        sessions: int = SESSIONS_KEPT,
        paths: Sequence[Path] = (),
    ) -> None:
        """`links`: for the URLs of callbacks, if steps may have any.

        `sessions`: how many durable functions are kept. `paths`: the project's other folders that modules are imported
        from.
        """
        self._registry, self._clock, self._calls, self._links = Registry(folder, paths), clock, calls or Calls(), links
        self._threads = StepThreads()
        self._sessions: Sessions | None = None  # of durable functions
        self._sessions_kept = sessions

    def policy(self, step: Step) -> Policy:
        """Returns the step's options. For a function that cannot be found or imported, `stuck` says why."""
        if is_call(step.run):
            return resolve_policy(step, StepDefaults())
        function = self._loaded(step.run)
        if isinstance(function, Failure):
            return replace(resolve_policy(step, StepDefaults()), stuck=function)
        return resolve_policy(step, defaults_of(function))

    async def run(self, call: StepCall) -> Outcome:
        if is_call(call.run):
            return await self._attempted(call, lambda over: self._calls.run(call))
        function = self._loaded(call.run)
        if isinstance(function, Failure):
            return Outcome(failure=function, started_ms=self._clock.now_ms(), is_stuck=True)
        return await self.run_function(call, function)

    def _loaded(self, run: str) -> Function | Failure:
        """Returns the step's function, or why there is none. An import is users' code, with a limit of its own."""
        found, error = self._registry.known(run), None
        if found is None:
            made, error = self._threads.run(partial(self._registry.function, run), STEP_TIMEOUT_MS / 1000)
            found = made if callable(made) else None
        return found or not_loaded(run, error or UnknownStepError(f"{run} is no step"))

    def run_function(self, call: StepCall, function: Function) -> Awaitable[Outcome]:
        """Runs one attempt of the function."""
        callback = step_callback(call.run_id, call.token, call.key) if self._links else None
        url = partial(self._callback_url, self._links, callback) if self._links and callback else None
        return self._attempted(call, lambda over: _call(function, call, over, url))

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        return await self._sessions_of(logbook).ran(
            at, call.node, lambda function: self._attempted(call, lambda over: emitting(function(), _emit_of(call)))
        )

    def _callback_url(self, links: Links, callback: str, timeout_ms: int) -> str:
        try:
            return links.callback_url(CallbackLink(callback, self._clock.now_ms() + timeout_ms))
        except PortError as error:  # becomes the step's own error, which a retry may fix
            raise Transient(error.message) from error

    async def _attempted(self, call: StepCall, work: Callable[[_Over], object]) -> Outcome:
        """Runs the work within the step's time limit, from its input as arguments to its result as JSON."""
        started_ms = self._clock.now_ms()
        over = _Over()
        then = partial(_outcome, call=call, started_ms=started_ms)
        limit_seconds = call.timeout_ms / 1000
        look_seconds = limit_seconds if call.late is None else call.late_ms / 1000
        attempt = await self._threads.begun(partial(work, over), limit_seconds, then, look_seconds, call.run)
        wait_seconds = 0 if call.is_shared and attempt.is_expected_long else call.late_ms / 1000
        if call.late is not None and not attempt.ends_within(wait_seconds):
            await call.late()
        made, error = attempt.result()
        over.is_set = True
        if isinstance(made, Outcome):
            return made
        error = error or BadOutputError("the step came to no end")
        now_ms = self._clock.now_ms()
        failure = reading(error, lambda error: asked_to_wait(_failed(error, call), error, now_ms))
        return Outcome(failure=failure, bases=bases_of(error), started_ms=started_ms)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._sessions_of(logbook).asked(at)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        return await self._sessions_of(logbook).answered(at, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        return await self._sessions_of(logbook).updated(at, asked, write)

    def _sessions_of(self, logbook: Logbook) -> Sessions:
        if self._sessions is None:
            self._sessions = self._new_sessions(logbook)
        return self._sessions

    def _new_sessions(self, logbook: Logbook) -> Sessions:
        from stepwell.runtime.durable.sessions import Sessions  # noqa: PLC0415 - only where a folder has functions

        links = self._links
        url = None if links is None else lambda own, until_ms: links.callback_url(CallbackLink(own, until_ms))
        sessions = Sessions(logbook, self._registry, url, self._sessions_kept)
        # else Python would end each function at an `await` in its `finally`, and warn
        weakref.finalize(self, sessions.close).atexit = False
        return sessions

    def close(self) -> None:
        """Closes the durable functions that are kept. They are replayed from their logs when needed."""
        if self._sessions is not None:
            self._sessions.close()

    def reload(self) -> None:
        """Reloads the folder's code: the next attempt runs the new code."""
        self._registry.reload()
        self.close()
        binding_of.cache_clear()


class _Over:
    """Tells a step that asks by its heartbeat whether its attempt's time is up."""

    is_set = False

    def beat(self) -> None:
        if self.is_set:
            raise StepInterrupted


def _call(function: Function, call: StepCall, over: _Over, url: Callable[[int], str] | None) -> object:
    binding = binding_of(function)
    context = _context(call, over, url) if binding.takes_context else None
    return emitting(function(**binding.bind(call.input, context, call.node)), _emit_of(call))


def _context(call: StepCall, over: _Over, url: Callable[[int], str] | None) -> StepContext:
    return StepContext(
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
        _emit=_emit_of(call) or (lambda data: None),
    )


def _emit_of(call: StepCall) -> Callable[[object], None] | None:
    """Returns the step's `emit`, which raises BadOutputError for a value that is not JSON; None if it has none."""
    emit = call.emit
    return None if emit is None else lambda data: emit(to_json(data))


def _outcome(made: object, call: StepCall, started_ms: int) -> Outcome:
    if not isinstance(made, Directive):
        return Outcome(value=to_json(made), started_ms=started_ms)
    if made.kind == "fail":
        told = Failure(made.type or "failed", "step", made.reason or "", call.node, call.attempt, to_json(made.data))
        failure = masked_failure(told)
        return Outcome(failure=failure, started_ms=started_ms)
    return Outcome(pause=_pause(made), started_ms=started_ms)


def _pause(made: Directive) -> Pause:
    data = to_json(made.data)
    if made.type:
        data = {**data, "type": made.type} if isinstance(data, dict) else {"type": made.type, "data": data}
    return Pause(made.kind, made.name or "", made.key or "", data, made.timeout_ms, to_json(made.result), made.then)


_TELLING = (StepError, UserError, CallError, AttemptTimeoutError)


def _failed(error: BaseException, call: StepCall) -> Failure:
    failure = replace(failure_of(error, call.node, call.attempt, call.timeout_ms), raised=described(error))
    if isinstance(error, BadOutputError):
        failure = Failure("bad_output", "step", str(error), call.node, call.attempt)
    ids = {"run_id": call.run_id, "step": call.node, "attempt": call.attempt}
    logged = None if isinstance(error, _TELLING) else error  # an error that a step raises on purpose needs no traceback
    _logger.warning(STEP_FAILED, call.run_id, call.node, failure.type, failure.message, extra=ids,
                    exc_info=logged)  # fmt: skip
    return failure
