"""The user's own writes that a durable function makes in one transaction with its record. Data only.

A write is about one item of one table, which its key names, and may say on what condition it is done: where one
condition does not hold, nothing of the transaction is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow
from typing import Any, TypeAlias

REFUSED = "transaction_refused"  # a condition of one of its writes did not hold
INVALID = "transaction_invalid"  # it can never be written, or not by this worker
Value: TypeAlias = Any  # JSON, Decimal and bytes, as DynamoDB has them: numbers are Decimals
Values: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One item and its condition. Fields that are not set do not restrict it.

    exists     whether there is an item of this key
    equals     attributes, and the values that they must have
    at_least   attributes that must be numbers, and no smaller than these
    """

    table: str
    key: Values  # the names and values of the table's key attributes: one or two
    _: KW_ONLY
    exists: bool | None = None
    equals: Values = field(default_factory=dict)
    at_least: Values = field(default_factory=dict)

    @property
    def has_condition(self) -> bool:
        return self.exists is not None or bool(self.equals) or bool(self.at_least)

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value}" for name, value in self.key.items())
        return f"{type(self).__name__} of {place} in {self.table}"


@dataclass(frozen=True, slots=True)
class Put(TableWrite):
    """Replaces the item with the key's attributes and these."""

    item: Values = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update(TableWrite):
    """Sets these attributes of the item and adds these numbers. Creates the item if there is none."""

    _: KW_ONLY
    set: Values = field(default_factory=dict)
    add: Values = field(default_factory=dict)  # what is not there counts as 0; what is no number is refused


@dataclass(frozen=True, slots=True)
class Delete(TableWrite):
    """Deletes the item."""


@dataclass(frozen=True, slots=True)
class Check(TableWrite):
    """Writes nothing; its condition must hold for the other writes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a transaction was not written."""

    write: int  # its place among the writes, from 0; -1: which one it was is not known
    reason: str = ""  # why it cannot be written at all; "": its condition does not hold


_NUMBERS = Context(prec=38, Emin=-130, Emax=125, traps=[Clamped, Inexact, Overflow, Rounded, Underflow])
_ONE = Decimal(1)


def number_of(value: float | Decimal) -> Decimal:
    """As DynamoDB has it: exactly this, in one form for each. Raises ArithmeticError for one that it has not.

    A float is the number that it is shown as.
    """
    found = _NUMBERS.create_decimal(repr(value) if isinstance(value, float) else value)
    if not found.is_finite():
        raise Overflow
    if not found:
        return Decimal(0)
    short = found.normalize(_NUMBERS)
    is_round = short == short.to_integral_value() and short.adjusted() < _NUMBERS.prec
    return short.quantize(_ONE, context=_NUMBERS) if is_round else short  # 10, and not 1E+1


def added(first: Decimal, second: Decimal) -> Decimal:
    """Raises ArithmeticError for a sum of more than 38 digits."""
    return number_of(_NUMBERS.add(first, second))


def size_bytes(value: Value) -> int:
    """As DynamoDB counts it: UTF-8, numbers by their digits, and a little for each list and map."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case Decimal():
            return len(value.as_tuple().digits) // 2 + 2
        case list():
            return 3 + sum(1 + size_bytes(one) for one in value)
        case _:
            return 3 + sum(1 + len(name.encode()) + size_bytes(one) for name, one in value.items())
