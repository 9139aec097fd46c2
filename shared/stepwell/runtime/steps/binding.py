"""Converts input to arguments and results to JSON by type hints: pydantic models, dataclasses, datetime, enums."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from io import IOBase
from types import CoroutineType, SimpleNamespace
from typing import Any

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from pydantic_core import to_json as json_text

from stepwell.definition.graph import Json
from stepwell.definition.text import STEP_OPTIONS, did_you_mean, option_hint
from stepwell.errors import InvalidInput
from stepwell.runtime.starts.admission import check_json
from stepwell.values import dataclass

CONTEXT = "ctx"  # the parameter that gets the step's context
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NAMES = frozenset({str, int})  # keys that JSON has, or that are stored as their text
_CONTAINERS = (dict, list, tuple, set, frozenset)


class BadOutputError(Exception):
    """A step returned a value that cannot be stored."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    required: bool
    convert: Callable[[Json], Any] | None  # None: not annotated, taken as it is
    whole: bool  # annotated as a model or dict: may take the whole input


@dataclass(frozen=True, slots=True)
class Binding:
    """How one function gets its input."""

    parameters: tuple[_Parameter, ...]
    takes_context: bool
    takes_rest: bool

    def bind(self, given: Json, context: object, name: str) -> dict[str, object]:
        """Returns the keyword arguments. Raises InvalidInput, naming each missing or mistyped parameter."""
        values = self._values(given, name)
        arguments: dict[str, object] = {}
        wrong: list[str] = []
        for parameter in self.parameters:
            if parameter.name in values:
                _convert(parameter, copy_of(values[parameter.name]), arguments, wrong)
            elif parameter.required:
                wrong.append(f"{parameter.name} is missing")
        if wrong:
            hint = f"it has {', '.join(sorted(values)) or 'nothing'}"
            hint += self._as_misspelt(values) + self._as_handler() + self._as_option(values)
            raise InvalidInput(f"the input does not fit {name}: {'; '.join(wrong)}", code="step_input", hint=hint)
        if self.takes_rest:
            named = {parameter.name for parameter in self.parameters}
            arguments.update({key: copy_of(value) for key, value in values.items() if key not in named})
        if self.takes_context:
            arguments[CONTEXT] = context
        return arguments

    def _as_misspelt(self, values: Mapping[str, Json]) -> str:
        """What a name that no parameter has may mean."""
        missing = [one.name for one in self.parameters if one.name not in values]
        others = sorted(values.keys() - {one.name for one in self.parameters})
        return "".join(f"; {name}: {near}" for name in others if (near := did_you_mean(name, missing)))

    def _as_handler(self) -> str:
        """What to do about a handler of Lambda, which takes its input as one event."""
        if not self.parameters or self.parameters[0].name != "event":
            return ""
        return "; a handler of Lambda is to be (event: dict, ctx), which takes all of it"

    def _as_option(self, values: Mapping[str, Json]) -> str:
        """What to do about a parameter that is called like an option of `ctx.step`, which takes it for that."""
        names = (one.name for one in self.parameters if one.required and one.name not in values)
        taken = next((name for name in names if name in STEP_OPTIONS), "")
        return taken and f"; {option_hint(taken)}"

    def _values(self, given: Json, name: str) -> Mapping[str, Json]:
        sole = self.parameters[0] if len(self.parameters) == 1 and not self.takes_rest else None
        if isinstance(given, dict):
            return {sole.name: given} if sole and sole.whole and sole.name not in given else given
        if given is None:
            return {}
        if sole is None:
            what = {list: "a list", str: "a text", bool: "true or false"}.get(type(given), "a number")
            raise InvalidInput(f"{name} takes named values, and its input is {what}", code="step_input",
                               hint="give `input:` as an object of names and values")  # fmt: skip
        return {sole.name: given}


@lru_cache(maxsize=4_096)
def binding_of(function: Callable[..., object]) -> Binding:
    """Returns the function's binding, cached. Raises InvalidInput if it cannot be called by name."""
    hints = _hints(function)
    parameters: list[_Parameter] = []
    takes_context = takes_rest = False
    for name, parameter in inspect.signature(function).parameters.items():
        if name == CONTEXT:
            takes_context = True
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise InvalidInput(f"{_name(function)} has a parameter {name} that cannot be given by name",
                               code="step_signature", hint="steps get their input by name")  # fmt: skip
        else:
            hint = hints.get(name)
            required = parameter.default is inspect.Parameter.empty
            convert = None if hint is None else _converter(hint, f"{_name(function)}: {name}")
            parameters.append(_Parameter(name, required, convert, _takes_whole(hint)))
    return Binding(tuple(parameters), takes_context, takes_rest)


def copy_of(value: Json) -> Json:
    """Returns a copy that the step may change: the original is the token's scope, or part of the definition."""
    return to_jsonable_python(value)


def converter_of(hint: Any) -> Callable[[Json], Any]:
    """Returns what converts JSON to the type, or raises ValidationError. Raises PydanticUserError for no type.

    A strict model takes a date or a set from JSON text alone, and a field with a `validation_alias` is stored by name.
    """
    from stepwell.runtime.steps.stored_forms import changes_stored, restored  # noqa: PLC0415 - pydantic's fields, slow

    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    is_changed = changes_stored(hint)

    def convert(value: Json) -> Any:
        if is_changed:
            value = restored(hint, value)
        try:
            return adapter.validate_python(value, by_name=is_changed or None)
        except ValidationError as error:
            first = error
        try:
            return adapter.validate_json(json_text(value), by_alias=True, by_name=True)
        except ValidationError as second:
            raise min(first, second, key=ValidationError.error_count) from None

    return convert


def to_json(value: object) -> Json:
    """Returns a step's result as plain JSON. Raises BadOutputError if it cannot be stored."""
    if isinstance(value, CoroutineType):
        value.close()
        raise BadOutputError(f"the step returned {value.__qualname__}(…), which it did not await: return await …")
    try:
        return json_of(value, "result")
    except (PydanticSerializationError, InvalidInput, ValueError, RecursionError) as error:
        raise BadOutputError(f"the step returned what cannot be stored: {error}") from error


def json_of(value: object, what: str, refuses: Callable[[], bool] = lambda: True) -> Json:
    """Returns the value as plain JSON. Raises pydantic's errors and InvalidInput, naming `what`, if it is none.

    `refuses`: tells whether to refuse what releases before this one stored otherwise than it was.
    """
    if type(value) not in _SCALARS:
        _refuse_lossy(value, what, refuses)
    made = to_jsonable_python(value)
    check_json(made, what)
    return made


def _refuse_lossy(value: object, what: str, refuses: Callable[[], bool]) -> None:
    """Raises InvalidInput for what pydantic would change without a word: files, iterators, keys that are no names.

    It looks into containers only: what a model or a dataclass holds is of the types that it says. An iterator that is
    the whole value is its values, as those of a generator are.
    """
    left, seen = [value], set[int]()
    while left:
        one = left.pop()
        if isinstance(one, IOBase):
            raise InvalidInput(f"the {what} has an open file, which is not JSON", code="not_json", hint="read it first")
        if not isinstance(one, _CONTAINERS):
            if one is not value and isinstance(one, Iterator) and refuses():
                raise InvalidInput(f"the {what} has a {type(one).__name__}, which is not JSON", code="not_json",
                                   hint="make a list of it, since it can be read only once")  # fmt: skip
            continue
        if id(one) in seen:  # else one that contains itself has no end
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            if any(type(key) is not str for key in one):
                _check_keys(one, what, refuses)
            one = one.values()
        left += [part for part in one if type(part) not in _SCALARS]


def _check_keys(keys: Collection[object], what: str, refuses: Callable[[], bool]) -> None:
    if None in keys and refuses():
        raise InvalidInput(f"the {what} has None as a key, which is not JSON", code="not_json",
                           hint="use text as the key")  # fmt: skip
    names = [str(key) for key in keys if type(key) in _NAMES]
    if any(isinstance(key, tuple | frozenset) for key in keys):
        raise InvalidInput(f"the {what} has a tuple or a set as a key, which is not JSON", code="not_json",
                           hint="use text as the key, or a list of objects")  # fmt: skip
    if len(set(names)) < len(names):
        raise InvalidInput(f"the {what} has two keys that are one in JSON: numbers are stored as text",
                           code="not_json", hint="use text as the key")  # fmt: skip


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """Returns the type hints of parameters that take input; others may be known to the type checker alone."""
    called = function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__
    written = getattr(called, "__annotations__", {})
    wanted = SimpleNamespace(
        __annotations__={name: hint for name, hint in written.items() if name not in {"return", CONTEXT}},
        __type_params__=getattr(called, "__type_params__", ()),
    )
    known = getattr(inspect.unwrap(called), "__globals__", {})
    try:
        return typing.get_type_hints(wanted, known, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise InvalidInput(f"the type hints of {_name(function)} cannot be read: {error}",
                           code="step_signature") from error  # fmt: skip


def _converter(hint: Any, place: str) -> Callable[[Json], Any]:
    try:
        return converter_of(hint)
    except PydanticUserError as error:
        why = str(error).partition("\n")[0]
        raise InvalidInput(f"{place} is of a type that no input can be converted to: {why}", code="step_signature",
                           hint="use a pydantic model, a dataclass, or a plain type") from error  # fmt: skip


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _takes_whole(hint: object) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint) or hint
    if not isinstance(origin, type):
        return False
    model = issubclass(origin, BaseModel) or is_dataclass(origin) or typing.is_typeddict(origin)
    return model or issubclass(origin, Mapping)


def _convert(parameter: _Parameter, value: Json, arguments: dict[str, object], wrong: list[str]) -> None:
    if parameter.convert is None:
        arguments[parameter.name] = value
        return
    try:
        arguments[parameter.name] = parameter.convert(value)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            place = ".".join(str(part) for part in (parameter.name, *one["loc"]))
            wrong.append(f"{place}: {one['msg']}")
