"""Values of a state that are written down, or computed: seconds, errors, items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from stepwell.definition.asl.dialects import key_and_value, list_of
from stepwell.definition.asl.fields import ANSWERS
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.intrinsics import compile_value
from stepwell.definition.asl.jsonata import FAILED, compile_answer
from stepwell.definition.asl.parts import Computed
from stepwell.definition.asl.paths import compile_path
from stepwell.definition.asl.templates import compile_payload
from stepwell.definition.graph import Json
from stepwell.definition.text import compact_json
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
    code = _code(language)

    def compute(frame: Frame) -> Json:
        if seconds is not None:
            return _seconds(seconds(frame, data(frame)), name, code)
        return 0 if until is None else _seconds_until(until(frame, data(frame)), frame.names["now"], name, code)

    return Computed(name, "Seconds" if seconds is not None else "Timestamp", compute)


def _code(language: str) -> str | None:
    """The code of a value of a wrong type: JSONata has an error for it, and JSONPath only `States.Runtime`."""
    return FAILED if language == ANSWERS else None


Number = Callable[[Frame], float]


def number_value(
    name: str, state: State, field: str, language: str, most: float = YEAR_MS / 1000, failed: str | None = None
) -> Number | None:
    """A number of the state that is computed; None where it is written, or where there is none.

    `failed`: the code of one that is no such number, if it has one of its own.
    """
    if language == ANSWERS and not isinstance(state.get(field), str):
        return None
    if language != ANSWERS and f"{field}Path" not in state:
        return None
    data, value = _data(state, language), value_of(state, field, language)

    def compute(frame: Frame) -> float:
        found = None if value is None else value(frame, data(frame))
        least = 1e-3 if field.endswith("Seconds") else 0.0
        if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found <= most:
            message = f"the {field} of {name} is {found!r:.100}, not a number from {least:g} to {most:g}"
            raise ExpressionError(message, code=failed or _code(language))
        return found

    return compute


def numbers_value(name: str, state: State, fields: Mapping[str, str], language: str) -> Computed | None:
    """The numbers of these fields, under names of their own; None where none of them is computed."""
    most = {"ToleratedFailurePercentage": 100.0}
    made = {own: (field, number_value(name, state, field, language, most.get(field, YEAR_MS / 1000)))
            for own, field in fields.items()}  # fmt: skip
    computed = {own: number for own, (_, number) in made.items() if number is not None}
    if not computed:
        return None
    written = {own: state[field] for own, (field, number) in made.items() if number is None and field in state}
    text = ", ".join(made[own][0] for own in computed)
    return Computed(name, text, lambda frame: {**written, **{own: number(frame) for own, number in computed.items()}})


def _seconds(value: Json, name: str, code: str | None) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= YEAR_MS / 1000:
        message = f"{name} is to wait for {value!r}, not for a number of seconds up to a year"
        raise ExpressionError(message, code=code)
    return value


def _seconds_until(value: Json, now: str, name: str, code: str | None) -> float:
    """A time that has passed is waited for no longer."""
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        message = f"{name} is to wait until {value!r}, which is no time in RFC 3339"
        raise ExpressionError(message, code=code) from error
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    left = max((at - datetime.fromisoformat(now)).total_seconds(), 0.0)
    return float(_seconds(left, name, code))


def fail_value(name: str, state: State, language: str) -> Computed:
    """What a Fail state fails with: {error, cause}, as text."""
    found = {key: value_of(state, key, language) for key in ("Error", "Cause")}

    def compute(frame: Frame) -> Json:
        told = {key.lower(): "" if value is None else value(frame, frame.input) for key, value in found.items()}
        for key, text in told.items():
            if not isinstance(text, str):
                message = f"the {key} of {name} is {type(text).__name__}, not text"
                raise ExpressionError(message, code=_code(language))
        return {**told, "error": told["error"] or "States.Failed"}

    return Computed(name, "Fail", compute)


def items_value(name: str, state: State, language: str) -> Callable[[Frame], Sequence[Json]]:
    """The items of a Map state, in batches where it has an `ItemBatcher`."""
    data = _data(state, language)
    answer = compile_answer(state["Items"]) if "Items" in state else None
    path = compile_path(state["ItemsPath"]) if "ItemsPath" in state else None
    batcher: State = state.get("ItemBatcher", {})
    beside = _beside(batcher, language)
    limits = [_batch_limit(name, state, field, language) for field in ("MaxItemsPerBatch", "MaxInputBytesPerBatch")]

    def compute(frame: Frame) -> list[Json]:
        given = data(frame)
        if "ItemReader" in state:
            found = frame.read("items")
        elif answer is not None:
            found = answer.value(frame.states({}), frame.variables, frame.seed(answer.text))
        else:
            found = given if path is None else path.value(frame.scope(given))
        items = list(list_of(found, f"what {name} is to go through", _code(language)))
        if not batcher:
            return items
        items = [key_and_value(one)[0] for one in items]
        more = {} if beside is None else {"BatchInput": beside(frame, given)}
        return [{"Items": batch, **more} for batch in _batches(items, *(limit(frame) for limit in limits))]

    return compute


def _batch_limit(name: str, state: State, field: str, language: str) -> Number:
    """A limit of a batch; 0 where there is none. Its path reads the state's effective input."""
    batcher: State = state.get("ItemBatcher", {})
    filters = {key: state[key] for key in ("InputPath",) if key in state}
    computed = number_value(name, {**batcher, **filters}, field, language)
    written = batcher.get(field, 0)
    return computed if computed is not None else lambda frame: written


def _batches(items: Sequence[Json], most: float, most_bytes: float) -> Iterator[list[Json]]:
    """Yields the items in batches that are within both limits, as far as one item is."""
    batch: list[Json] = []
    size = 0
    for item in items:
        item_bytes = len(compact_json(item).encode()) if most_bytes else 0
        is_full = most and len(batch) >= most
        if batch and (is_full or (most_bytes and size + item_bytes > most_bytes)):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_bytes
    if batch:
        yield batch


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
