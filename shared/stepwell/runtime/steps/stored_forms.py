"""Undoes what storing a pydantic model changes in ways that reading it would refuse, or take for something else.

    class Order(BaseModel, extra="forbid"):
        net: int = Field(serialization_alias="netAmount")   # stored as netAmount
        tags: Json[list[str]]                               # stored as a list, and not as the text of one
        @computed_field
        def gross(self) -> int: …                           # stored, and no field

What is stored stays as people read it in the API; it is changed back before pydantic validates it.
"""

from __future__ import annotations

import collections.abc
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Union

from pydantic import AliasChoices, BaseModel, RootModel, ValidationError
from pydantic import Json as JsonText
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python

from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput
from stepwell.runtime.steps.binding import converter_of, json_of

_LISTS = (list, set, frozenset, collections.abc.Sequence, collections.abc.Set, collections.abc.Iterable)
_AROUND = (Annotated, typing.Required, typing.NotRequired)
_KEEPING = ("forbid", "allow")  # what models do with unknown keys; "ignore" drops them


def changes_stored(hint: Any) -> bool:
    """Tells whether a value of this type, or a part of it, is stored in another form than it is read."""
    return any(_is_changed(one) for one in _parts(hint, set()))


def restored(hint: Any, value: Json) -> Any:
    """Returns the value in the form in which its type is read. It is not changed.

    One of several models is read here already.
    """
    origin, args = _opened(hint)
    if _is_json_text(hint):
        return _as_text(restored(args[0] if args else Any, value))
    if origin is Annotated:
        return restored(args[0], value)
    if origin in (Union, types.UnionType):
        return _of_one(args, value)
    if isinstance(value, list):
        return [restored(inner, one) for inner, one in zip(_of_items(origin, args, len(value)), value, strict=True)]
    if not isinstance(value, dict):
        return value
    if _is_mapping(origin) and len(args) == 2:
        return {key: restored(args[1], one) for key, one in value.items()}
    return _of_fields(hint, value)


def _of_one(hints: tuple[Any, ...], value: Json) -> Any:
    """A value of one of several types."""
    members = [*_members(hints)]
    if isinstance(value, dict) and sum(_takes_objects(one) for one in members) > 1:
        return _of_one_model(members, value)
    made = (restored(one, value) for one in members)
    return next((one for one in made if one != value), value)


def _of_one_model(hints: Iterable[Any], value: Mapping[str, Json]) -> Any:
    """Reads an object as the model that stores it so: read by names, another one may fit too. Else it is unchanged."""
    known = ((_stored_keys(one), one) for one in hints if _takes_objects(one))
    fitting = [(len(keys - value.keys()), one) for keys, one in known if _keeps_others(one) or value.keys() <= keys]
    for _, one in sorted(fitting, key=itemgetter(0)):
        with suppress(ValidationError, InvalidInput, PydanticSerializationError):
            made = converter_of(one)(value)
            if _holds(json_of(made, "one of several models"), value):
                return restored(one, value) if isinstance(made, dict) else made
    return value


def _holds(made: Json, value: Json) -> bool:
    """Tells whether all of the value is in what is made of it; a model may have got fields since."""
    if isinstance(made, dict) and isinstance(value, dict):
        return all(key in made and _holds(made[key], one) for key, one in value.items())
    if isinstance(made, list) and isinstance(value, list):
        return len(made) == len(value) and all(map(_holds, made, value))
    return bool(made == value)


def _of_fields(hint: Any, value: Mapping[str, Json]) -> dict[str, Any]:
    fields, computed = _fields(hint), _computed(hint) if _keeps_unknown(hint) else set()
    made: dict[str, Any] = {key: one for key, one in value.items() if key in fields or key not in computed}
    for name, inner in _hints(hint).items():
        read, kept = _read_keys(name, fields.get(name)), _stored_key(name, fields.get(name))
        key = next((key for key in (*read, kept, name) if key in made), None)
        if key is not None:
            one = restored(inner, made.pop(key))
            made[key if key in read else name] = one
    return made


# -- types


def _opened(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the type's origin, itself if it has none, and its arguments."""
    while type(hint).__name__ == "TypeAliasType":  # of Python 3.12
        hint = hint.__value__
    if _is_model(hint) and issubclass(hint, RootModel):
        return Annotated, (hint.model_fields["root"].annotation,)
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    return (Annotated, args[:1]) if origin in _AROUND else (origin, args)


def _parts(hint: Any, seen: set[int]) -> Iterator[Any]:
    """Yields the type and all that it is made of, each once."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    yield hint
    for one in (*_opened(hint)[1], *_hints(hint).values()):
        yield from _parts(one, seen)


def _is_changed(hint: Any) -> bool:
    renamed = (_stored_key(name, one) not in _read_keys(name, one) for name, one in _fields(hint).items())
    return _is_json_text(hint) or any(renamed) or (_keeps_unknown(hint) and bool(_computed(hint)))


def _members(hints: Iterable[Any]) -> Iterator[Any]:
    """Yields the types of a union, without what is noted beside them."""
    for one in hints:
        origin, args = _opened(one)
        is_noted = origin is Annotated and not _is_model(one) and not _is_json_text(one)
        if is_noted or origin in (Union, types.UnionType):
            yield from _members(args)
        else:
            yield one


def _takes_objects(hint: Any) -> bool:
    return _is_mapping(_opened(hint)[0]) or bool(_hints(hint))


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _fields(hint: Any) -> Mapping[str, FieldInfo]:
    """Returns the fields of a pydantic model or dataclass."""
    return getattr(hint, "__pydantic_fields__", {}) if isinstance(hint, type) else {}


def _hints(hint: Any) -> dict[str, Any]:
    """Returns the types of the fields of a model, a dataclass or a TypedDict."""
    if fields := _fields(hint):
        return {name: _whole(one) for name, one in fields.items()}
    if is_dataclass(hint) or hasattr(hint, "__total__"):  # also a TypedDict of typing_extensions
        with suppress(NameError, TypeError):
            return typing.get_type_hints(hint, include_extras=True)
    return {}


def _whole(field: FieldInfo) -> Any:
    """Returns the field's type with what pydantic has taken apart from it."""
    texts = [one for one in field.metadata if _is_text(one)]
    return Annotated[field.annotation, texts[0]] if texts else field.annotation


def _is_json_text(hint: Any) -> bool:
    return any(_is_text(one) for one in (hint, *getattr(hint, "__metadata__", ())))


def _is_text(one: Any) -> bool:
    return one is JsonText or type(one) is JsonText


def _of_items(origin: Any, args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Returns the type of each of `count` items."""
    if origin is tuple and args and args[-1] is not ...:
        return (*args, *[Any] * count)[:count]
    return (args[0] if args and (origin is tuple or origin in _LISTS) else Any,) * count


def _stored_keys(hint: Any) -> set[str]:
    """Returns the keys that an object of this type is stored with."""
    return {_stored_key(name, _fields(hint).get(name)) for name in _hints(hint)} | _computed(hint)


def _keeps_others(hint: Any) -> bool:
    return _is_mapping(_opened(hint)[0]) or _extra(hint) == "allow"


def _keeps_unknown(hint: Any) -> bool:
    return _extra(hint) in _KEEPING


def _extra(hint: Any) -> str | None:
    config: Mapping[str, Any] = getattr(hint, "model_config", None) or getattr(hint, "__pydantic_config__", None) or {}
    return config.get("extra")


def _computed(hint: Any) -> set[str]:
    """Returns the keys of what a model computes from its fields, as they are stored."""
    made = getattr(getattr(hint, "__pydantic_decorators__", None), "computed_fields", {})
    return {one.info.alias or name for name, one in made.items()} | {*made}


def _stored_key(name: str, field: FieldInfo | None) -> str:
    return (field.serialization_alias if field is not None else None) or name


def _read_keys(name: str, field: FieldInfo | None) -> tuple[str, ...]:
    """Returns the keys that the field is read by."""
    alias = field.validation_alias if field is not None else None
    if isinstance(alias, AliasChoices):
        return tuple(one for one in alias.choices if isinstance(one, str))
    return (alias,) if isinstance(alias, str) else () if alias is not None else (name,)


def _as_text(value: Any) -> Json:
    """Returns JSON as the text that its type is read from; text that is JSON already stays as it is."""
    if isinstance(value, str):
        with suppress(ValueError):
            json.loads(value)
            return value
    return json.dumps(value, default=partial(to_jsonable_python, by_alias=False))
