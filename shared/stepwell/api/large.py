"""Keeps answers below what Lambda may send: large values stand as their size, and a large result as a link to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.definition.graph import Json
from stepwell.limits import ANSWERED_BYTES, LARGE_VALUE_BYTES
from stepwell.runtime.ports import Blobs
from stepwell.runtime.stores.blobs import of_run
from stepwell.runtime.stores.jsontext import encode


def fitted(run_id: str, view: Mapping[str, Any]) -> dict[str, Json]:
    """Returns a run's view with its largest values replaced until the rest can be sent.

    Replaces its input, result and wait's data, the values of its state, and the outputs of its steps.
    """
    whole: dict[str, Any] = dict(view)
    size_bytes = _size_bytes(whole)
    if size_bytes <= ANSWERED_BYTES:
        return whole
    whole["state"] = dict(view.get("state") or {})
    whole["steps"] = {name: dict(step) for name, step in (view.get("steps") or {}).items()}
    places: list[tuple[dict[str, Any], str]] = [(whole, name) for name in ("input", "result", "waiting_data")]
    places += [(whole["state"], name) for name in whole["state"]]
    places += [(step, "output") for step in whole["steps"].values()]
    sizes = [(_size_bytes(holder.get(name)), number) for number, (holder, name) in enumerate(places)]
    for value_bytes, number in sorted(sizes, reverse=True):
        if size_bytes <= ANSWERED_BYTES or value_bytes < LARGE_VALUE_BYTES:
            break
        holder, name = places[number]
        link = f"/runs/{run_id}/result" if holder is whole and name == "result" else f"/runs/{run_id}/export"
        holder[name] = _reference(value_bytes, link)
        size_bytes -= value_bytes
    return whole


def fitting(entries: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Returns the entries that can be sent together, and whether some had to be left for the next page.

    The data of an entry that is too large alone stands as its size.
    """
    found: list[dict[str, Any]] = []
    sum_bytes = 0
    for entry in entries:
        size_bytes = _size_bytes(entry)
        is_large = size_bytes > ANSWERED_BYTES
        sum_bytes += LARGE_VALUE_BYTES if is_large else size_bytes
        if found and sum_bytes > ANSWERED_BYTES:
            return found, True
        found.append({**entry, "data": _reference(size_bytes, "")} if is_large else entry)
    return found, False


async def result_of(run_id: str, result: Json, blobs: Blobs) -> Json:
    """Returns the result, or for one that cannot be sent its size and a link that hands it out for some minutes."""
    text = encode(result)
    if len(text) <= ANSWERED_BYTES // 4 or len(data := text.encode()) <= ANSWERED_BYTES:
        return result
    link = await blobs.link(await blobs.put(data, of_run(run_id)))
    return _reference(len(data), link) if link else result


def _reference(size_bytes: int, link: str) -> dict[str, Json]:
    return {"large": {"bytes": size_bytes, "link": link or None}}


def _size_bytes(value: object) -> int:
    return len(encode(value).encode())
