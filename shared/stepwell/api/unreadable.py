"""What to say of a run whose log cannot be read: which record it is, and what to do."""

from __future__ import annotations

from stepwell.engine.records import ROOT
from stepwell.engine.stored.codec import decode_record
from stepwell.errors import EngineFault, StepwellError
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.ports import Ports

CODES = frozenset(
    {"broken_record", "broken_snapshot", "broken_claim_check", "broken_batch", "broken_log", "format_too_old"}
)


async def where_unreadable(ports: Ports, run_id: str, error: EngineFault) -> str:
    """Describes it: `the log of run r1 cannot be read: record 7: it cannot be read (KeyError)`. Reads the root's log.

    Names no record if the one that is broken is a branch's, or none is.
    """
    slot = await _first_broken(ports, run_id)
    what = error.message if slot is None else f"record {slot}: {error.message.partition(': ')[2] or error.message}"
    return f"the log of run {run_id} cannot be read: {what}"


async def _first_broken(ports: Ports, run_id: str) -> int | None:
    after = -1
    try:
        while page := await ports.log.read_log(run_id, ROOT, after, PAGE_ITEMS_MAX):
            for saved in page:
                after = saved.slot
                decode_record(await fetch(saved.body, ports.blobs))
    except EngineFault:
        return after
    except StepwellError:  # a newer format, or a store that does not answer: the first error is the one to tell
        return None
    return None
