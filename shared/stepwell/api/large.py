"""Keeps answers below what Lambda may send: large values stand as their size, and a large result as a link to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepwell.api.exchange import Answer
from stepwell.api.problems import problem
from stepwell.definition.graph import Json
from stepwell.limits import ANSWERED_BYTES, LARGE_VALUE_BYTES, LINK_SECONDS, SECOND_MS, SENT_BYTES
from stepwell.runtime.ports import Blobs
from stepwell.runtime.stores.blobs import for_time, of_run
from stepwell.runtime.stores.jsontext import encode

_VALUES = ("input", "item", "result", "waiting_data")


def fitted(run_id: str, view: Mapping[str, Any]) -> dict[str, Json]:
    """Returns a run's view with its largest values replaced until the rest can be sent.

    Replaces its input, item, result and wait's data, the values of its state and output, and its steps' outputs. It
    may be the view of a branch, or another one that has some of these.
    """
    whole: dict[str, Any] = dict(view)
    size_bytes = _size_bytes(whole)
    if size_bytes <= ANSWERED_BYTES:
        return whole
    places: list[tuple[dict[str, Any], str]] = [(whole, name) for name in _VALUES if name in whole]
    for name in ("state", "output"):
        if isinstance(whole.get(name), dict):
            whole[name] = dict(whole[name])
            places += [(whole[name], one) for one in whole[name]]
    if whole.get("steps"):
        whole["steps"] = {name: dict(step) for name, step in whole["steps"].items()}
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


def fitting(
    entries: Sequence[Mapping[str, Any]], shrunk: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> tuple[list[dict[str, Any]], bool]:
    """Returns the entries that can be sent together, and whether some had to be left for the next page.

    What is large in an entry that is too large alone stands as its size: `shrunk` says what, else it is its data.
    """
    found: list[dict[str, Any]] = []
    sum_bytes = 0
    for entry in entries:
        size_bytes = _size_bytes(entry)
        sent = dict(entry)
        if size_bytes > ANSWERED_BYTES:
            sent = shrunk(entry) if shrunk else {**entry, "data": _reference(size_bytes, "")}
            size_bytes = _size_bytes(sent)
        sum_bytes += size_bytes
        if found and sum_bytes > ANSWERED_BYTES:
            return found, True
        found.append(sent)
    return found, False


async def sendable(answer: Answer, text: str, run_id: str, blobs: Blobs) -> Answer:
    """Returns the answer, or a refusal with a link that hands it out for some minutes if Lambda could not send it.

    `text`: its body as it is sent. Where there are no links, nothing limits an answer.
    """
    if len(text) <= ANSWERED_BYTES // 4 or len(data := text.encode()) <= SENT_BYTES:
        return answer
    link = await blobs.link(await blobs.put(data, of_run(run_id) if run_id else for_time(LINK_SECONDS * SECOND_MS)))
    if not link:
        return answer
    return problem(
        413,
        "answer_too_large",
        f"the answer has {len(data)} bytes; at most {SENT_BYTES} can be sent",
        hint="read it from large.link, or ask for less with `limit`",
        more={"large": {"bytes": len(data), "link": link}},
    )


async def result_of(run_id: str, result: Json, blobs: Blobs) -> Json:
    """Returns the result, or for one that cannot be sent its size and a link that hands it out for some minutes."""
    text = encode(result)
    if len(text) <= ANSWERED_BYTES // 4 or len(data := text.encode()) <= ANSWERED_BYTES:
        return result
    link = await blobs.link(await blobs.put(data, of_run(run_id)))
    return _reference(len(data), link) if link else result


def shortened(value: Json, most_bytes: int) -> Json:
    """Returns the value, or a larger one's size."""
    size_bytes = _size_bytes(value)
    return value if size_bytes <= most_bytes else _reference(size_bytes, "")


def _reference(size_bytes: int, link: str) -> dict[str, Json]:
    return {"large": {"bytes": size_bytes, "link": link or None}}


def _size_bytes(value: object) -> int:
    return len(encode(value).encode())
