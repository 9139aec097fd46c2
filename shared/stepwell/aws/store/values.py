"""Python's values in DynamoDB's own JSON, as boto3's `Table` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from stepwell.engine.durable.transact import Value, number_of


def typed(value: Value) -> dict[str, Any]:
    """Converts a value of a user's write. Raises TypeError for one that DynamoDB does not have."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | Decimal():
            return {"N": str(number_of(value))}
        case str():
            return {"S": value}
        case bytes() | bytearray():
            return {"B": bytes(value)}
        case Mapping():
            return {"M": {name: typed(one) for name, one in value.items()}}
        case list() | tuple():
            return {"L": [typed(one) for one in value]}
        case _:
            raise TypeError(f"DynamoDB has no values of type {type(value).__name__}")
