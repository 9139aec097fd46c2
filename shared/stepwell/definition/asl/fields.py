"""The fields of each type of state, what they may be, and those that are not supported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stepwell.definition.asl.jsonata import is_jsonata
from stepwell.definition.graph import Json
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

PATHS, ANSWERS = "JSONPath", "JSONata"
LANGUAGES = (PATHS, ANSWERS)

_COMMON = ("Type", "Comment", "QueryLanguage")
_ON = ("Next", "End")
_IO = ("InputPath", "OutputPath")
_TRIED = ("Retry", "Catch")
_BY_PATHS: dict[str, tuple[str, ...]] = {
    "Task": ("Resource", *_ON, *_IO, "Parameters", "ResultSelector", "ResultPath", "Assign", *_TRIED, "TimeoutSeconds",
             "TimeoutSecondsPath", "HeartbeatSeconds", "HeartbeatSecondsPath", "Credentials"),
    "Pass": (*_ON, *_IO, "Result", "Parameters", "ResultPath", "Assign"),
    "Choice": (*_IO, "Choices", "Default", "Assign"),
    "Wait": (*_ON, *_IO, "Seconds", "Timestamp", "SecondsPath", "TimestampPath", "Assign"),
    "Succeed": _IO,
    "Fail": ("Error", "Cause", "ErrorPath", "CausePath"),
    "Parallel": (*_ON, *_IO, "Branches", "Parameters", "ResultSelector", "ResultPath", "Assign", *_TRIED),
    "Map": (*_ON, *_IO, "ItemProcessor", "Iterator", "ItemsPath", "ItemSelector", "Parameters", "MaxConcurrency",
            "MaxConcurrencyPath", "ItemBatcher", "ItemReader", "ResultWriter", "Label", "ResultSelector", "ResultPath",
            "Assign", *_TRIED, "ToleratedFailureCount", "ToleratedFailureCountPath", "ToleratedFailurePercentage",
            "ToleratedFailurePercentagePath"),
}  # fmt: skip
_BY_ANSWERS: dict[str, tuple[str, ...]] = {
    "Task": ("Resource", *_ON, "Arguments", "Output", "Assign", *_TRIED, "TimeoutSeconds", "HeartbeatSeconds",
             "Credentials"),
    "Pass": (*_ON, "Output", "Assign"),
    "Choice": ("Choices", "Default", "Output", "Assign"),
    "Wait": (*_ON, "Seconds", "Timestamp", "Output", "Assign"),
    "Succeed": ("Output",),
    "Fail": ("Error", "Cause"),
    "Parallel": (*_ON, "Branches", "Arguments", "Output", "Assign", *_TRIED),
    "Map": (*_ON, "ItemProcessor", "Items", "ItemSelector", "MaxConcurrency", "ItemBatcher", "ItemReader",
            "ResultWriter", "Label", "Output", "Assign", *_TRIED, "ToleratedFailureCount",
            "ToleratedFailurePercentage"),
}  # fmt: skip
TYPES = tuple(_BY_PATHS)

_UNSUPPORTED = {  # each with what to do in its place
    "Credentials": "give the permissions to the pool that runs the step",
}
COMPUTED = ("TimeoutSeconds", "HeartbeatSeconds", "MaxConcurrency", "ToleratedFailureCount",
            "ToleratedFailurePercentage")  # fmt: skip
BATCHED = ("MaxItemsPerBatch", "MaxInputBytesPerBatch")
_TEXTS = ("Type", "Comment", "QueryLanguage", "Next", "Resource", "InputPath", "OutputPath", "ResultPath", "ItemsPath",
          "SecondsPath", "TimestampPath", "Timestamp", "Error", "Cause", "ErrorPath", "CausePath", "Default",
          "Label", *(f"{name}Path" for name in COMPUTED))  # fmt: skip
_NULLS = ("InputPath", "OutputPath", "ResultPath")
_LISTS = ("Choices", "Branches", "Retry", "Catch")
_OBJECTS = ("ItemProcessor", "Iterator", "ItemBatcher", "Assign")
_NUMBERS = ("Seconds", *COMPUTED)
_NEEDED = {"Task": ("Resource",), "Choice": ("Choices",), "Parallel": ("Branches",)}
_MAY_BE_COMPUTED = ("Seconds", "Timestamp", "Error", "Cause", *COMPUTED)


def language_of(state: Mapping[str, Json], outer: str) -> str:
    """Returns the query language of a state: its own, or that of the machine."""
    given = state.get("QueryLanguage", outer)
    return given if given in LANGUAGES else outer


def field_problems(state: Mapping[str, Json], path: str, language: str) -> Iterator[Problem]:
    """Yields what is wrong with the fields of a state, by its type alone."""
    kind = state.get("Type")
    if kind not in TYPES:
        hint = closest(kind, TYPES) if isinstance(kind, str) else f"one of {', '.join(TYPES)}"
        what = "has no `Type`" if kind is None else f"has the type {kind!r}, which no state has"
        yield Problem("bad_state", f"the state {what}", f"{path}/Type" if kind is not None else path, hint)
        return
    known = {*_COMMON, *(_BY_ANSWERS if language == ANSWERS else _BY_PATHS)[kind]}
    other = {*(_BY_PATHS if language == ANSWERS else _BY_ANSWERS)[kind]}
    for name, value in state.items():
        place = f"{path}/{pointer_part(name)}"
        if name in _UNSUPPORTED and name in known | other:
            yield Problem("unsupported", f"`{name}` is not supported in this version", place, _UNSUPPORTED[name])
        elif name not in known and name in other:
            message = f"`{name}` is for the other query language; this state's is {language}"
            yield Problem("misplaced_key", message, place, f"write QueryLanguage: {_other(language)}, or translate it")
        elif name not in known:
            yield Problem("unknown_key", f"a {kind} state has no field `{name}`", place, closest(name, known))
        else:
            yield from _type_problem(name, value, place, is_computed=language == ANSWERS)
    yield from _lacking(kind, state, path, language)
    yield from _twice(state, path, COMPUTED)
    yield from _values(state, path)


def _values(state: Mapping[str, Json], path: str) -> Iterator[Problem]:
    """Yields what is wrong with limits, shares and labels that are written out."""
    found = {name: value for name in ("TimeoutSeconds", "HeartbeatSeconds")
             if isinstance(value := state.get(name), int | float)}  # fmt: skip
    for name, value in found.items():
        if value == 0:
            yield Problem("bad_value", f"`{name}` must be more than 0", f"{path}/{name}", "write the seconds")
    percent, label = state.get("ToleratedFailurePercentage"), state.get("Label")
    if isinstance(percent, int | float) and percent > _WHOLE:
        yield Problem("bad_value", "`ToleratedFailurePercentage` is at most 100", f"{path}/ToleratedFailurePercentage")
    if isinstance(label, str) and not _LABEL.fullmatch(label):
        hint = "at most 40 letters, digits, - and _"
        yield Problem("bad_value", f"`Label` cannot be {label[:50]!r}", f"{path}/Label", hint)
    if len(found) > 1 and found["HeartbeatSeconds"] >= found["TimeoutSeconds"] > 0:
        message = "`HeartbeatSeconds` must be less than `TimeoutSeconds`"
        yield Problem("bad_value", message, f"{path}/HeartbeatSeconds", "write fewer seconds")


def _other(language: str) -> str:
    return ANSWERS if language == PATHS else PATHS


def _type_problem(name: str, value: Json, place: str, *, is_computed: bool) -> Iterator[Problem]:
    if is_computed and isinstance(value, str) and is_jsonata(value) and name not in (*_LISTS, *_OBJECTS, *_ON):
        if name not in _MAY_BE_COMPUTED and name in (*_NUMBERS, *_TEXTS):
            message = f"`{name}` cannot be an expression in this version"
            yield Problem("unsupported", message, place, "write the value itself")
        return
    if value is None and name in _NULLS:
        return
    wanted = None
    if name in _TEXTS and not isinstance(value, str):
        wanted = "text"
    elif name in _LISTS and not isinstance(value, list):
        wanted = "a list"
    elif name in _OBJECTS and not isinstance(value, dict):
        wanted = "an object"
    elif name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
        wanted = "a number of 0 or more"
    elif name == "End" and value is not True:
        wanted = "true; leave it out where the state has a Next"
    if wanted is not None:
        yield Problem("wrong_type", f"`{name}` must be {wanted}", place)


def data_problems(one: Mapping[str, Json], path: str) -> Iterator[Problem]:
    """Yields what is wrong with the types of the fields of a catcher, or of a rule of a Choice state."""
    for name in one.keys() & {"Assign", "ResultPath"}:
        yield from _type_problem(name, one[name], f"{path}/{name}", is_computed=False)


def batcher_problems(batcher: Mapping[str, Json], path: str, language: str) -> Iterator[Problem]:
    """Yields what is wrong with the fields of an `ItemBatcher`."""
    paths = () if language == ANSWERS else tuple(f"{name}Path" for name in BATCHED)
    known = ("BatchInput", *BATCHED, *paths)
    for name, value in batcher.items():
        place = f"{path}/{pointer_part(name)}"
        is_computed = language == ANSWERS and isinstance(value, str) and is_jsonata(value)
        if name not in known:
            yield Problem("unknown_key", f"`ItemBatcher` has no field `{name}`", place, closest(name, known))
        elif name in paths and not isinstance(value, str):
            yield Problem("wrong_type", f"`{name}` must be text", place)
        elif name in BATCHED and not is_computed and (type(value) is not int or value < 1):
            yield Problem("bad_value", f"`{name}` must be a whole number of 1 or more", place, "write it")
    if not batcher.keys() & {*BATCHED, *paths}:
        yield Problem("missing_key", "`ItemBatcher` needs `MaxItemsPerBatch`", path, "add MaxItemsPerBatch")
    yield from _twice(batcher, path, BATCHED)


def _twice(fields: Mapping[str, Json], path: str, names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        if name in fields and f"{name}Path" in fields:
            message = f"`{name}` and `{name}Path` cannot both be there"
            yield Problem("bad_state", message, f"{path}/{name}Path", "leave one of them out")


_INNER = ("Comment", "StartAt", "States", "ProcessorConfig", "QueryLanguage")
_WHOLE = 100  # percent
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MODES = {"Mode": ("INLINE", "DISTRIBUTED"), "ExecutionType": ("STANDARD", "EXPRESS")}


def machine_problems(machine: Mapping[str, Json], path: str) -> Iterator[Problem]:
    """Yields what is wrong with the fields of a branch, or of the machine that each item goes through."""
    for name in machine.keys() - {*_INNER}:
        hint = closest(name, _INNER)
        yield Problem("unknown_key", f"a branch has no field `{name}`", f"{path}/{pointer_part(name)}", hint)
    config = machine.get("ProcessorConfig", {})
    if not isinstance(config, dict):
        yield Problem("wrong_type", "`ProcessorConfig` must be an object", f"{path}/ProcessorConfig")
        return
    for name, value in config.items():
        place = f"{path}/ProcessorConfig/{pointer_part(name)}"
        if name not in _MODES:
            yield Problem("unknown_key", f"`ProcessorConfig` has no field `{name}`", place, closest(name, _MODES))
        elif value not in _MODES[name]:
            yield Problem("bad_value", f"`{name}` cannot be {value!r}", place, f"one of {', '.join(_MODES[name])}")


def _lacking(kind: str, state: Mapping[str, Json], path: str, language: str) -> Iterator[Problem]:
    for name in _NEEDED.get(kind, ()):
        if name not in state:
            yield Problem("missing_key", f"a {kind} state needs `{name}`", path, f"add {name}")
    if kind == "Map" and not {"ItemProcessor", "Iterator"} & state.keys():
        yield Problem("missing_key", "a Map state needs `ItemProcessor`", path, "add ItemProcessor")
    if kind == "Wait":
        given = [name for name in ("Seconds", "Timestamp", "SecondsPath", "TimestampPath") if name in state]
        if len(given) != 1:
            hint = "one of Seconds, Timestamp, SecondsPath and TimestampPath"
            yield Problem("bad_state", f"a Wait state has exactly {hint}, not {len(given)}", path, f"write {hint}")
    follows = [name for name in _ON if name in state]
    if "Next" in (_BY_ANSWERS if language == ANSWERS else _BY_PATHS)[kind] and len(follows) != 1:
        what = "both `Next` and `End`" if follows else "neither `Next` nor `End`"
        yield Problem("bad_state", f"the state has {what}", path, 'write "Next": "NAME", or "End": true')
