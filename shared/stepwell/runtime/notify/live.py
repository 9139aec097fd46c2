"""The live feed: history entries as they are committed, for watchers. No run waits for it.

    watcher                         server
      │  connects, for a topic        │
      │  {"after": "0@3.2"}  ───────▶ │
      │ ◀─── {"entries": …, "cursor": "0@9.1", "more": false}      what came since, a page at a time
      │ ◀─── {"entries": …}                                        what is committed from now on
      │ ◀─── {"error": {"code": …, "message": …}}                  a message that cannot be answered

An entry may come twice, or out of order: its run and its id identify it. An entry that a watcher missed is in the next
page after its cursor, which it asks for again from time to time. While branches are under way, the last page's cursor
stands before them, since they may commit in another order than that of the history: their entries come again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stepwell.definition.graph import Json
from stepwell.engine.entries import Entry, entry_json
from stepwell.errors import InvalidInput, StepwellError
from stepwell.limits import LIVE_FRAME_BYTES, LIVE_MESSAGE_BYTES
from stepwell.runtime.notify.telling import Notice
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

_ENVELOPE_BYTES = 200  # of a frame, besides its entries


@dataclass(frozen=True, slots=True)
class Topic:
    """What a watcher subscribes to: one run, the runs of one workflow, or all runs."""

    run_id: str = ""
    workflow: str = ""

    def wants(self, run_id: str, workflow: str) -> bool:
        return self.run_id in {"", run_id} and self.workflow in {"", workflow}


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """An entry with its run, as watchers get it."""

    run_id: str
    workflow: str
    entry: Entry

    def json(self) -> dict[str, Json]:
        return {"run_id": self.run_id, "workflow": self.workflow, "entry": entry_json(self.entry)}


def live_entry(notice: Notice) -> LiveEntry:
    return LiveEntry(notice.run.run_id, notice.run.workflow, notice.entry)


def frames_of(entries: Iterable[LiveEntry]) -> Iterator[str]:
    """Yields frames with all entries in their order; an entry too large for a frame comes without its data."""
    for texts in _packed(entries):
        yield f'{{"entries":[{",".join(texts)}]}}'


def page_frame(entries: Iterable[LiveEntry], cursor: str, *, more: bool) -> str:
    """Returns the answer to a watcher's message: as many of the entries as one frame takes.

    `cursor`: the id of the entry to go on after; `more`: others are there.
    """
    given = list(entries)
    texts = next(_packed(given), [])
    if len(texts) < len(given):
        cursor, more = given[len(texts) - 1].entry.id, True
    return f'{{"entries":[{",".join(texts)}],"cursor":{encode(cursor)},"more":{encode(more)}}}'


def error_frame(error: StepwellError) -> str:
    """Returns the answer to a watcher's message that cannot be answered: the stable code, and what is wrong."""
    return encode({"error": {"code": error.code, "message": error.message}})


def cursor_in(message: str) -> str | None:
    """Parses a watcher's message; None if it wants nothing of the past. Raises InvalidInput."""
    try:
        found = json.loads(message) if len(message) <= LIVE_MESSAGE_BYTES else None
    except (ValueError, RecursionError):
        found = None
    after = found.get("after") if isinstance(found, dict) else 0
    if after is not None and not isinstance(after, str):
        raise InvalidInput('a watcher sends {"after": ID}, with the id of the last entry that it knows',
                           code="bad_message")  # fmt: skip
    return after


def _packed(entries: Iterable[LiveEntry]) -> Iterator[list[str]]:
    texts: list[str] = []
    size_bytes = _ENVELOPE_BYTES
    for entry in entries:
        text, more_bytes = _text(entry)
        if texts and size_bytes + more_bytes > LIVE_FRAME_BYTES:
            yield texts
            texts, size_bytes = [], _ENVELOPE_BYTES
        texts.append(text)
        size_bytes += more_bytes
    if texts:
        yield texts


def _text(entry: LiveEntry) -> tuple[str, int]:
    """Returns the entry as JSON, and its size in bytes with a comma; its data is left out if it is too large."""
    text = encode(entry.json())
    size_bytes = len(text.encode(errors="surrogatepass"))
    if size_bytes > LIVE_FRAME_BYTES - _ENVELOPE_BYTES:
        about = entry.json()
        text = encode({**about, "entry": {**_fields(about), "data": None}, "data_left_out": True})
        size_bytes = len(text.encode(errors="surrogatepass"))
    return text, size_bytes + 1


def _fields(about: dict[str, Json]) -> dict[str, Json]:
    fields = about["entry"]
    assert isinstance(fields, dict)  # noqa: S101 - an entry is an object
    return fields
