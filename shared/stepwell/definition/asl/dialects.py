"""The two query languages: how a state makes the input of its task, and its own output, from what it reads.

JSONPath   InputPath ─▶ Parameters ─▶ the task ─▶ ResultSelector ─▶ ResultPath ─▶ OutputPath
JSONata    Arguments ─▶ the task ─▶ Output
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from stepwell.definition.asl.fields import BATCHED, COMPUTED
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.jsonata import Answer, answer_errors, compile_answer
from stepwell.definition.asl.paths import Query, compile_path, compile_reference, put
from stepwell.definition.asl.templates import compile_payload, payload_errors
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError

Fields = Mapping[str, Json]
KEY = "$key"  # marks an item that is one field of an object, which no list has


class Dialect(Protocol):
    """A state's fields of one query language, compiled."""

    def given(self, frame: Frame) -> Json:
        """The input of the state's task, of its branches or of its items. Raises ExpressionError."""

    def output(self, frame: Frame, brought: Json) -> Json:
        """The state's output. `brought`: what its task, its wait or its branches gave."""

    def caught(self, frame: Frame, error: Json) -> Json:
        """The output where this catcher takes the error."""

    def assigned(self, frame: Frame, brought: Json, *, is_error: bool = False) -> dict[str, Json]:
        """The variables that are assigned, and their values."""


class Paths:
    """JSONPath."""

    def __init__(self, fields: Fields, payload: str = "Parameters", *, brings: bool = True) -> None:
        """`payload`: the field that makes the input. `brings`: whether the state has a result of its own."""
        self._input = _path(fields, "InputPath")
        self._output = _path(fields, "OutputPath")
        self._payload = compile_payload(fields[payload]) if payload in fields else None
        self._selector = compile_payload(fields["ResultSelector"]) if "ResultSelector" in fields else None
        place = fields.get("ResultPath", "$")
        self._place = None if place is None else compile_reference(place)
        self._assign = compile_payload(fields["Assign"]) if "Assign" in fields else None
        self._brings = brings

    def given(self, frame: Frame) -> Json:
        data = _selected(self._input, frame, frame.input)
        return data if self._payload is None else self._payload.value(frame.scope(data, "Parameters"))

    def output(self, frame: Frame, brought: Json) -> Json:
        if not self._brings:
            return _selected(self._output, frame, _selected(self._input, frame, frame.input))
        selected = brought if self._selector is None else self._selector.value(frame.scope(brought, "ResultSelector"))
        merged = frame.input if self._place is None else put(frame.input, self._place, selected)
        return _selected(self._output, frame, merged)

    def caught(self, frame: Frame, error: Json) -> Json:
        return frame.input if self._place is None else put(frame.input, self._place, error)

    def assigned(self, frame: Frame, brought: Json, *, is_error: bool = False) -> dict[str, Json]:
        return {} if self._assign is None else dict(self._assign.value(frame.scope(brought, "Assign")))


class Answers:
    """JSONata."""

    def __init__(self, fields: Fields, payload: str = "Arguments", *, brings: bool = True) -> None:
        self._payload = compile_answer(fields[payload]) if payload in fields else None
        self._output = compile_answer(fields["Output"]) if "Output" in fields else None
        self._assign = compile_answer(fields["Assign"]) if "Assign" in fields else None
        self._brings = brings

    def given(self, frame: Frame) -> Json:
        return frame.input if self._payload is None else _answered(self._payload, frame, {}, "Arguments")

    def output(self, frame: Frame, brought: Json) -> Json:
        if self._output is None:
            return brought if self._brings else frame.input
        return _answered(self._output, frame, {"result": brought} if self._brings else {}, "Output")

    def caught(self, frame: Frame, error: Json) -> Json:
        return error if self._output is None else _answered(self._output, frame, {"errorOutput": error}, "Output")

    def assigned(self, frame: Frame, brought: Json, *, is_error: bool = False) -> dict[str, Json]:
        if self._assign is None:
            return {}
        more = {"errorOutput": brought} if is_error else {"result": brought} if self._brings else {}
        return dict(_answered(self._assign, frame, more, "Assign"))


def _answered(answer: Answer, frame: Frame, more: Mapping[str, Json], field: str) -> Json:
    return answer.value(frame.states(more), frame.variables, frame.seed(field))


def _path(fields: Fields, name: str) -> Query | None:
    """Compiles a path that filters; `null` gives an empty object, which no path does."""
    given = fields.get(name, "$")
    return None if given is None else compile_path(given)


def _selected(path: Query | None, frame: Frame, data: Json) -> Json:
    return {} if path is None else path.value(frame.scope(data))


_PAYLOADS = ("Parameters", "ResultSelector", "ItemSelector", "Assign")
_ANSWERS = ("Arguments", "Output", "ItemSelector", "Assign", "Items", "Seconds", "Timestamp", "Error", "Cause",
            "MaxItems", *COMPUTED)  # fmt: skip
_PATHS = ("InputPath", "OutputPath", "ItemsPath", "SecondsPath", "TimestampPath", "ErrorPath", "CausePath",
          "MaxItemsPath", *(f"{name}Path" for name in COMPUTED))  # fmt: skip


def field_errors(fields: Fields, path: str, *, is_jsonata: bool) -> Iterator[tuple[str, ExpressionError]]:
    """Yields what is wrong in the paths, templates and expressions of a state, each with its JSON pointer."""
    for name in _ANSWERS if is_jsonata else _PAYLOADS:
        if name in fields:
            find = answer_errors if is_jsonata else payload_errors
            yield from find(fields[name], f"{path}/{name}")
    batcher = fields.get("ItemBatcher", {})
    if isinstance(batcher, dict):
        yield from _batcher_errors(batcher, f"{path}/ItemBatcher", is_jsonata=is_jsonata)
    if is_jsonata:
        return
    for name in _PATHS:
        yield from _bad(fields, name, path, is_reference=False)
    yield from _bad(fields, "ResultPath", path, is_reference=True)


def _batcher_errors(batcher: Fields, path: str, *, is_jsonata: bool) -> Iterator[tuple[str, ExpressionError]]:
    find = answer_errors if is_jsonata else payload_errors
    if "BatchInput" in batcher:
        yield from find(batcher["BatchInput"], f"{path}/BatchInput")
    for name in BATCHED:
        if is_jsonata and name in batcher:
            yield from find(batcher[name], f"{path}/{name}")
        yield from _bad(batcher, f"{name}Path", path, is_reference=False)


def _bad(fields: Fields, name: str, path: str, *, is_reference: bool) -> Iterator[tuple[str, ExpressionError]]:
    given = fields.get(name)
    if not isinstance(given, str):  # its type is checked elsewhere
        return
    try:
        if is_reference:
            compile_reference(given)
        else:
            _compile_value(given)
    except ExpressionError as error:
        yield f"{path}/{name}", error


def _compile_value(text: str) -> Query:
    from stepwell.definition.asl.intrinsics import compile_value  # noqa: PLC0415 - only where a field takes one

    return compile_value(text)


def list_of(value: Json, what: str, code: str | None = None) -> Sequence[Json]:
    """The items of a list, or of an object as KEY and `Value`. Raises ExpressionError for anything else."""
    if isinstance(value, dict):
        return [{KEY: key, "Value": item} for key, item in value.items()]
    if isinstance(value, list):
        return value
    raise ExpressionError(f"{what} is {type(value).__name__}, not a list", code=code)


def key_and_value(item: Json) -> tuple[Json, Json, bool]:
    """Returns what an item is as data, its value alone, and whether it is one field of an object."""
    if isinstance(item, dict) and item.keys() == {KEY, "Value"}:
        return {"Key": item[KEY], "Value": item["Value"]}, item["Value"], True
    return item, item, False
