"""Lanes: parts of a fork whose branches share a log, so that those that end together cost one write.

    0/3.20+10    slot 0: 20 … 26 ended, 28 and 29 moved        slot 1: 27 ended
    0/3.28       slot 0: waiting …                             of a branch that has moved: its own log

Each slot of a lane holds a batch: next records of some of its branches, and which branches have moved. A branch begins
in its lane; where it has moved, its next slot lies in its own log, for good. So each slot of a branch has one place
where it can be written, and one conditional put decides it. What parks a branch, forks, or belongs to a transaction
never lies in a lane: the branch moves first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stepwell.engine.actions import Write
from stepwell.engine.records import End, Fork, Goto, Kind, Record, Status
from stepwell.engine.stored.batches import Batch
from stepwell.values import dataclass

_STAYS = frozenset({Kind.STEP, Kind.MOVED, Kind.RETURNED, Kind.ENDED})


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Which lane of a fork, and its branches."""

    name: str
    fork: str
    indexes: range


def lane_at(fork: Fork, name: str, index: int) -> LanePlace:
    """Returns the lane of a branch, within its page. `name`: the fork's id."""
    page = fork.page_indexes(fork.page_of(index))
    return _lane_from(fork, name, page.start + (index - page.start) // fork.lane * fork.lane, page)


def lanes_of(fork: Fork, name: str, indexes: Iterable[int]) -> list[LanePlace]:
    """Returns the lanes of these branches, in order; none where the fork has no lanes."""
    found: list[LanePlace] = []
    for index in indexes if fork.lane else ():
        if not found or index not in found[-1].indexes:
            found.append(lane_at(fork, name, index))
    return list(dict.fromkeys(found))


def lanes_in(fork: Fork, name: str, page: int) -> list[LanePlace]:
    """Returns the lanes of a page, in order; none where the fork has no lanes."""
    indexes = fork.page_indexes(page)
    firsts = indexes[:: fork.lane] if fork.lane else ()
    return [_lane_from(fork, name, first, indexes) for first in firsts]


def _lane_from(fork: Fork, name: str, first: int, page: range) -> LanePlace:
    return LanePlace(f"{name}.{first}+{fork.lane}", name, range(first, min(first + fork.lane, page.stop)))


def split_lane(name: str) -> tuple[str, int] | None:
    """Returns the fork and the first branch of a lane; None for the name of a token."""
    fork, _, rest = name.rpartition(".")
    first, plus, _ = rest.partition("+")
    return (fork, int(first)) if plus else None


def stays(write: Write) -> bool:
    """Tells whether a record may lie in a lane: its token goes on at once or has ended, and nothing else is written."""
    record = write.record
    return record.kind in _STAYS and isinstance(record.next, Goto | End) and not write.also and write.consumes is None


class LaneLog:
    """What is known of a lane: its batches in the order of their slots, without gaps."""

    def __init__(self, place: LanePlace, batches: Iterable[Batch] = ()) -> None:
        self.place, self.batches = place, list[Batch]()
        self._records: dict[int, list[Record]] = {}
        self._moved: set[int] = set()
        self._ends: dict[int, End] = {}
        self._last: list[int] = []  # who arrived by the last batch by which somebody did
        for batch in batches:
            self.add(batch)

    @property
    def next_slot(self) -> int:
        return len(self.batches)

    def add(self, batch: Batch) -> None:
        """Takes the batch of the next slot."""
        self.batches.append(batch)
        arrived: list[int] = []
        for index, record in batch.records.items():
            if index in self._records:
                self._records[index].append(record)
            else:
                self._records[index] = [record]
            if isinstance(record.next, End):
                self._ends[index] = record.next
                if record.next.status is not Status.CANCELLED:
                    arrived.append(index)
        self._moved |= batch.moved
        self._last = arrived or self._last

    def records(self, index: int) -> list[Record]:
        """Returns the branch's records that lie here."""
        return self._records.get(index, [])

    def decided(self, index: int, slot: int) -> Record | None:
        """Returns the record in this slot of the branch, if it lies here."""
        records = self.records(index)
        return records[slot] if slot < len(records) else None

    def holds(self, index: int) -> bool:
        """Tells whether the branch's next slot lies here."""
        return index not in self._moved and index not in self._ends

    def has_moved(self, index: int) -> bool:
        return index in self._moved

    def has_arrived(self, index: int) -> bool:
        """Tells whether the branch ended here; nobody waits for one that was cancelled."""
        end = self._ends.get(index)
        return end is not None and end.status is not Status.CANCELLED

    def awaits(self, arrived: Collection[int]) -> bool:
        """Tells whether a branch that has left is not among those that arrived: when it arrives, it will ask."""
        return not self._moved <= set(arrived)

    def asks(self, index: int) -> bool:
        """Tells whether this branch, which arrived here, is the one that asks if the join is complete.

        A failure may complete it. Else nobody asks before the lane is settled: until then a later writer will. Then one
        of those asks who wrote the last arrivals, whoever repeats that after a crash.
        """
        if self._ends[index].status is not Status.COMPLETED:
            return True
        return index == max(self._last) and not any(self.holds(one) for one in self.place.indexes)
