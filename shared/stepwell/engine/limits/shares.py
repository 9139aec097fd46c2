"""Shares: a run of a limited workflow gives back its permit while it waits, if asked, and takes one again.

    under way ── WAITING, `frees_permit` ── RESUMED ── WAITING for the limit ── RESUMED, `permitted` ── goes on
                        given back ──────────────────── in line

The permit with which a run began is its run's; each later one is of the slot whose wait asked for it. So what a late
worker gives back is never the one that the run has by now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepwell.engine.limits.throttles import FREED, FREES, PERMITTED, leaves_line
from stepwell.engine.records import Kind, Parked, Record
from stepwell.engine.table import PARKED
from stepwell.engine.token import Permit, Token
from stepwell.engine.waits.aside import is_for_limit

OWN = ""  # the name of a permit's limit: the workflow's own
OF_RUN = "of_run"  # in the data of the wait for it
_FIRST = Permit(OWN, "", -1, state=PERMITTED)  # with which the run began


def frees(record: Record) -> bool:
    """Tells whether the run gives back its permit with this record."""
    return FREES in record.rules


def is_of_run(parked: Parked | None) -> bool:
    """Tells whether the wait is for the run's own permit."""
    return parked is not None and is_for_limit(parked) and OF_RUN in parked.data


def holds(token: Token) -> bool:
    """Tells whether the run has a permit."""
    return not token.ended and (token.share is None or token.share.state == PERMITTED)


def holds_first(token: Token) -> bool:
    """Tells whether the run has, or wants, the permit with which it began. Once False, it stays False."""
    return not token.ended and token.share is None


def lacks(token: Token) -> bool:
    """Tells whether the run is to ask for its permit before it goes on. One that cleans up has no time for that."""
    is_away = token.share is not None and token.share.state == FREED
    return is_away and token.phase not in PARKED and token.cleaning is None and not token.ended


def asked(record: Record) -> Permit:
    """Returns the permit that the run asks for with this record."""
    return Permit(OWN, "", record.slot, record.at_ms)


def after(token: Token, record: Record, returned: tuple[Permit, ...]) -> dict[str, Any]:
    """Returns what the record gives back besides `returned`.

    A permit is given back with every record until the next one is asked for: the writer of the first may have died.
    """
    share = token.share or _FIRST
    leaves = share.state == "" and (record.kind is Kind.ENDED or leaves_line(record))  # to be undone, or for a pause
    if not frees(record) and not leaves and share.state != FREED:
        return {}
    is_known = share in returned
    return {"returned": returned if is_known else (*returned, share), **_freed(share)}


def _freed(share: Permit) -> dict[str, Permit]:
    return {} if share.state == FREED else {"share": replace(share, state=FREED)}
