"""`ctx.run`: runs any callable as a step, in the durable function's own process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stepwell.definition.authoring import WORKFLOW_MARK, Duration
from stepwell.definition.context_options import OPTIONS
from stepwell.definition.graph import Retry, Step
from stepwell.engine.durable.journal import RUN
from stepwell.engine.durable.turns import IN_SESSION, Asked
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.arguments import check_step, checked_name, given_name, limit_ms_of
from stepwell.runtime.durable.held import limited_by
from stepwell.runtime.durable.kept import check_rebinding
from stepwell.runtime.durable.operations import Operation, Reader, misnamed, result_reader
from stepwell.runtime.durable.variables import within
from stepwell.runtime.steps.binding import copy_of
from stepwell.runtime.steps.registry import defaults_of
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The attempt options of `ctx.run`; None leaves an option to the function's own `@step`."""

    retry: Retry | None
    timeout: Duration | None
    at_most_once: bool | None


def called_here(
    function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], name: str | None, options: RunOptions
) -> Operation[Any]:
    """Returns the operation of `ctx.run`. Raises InvalidInput for what it cannot call."""
    if not callable(function) or hasattr(function, WORKFLOW_MARK):
        raise InvalidInput(f"{function!r:.80} cannot be run as a step", code="bad_step",
                           hint="give a function, a method or a lambda; run a workflow with ctx.child")  # fmt: skip
    if named and (hint := misnamed(function, named, OPTIONS[RUN])):
        raise InvalidInput(f"{function!r:.80} does not take {', '.join(named)}", code="step_input", hint=hint)
    given = partial(function, *args, **named)
    check_rebinding(given, "lost_in_branch")
    own = defaults_of(function)
    shown = checked_name(given_name(name) or own.name or _name_of(function))
    limit_ms = own.timeout_ms if options.timeout is None else limit_ms_of("a step", options.timeout)
    check_step(options.at_most_once, None, limit_ms)
    once = own.at_most_once if options.at_most_once is None else options.at_most_once
    step = Step(f"{IN_SESSION}{shown}", timeout_ms=limit_ms, retry=options.retry or own.retry, at_most_once=once,
                throttle=limited_by(None))  # fmt: skip
    asked = Asked(RUN, shown, step=step, function=within(given))
    return Operation(asked, _reader_of(function))


def _reader_of(function: Callable[..., Any]) -> Reader:
    """Returns the reader for the callable's return type. Not cached: that would keep the closure's session alive."""
    while isinstance(function, partial):
        function = function.func
    hinted: Reader = result_reader.__wrapped__(function) if getattr(function, "__annotations__", None) else copy_of
    return hinted


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, partial):
        return _name_of(function.func)
    name: str = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name
