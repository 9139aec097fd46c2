"""The steps of `contract`."""

from __future__ import annotations

from datetime import date, timedelta

from pydantic import BaseModel


class Terms(BaseModel):
    """The part of a contract that has to be remembered."""

    ends: date
    notice: int  # days


def remind(fields: Terms) -> date:
    """A week before the last day on which notice can be given."""
    return fields.ends - timedelta(days=fields.notice + 7)


def archive(place: dict[str, object], remind: date) -> dict[str, object]:
    """Files it under its number; its result is that of the run."""
    return {"number": f"{place['batch']}/{place['number']}", "remind_at": remind}
