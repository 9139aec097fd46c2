"""Parses the table's stream: a header changed, expired or was deleted, or a record was appended to a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES, HELD, NEXT_RUN_MS, header_of
from stepwell.limits import SECOND_MS
from stepwell.runtime.ports.headers import Header
from stepwell.values import dataclass

TTL = "dynamodb.amazonaws.com"  # the principal that deletes expired items
_LOGS = (keys.LOGS, f"{keys.JOIN}#")


@dataclass(frozen=True, slots=True)
class HeaderChanged:
    """A run was created (`before` is None), or its header changed. Excludes an input stored separately."""

    run_id: str
    before: Header | None
    after: Header
    has_input: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """A record was appended to a token's log, or a batch to a lane's. `item` has its body, or a claim check."""

    run_id: str
    token: str
    slot: int
    item: Item


@dataclass(frozen=True, slots=True)
class Expired:
    """A run's retention is over, and its header was deleted. `has_blob`: the header referred to a blob.

    What was written before `before_ms` is this run's. Another run may have had its id since the header was deleted.
    """

    run_id: str
    before_ms: int
    has_blob: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """A run was deleted. A worker that outlives it may still write to its log, which tells nobody anything."""

    run_id: str


Change: TypeAlias = HeaderChanged | Appended | Expired | Deleted


def change_of(record: Mapping[str, Any]) -> Change | None:
    """Parses a change; None if it is irrelevant. Raises LookupError or ValueError for an unreadable item."""
    change, kind = record["dynamodb"], record["eventName"]
    partition, sort = (change["Keys"][name]["S"] for name in (keys.PARTITION, keys.SORT))
    if sort == "RUN":
        if HELD in change.get("NewImage", {}):
            return Deleted(_run_of(partition))
        if "NewImage" not in change and HELD in change.get("OldImage", {}):
            return None  # the id of a deleted run is free again
        if kind != "REMOVE":
            return _header_changed(_run_of(partition), change)
        by = (record.get("userIdentity") or {}).get("principalId")
        return _expired(_run_of(partition), change["OldImage"]) if by == TTL else None
    if kind == "INSERT" and sort.startswith(_LOGS) and "mark" not in change["NewImage"]:
        _, token, slot = sort.split("#")
        return Appended(_run_of(partition), keys.unpart(token), int(slot), change["NewImage"])
    return None


def place_of(record: Mapping[str, Any]) -> str:
    """Describes the change's place for a log."""
    return "/".join(str(record["dynamodb"]["Keys"][name]["S"]) for name in (keys.PARTITION, keys.SORT))


def sequence_of(record: Mapping[str, Any]) -> str:
    """Returns Lambda's identifier of the record."""
    return str(record["dynamodb"]["SequenceNumber"])


def _header_changed(run_id: str, change: Mapping[str, Any]) -> HeaderChanged:
    old, new = change.get("OldImage"), change["NewImage"]
    return HeaderChanged(run_id, _header(old) if old and HELD not in old else None, _header(new), "input" in new)


def _expired(run_id: str, old: Item) -> Expired:
    expired_ms = int(old[EXPIRES]["N"]) * SECOND_MS
    return Expired(run_id, expired_ms - NEXT_RUN_MS, "input_blob" in old)


def _header(item: Item) -> Header:
    return header_of(item, item["input"]["S"] if "input" in item else "null")


def _run_of(partition: str) -> str:
    """Returns the run of a partition `RUN#<run>` or `RUN#<run>#<fork>@<page>`."""
    return keys.unpart(partition.split("#")[1])
