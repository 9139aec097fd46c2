"""The API's view of a run that gathers starts: how many it has, and when it begins."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.engine.gathering import due_ms
from stepwell.engine.names import iso
from stepwell.engine.starts import is_open
from stepwell.runtime.log.standing import Standing


class GatheringView(TypedDict):
    """The starts that a run has gathered. `begins_at`: when it begins if no other start comes.

    `mode`: debounce | batch. `most`: a batch of so many starts begins at once.
    """

    mode: str
    starts: int
    most: int | None
    begins_at: str


def gathering_view(at: Standing) -> GatheringView | None:
    """Returns the view; None for a run that takes no more starts."""
    rules = at.graph.gathering
    if rules is None or at.token.ended or not is_open(at.run, at.token):
        return None
    count = at.token.gathered.count if at.token.gathered is not None else 0
    begins_at = iso(due_ms(at.graph, at.run, at.token))
    return GatheringView(mode=rules.mode, starts=count, most=rules.max_size or None, begins_at=begins_at)
