"""Limits that are templates: the time of an attempt, and how many branches run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.durations import parse_duration, show_duration
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError, InvalidInput, UserError
from stepwell.limits import SECOND_MS, YEAR_MS


class Computed:
    """A template whose value the engine reads under a name of its own, once it is checked."""

    def __init__(self, template: Expression, name: str, checked: Callable[[Json], Json]) -> None:
        self.text, self.names, self.reads_error = template.text, template.names, template.reads_error
        self._template, self._name, self._checked = template, name, checked

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        value = self._template.evaluate(names)
        try:
            return {self._name: self._checked(value)}
        except UserError as error:
            raise ExpressionError(f"`{self.text}`: {error.message}", hint=error.hint) from error


def is_template(value: Json) -> bool:
    return isinstance(value, str) and "{{" in value


def attempt_seconds(value: Json) -> float:
    """Returns how long an attempt may take. Raises UserError."""
    limit_ms = parse_duration(value)
    if not 0 < limit_ms <= YEAR_MS:
        raise InvalidInput(f"a step's timeout is longer than 0, and at most {show_duration(YEAR_MS)}")
    return limit_ms / SECOND_MS


def branches_at_once(value: Json) -> int:
    """Returns how many branches may run at once. Raises UserError."""
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    if not is_whole or value < 1:
        raise InvalidInput(f"it must be a whole number from 1, not {value!r:.80}")
    return int(value)
