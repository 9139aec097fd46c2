"""Checks a document against the models (keys, types, allowed words), and normalizes the spelling of keys.

Pydantic finds the mistakes; this module words the messages. It cuts mistakes out of the document, so that the compiler
can check the rest and one check reports everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from stepwell.definition import model_parts, models
from stepwell.definition.borrowed_keys import meant_by
from stepwell.definition.formats.agent_models import PARAMETERS, AgentActionDef
from stepwell.definition.graph import Json
from stepwell.definition.text import closest, pointer, pointer_part
from stepwell.errors import Problem

Path = tuple[str | int, ...]

# Features of the definition reference that this version lacks: (model, key) to the feature's name.
UNSUPPORTED_KEYS: dict[tuple[str, str], str] = {
    ("WaitDef", "children"): "a wait for children",
    ("ActionDef", "compensate"): "the compensation of a timeout action",
}
UNSUPPORTED_VALUES: dict[str, tuple[str, ...]] = {
    "for": ("agent", "children"),
}
_CHILDREN_HINT = "write it on the node, in place of `wait`: children: [{workflow: fraud}]"
_INSTEAD = {
    "a wait for children": _CHILDREN_HINT,
    "`for: children`": _CHILDREN_HINT,
    "`for: agent`": "a node that runs a workflow waits for it: write run: workflow:name in place of `wait`",
}
_FOREIGN = {"to_node_id": "to", "input_mapping": "input", "output_mapping": "output"}  # taken where the other is
_SHORT = {  # what is written shorter by mistake
    "fan_in": "write fan_in: {policy: all}, or any, or {m_of_n: 2}",
    "nodes": "write each node under its name: nodes: {NAME: {run: …}}; `timeline:` has a list of steps",
    "retry": "write retry: {max_retries: 3}",
    "wait": "write wait: {for: approval}, or {for: event, name: NAME}; a pause is sleep: 5m",
    "concurrency": "write concurrency: {limit: 10}",
    "percent": "write the number alone, such as percent: 10",
    "compensate": "write compensate: {run: python:module.function}",
    "transitions": "write transitions: [{to: NODE}]",
    "triggers": "write triggers: [{event: NAME}]",
    "approvers": "write approvers: {of: [ana, leo]}, and with need: 2 how many of them",
    "tolerate": "write tolerate: {percent: 10}, or {count: 3}",
    "escalate": "write escalate: {after: 4h, to: [boss]}",
    "throttle": "a step keeps to one limit; for a second one, split the step, or limit the runs with `concurrency`",
}
_FORMS = {  # how a value of a kind is written
    "a list": "begin each entry in a line of its own with `- `, or write [a, b]",
    "a mapping": "write names with values, such as `name: value`, without `- ` before the names",
    "a whole number": "write a number without quotes, such as 3",
    "a number": "write a number without quotes, such as 1.5",
    "true or false": "write true or false, without quotes",
}
_SYNONYMS = {"retry_policy": "retry", "agent": "run", "action": "run", "thread_id": "key"}
_SYNONYMS_OF = {  # models in which a word has another meaning
    ("WorkflowDef", "agent"): "workflow",
    ("TriggerParameters", "agent"): "agent",
    ("TriggerParameters", "parameters"): "input",
    ("DelayParameters", "timeout"): "duration",
    ("TimeoutActionDef", "run"): "action_type",
    ("TimeoutActionDef", "input"): "parameters",
}


@dataclass(slots=True)
class Shape:
    """The document with one spelling per key and without mistakes, and the problems found."""

    document: dict[str, Json]
    problems: list[Problem] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)  # JSON pointers in the document to other ones in the source
    cuts: list[Path] = field(default_factory=list)  # the paths to cut out of the document


def check_shape(data: Mapping[str, Json], prefix: str = "") -> Shape:
    """Checks `data`; `prefix` is its JSON pointer in the source."""
    shape = Shape({}, written={"": prefix})
    shape.document = _model(models.WorkflowDef, data, (), prefix, shape)
    try:
        models.WorkflowDef.model_validate(shape.document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            shape.problems.append(_problem(detail, shape.written))
            shape.cuts.append(detail["loc"][:-1] if detail["type"] == "missing" else detail["loc"])
    for path in shape.cuts:
        _cut(shape.document, path)
    return shape


@cache
def _fields(model: type[BaseModel]) -> dict[str, tuple[str, type[BaseModel]] | None]:
    """Returns a model's keys, each with its nested model: one, a list or a map of them."""
    return {model_parts.written(name): _nested(info.annotation) for name, info in model.model_fields.items()}


@cache
def _unsupported_in(model: type[BaseModel]) -> dict[str, str]:
    return {key: feature for (name, key), feature in UNSUPPORTED_KEYS.items() if name == model.__name__}


def _fields_in(model: type[BaseModel], data: Mapping[str, Json]) -> dict[str, tuple[str, type[BaseModel]] | None]:
    """Returns a model's keys, with the parameters of an action by its type."""
    fields = _fields(model)
    if not issubclass(model, AgentActionDef):
        return fields
    kind = next((value for key, value in data.items() if _snake(key) == "action_type"), None)
    parameters = PARAMETERS.get(kind) if isinstance(kind, str) else None
    return fields if parameters is None else {**fields, "parameters": ("one", parameters)}


def _nested(annotation: Any) -> tuple[str, type[BaseModel]] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "one", annotation
    origin = get_origin(annotation)
    shape = "list" if origin is list else "map" if origin is dict else ""
    for inner in get_args(annotation):
        if (found := _nested(inner)) is not None:
            return shape or found[0], found[1]
    return None


def _model(model: type[BaseModel], data: Mapping[str, Json], path: Path, written: str, shape: Shape) -> dict[str, Json]:
    made: dict[str, Json] = {}
    fields, lacking = _fields_in(model, data), _unsupported_in(model)
    for key, value in data.items():
        if key == "agent" and model is models.WorkflowDef and {"workflow", "actions"} <= data.keys():
            continue  # `workflow` is the name where both are written
        name = _spelled(key, fields)
        place = f"{written}/{pointer_part(key)}"
        if lacking and (feature := lacking.get(_snake(key)) or lacking.get(key)):
            shape.problems.append(unsupported(feature, place))
            shape.cuts += [path] if model is models.WaitDef else []
        elif name not in fields:
            hint = meant_by(model.__name__, _snake(key), value, fields) or closest(_snake(key), fields)
            shape.problems.append(Problem("unknown_key", f"unknown key `{key}`", place, hint))
        elif (name := _synonym(model, name, data)) in made:
            shape.problems.append(Problem("duplicate_key", f"`{name}` is written twice", place, "keep one spelling"))
        elif value is None and name not in ("input", "data"):
            shape.problems.append(
                Problem("empty_value", f"`{key}` has no value", place, "give it a value, or remove the key")
            )
        else:
            if name != key:
                shape.written[pointer((*path, name))] = place
            made[name] = _inside(fields[name], value, (*path, name), place, shape)
    if model is models.TolerateDef and data and not made:
        shape.cuts.append(path)  # what is wrong with its keys is said; it is not empty as well
    return made


def _synonym(model: type[BaseModel], name: str, data: Mapping[str, Json]) -> str:
    """The key that this one is another word for. Beside `agent`, `action` is what the agent is asked to do."""
    if name == "action" and "agent" in data:
        return name
    return _SYNONYMS_OF.get((model.__name__, name)) or _SYNONYMS.get(name, name)


def _inside(nested: tuple[str, type[BaseModel]] | None, value: Json, path: Path, written: str, shape: Shape) -> Json:
    kind, model = nested or ("", BaseModel)
    one = ("one", model)
    if kind == "one" and isinstance(value, dict):
        return _model(model, value, path, written, shape)
    if kind == "list" and isinstance(value, list):
        return [_inside(one, item, (*path, at), f"{written}/{at}", shape) for at, item in enumerate(value)]
    if kind == "map" and isinstance(value, dict):
        # A node without a body (`done:`) does nothing: the same as `done: {}`.
        return {
            key: _inside(one, {} if item is None else item, (*path, key), f"{written}/{pointer_part(key)}", shape)
            for key, item in value.items()
        }
    return value


def _spelled(key: str, fields: Mapping[str, object]) -> str:
    if key in fields:
        return key
    snake = _snake(key)
    if to_camel(snake) not in (key, to_camel(key)):
        return key
    return snake if snake in fields else _FOREIGN.get(snake, key)


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), key)


def unsupported(feature: str, path: str) -> Problem:
    return Problem(
        "unsupported",
        f"{feature} is not supported in this version",
        path,
        _INSTEAD.get(feature, "remove it, or build it from steps and waits"),
    )


# Keys without which their owner has no meaning.
_WHOLE = ("for", "to", "name", "back_to", "skip_to", "fail", "continue", "any", "all", "action_type")
_OWNERS = {"timeout_actions", "compensate", "compensation"}  # their entries have no meaning without `run`
_ACTS = ("run", "wait", "sleep", "children")  # without one of these, a node's other keys cannot be checked
_STAYS = ("name", "diverge", "branch", "transitions", "fan_out", "fan_in", "depends_on")


def _cut(document: dict[str, Json], path: Path) -> None:
    """Removes a bad value. A list keeps its length, so that the pointers to other items stay valid."""
    owner: Any = document
    for part in path[:-1]:
        try:
            owner = owner[part]
        except (KeyError, IndexError, TypeError):
            return  # already cut out
    last = path[-1] if path else ""
    if isinstance(owner, list) and isinstance(last, int):
        owner[last] = None
    elif isinstance(owner, dict):
        _cut_key(document, owner, path, str(last))


def _is_whole(path: Path, key: str) -> bool:
    """Returns whether the owner has no meaning without this key, which elsewhere is optional."""
    if key == "run":
        return bool(_OWNERS & {*path[:1], *path[2:]})  # path[1] may be a node with such a name
    return len(path) > 1 and key in ("workflow", "step")  # in a child, in a compensation


def _cut_key(document: dict[str, Json], owner: dict[str, Json], path: Path, key: str) -> None:
    if len(path) == 2 and path[0] == "nodes":
        owner[key] = {}
    elif path[0] == "actions" and path[-2] == "parameters" and key in ("agent", "any", "duration"):
        _cut(document, path[:-2])
    elif key in _WHOLE or _is_whole(path, key):
        _cut(document, path[:-1])
    elif key in _ACTS:
        for other in [other for other in owner if other not in _STAYS]:
            del owner[other]
    elif path[-2:-1] == ("tolerate",) and [*owner] == [key]:
        _cut(document, path[:-1])
    else:
        owner.pop(key, None)


_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "condition_type": "a CEL expression",
    "schema_type": "a JSON Schema (a mapping)",
    "id_type": "an id: text, or a whole number",
    "names_type": "a list of names, or a template",
    "lock_type": "a name, or a list of names",
    "throttle_type": "the name of a limit, or {limit: NAME, key: KEY}",
}


def _problem(detail: ErrorDetails, written: Mapping[str, str]) -> Problem:
    path, kind, value = detail["loc"], detail["type"], detail["input"]
    where = as_written(pointer(path), written)
    last = path[-1] if path else "the definition"
    name = f"`{last}`" if isinstance(last, str) else f"item {last + 1}"
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "missing":
        return Problem("missing_key", f"{name} is missing", as_written(pointer(path[:-1]), written), f"add {name}")
    if kind == "bad_duration":
        return Problem("bad_duration", f"{name}: {context['message']}", where, context["hint"])
    if kind == "literal_error":
        return _not_one_of(name, str(last), value, context["expected"], where)
    if kind == "greater_than_equal":
        return Problem("bad_value", f"{name} must be at least {context['ge']}, not {value}", where)
    if kind == "greater_than":
        return Problem("bad_value", f"{name} must be more than {context['gt']:g}, not {value}", where)
    if kind == "less_than_equal":
        return Problem("bad_value", f"{name} must be at most {context['le']}, not {value}", where)
    if kind == "bad_policy":
        message = f"{name} must be all, any or {{m_of_n: N}}, N 1 or more, not {_described(value)}"
        return Problem("bad_value", message, where, closest(value, ("all", "any")) if isinstance(value, str) else "")
    wanted = _KINDS.get(kind)
    message = f"{name} must be {wanted}, not {_described(value)}" if wanted else f"{name} cannot be {_described(value)}"
    quoted = f'write it in quotes: "{_described(value)}"' if wanted == "text" and isinstance(value, int | float) else ""
    return Problem("wrong_type", message, where, _SHORT.get(str(last), quoted or _FORMS.get(wanted or "", "")))


def _not_one_of(name: str, key: str, value: Json, expected: str, where: str) -> Problem:
    if isinstance(value, str) and value in UNSUPPORTED_VALUES.get(key, ()):
        return unsupported(f"`{key}: {value}`", where)
    known = re.findall(r"'([^']*)'", expected)
    hint = closest(value, known) if isinstance(value, str) else ""
    return Problem("bad_value", f"{name} must be {', '.join(known)}, not {_described(value)}", where, hint)


def as_written(path: str, written: Mapping[str, str]) -> str:
    """Converts a pointer in the document to the pointer in the source."""
    head, tail = path, ""
    while head and head not in written:
        head, _, last = head.rpartition("/")
        tail = f"/{last}{tail}"
    return written[head] + tail


def _described(value: Json) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
