"""The operations of a durable function: `ctx` makes them, and the function awaits them."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from functools import lru_cache
from itertools import takewhile
from types import CoroutineType
from typing import Any, TypeVar

from pydantic import PydanticUserError, ValidationError

from stepwell.definition.context_options import meant
from stepwell.definition.graph import Json
from stepwell.engine.durable.session import CURRENT, Session
from stepwell.engine.durable.turns import Asked
from stepwell.engine.waits.kind import kind_named
from stepwell.errors import Cancelled, InvalidInput
from stepwell.runtime.durable.made import Made
from stepwell.runtime.durable.places import here, no_workflow
from stepwell.runtime.steps.binding import CONTEXT, converter_of, copy_of, json_of

T = TypeVar("T")
_YIELDING = (Iterator, AsyncIterator, AsyncGenerator, AsyncIterable)  # as a return type: of what a step only emits
# Patches, as records have them; no names that users can give.
_ONCE, _STORED = "stepwell:once", "stepwell:stored"
_HOLDING, _DEEPEST = frozenset({dict, list, tuple, set}), 20
_ANEW: Any = object()  # what those get who await a wait that was cancelled
_PLAIN = 2**31  # a smaller number can be stored without a check
Reader = Callable[[Json], Any]  # from stored JSON to the function's value


class Operation(Coroutine[Any, Any, T]):
    """An operation to await, or to give to `ctx.all`, `ctx.first` or a task. Awaited twice, it still runs once."""

    has_begun = False  # somebody awaits it
    parts: Sequence[Operation[Any]] = ()  # operations whose results come with its own
    _is_part = False  # one that somebody awaits will bring, or would have brought, its result
    _is_cut = False  # it was a part, and brought none
    _made: tuple[Any, BaseException | None] | None = None
    _steps: Generator[Any, Any, T] | None = None  # if its caller drives it as a coroutine
    _others: Sequence[asyncio.Future[T]] = ()  # of those who also await it

    def __init__(self, asked: Asked, read: Reader) -> None:
        self.asked, self.read = asked, read
        made = getattr(CURRENT.get(None), "made", None)
        self._by: Made | None = made
        self._number = 0 if made is None else made.add(asked)

    def __await__(self) -> Generator[Any, Any, T]:
        if self.has_begun or (self._is_part and is_once()):
            return (yield from self._again())
        if self._by is None:
            yield  # so that what finalizes a coroutine that catches all, and asks again, gives it up
            raise no_workflow()
        self.has_begun = True
        self.taken()
        try:
            made = yield from self._come()
        except BaseException as error:
            self._end(None, error)
            raise
        self._made = made, None
        if self._others:
            self._end(made, None)
        return made

    def _come(self) -> Generator[Any, Any, T]:
        made: T = self.read((yield from self.raw()))
        return made

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def taken(self) -> Operation[T]:
        """Marks the operation as awaited, or as part of another one that will be. Returns it."""
        if self._by is not None:
            self._by.is_awaited(self._number)
        return self

    def came(self, value: Json) -> T:
        """Reads the result that came with those of other operations. Whoever awaits the operation later gets it too."""
        made: T = self.read(value)
        self.has_come(made, None)
        return made

    def has_come(self, made: Any, error: BaseException | None) -> None:
        """Keeps the result, or the error, that came with those of other operations."""
        self.has_begun = True
        self._end(made, error)

    def is_shared(self) -> bool:
        """Tells whether it, or a part of it, is awaited already, or came with others."""
        return self.has_begun or self._is_part or any(one.is_shared() for one in self.parts)

    def begins_with(self) -> None:
        """Notes that an operation which somebody awaits now brings its result."""
        self._is_part = True
        for one in self.parts:
            one.begins_with()

    def ended_with(self) -> None:
        """Notes that this operation has ended. A wait of which nothing came may be awaited anew."""
        for one in self.parts:
            one.ended_with()
        if self.has_begun:
            return
        if self._is_wait:
            self._tell(*self._anew())
        else:
            self._is_cut = True
            self._tell(None, cut_off(self.asked))

    def _end(self, made: Any, error: BaseException | None) -> None:
        self._made = (made, error)
        if not self._others or isinstance(error, GeneratorExit):
            return
        if _is_cancel(error) and is_once():
            made, error = (None, cut_off(self.asked)) if not self._is_wait else self._anew()
        self._tell(made, error)

    def _anew(self) -> tuple[Any, None]:
        """Has a wait begin anew for whoever awaits it next. Returns what those get who await it now."""
        self.has_begun, self._made, self._is_part = False, None, False
        return _ANEW, None

    def _tell(self, made: Any, error: BaseException | None) -> None:
        others, self._others = self._others, ()
        for future in others:
            if future.done():
                continue
            if error is None:
                future.set_result(made)
            else:
                future.set_exception(error)

    def _again(self) -> Generator[Any, Any, T]:
        if self._made is None and self._is_cut:
            raise cut_off(self.asked)
        if self._made is None:
            future = asyncio.get_running_loop().create_future()
            self._others = [*self._others, future]
            made: T = yield from future
            return (yield from self.__await__()) if made is _ANEW else made
        result: T
        result, error = self._made
        if _is_cancel(error) and is_once():
            if not self._is_wait:
                raise cut_off(self.asked)
            self._anew()
            return (yield from self.__await__())
        if error is not None:
            raise error
        return result

    def send(self, value: Any) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()

    def raw(self) -> Generator[Asked, Json, Json]:
        """Asks for the operation and returns its stored result: a branch leaves reading it to its parent.

        While its session is closed it raises instead: Python would tell of a coroutine that still awaits something.
        """
        if self._by is not None and getattr(CURRENT.get(None), "is_closed", False) and self._by.leaves():
            raise GeneratorExit
        return (yield self.asked)

    @property
    def _is_wait(self) -> bool:
        """Tells whether it only waits: then nothing is done twice where it is awaited anew."""
        return self.asked.wait is not None

    @property
    def is_child(self) -> bool:
        return self.asked.call is not None and len(self.asked.call.children) == 1

    @property
    def is_timer(self) -> bool:
        return self.asked.wait is not None and kind_named(self.asked.wait.kind).is_timed


def is_once() -> bool:
    """Tells whether an operation that is a part of another one is done once. Logs of earlier releases have it twice."""
    return in_force(_ONCE)


def in_force(patch: str) -> bool:
    """Tells whether a rule of a later release applies: to what the log does not hold yet, or holds with this patch."""
    session = CURRENT.get(None)
    return isinstance(session, Session) and session.in_force(patch)


def _is_strict() -> bool:
    """Tells whether values are stored by this release's rules: all but those of operations that the log has."""
    return not isinstance(CURRENT.get(None), Session) or in_force(_STORED)


def cut_off(asked: Asked) -> InvalidInput:
    """Returns the error of who awaits an operation that was cancelled."""
    return InvalidInput(f"{asked} was cancelled before it had a result{here()}", code="operation_cancelled",
                        hint="make it anew with ctx, or let it go on with asyncio.shield")  # fmt: skip


def _is_cancel(error: BaseException | None) -> bool:
    """Tells whether the function itself cancelled it; a cancel of the run is met again."""
    return isinstance(error, asyncio.CancelledError) and not isinstance(error, Cancelled)


# -- types


def input_of(
    function: Callable[..., object], args: tuple[object, ...], named: dict[str, object], options: Sequence[str] = ()
) -> dict[str, Json]:
    """Returns a call's arguments by name, as JSON. Raises InvalidInput if they do not fit; `options`: its others."""
    signature, plain = _signature(function)
    if not named and len(args) <= len(plain):
        arguments: dict[str, Any] = dict(zip(plain, args, strict=False))
    else:
        try:
            arguments = dict(signature.bind_partial(*args, **named).arguments)
        except TypeError as error:
            raise InvalidInput(f"the arguments do not fit {_name_of(function)}: {error}", code="step_input",
                               hint=misnamed(function, named, options) or None) from error  # fmt: skip
        for one in signature.parameters.values():
            if one.kind is one.VAR_KEYWORD:
                arguments |= arguments.pop(one.name, {})
    for key, value in arguments.items():
        if not _is_plain(value):
            arguments[key] = stored(value, f"{_name_of(function)}: {key}")
    return arguments


def misnamed(function: Callable[..., object], named: Iterable[str], options: Collection[str]) -> str:
    """Returns the option that is meant by a name which the function does not take, as a hint; "" if there is none."""
    try:
        own = inspect.signature(function).parameters
    except (TypeError, ValueError):  # nothing tells what it takes
        return ""
    if any(one.kind is one.VAR_KEYWORD for one in own.values()):
        return ""
    return meant([name for name in named if name not in own], options)


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _is_plain(value: object) -> bool:
    """Tells whether the value can be stored without a check."""
    kind = type(value)
    if kind is int:
        return -_PLAIN < value < _PLAIN  # type: ignore[operator]  # an int
    return value is None or kind is bool or (kind is str and value.isascii())  # type: ignore[attr-defined]  # a str


@lru_cache(maxsize=1_024)
def _signature(function: Callable[..., object]) -> tuple[inspect.Signature, tuple[str, ...]]:
    """Returns the signature without `ctx`, and the names of its positional parameters in order.

    With those names most calls need no binding, which is most of what a replayed step costs.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.name != CONTEXT]
    plain = takewhile(lambda one: one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD), own)
    return signature.replace(parameters=own), tuple(one.name for one in plain)


def stored(value: Any, what: str) -> Json:
    """Returns the value as JSON. Raises InvalidInput, naming `what`, for one that cannot be stored."""
    if _is_plain(value):
        return value
    try:
        return json_of(value, "value", _is_strict)
    except Exception as error:  # pydantic's and ours, and whatever users' objects raise
        if made := unawaited_in(value):
            raise InvalidInput(f"{what}: {made} is not awaited, and has no result", code="never_awaited",
                               hint=f"await {made}") from error  # fmt: skip
        raise InvalidInput(f"{what} cannot be stored: {error}", code="not_storable",
                           hint="use JSON, a pydantic model, a dataclass or a plain type") from error  # fmt: skip


def unawaited_in(value: Any, depth: int = 0) -> str:
    """Returns the first operation or coroutine in a value that nobody has awaited; "" if there is none."""
    kind = type(value)  # not `isinstance`, which reads an attribute of users' objects
    if issubclass(kind, Operation) and not value.has_begun:
        return f"the operation {value.asked}"
    if kind is CoroutineType:
        return f"{closed(value)}(…)"
    if kind not in _HOLDING or depth > _DEEPEST:
        return ""
    parts = value.values() if kind is dict else value
    return next((found for one in parts if (found := unawaited_in(one, depth + 1))), "")


def returned(value: object) -> tuple[int, bool]:
    """Returns the number of an operation that the value is, or that a collection holds, and whether it is one; or 0."""
    if issubclass(type(value), Operation):
        return hash(value), False
    parts: Any = (value.values() if type(value) is dict else value) if type(value) in _HOLDING else ()
    return next((hash(one) for one in parts if issubclass(type(one), Operation)), 0), True


def closed(given: object) -> str:
    """Closes a coroutine that nobody awaits, of which Python would warn. Returns its name; "" for anything else."""
    if not inspect.iscoroutine(given):
        return ""
    if inspect.getcoroutinestate(given) == inspect.CORO_CREATED:
        given.close()
    return given.__name__


@lru_cache(maxsize=1_024)
def reader_of(hint: Any) -> Reader:
    """Returns a function that converts JSON to this type; without a type it copies the JSON. Raises InvalidInput."""
    if hint is None or hint is Any:
        return copy_of
    try:
        convert = converter_of(hint)
    except PydanticUserError as error:
        why = str(error).partition("\n")[0]
        raise InvalidInput(f"{hint!r} is a type that no value can be converted to: {why}",
                           code="step_signature") from error  # fmt: skip

    def read(value: Json) -> Any:
        try:
            return convert(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"what came is no {_shown(hint)}: {place + ': ' if place else ''}{first['msg']}",
                               code="wrong_type") from error  # fmt: skip

    return read


@lru_cache(maxsize=1_024)
def result_reader(function: Callable[..., object]) -> Reader:
    """Returns the reader for the function's return type; JSON is copied if it has none or an unresolved one.

    The result of a generator is what it returns, which `Generator` names and `Iterator` does not.
    """
    inner = inspect.unwrap(function)
    try:
        hint = typing.get_type_hints(inner).get("return")
    except (NameError, TypeError):
        return copy_of
    if typing.get_origin(hint) is Generator:
        hint = next(iter(typing.get_args(hint)[2:]), None)
    elif inspect.isgeneratorfunction(inner) or typing.get_origin(hint) in _YIELDING or hint in _YIELDING:
        return copy_of
    return copy_of if hint is type(None) else reader_of(hint)


def _shown(hint: object) -> str:
    return getattr(hint, "__name__", str(hint))
