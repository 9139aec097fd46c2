"""Keeps answers below what Lambda may send: large values stand as their size, with a link that hands them out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlencode

from stepwell.api.exchange import Answer
from stepwell.api.problems import problem
from stepwell.definition.graph import Json
from stepwell.definition.text import pointer
from stepwell.errors import NotFound, PortError
from stepwell.limits import ANSWERED_BYTES, LARGE_VALUE_BYTES, LINK_SECONDS, SECOND_MS, SENT_BYTES
from stepwell.runtime.ports import BROKEN_BLOB, Blobs
from stepwell.runtime.starts.admission import place_in
from stepwell.runtime.stores.blobs import for_time, of_run
from stepwell.runtime.stores.jsontext import decode, encode

IN_ASCII = sys.version_info < (3, 12)  # as Lambda's runtime for that Python writes an answer
_CHARACTER_BYTES = 12  # of one, at the most
_VALUES = ("item", "result", "waiting_data")
_PARTED = ("input", "state", "output")  # objects of which the large parts are replaced, where they have any

Place: TypeAlias = tuple[dict[str, Any], str, str]  # where a value stands: the object, its key there, and the path


def fitted(
    run_id: str, view: Mapping[str, Any], most_bytes: int = ANSWERED_BYTES, **within: str | int
) -> dict[str, Json]:
    """Returns a run's view with its largest values replaced until the rest can be sent.

    Replaces its item, result and wait's data, its input, state and output or parts of them, and its steps' outputs.
    `within`: what else GET /runs/{id}/value is asked to find them: the view is not the run's own.
    """
    whole: dict[str, Any] = dict(view)
    size_bytes = _sent_bytes(encode(whole))
    if size_bytes <= most_bytes:
        return whole
    places: list[Place] = [(whole, name, f"/{name}") for name in _VALUES if name in whole]
    for name in _PARTED:
        places += _parts(whole, name)
    if whole.get("steps"):
        whole["steps"] = {name: dict(step) for name, step in whole["steps"].items()}
        places += [(step, "output", pointer(["steps", name, "output"])) for name, step in whole["steps"].items()]
    _replace(places, size_bytes - most_bytes, lambda path: _link(run_id, path, **within))
    return whole


def fitted_entry(run_id: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of a run's history that is too large alone, with its largest data replaced."""
    whole = dict(entry)
    places = list(_parts(whole, "data"))
    over_bytes = _sent_bytes(encode(whole)) - ANSWERED_BYTES
    _replace(places, over_bytes, lambda path: _link(run_id, path, entry=str(entry["id"])))
    return whole


def fitting(
    entries: Sequence[Mapping[str, Any]], shrunk: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> tuple[list[dict[str, Any]], bool]:
    """Returns the entries that can be sent together, and whether some had to be left for the next page.

    `shrunk`: makes one smaller that is too large alone.
    """
    found: list[dict[str, Any]] = []
    sum_bytes = 0
    for entry in entries:
        size_bytes = _sent_bytes(encode(entry))
        sent = dict(entry)
        if size_bytes > ANSWERED_BYTES:
            sent = shrunk(entry)
            size_bytes = _sent_bytes(encode(sent))
        sum_bytes += size_bytes
        if found and sum_bytes > ANSWERED_BYTES:
            return found, True
        found.append(sent)
    return found, False


def _parts(holder: dict[str, Any], name: str) -> Iterator[Place]:
    """Yields the parts of an object that are large, or all of it where none is."""
    value = holder.get(name)
    large = [key for key in value if _size_bytes(value[key]) >= LARGE_VALUE_BYTES] if isinstance(value, dict) else []
    if isinstance(value, dict) and large:
        holder[name] = dict(value)
        yield from ((holder[name], key, pointer([name, key])) for key in large)
    elif value is not None:
        yield holder, name, f"/{name}"


def _replace(places: Sequence[Place], over_bytes: int, link_of: Callable[[str], str]) -> None:
    """Replaces the largest of these values until so many bytes are gone."""
    sizes = [(_sent_bytes(encode(holder.get(name))), number) for number, (holder, name, _) in enumerate(places)]
    for value_bytes, number in sorted(sizes, reverse=True):
        if over_bytes <= 0 or value_bytes < LARGE_VALUE_BYTES:
            return
        holder, name, path = places[number]
        holder[name] = _reference(_size_bytes(holder[name]), link_of(path))
        over_bytes -= value_bytes


async def sendable(answer: Answer, text: str, run_id: str, blobs: Blobs) -> Answer:
    """Returns the answer, or a refusal with a link that hands it out for some minutes if Lambda could not send it.

    `text`: its body as it is sent. Where there are no links, nothing limits an answer.
    """
    if len(text) <= ANSWERED_BYTES // _CHARACTER_BYTES or _sent_bytes(text) <= SENT_BYTES:
        return answer
    data = text.encode()
    link = await blobs.link(await blobs.put(data, of_run(run_id) if run_id else for_time(LINK_SECONDS * SECOND_MS)))
    if not link:
        return answer
    return problem(
        413,
        "answer_too_large",
        f"the answer has {_sent_bytes(text)} bytes as it is sent; at most {SENT_BYTES} can be",
        hint="read it from large.link, or ask for less with `limit`",
        more={"large": {"bytes": len(data), "link": link}},
    )


async def result_of(run_id: str, result: Json, blobs: Blobs) -> Json:
    """Returns the result. If it cannot be sent: its size, and a link that works for some minutes.

    So is one that looks like such a size and link: a client would follow it, and who made it may have had it lead
    anywhere.
    """
    text = encode(result)
    is_small = len(text) <= ANSWERED_BYTES // _CHARACTER_BYTES or _sent_bytes(text) <= ANSWERED_BYTES
    if is_small and not _is_reference(result):
        return result
    data = text.encode()
    reference = await blobs.put(data, of_run(run_id))
    link = await blobs.link(reference)
    if not link and _is_reference(result):  # nothing signs links here, so the API hands it out itself
        link = _link(run_id, "/value", blob=reference.removeprefix("sha256:").partition("@")[0])
    return _reference(len(data), link) if link else result


async def linked(run_id: str, digest: str, blobs: Blobs) -> Json:
    """Returns the value that `result_of` has put at such a link, to be found at `/value`. Raises NotFound."""
    try:
        return {"value": decode((await blobs.get(f"sha256:{digest}@{of_run(run_id)}")).decode())}
    except (PortError, ValueError) as error:  # it is not there, or is no JSON, and no answer had a link to it
        if isinstance(error, PortError) and error.code != BROKEN_BLOB:
            raise
        hint = "read again what gave the link: it was for an earlier run of this id"
        raise NotFound(f"run {run_id} has no value {digest[:80]!r}", code="unknown_value", hint=hint) from error


def shortened(run_id: str, value: Json, most_bytes: int, path: str, **within: str | int) -> Json:
    """Returns the value, or a larger one's size and where to read it."""
    size_bytes = _size_bytes(value)
    return value if size_bytes <= most_bytes else _reference(size_bytes, _link(run_id, path, **within))


def pointed(view: Json, path: str) -> Json:
    """Returns the value at a JSON Pointer. Raises NotFound."""
    found = view
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and (place := place_in(key)) is not None and place < len(found):
            found = found[place]
        else:
            hint = "follow a link of an answer: its path is a JSON Pointer, such as /state/report"
            raise NotFound(f"nothing is at {path[:200]!r}", code="unknown_value", hint=hint)
    return found


def _link(run_id: str, path: str, **within: str | int) -> str:
    """Returns the route that hands out this value of a run."""
    if path == "/result" and "entry" not in within:
        return f"/runs/{run_id}/result"
    return f"/runs/{run_id}/value?{urlencode({**within, 'path': path})}"


def _reference(size_bytes: int, link: str) -> dict[str, Json]:
    return {"large": {"bytes": size_bytes, "link": link or None}}


def _is_reference(value: Json) -> bool:
    """Returns whether a value of a user's looks as `_reference` makes one."""
    return isinstance(value, dict) and value.keys() == {"large"} and isinstance(value["large"], dict)


def _sent_bytes(text: str) -> int:
    """Returns the size of a text within Lambda's answer, which holds it as a JSON string."""
    if IN_ASCII and not text.isascii():
        return len(json.dumps(text))
    return len(text.encode()) + sum(map(text.count, '"\\\n'))


def _size_bytes(value: object) -> int:
    return len(encode(value).encode())
