"""The API of step code: `@step`, `@workflow`, and the directives that a step may return. No dependencies."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Unpack, overload

from stepwell.definition import graph
from stepwell.definition.child_names import child_names
from stepwell.definition.durations import long_step, parse_duration, show_duration
from stepwell.definition.graph import Json
from stepwell.definition.options import WorkflowOptions
from stepwell.definition.text import NAME, NAME_HINT, closest
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.errors import DefinitionError, UserError
from stepwell.limits import CHILDREN, KEY_CHARACTERS, NAME_CHARACTERS, YEAR_MS

Duration = str | int | float
Function = TypeVar("Function", bound=Callable[..., Any])
AsyncFunction = TypeVar("AsyncFunction", bound=Callable[..., Coroutine[Any, Any, Any]])

BACKOFFS = ("constant", "linear", "exponential")
JITTERS = ("none", "full")
WORKFLOW_MARK = "__stepwell_workflow__"  # the attribute of a durable function with its workflow's name
WORKFLOW_WRONG = "__stepwell_wrong__"  # the attribute of a marked function that is none, with the error
_MAX_DELAY = "60s"  # of retries, if none is given
_CHILD_KEYS = ("workflow", "name", "input")
_SPELLINGS = {"maxRetries": "max_retries", "initialDelay": "initial_delay", "maxDelay": "max_delay"}


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy; `on` has the categories and the classes of errors, as names or classes, that are retried."""

    max_retries: int = 3
    backoff: str = "exponential"
    initial_delay: Duration = "1s"
    max_delay: Duration = _MAX_DELAY
    jitter: str = "none"
    on: tuple[str | type[BaseException], ...] = ("transient",)

    def __post_init__(self) -> None:
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise _bad(f"`max_retries` must be a whole number of 0 or more, not {self.max_retries!r}")
        _one_of("backoff", self.backoff, BACKOFFS)
        _one_of("jitter", self.jitter, JITTERS)
        if isinstance(self.on, str | type) or not isinstance(self.on, Iterable) or not all(map(_is_of_errors, self.on)):
            raise _bad(f"`on` must be a list of names and of classes, not {self.on!r}", 'on=("timeout", OSError)')
        self.policy()

    def policy(self) -> graph.Retry:
        """Converts the policy to the engine's type. The default maximum does not shorten a delay that is written."""
        first_ms, most_ms = parse_duration(self.initial_delay), parse_duration(self.max_delay)
        return graph.Retry(
            max_retries=self.max_retries,
            backoff=self.backoff,
            initial_delay_ms=first_ms,
            max_delay_ms=max(first_ms, most_ms) if self.max_delay == _MAX_DELAY else most_ms,
            jitter=self.jitter,
            on=frozenset(one if isinstance(one, str) else one.__name__ for one in self.on),
        )


def _is_of_errors(one: object) -> bool:
    return isinstance(one, str) or (isinstance(one, type) and issubclass(one, BaseException))


@dataclass(frozen=True, slots=True)
class StepDefaults:
    """The defaults of `@step`, stored on the function as `__stepwell__`. None: not given. Definitions override them."""

    name: str | None = None
    retry: graph.Retry | None = None
    timeout_ms: int | None = None
    at_most_once: bool | None = None
    pool: str | None = None


STEP_DEFAULTS = ("name", "retry", "timeout", "at_most_once", "pool")


@overload
def step(function: Function, /) -> Function: ...


@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    at_most_once: bool | None = None,
    pool: str | None = None,
) -> Callable[[Function], Function]: ...


def step(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    at_most_once: bool | None = None,
    pool: str | None = None,
    **others: object,
) -> Function | Callable[[Function], Function]:
    """Marks a function as a step and sets its defaults, without changing the function. Also usable as `@step`."""
    try:
        if function is not None and not callable(function):
            raise _bad(f"@step takes a function, not {function!r}", "name it by keyword: @step(name=…)")
        if unknown := next(iter(others), None):
            raise _bad(f"@step has no option {unknown!r}", closest(unknown, STEP_DEFAULTS))
        defaults = defaults_of(name=name, retry=retry, timeout=timeout, at_most_once=at_most_once, pool=pool)
    except UserError as error:
        caller = sys._getframe(1)
        place = f"@step at {PurePath(caller.f_code.co_filename).name}:{caller.f_lineno}"
        raise _bad(f"{place}: {error.message}", error.hint or "", error.code) from error

    def attach(target: Function) -> Function:
        target.__stepwell__ = defaults  # type: ignore[attr-defined]  # functions take any attribute
        return target

    return attach if function is None else attach(function)


def defaults_of(
    *,
    name: str | None = None,
    retry: Retry | Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    at_most_once: bool | None = None,
    pool: str | None = None,
) -> StepDefaults:
    """Returns the defaults that `@step` gives a function. Raises UserError for values that it cannot take."""
    if at_most_once is not None and not isinstance(at_most_once, bool):
        raise _bad(f"`at_most_once` must be True or False, not {at_most_once!r}")
    return StepDefaults(
        name=None if name is None else _name("name", name),
        retry=None if retry is None else retry_of(retry).policy(),
        timeout_ms=None if timeout is None else _step_timeout(timeout),
        at_most_once=at_most_once,
        pool=None if pool is None else _name("pool", pool),
    )


@overload
def workflow(function: AsyncFunction, /) -> AsyncFunction: ...


@overload
def workflow(
    *, name: str | None = None, version: int = 1, **options: Unpack[WorkflowOptions]
) -> Callable[[AsyncFunction], AsyncFunction]: ...


def workflow(
    function: Function | None = None, /, *, name: str | None = None, version: int = 1, **options: Json
) -> Function | Callable[[Function], Function]:
    """Marks an `async def` whose first parameter is `ctx` as a durable function. Also usable as `@workflow`.

    `name` is the workflow's name, by default the function's. `version`: new runs take the highest version of a name;
    runs in progress keep theirs. `options` are keys of a definition, such as timeout="2h". Write them as literals,
    because the module is scanned without being imported.
    """

    given = None if function is None or inspect.isfunction(function) else function

    def mark(target: Function) -> Function:
        setattr(target, WORKFLOW_MARK, name or target.__name__)
        wrong = _wrong_workflow(target, given)
        if wrong is not None:
            setattr(target, WORKFLOW_WRONG, wrong)
        return target

    return mark if function is None or given is not None else mark(function)


def _wrong_workflow(target: Callable[..., Any], given: object) -> DefinitionError | None:
    """What is wrong with a durable function. It is kept for its own runs: others of the module go on."""
    if given is not None:
        return _bad(f"@workflow takes options by name, not {given!r}", code="bad_workflow")
    if not inspect.iscoroutinefunction(target):
        return _bad(f"@workflow takes an `async def`, not {target!r}", code="bad_workflow")
    if next(iter(inspect.signature(target).parameters), None) != "ctx":
        message = f"the first parameter of {target.__qualname__} is not `ctx`"
        return _bad(message, f"async def {target.__name__}(ctx, …)", "bad_workflow")
    return None


@dataclass(frozen=True, slots=True)
class Directive:
    """A result of a step other than an output: wait, then continue (`next`) or run again (`again`); or fail."""

    kind: Literal["sleep", "approval", "event", "callback", "children", "fail"]
    name: str | None = None  # the event's
    key: str | None = None
    data: Json = None  # of children: a list of {workflow, name, input}
    timeout_ms: int | None = None
    result: Json = None
    then: str = "next"  # next | again
    reason: str | None = None
    type: str | None = None  # of the approval, or of the error


def sleep(seconds: Duration, result: Json = None, then: str = "next") -> Directive:
    """Pauses the run for a duration: a number of seconds, or text such as `2h`."""
    return Directive("sleep", timeout_ms=_timeout("sleep", seconds), result=result, then=_then(then))


def wait_for_approval(
    type: str | None = None,  # noqa: A002 - the word the definitions use
    data: Json = None,
    timeout: Duration | None = None,
    result: Json = None,
    then: str = "next",
) -> Directive:
    """Pauses until a person approves or rejects."""
    kind = None if type is None else _name("type", type)
    return Directive(
        "approval", type=kind, data=data, timeout_ms=_timeout("approval", timeout), result=result, then=_then(then)
    )


def wait_for_event(
    name: str, key: str | None = None, timeout: Duration | None = None, result: Json = None, then: str = "next"
) -> Directive:
    """Pauses until an event with this name and key arrives."""
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= KEY_CHARACTERS):
        raise _bad(f"`key` must be text of 1 to {KEY_CHARACTERS} characters", code="bad_key")
    event = _name("name", name)
    return Directive(
        "event", name=event, key=key, timeout_ms=_timeout("event", timeout), result=result, then=_then(then)
    )


def wait_for_callback(
    timeout: Duration | None = None, data: Json = None, result: Json = None, then: str = "next"
) -> Directive:
    """Pauses until a request to the wait's own URL, which works once. Default timeout: 24 hours."""
    return Directive("callback", data=data, timeout_ms=_timeout("callback", timeout), result=result, then=_then(then))


def children(
    children: Sequence[str | Mapping[str, Json]],
    timeout: Duration | None = None,
    result: Json = None,
    then: str = "next",
) -> Directive:
    """Starts child runs together and pauses until they have ended.

    A child is a workflow's name, or `{"workflow": …, "name": …, "input": …}`. `name` names its result. `input`, if
    missing or None, is the run's input overlaid with its state. Default timeout: 5 minutes.
    """
    if isinstance(children, (str, Mapping)) or not isinstance(children, Sequence) or not children:
        raise _bad(f"`children` must be a list of workflows, not {children!r}", 'children(["fraud", "stock"])')
    if len(children) > CHILDREN:
        raise _bad(f"{len(children)} child runs", f"at most {CHILDREN}", code="too_many_children")
    listed = [_child(one) for one in children]
    names = child_names([(one["workflow"], one.get("name")) for one in listed])
    for at, name in enumerate(names):
        if name in names[:at]:
            raise _bad(f"two children are named {name!r}", "give them different names", code="duplicate_name")
    data = [
        {"workflow": one["workflow"], "name": _name("name", name), "input": one.get("input")}
        for one, name in zip(listed, names, strict=True)
    ]
    return Directive("children", data=data, timeout_ms=_timeout("children", timeout), result=result, then=_then(then))


def _child(given: str | Mapping[str, Json]) -> Mapping[str, Json]:
    """Checks a child's keys, workflow and name."""
    child: Mapping[str, Json] = {"workflow": given} if isinstance(given, str) else given
    if not isinstance(child, Mapping) or "workflow" not in child:
        raise _bad(f"a child run needs a workflow, not {given!r}", 'write "fraud", or {"workflow": "fraud"}')
    for key in child:
        if key not in _CHILD_KEYS:
            raise _bad(f"a child run has no {key!r}", closest(str(key), _CHILD_KEYS))
    _name("workflow", child["workflow"])
    if child.get("name") is not None:
        _name("name", child["name"])
    return child


def fail(reason: str, type: str = "failed", data: Json = None) -> Directive:  # noqa: A002 - as in error.type
    """Fails the step with an error of this type, which rules can match, without a traceback."""
    if not isinstance(reason, str):
        raise _bad(f"`reason` must be text, not {reason!r}")
    return Directive("fail", reason=reason, type=_name("type", type), data=data)


def _timeout(kind: str, value: Duration | None) -> int | None:
    schema = SCHEMAS[kind]
    if value is None and schema.timeout_ms is not None:
        return schema.timeout_ms
    timeout_ms = parse_duration(value)
    if timeout_ms > schema.longest_ms:
        message = f"{show_duration(timeout_ms)} exceeds the maximum of a wait for `{kind}`"
        raise _bad(message, f"at most {show_duration(schema.longest_ms)}", code="timeout_too_long")
    return timeout_ms


def _step_timeout(value: Duration) -> int:
    timeout_ms = parse_duration(value)
    if timeout_ms == 0:
        raise _bad("`timeout` must be longer than 0", 'for example timeout="5m"')
    if timeout_ms > YEAR_MS:
        message, hint = long_step(timeout_ms)
        raise _bad(message, hint, code="timeout_too_long")
    return timeout_ms


def _then(then: str) -> str:
    return _one_of("then", then, ("next", "again"))


def retry_of(retry: Retry | Mapping[str, Any]) -> Retry:
    """Returns the policy, which may be given as a dict. Raises DefinitionError."""
    if isinstance(retry, Retry):
        return retry
    if not isinstance(retry, Mapping):
        raise _bad(f"`retry` must be a Retry or a dict, not {retry!r}", "retry=Retry(3)")
    given = {_SPELLINGS.get(key, key): value for key, value in retry.items()}
    known = Retry.__dataclass_fields__
    for key in given:
        if key not in known:
            raise _bad(f"a retry policy has no {key!r}", closest(str(key), known))
    if isinstance(given.get("on"), (list, set, frozenset)):
        given["on"] = tuple(given["on"])
    return Retry(**given)


def _one_of(key: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise _bad(f"`{key}` must be {' or '.join(known)}, not {value!r}", closest(str(value), known))
    return value


def _name(key: str, value: str) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value) or len(value) > NAME_CHARACTERS:
        raise _bad(f"`{key}` cannot be {value!r}", NAME_HINT, code="bad_name")
    return value


def _bad(message: str, hint: str = "", code: str = "bad_step") -> DefinitionError:
    return DefinitionError(message, code=code, hint=hint or None)
