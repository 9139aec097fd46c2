"""Names the parts of several operations whose arguments are not those of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.engine.durable.journal import Entry, entries, first_own
from stepwell.engine.durable.turns import Stuck, Turn
from stepwell.engine.records import Record
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing

_NAMED = 5  # of those that differ


async def with_parts(logbook: Logbook, at: Standing, turn: Turn) -> Turn:
    """Returns the turn whose error says which parts are other than their own logs have. Reads only for such a turn."""
    stuck = turn.result
    if not (isinstance(stuck, Stuck) and stuck.parts):
        return turn
    data = stuck.failure.data or {}
    fork = await logbook.fork(at.run_id, at.token.id, data["slot"])
    logs = [] if fork is None else await logbook.page_logs(fork, 0)
    recorded = {token.branch.index: log for token, log in logs if token.branch is not None}
    found = [text for index, part in enumerate(stuck.parts) if (text := _differs(index, part, recorded.get(index, ())))]
    if not found:
        return replace(turn, result=Stuck(stuck.failure))
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    came = f"{data['came']} ({'; '.join(found[:_NAMED])}{more})"
    message = stuck.failure.message.replace(data["came"], came, 1)
    return replace(turn, result=Stuck(replace(stuck.failure, message=message, data={**data, "came": came})))


def _differs(index: int, part: tuple[str, int], records: Sequence[Record]) -> str:
    """Returns what the part was and is; "" for one that is the same, or has no record that tells."""
    entry: Entry | None = first_own(entries(records, has_tasks=False))
    what, arguments = part
    if entry is None or not what:
        return ""
    if str(entry) != what:
        return f"at index {index}: {what}, which was {entry}"
    return f"at index {index}: {what}" if entry.arguments and entry.arguments != arguments else ""
