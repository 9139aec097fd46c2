"""JSON Schemas of type hints as they are written: of plain types, dataclasses, TypedDicts, enums and pydantic models.

Nothing is imported. A class of the folder stands under `$defs`; a type that is not known here has the schema `{}`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence

from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Module
from stepwell.definition.graph import Json
from stepwell.values import dataclass

_STANDARD = frozenset({"typing", "typing_extensions", "collections", "collections.abc", "dataclasses", "pydantic",
                       "pydantic.dataclasses", "pydantic.main", "pydantic.fields", "enum"})  # fmt: skip
_OF_TYPES = {"str": "string", "bytes": "string", "int": "integer", "float": "number", "bool": "boolean",
             "decimal.Decimal": "number", "None": "null"}  # fmt: skip
_OF_FORMATS = {"datetime.datetime": "date-time", "datetime.date": "date", "datetime.time": "time",
               "datetime.timedelta": "duration", "uuid.UUID": "uuid", "EmailStr": "email", "HttpUrl": "uri",
               "AnyUrl": "uri", "AnyHttpUrl": "uri", "SecretStr": "password"}  # fmt: skip
_BOUNDED: dict[str, dict[str, Json]] = {
    "PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "NonNegativeInt": {"type": "integer", "minimum": 0},
    "PositiveFloat": {"type": "number", "exclusiveMinimum": 0},
    "NonNegativeFloat": {"type": "number", "minimum": 0},
}
_LISTS = frozenset({"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection", "deque"})
_SETS = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})
_TUPLES = frozenset({"tuple", "Tuple"})
_DICTS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict"})
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "InitVar"})
_FIELD_KEYS = {"description": "description", "title": "title", "ge": "minimum", "gt": "exclusiveMinimum",
               "le": "maximum", "lt": "exclusiveMaximum", "min_length": "minLength", "max_length": "maxLength",
               "pattern": "pattern", "examples": "examples"}  # fmt: skip
_LENGTHS = {"minLength": "minItems", "maxLength": "maxItems"}
_MOST_BASES = 12  # classes above a class that are looked at: those of broken code may go round


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    schema: dict[str, Json]
    is_required: bool


class Schemas:
    """The schemas of one function's hints, and the classes that they refer to."""

    def __init__(self, names: FullNames) -> None:
        self._names = names
        self._definitions: dict[str, dict[str, Json]] = {}
        self._followed: list[ast.expr] = []  # aliases whose meaning is being read
        self._keys: dict[str, str] = {}  # of `_definitions`, by a class's full name

    def of(self, module: Module, hint: ast.expr | None) -> dict[str, Json]:
        """Returns the schema of a hint of this module; `{}` for what is not known, or takes anything."""
        match hint:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str(text)):
                return self.of(module, _parsed(text))
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._either(module, [left, right])
            case ast.Subscript(value=base, slice=inner):
                of = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
                return self._generic(module, base, of)
            case ast.Name() | ast.Attribute():
                return self._named(module, hint)
            case _:
                return {}

    def is_whole(self, schema: dict[str, Json]) -> bool:
        """Tells whether a sole parameter of this schema gets the whole input: a model or a dict does."""
        reference = schema.get("$ref", "")
        meant = self._definitions.get(reference.rpartition("/")[2], {}) if reference else schema
        return meant.get("type") == "object"

    def with_definitions(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Returns the schema with the classes that it refers to."""
        return schema | ({"$defs": dict(self._definitions)} if self._definitions else {})

    def _named(self, module: Module, hint: ast.expr) -> dict[str, Json]:
        full = self._names.of(module, hint)
        name = _short(full)
        if name in _OF_TYPES:
            return {"type": _OF_TYPES[name]}
        if name in _OF_FORMATS:
            return {"type": "string", "format": _OF_FORMATS[name]}
        if name in _BOUNDED:
            return dict(_BOUNDED[name])
        if name in _LISTS | _SETS | _TUPLES | _DICTS:
            return self._container(module, name, [])
        if (found := self._names.owner(full)) is not None:
            return self._class(full, *found)
        return self._alias(*alias) if (alias := self._names.value(module, hint)) is not None else {}

    def _alias(self, home: Module, meant: ast.expr) -> dict[str, Json]:
        """Returns the schema of a name's value at the top of a module; `{}` if the name means itself."""
        if meant in self._followed:
            return {}
        self._followed.append(meant)
        found = self.of(home, meant)
        self._followed.pop()
        return found

    def _generic(self, module: Module, base: ast.expr, of: Sequence[ast.expr]) -> dict[str, Json]:
        name = _short(self._names.of(module, base))
        if name in {"Optional", "Union"}:
            return self._either(module, [*of, *([ast.Constant(None)] if name == "Optional" else [])])
        if name == "Literal":
            return {"enum": [one.value for one in of if isinstance(one, ast.Constant)]}
        if name == "Annotated":
            made = self.of(module, of[0])
            return made | _bounds([one for one in of[1:] if isinstance(one, ast.Call)], made)
        if name in _WRAPPERS:
            return self.of(module, of[0])
        return self._container(module, name, of) or self._named(module, base)

    def _either(self, module: Module, hints: Sequence[ast.expr]) -> dict[str, Json]:
        found: list[dict[str, Json]] = []
        for hint in hints:
            made = self.of(module, hint)
            found += made["anyOf"] if made.keys() == {"anyOf"} else [made]
        return {"anyOf": found} if all(found) else {}

    def _container(self, module: Module, name: str, of: Sequence[ast.expr]) -> dict[str, Json]:
        items: dict[str, Json] = {"items": self.of(module, of[0])} if of else {}
        if name in _LISTS:
            return {"type": "array", **items}
        if name in _SETS:
            return {"type": "array", **items, "uniqueItems": True}
        if name in _TUPLES:
            is_even = len(of) == 2 and isinstance(of[1], ast.Constant) and of[1].value is ...
            return {"type": "array", **(items if is_even else {})}
        if name in _DICTS:
            return {"type": "object", "additionalProperties": (self.of(module, of[-1]) if of else {}) or True}
        return {}

    def _class(self, full: str, home: Module, made: ast.ClassDef) -> dict[str, Json]:
        if full not in self._keys:
            kind = self._kind(home, made)
            if not kind:
                return {}
            key = made.name if made.name not in self._definitions else full
            self._keys[full], self._definitions[key] = key, {}  # before its fields, which may refer to it
            shape = _choices(made, kind) if kind in {"Enum", "StrEnum", "IntEnum"} else self._object(home, made)
            self._definitions[key] = shape
        return {"$ref": f"#/$defs/{self._keys[full]}"}

    def _kind(self, home: Module, made: ast.ClassDef, hops: int = _MOST_BASES) -> str:
        """What makes a class one whose fields are known: `dataclass`, or the name of the class above it; else empty."""
        for mark in made.decorator_list:
            called = mark.func if isinstance(mark, ast.Call) else mark
            if _short(self._names.of(home, called)) == "dataclass":
                return "dataclass"
        for base in made.bases if hops else ():
            full = self._names.of(home, base.value if isinstance(base, ast.Subscript) else base)
            if _short(full) in {"BaseModel", "TypedDict", "Enum", "StrEnum", "IntEnum"}:
                return _short(full)
            if (above := self._names.owner(full)) is not None and (kind := self._kind(*above, hops - 1)):
                return kind
        return ""

    def _object(self, home: Module, made: ast.ClassDef) -> dict[str, Json]:
        fields = {one.name: one for one in self._fields(home, made)}
        shape: dict[str, Json] = {"type": "object", "properties": {name: one.schema for name, one in fields.items()}}
        required = [name for name, one in fields.items() if one.is_required]
        return shape | ({"required": required} if required else {})

    def _fields(self, home: Module, made: ast.ClassDef, hops: int = _MOST_BASES) -> Iterator[_Field]:
        """Yields the fields of a class, those of the classes above it first."""
        for base in reversed(made.bases if hops else ()):
            above = self._names.owner(self._names.of(home, base.value if isinstance(base, ast.Subscript) else base))
            if above is not None:
                yield from self._fields(*above, hops - 1)
        is_total = not any(one.arg == "total" and _literal(one.value) is False for one in made.keywords)
        for node in made.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
                wrapper = self._wrapper(home, node.annotation)
                if wrapper != "ClassVar" and not _is_made_within(node.value):
                    is_required = node.value is None and (
                        wrapper == "Required" or (is_total and wrapper != "NotRequired")
                    )
                    yield self._field(home, node.target.id, node.annotation, node.value, is_required)

    def _field(self, home: Module, name: str, hint: ast.expr, value: ast.expr | None, is_required: bool) -> _Field:
        made = self.of(home, hint)
        if value is None:
            return _Field(name, made, is_required)
        if not (isinstance(value, ast.Call) and _short(self._names.of(home, value.func)) in {"Field", "field"}):
            return _Field(name, made | default_of(value), is_required=False)
        given = {one.arg: one.value for one in value.keywords if one.arg}
        default = given.get("default") or (value.args[0] if value.args else None)
        has_default = default is not None and _literal(default) is not ...
        alias = _literal(given.get("validation_alias") or given.get("alias"))
        shape = made | _bounds([value], made) | (default_of(default) if default is not None else {})
        return _Field(alias if isinstance(alias, str) else name, shape, not (has_default or "default_factory" in given))

    def _wrapper(self, home: Module, hint: ast.expr) -> str:
        """The outermost name of a hint, such as `NotRequired` of NotRequired[str]."""
        match hint:
            case ast.Constant(value=str(text)):
                found = _parsed(text)
                return self._wrapper(home, found) if found is not None else ""
            case ast.Subscript(value=base):
                return _short(self._names.of(home, base))
            case _:
                return _short(self._names.of(home, hint))


def default_of(value: ast.expr) -> dict[str, Json]:
    """Returns the default as a schema has it; empty for None, and for what is no literal or no JSON."""
    found = _literal(value)
    try:
        return {} if found is None else {"default": json.loads(json.dumps(found))}
    except TypeError:
        return {}


def _bounds(calls: Sequence[ast.Call], made: dict[str, Json]) -> dict[str, Json]:
    """What the literal arguments of `Field(…)` and its like say of the values that are taken."""
    found: dict[str, Json] = {}
    for call in calls:
        for one in call.keywords:
            key, value = _FIELD_KEYS.get(one.arg or ""), _literal(one.value)
            if key is not None and value is not None:
                found[_LENGTHS.get(key, key) if made.get("type") == "array" else key] = value
    return found


def _choices(made: ast.ClassDef, kind: str) -> dict[str, Json]:
    """The values of an enum; any, if one of them is no literal."""
    found: list[Json] = []
    for node in made.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called, args=[])) if (
                kind == "StrEnum" and ast.unparse(called).rpartition(".")[2] == "auto"
            ):
                found.append(name.lower())
            case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=str() | int() | float() as value)):
                found.append(value)
            case ast.Assign(targets=[ast.Name(id=name)]) if name[0] != "_":
                return {}
    return {"enum": found} if found else {}


def _is_made_within(value: ast.expr | None) -> bool:
    """Tells whether nobody can give this field: `field(init=False)`."""
    keywords = value.keywords if isinstance(value, ast.Call) else ()
    return any(one.arg == "init" and _literal(one.value) is False for one in keywords)


def _literal(value: ast.expr | None) -> Json:
    try:
        return None if value is None else ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _short(full: str) -> str:
    """The name of a standard type without its module; other names as they are."""
    home, _, name = full.rpartition(".")
    return name if home in _STANDARD else full
