"""What tests write out of habit with unittest.mock, and what to write here instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from stepwell.definition.text import closest
from stepwell.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

BORROWED: Mapping[str, str] = {
    "return_value": 'stepwell.mock("charge", returns=…)',
    "side_effect": 'stepwell.mock("charge", raises=ValueError("no")), or returns=a function of the input',
    "called": "bool(mock.calls)",
    "call_count": "len(mock.calls)",
    "call_args": "mock.calls[-1], which is the input of the last attempt",
    "call_args_list": "mock.calls, which has the input of each attempt",
    "mock_calls": "mock.calls, which has the input of each attempt",
    "method_calls": "mock.calls, which has the input of each attempt",
    "reset_mock": "mock.calls.clear()",
    "assert_called": "assert mock.calls",
    "assert_called_once": "assert len(mock.calls) == 1",
    "assert_called_with": 'assert mock.calls[-1] == {"amount": 5}',
    "assert_called_once_with": 'assert mock.calls == [{"amount": 5}]',
    "assert_any_call": 'assert {"amount": 5} in mock.calls',
    "assert_has_calls": 'assert mock.calls == [{"amount": 5}, {"amount": 7}]',
    "assert_not_called": "assert not mock.calls",
}


def no_attribute(name: str) -> AttributeError:
    """Returns the error for an attribute that a mock of Stepwell does not have."""
    instead = f": write {BORROWED[name]}" if name in BORROWED else "; it has calls"
    return AttributeError(f"a mock of Stepwell has no {name}{instead}", name=name)


def refuse_borrowed(mock: F) -> F:
    """Has `mock` raise UserError for what it does not take, instead of Python's TypeError."""
    options = [name for name, one in signature(mock).parameters.items() if one.kind is Parameter.KEYWORD_ONLY]

    @wraps(mock)
    def checked(self: object, *names: Any, **given: Any) -> Any:
        if len(names) > 1:
            hint = f"write mock({names[0]!r:.60}, returns={names[1]!r:.60})"
            raise UserError("mock takes the step's name alone by position", code="bad_value", hint=hint)
        for name in given.keys() - {"name", *options}:
            hint = f"write {BORROWED[name]}" if name in BORROWED else closest(name, options)
            raise UserError(f"mock has no option {name!r}", code="bad_value", hint=hint)
        return mock(self, *names, **given)

    return checked  # type: ignore[return-value]  # it has the signature of `mock`
