"""Members of a page's join, as texts: branches that ended, and those that went to other pages' lines.

17  17!  17-    branch 17 came to the join; failed; ended before the join
417>            branch 417 of another page came into the line of this one
17>4            branch 17 goes to page 4
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepwell.engine.records import End, Status, Tally
from stepwell.engine.token import Token
from stepwell.errors import EngineFault

_WITHOUT, _FAILED, _TO = "-", "!", ">"


def member_of(index: int, branch: Token) -> str:
    """Returns an ended branch as a member of its page's set: its index and how it ended."""
    if branch.end is None:
        raise EngineFault(f"{branch.id} has not ended", code="broken_log")
    return member_with(index, branch.end)


def member_with(index: int, end: End) -> str:
    """Returns the same by its end."""
    return f"{index}{mark_of(end.status, at_join=end.at_join)}"


def mark_of(status: Status, *, at_join: bool) -> str:
    """Returns what follows the index of a branch that ended so."""
    if status is not Status.COMPLETED:
        return _FAILED
    return "" if at_join else _WITHOUT


def is_arrival(member: str) -> bool:
    """Tells whether this is a branch that ended: neither a guest nor the choice of one."""
    return _TO not in member


def index_of(member: str) -> int:
    """Returns the index of a branch that ended, or of a guest."""
    return int(member.rstrip(_WITHOUT + _FAILED + _TO))


def indexes_of(members: Iterable[str]) -> set[int]:
    """Returns the indexes of the arrived branches."""
    return {index_of(member) for member in members if _TO not in member}


def come_with(index: int, order: Sequence[str]) -> set[int]:
    """Returns the branches that had arrived when this one did, itself included. `order`: the join's, if it keeps it.

    So an arrival that is repeated sees what it saw the first time: what came of later ones is not its own to do.
    """
    found: set[int] = set()
    for member in order:
        found.add(index_of(member))
        if index in found:
            return found
    return set()


def tally_of(members: Iterable[str]) -> Tally:
    """Counts a page's set."""
    marks = [member[-1] for member in members if _TO not in member]  # no call for each: each branch counts them all
    return Tally(len(marks), marks.count(_FAILED), marks.count(_WITHOUT))


def as_guest(index: int) -> str:
    """Returns this branch as a member of another page's join."""
    return f"{index}{_TO}"


def is_guest(member: str) -> bool:
    return member.endswith(_TO)


def guests_of(members: Iterable[str]) -> set[int]:
    """Returns the branches of other pages that came into the line of this one."""
    return {index_of(member) for member in members if is_guest(member)}


def as_choice(index: int, page: int) -> str:
    """Returns the page that this branch goes to, as a member of the join of its own page."""
    return f"{index}{_TO}{page}"


def choices_of(members: Iterable[str], index: int) -> list[int]:
    """Returns the pages that this branch has gone to. `members`: those of its own page, in order."""
    head = as_guest(index)
    return [int(member.removeprefix(head)) for member in members if member.startswith(head) and member != head]
