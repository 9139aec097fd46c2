"""Converts dataclasses to JSON and back by the names of their fields: defaults are left out, unknown fields ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.copying import made
from stepwell.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a class's fields are, looked up once: records are made and read more often than anything else."""

    names: frozenset[str]
    defaults: tuple[tuple[str, object], ...]  # of every field; MISSING where it has none
    given: dict[str, Any]  # the defaults as the fields of a value
    factories: tuple[tuple[str, Callable[[], object]], ...]
    is_open: bool  # it has no slots: `made` may build it


def _shape(cls: type) -> Shape:
    """The fields of a dataclass."""
    all_fields = fields(cls)
    factories = tuple((f.name, f.default_factory) for f in all_fields if f.default_factory is not MISSING)
    made_once = dict(factories)
    defaults = tuple((f.name, made_once[f.name]() if f.name in made_once else f.default) for f in all_fields)
    given = {name: default for name, default in defaults if default is not MISSING and name not in made_once}
    return Shape(frozenset(name for name, _ in defaults), defaults, given, factories, not hasattr(cls, "__slots__"))


shape_of: Callable[[type], Shape] = cache(_shape)


def plain(value: object, skip: tuple[str, ...] = ()) -> dict[str, Json]:
    """The fields that differ from their defaults, as they are; those of `skip` are the caller's."""
    out: dict[str, Json] = {}
    shape = shape_of(type(value))
    held = value.__dict__ if shape.is_open else {name: getattr(value, name) for name in shape.names}
    for name, default in shape.defaults:
        part = held[name]
        if part is default or name in skip or (default is not None and part == default):
            continue  # a None default keeps {} and "" and 0: they are values
        out[name] = part
    return out


def build(cls: type[T], raw: Mapping[str, Json], **built: object) -> T:
    """A value from its JSON. `built`: the fields that are not what JSON has. Raises TypeError where one lacks."""
    shape = shape_of(cls)
    mine = raw if raw.keys() <= shape.names else known_fields(raw, shape.names)
    if not shape.is_open:
        parts: dict[str, Any] = {**mine, **built}
        return cls(**parts)
    return build_whole(cls, {**shape.given, **{name: make() for name, make in shape.factories}, **mine, **built}, shape)


def known_fields(raw: Mapping[str, Json], names: frozenset[str]) -> dict[str, Json]:
    """Leaves out what a later version has added."""
    return {name: part for name, part in raw.items() if name in names}


def build_whole(cls: type[T], held: dict[str, Any], shape: Shape) -> T:
    """A value from all its fields. Raises TypeError where one lacks."""
    if len(held) < len(shape.names):
        raise TypeError(f"{cls.__name__} lacks {', '.join(sorted(shape.names - held.keys()))}")
    return made(cls, held)


def build_or_none(cls: type[T], raw: Mapping[str, Json] | None) -> T | None:
    """A value from its JSON, None from none."""
    return None if raw is None else build(cls, raw)
