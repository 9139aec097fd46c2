"""Frozen dataclasses of our own do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, replace
from typing import Any, TypeAlias

import pytest

from stepwell.values import dataclass

Make: TypeAlias = Callable[[type[Any]], type[Any]]
OURS: dict[str, Make] = {
    "slots": dataclass(frozen=True, slots=True),
    "a dictionary": dataclass(frozen=True),
    "keywords": dataclass(frozen=True, slots=True, kw_only=True),
    "by identity": dataclass(frozen=True, slots=True, eq=False),
}
THEIRS: dict[str, Make] = {
    "slots": dataclasses.dataclass(frozen=True, slots=True),
    "a dictionary": dataclasses.dataclass(frozen=True),
    "keywords": dataclasses.dataclass(frozen=True, slots=True, kw_only=True),
    "by identity": dataclasses.dataclass(frozen=True, slots=True, eq=False),
}


def classes(make: Make) -> dict[str, type[Any]]:
    """Returns a class for each thing that a field or a class can have."""

    @make
    class Plain:
        """Text."""

        name: str
        count: int = 0

    @make
    class Empty: ...

    @make
    class Made:
        listed: list[int] = field(default_factory=list)
        secret: str = field(default="", repr=False)
        note: str = field(default="", compare=False)
        unhashed: int = field(default=0, hash=False)

    @make
    class Computed:
        name: str
        size: int = field(init=False)
        kind: str = field(init=False, default="text")
        parts: list[str] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", len(self.name))

    @make
    class Named:
        place: str
        _: KW_ONLY
        at: int = 0
        by: str

    @make
    class Own:  # noqa: PLW1641 - the decorator makes one
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.name.lower() == other.name.lower()

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @make
    class Hashed:
        name: str

        def __hash__(self) -> int:
            return 7

    @make
    class Further(Plain):
        more: float = 0.5

    @make
    class Above(Plain):
        def __eq__(self, other: object) -> bool:
            return self.count > 5 or super(Above, self).__eq__(other)  # noqa: UP008 - the class is made anew, for its slots

        def __hash__(self) -> int:
            return super(Above, self).__hash__()  # noqa: UP008 - as above

    class Plainly(Plain):
        """Without the decorator."""

    return {one.__name__: one for one in (Plain, Empty, Made, Computed, Named, Own, Hashed, Further, Above, Plainly)}


CALLS: dict[str, list[dict[str, Any]]] = {
    "Plain": [{"name": "a"}, {"name": "a", "count": 1}, {"name": "a", "count": 0}, {}, {"nome": 1}],
    "Empty": [{}, {}, {"name": 1}],
    "Made": [{}, {"listed": []}, {"listed": [1]}, {"secret": "s"}, {"note": "n"}, {"unhashed": 3}],
    "Computed": [{"name": "abc"}, {"name": "abd"}, {"name": "abc", "size": 3}],
    "Named": [{"place": "p", "by": "w"}, {"place": "p", "at": 0, "by": "w"}, {"place": "p"}],
    "Own": [{"name": "A"}, {"name": "a"}, {"name": "b"}],
    "Hashed": [{"name": "a"}, {"name": "b"}],
    "Above": [{"name": "a"}, {"name": "a"}, {"name": "b"}, {"name": "b", "count": 6}],
    "Plainly": [{"name": "a"}, {"name": "a"}, {"name": "b"}],
    "Further": [{"name": "a"}, {"name": "a", "more": 0.5}, {"name": "b", "count": 2, "more": 1.5}],
}


def outcome(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Returns what the call returns, or its error as text."""
    try:
        return call(*given, **named)
    except (TypeError, AttributeError) as error:
        return type(error).__name__, str(error)


def told(cls: type[Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns all that can be seen of a class, and of values made of it."""
    made = [outcome(cls, **given) for given in calls]
    found = [one for one in made if isinstance(one, cls)]
    hashes = [outcome(hash, one) for one in found]
    return {
        "signature": str(inspect.signature(cls)),
        "slots": getattr(cls, "__slots__", None),
        "match": getattr(cls, "__match_args__", None),
        "text": [repr(one) for one in made],
        "equal": [[one == other for other in [*found, 1]] for one in found],
        "hashes": [[one == other for other in hashes] for one in hashes],
        "unhashable": [one for one in hashes if not isinstance(one, int)],
        "copies": [(repr(copy.copy(one)), repr(copy.deepcopy(one))) for one in found],
        "replaced": [repr(outcome(replace, one, name="z")) for one in found],
        "fields": [asdict(one) for one in found],
        "changes": [
            [outcome(setattr, one, name, 1), outcome(delattr, one, name)]
            for one in found
            for name in [each.name for each in fields(cls)]
        ],
        "unchanged": [repr(one) for one in found],
    }


@pytest.mark.parametrize("options", OURS)
@pytest.mark.parametrize("name", CALLS)
def test_a_class_is_as_the_standard_librarys(name: str, options: str) -> None:
    ours, theirs = classes(OURS[options]), classes(THEIRS[options])
    assert told(ours[name], CALLS[name]) == told(theirs[name], CALLS[name])


@dataclass(frozen=True, slots=True)
class Kept:
    place: tuple[int, ...]
    name: str = "x"


def test_a_value_takes_no_name_that_is_no_field() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        Kept((1, 2)).other = 1  # type: ignore[attr-defined]  # what is to be refused


def test_a_value_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Kept((1, 2)))) == Kept((1, 2))  # noqa: S301 - our own


def test_a_value_that_holds_itself_can_be_shown() -> None:
    held: list[Any] = []
    held.append(Kept((), held))  # type: ignore[arg-type]  # whatever it may hold
    assert repr(held) == "[Kept(place=(), name=[...])]"


def test_a_match_takes_a_value_apart() -> None:
    match Kept((1, 2)):
        case Kept((first, *_), name):
            assert (first, name) == (1, "x")


def test_values_of_two_classes_are_never_equal() -> None:
    plain = classes(OURS["slots"])
    assert plain["Further"]("a") != plain["Plain"]("a")
    assert plain["Plain"]("a") != plain["Further"]("a")
    assert plain["Plain"]("a").__eq__("a") is NotImplemented


def test_a_class_compiles_one_function_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others take a third of a worker's cold start."""
    compiled: list[str] = []

    def compiles(text: str, *known: Any) -> None:
        compiled.extend(name for name in re.findall(r"def (\w+)", text) if name != "__create_fn__")  # empty, since 3.13
        _exec(text, *known)

    monkeypatch.setattr("builtins.exec", compiles)
    made = classes(OURS["slots"])
    assert set(compiled) == {"__init__"}
    count = len(compiled)
    values = {made["Plain"]("a"): 1}
    assert values[made["Plain"]("a")] == 1
    assert compiled[count:] == ["__hash__", "__eq__"]
    assert values[made["Plain"]("a")] == 1
    assert len(compiled) == count + 2


_exec = exec
