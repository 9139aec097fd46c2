"""Retriers, catchers and choice rules: the lists of a state that say where it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stepwell.definition.asl.conditions import compile_condition, condition_errors
from stepwell.definition.asl.dialects import Answers, Dialect, Paths, field_errors
from stepwell.definition.asl.fields import ANSWERS, data_problems
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.jsonata import FAILED, answer_errors, compile_answer, is_jsonata
from stepwell.definition.asl.names import bad_names
from stepwell.definition.asl.parts import Computed, ErrorNames
from stepwell.definition.asl.paths import compile_path
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json, Retrier, Rule
from stepwell.definition.text import closest
from stepwell.errors import ExpressionError
from stepwell.limits import YEAR_MS

State = Mapping[str, Json]
_RETRIER = ("ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy",
            "Comment")  # fmt: skip
_CATCHER = {False: ("ErrorEquals", "Next", "ResultPath", "Assign", "Comment"),
            True: ("ErrorEquals", "Next", "Output", "Assign", "Comment")}  # fmt: skip
_ALL = "States.ALL"


def retriers(context: Context, state: State, path: str) -> list[Retrier]:
    """Compiles `Retry`."""
    made = []
    for at, one in _entries(context, state, "Retry", path, _RETRIER):
        place = f"{path}/Retry/{at}"
        most_ms = _number(context, one, "MaxDelaySeconds", place, 0)
        jitter = one.get("JitterStrategy", "NONE")
        if jitter not in ("FULL", "NONE"):
            context.add("bad_value", "`JitterStrategy` is FULL or NONE", f"{place}/JitterStrategy", "write one of them")
        retrier = Retrier(
            errors=ErrorNames(tuple(one["ErrorEquals"])),
            max_retries=int(_number(context, one, "MaxAttempts", place, 3)),
            initial_delay_ms=int(_number(context, one, "IntervalSeconds", place, 1) * 1000),
            rate=_number(context, one, "BackoffRate", place, 2.0, least=1.0),
            max_delay_ms=int(most_ms * 1000) or None,
            jitter="full" if jitter == "FULL" else "none",
        )
        made.append(retrier)
    return made


def catches(
    context: Context, name: str, state: State, path: str, language: str
) -> list[tuple[ErrorNames, Dialect, Json]]:
    """Compiles `Catch`: the errors of each catcher, what makes its output, and its next state."""
    made = []
    for at, one in _entries(context, state, "Catch", path, _CATCHER[language == ANSWERS]):
        place = f"{path}/Catch/{at}"
        if is_wrong(context, one, place, language):
            continue
        dialect: Dialect = Answers(one) if language == ANSWERS else Paths(one)
        made.append((ErrorNames(tuple(one["ErrorEquals"])), dialect, one.get("Next")))
    return made


def is_wrong(context: Context, one: State, place: str, language: str) -> bool:
    """Reports what is wrong in the fields of a catcher or a rule that make data."""
    problems = list(data_problems(one, place))
    errors = list(field_errors(one, place, is_jsonata=language == ANSWERS))
    context.problems += problems
    for where, error in errors:
        context.add_error(error, where)
    return bool(problems or errors)


def _entries(
    context: Context, state: State, key: str, path: str, known: tuple[str, ...]
) -> Iterator[tuple[int, State]]:
    """Yields the entries of `Retry` or `Catch` that have names of errors; reports what is wrong."""
    listed = state.get(key, [])
    for at, one in enumerate(listed):
        place = f"{path}/{key}/{at}"
        if not isinstance(one, dict):
            context.add("wrong_type", f"an entry of `{key}` must be an object", place)
            continue
        for name in one.keys() - {*known}:
            context.add("unknown_key", f"`{key}` has no field `{name}`", f"{place}/{name}", closest(name, known))
        bad = list(bad_names(one.get("ErrorEquals"), f"{place}/ErrorEquals"))
        for where, message, hint in bad:
            context.add("bad_value", message, where, hint)
        if bad:
            continue
        if _ALL in one["ErrorEquals"] and (len(one["ErrorEquals"]) > 1 or at < len(listed) - 1):
            message = f"`{_ALL}` stands alone, in the last entry of `{key}`"
            context.add("bad_value", message, f"{place}/ErrorEquals", "move it, or name the errors")
        yield at, {name: value for name, value in one.items() if name in known}


def _number(context: Context, one: State, name: str, place: str, default: float, least: float = 0.0) -> float:
    value = one.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= YEAR_MS / 1000:
        context.add("bad_value", f"`{name}` must be a number of {least:g} or more", f"{place}/{name}")
        return default
    return value


# -- choices


Leads = Callable[[str, str, State, str], str]


def choices(
    context: Context, name: str, state: State, path: str, language: str, target: Callable[[Json, str], str], led: Leads
) -> list[Rule]:
    """Compiles the rules of a Choice state."""
    rules = []
    if not state["Choices"]:
        context.add("bad_state", "`Choices` is empty", f"{path}/Choices", "write at least one rule")
    for at, one in enumerate(state["Choices"]):
        place = f"{path}/Choices/{at}"
        if not isinstance(one, dict):
            context.add("wrong_type", "a rule must be an object", place)
            continue
        when = _when(context, name, at, one, state, place, language)
        to = target(one.get("Next"), f"{place}/Next")
        rules.append(Rule(f"{name}.Choices[{at}]", "transition", when, led(f"Choices[{at}]", to, one, place)))
    return rules


_BESIDE = ("Next", "Assign", "Comment", "Output")


def _when(context: Context, name: str, at: int, one: State, state: State, place: str, language: str) -> Computed | None:
    text = f"Choices[{at}]"
    if language == ANSWERS:
        for key in one.keys() - {*_BESIDE, "Condition"}:
            context.add("unknown_key", f"a rule has no field `{key}`", f"{place}/{key}", "write Condition")
        errors = list(answer_errors(one.get("Condition"), f"{place}/Condition"))
        for where, error in errors:
            context.add_error(error, where)
        if "Condition" not in one:
            context.add("missing_key", "a rule needs a `Condition`", place, 'write "Condition": "{% … %}"')
        elif isinstance(written := one["Condition"], str) and not is_jsonata(written):
            message = f"`Condition` is the text {written[:80]!r}, and no expression"
            context.add("bad_expression", message, f"{place}/Condition", f"write {{% {written[:80]} %}}")
        return None if errors or "Condition" not in one else Computed(name, text, _answered(one["Condition"]))
    rule = {key: value for key, value in one.items() if key not in _BESIDE}
    wrong = list(condition_errors(rule, place))
    for where, error in wrong:
        context.add_error(error, where)
    if wrong:
        return None
    condition = compile_condition(rule, place)
    path = state.get("InputPath", "$")
    filtered = None if path is None else compile_path(path)

    def holds(frame: Frame) -> bool:
        data = {} if filtered is None else filtered.value(frame.scope(frame.input))
        return condition.holds(frame.scope(data))

    return Computed(name, text, holds)


def _answered(condition: Json) -> Callable[[Frame], Json]:
    answer = compile_answer(condition)

    def holds(frame: Frame) -> Json:
        value = answer.value(frame.states({}), frame.variables, frame.seed(answer.text))
        if not isinstance(value, bool):
            message = f"the condition {answer.text} gave {type(value).__name__}, not true or false"
            raise ExpressionError(message, code=FAILED)
        return value

    return holds
