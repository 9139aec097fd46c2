"""The user's own writes beside a record: one transaction over the engine's table and the user's tables.

    TransactWriteItems   [record, if its slot is free] [Put …] [Update …] [ConditionCheck …]

A call that repeats after a lost answer finds its own record in the slot. The slot's condition makes the repeat
harmless, across processes and days; a ClientRequestToken would do so for ten minutes and for the same bytes only. So
the slot is checked before any other reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.aws.calls import BAD_VALUES, CONDITION
from stepwell.aws.failures import code_of, response_of
from stepwell.aws.protocols import Item
from stepwell.aws.store.values import typed
from stepwell.engine.durable.transact import Check, Delete, Put, Refusal, TableWrite, Update, Value, Values
from stepwell.errors import PortError

_NOT_OURS = {
    "AccessDeniedException": "the worker may not write there; allow it in the permissions of the default pool",
    "ResourceNotFoundException": "there is no such table, in the worker's own account and region",
}


def not_held(reasons: Sequence[str]) -> Refusal | None:
    """The first of the user's writes whose condition did not hold, from the code for each of them."""
    return next((Refusal(number) for number, code in enumerate(reasons) if code in CONDITION), None)


def reason_of(error: Exception, first: int) -> Refusal | None:
    """Why the user's writes, the actions from `first` on, can never be made.

    None where the world did not answer: they are to be tried again.
    """
    cause = error.__cause__
    response = response_of(cause)
    if response is None:
        return None
    if isinstance(error, PortError):
        why = _NOT_OURS.get(code_of(cause))
        return Refusal(-1, f"{why}: {_message(response.get('Error', {}))}") if why else None
    reasons = response.get("CancellationReasons", ())[first:]
    for number, reason in enumerate(reasons):
        if reason.get("Code") in BAD_VALUES:
            return Refusal(number, _message(reason))
    return Refusal(-1, _message(response.get("Error", {})))


def _message(told: Mapping[str, Any]) -> str:
    return str(told.get("Message") or told.get("Code") or "DynamoDB does not say why")


# -- requests


class _Names:
    """The placeholders of an expression's names and values, because users' names may contain anything."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: Item = {}

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"#n{len(self.names)}")

    def value(self, value: Value) -> str:
        place = f":v{len(self.values)}"
        self.values[place] = typed(value)
        return place

    def request(self) -> Mapping[str, Any]:
        """Returns both maps unless empty, which DynamoDB refuses."""
        names = {"ExpressionAttributeNames": {place: name for name, place in self.names.items()}} if self.names else {}
        return {**names, **({"ExpressionAttributeValues": self.values} if self.values else {})}


def action_of(write: TableWrite) -> Mapping[str, Mapping[str, Any]]:
    """Converts one write for TransactWriteItems."""
    names = _Names()
    request: dict[str, Any] = {"TableName": write.table}
    if isinstance(write, Put):
        request["Item"] = _item({**write.key, **write.item})
    else:
        request["Key"] = _item(write.key)
    if isinstance(write, Update):
        request["UpdateExpression"] = _update(write, names)
    if write.has_condition:
        request["ConditionExpression"] = _condition(write, names)
    return {_KINDS[type(write)]: {**request, **names.request()}}


_KINDS = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


def _item(values: Values) -> Item:
    return {name: typed(value) for name, value in values.items()}


def _update(write: Update, names: _Names) -> str:
    sets = ", ".join(f"{names.name(name)} = {names.value(value)}" for name, value in write.set.items())
    adds = ", ".join(f"{names.name(name)} {names.value(value)}" for name, value in write.add.items())
    return " ".join(part for part in (f"SET {sets}" if sets else "", f"ADD {adds}" if adds else "") if part)


def _condition(write: TableWrite, names: _Names) -> str:
    parts = [f"{names.name(name)} = {names.value(value)}" for name, value in write.equals.items()]
    parts += [f"{names.name(name)} >= {names.value(value)}" for name, value in write.at_least.items()]
    if write.exists is not None:
        function = "attribute_exists" if write.exists else "attribute_not_exists"
        parts.append(f"{function}({names.name(next(iter(write.key)))})")
    return " AND ".join(parts)
