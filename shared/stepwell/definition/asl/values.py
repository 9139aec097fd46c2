"""Values of a state that are written down, or computed: seconds, errors, items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from stepwell.definition.asl.dialects import key_and_value, list_of
from stepwell.definition.asl.fields import ANSWERS
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.intrinsics import compile_value
from stepwell.definition.asl.jsonata import compile_answer
from stepwell.definition.asl.parts import Computed
from stepwell.definition.asl.paths import compile_path
from stepwell.definition.asl.templates import compile_payload
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import YEAR_MS

State = Mapping[str, Json]
Value = Callable[[Frame, Json], Json]  # of the frame, and what `$` is


def value_of(state: State, name: str, language: str) -> Value | None:
    """Compiles a field: written, an expression, or with `Path` behind its name a path. None: the state has none."""
    if name in state and language == ANSWERS:
        answer = compile_answer(state[name])
        return lambda frame, data: answer.value(frame.states({}), frame.variables, frame.seed(answer.text))
    if name in state:
        fixed = state[name]
        return lambda frame, data: fixed
    if f"{name}Path" in state:
        query = compile_value(state[f"{name}Path"])
        return lambda frame, data: query.value(frame.scope(data))
    return None


def _data(state: State, language: str) -> Callable[[Frame], Json]:
    """Returns what gives the effective input: what `InputPath` leaves of the state's input."""
    if language == ANSWERS or "InputPath" not in state:
        return lambda frame: frame.input
    if state["InputPath"] is None:
        return lambda frame: {}
    path = compile_path(state["InputPath"])
    return lambda frame: path.value(frame.scope(frame.input))


def seconds_value(name: str, state: State, language: str) -> Computed:
    """The seconds that a Wait state waits, from its seconds or until its time."""
    data = _data(state, language)
    seconds, until = value_of(state, "Seconds", language), value_of(state, "Timestamp", language)

    def compute(frame: Frame) -> Json:
        if seconds is not None:
            return _seconds(seconds(frame, data(frame)), name)
        return 0 if until is None else _seconds_until(until(frame, data(frame)), frame.names["now"], name)

    return Computed(name, "Seconds" if seconds is not None else "Timestamp", compute)


def _seconds(value: Json, name: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= YEAR_MS / 1000:
        raise ExpressionError(f"{name} is to wait for {value!r}, not for a number of seconds up to a year")
    return value


def _seconds_until(value: Json, now: str, name: str) -> float:
    """A time that has passed is waited for no longer."""
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise ExpressionError(f"{name} is to wait until {value!r}, which is no time in RFC 3339") from error
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    left = max((at - datetime.fromisoformat(now)).total_seconds(), 0.0)
    return float(_seconds(left, name))


def fail_value(name: str, state: State, language: str) -> Computed:
    """What a Fail state fails with: {error, cause}, as text."""
    found = {key: value_of(state, key, language) for key in ("Error", "Cause")}

    def compute(frame: Frame) -> Json:
        told = {key.lower(): "" if value is None else value(frame, frame.input) for key, value in found.items()}
        for key, text in told.items():
            if not isinstance(text, str):
                raise ExpressionError(f"the {key} of {name} is {type(text).__name__}, not text")
        return {**told, "error": told["error"] or "States.Failed"}

    return Computed(name, "Fail", compute)


def items_value(name: str, state: State, language: str) -> Callable[[Frame], Sequence[Json]]:
    """The items of a Map state, in batches where it has an `ItemBatcher`."""
    data = _data(state, language)
    answer = compile_answer(state["Items"]) if "Items" in state else None
    path = compile_path(state["ItemsPath"]) if "ItemsPath" in state else None
    batcher: State = state.get("ItemBatcher", {})
    beside = _beside(batcher, language)

    def compute(frame: Frame) -> list[Json]:
        given = data(frame)
        if answer is not None:
            found = answer.value(frame.states({}), frame.variables, frame.seed(answer.text))
        else:
            found = given if path is None else path.value(frame.scope(given))
        items = list(list_of(found, f"what {name} is to go through"))
        most = int(batcher.get("MaxItemsPerBatch", 0))
        if not most:
            return items
        items = [key_and_value(one)[0] for one in items]
        more = {} if beside is None else {"BatchInput": beside(frame, given)}
        return [{"Items": items[at : at + most], **more} for at in range(0, len(items), most)]

    return compute


def _beside(batcher: State, language: str) -> Value | None:
    if "BatchInput" not in batcher:
        return None
    return _template(batcher["BatchInput"], language)


def item_value(state: State, language: str) -> Value:
    """The input of one branch of a Map state, made of its item, which is `data`."""
    template = state.get("ItemSelector", state.get("Parameters") if language != ANSWERS else None)
    if template is None:
        return lambda frame, item: item
    select, data = _template(template, language), _data(state, language)
    return lambda frame, item: select(frame, data(frame))


def _template(value: Json, language: str) -> Value:
    if language == ANSWERS:
        answer = compile_answer(value)
        return lambda frame, data: answer.value(frame.states({}), frame.variables, frame.seed(answer.text))
    payload = compile_payload(value)
    return lambda frame, data: payload.value(frame.scope(data))
