"""A mutant breaks what it says: what it puts in the place of a function can be called as the engine calls that."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Any
from unittest import mock

import pytest

from tests.sim.hunting import MUTANTS
from tests.sim.seed_mutants import OF_SEEDS

_ALL = {**MUTANTS, **{mutant.__name__: mutant for mutant, _ in OF_SEEDS}}
_BY_PLACE = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}


def replaced(mutant: Callable[[], Any]) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Each function that the mutant replaces, and what it puts there. A mock takes whatever it is given."""
    found: list[tuple[Any, Any]] = []
    patch = mock.patch.object

    def noted(target: Any, name: str, *new: Any, **more: Any) -> Any:
        found.extend((getattr(target, name, None), one) for one in new)
        return patch(target, name, *new, **more)

    with mock.patch.object(mock.patch, "object", noted), mutant():
        pass
    return ((old, new) for old, new in found if inspect.isfunction(old) and inspect.isfunction(new))


def refused(old: Callable[..., Any], new: Callable[..., Any]) -> list[str]:
    """The parameters of a function that what stands in its place does not take."""
    there = signature(new).parameters
    kinds = {one.kind for one in there.values()}
    places = sum(one.kind in _BY_PLACE for one in there.values())
    by_name = Parameter.VAR_KEYWORD in kinds
    missing = []
    for place, one in enumerate(signature(old).parameters.values()):
        if one.kind in _BY_PLACE:
            is_taken = place < places or Parameter.VAR_POSITIONAL in kinds
        elif one.kind is Parameter.KEYWORD_ONLY:
            is_taken = one.name in there or by_name
        else:
            is_taken = one.kind in kinds
        if not is_taken:
            missing.append(one.name)
    return missing


@pytest.mark.parametrize("name", sorted(_ALL))
def test_what_a_mutant_replaces_is_called_as_before(name: str) -> None:
    """Else it is caught for a TypeError, which users' code may have raised, and no law is tested."""
    assert [(old.__qualname__, bad) for old, new in replaced(_ALL[name]) if (bad := refused(old, new))] == []


def test_a_function_that_lacks_a_parameter_is_noticed() -> None:
    def old(first: int, second: int = 0, *, third: int = 0) -> None: ...

    def new(first: int) -> None: ...

    assert refused(old, new) == ["second", "third"]
    assert refused(old, lambda *args, **named: None) == []
