"""Tokens with what is needed to move them, and forks, whose branches share what was read."""

from __future__ import annotations

from typing import Protocol

from stepwell.definition.graph import DEFAULT_POOL, Graph
from stepwell.engine.copying import changed, quick
from stepwell.engine.durable.turns import Turn
from stepwell.engine.fold import apply
from stepwell.engine.forks.branches import Branches
from stepwell.engine.gathering import is_full
from stepwell.engine.limits.permits import Held
from stepwell.engine.names import Spent, Undo, node_of
from stepwell.engine.records import Fork, Kind, Record, RunInfo
from stepwell.engine.starts import is_open, with_input
from stepwell.engine.token import Token
from stepwell.runtime.log.lanes import RunLane
from stepwell.runtime.log.messages import Wake
from stepwell.runtime.log.open_batch import OpenBatch
from stepwell.runtime.log.sizes import about_bytes, token_bytes
from stepwell.runtime.ports.headers import FORK, REDRIVE, STARTS, Header
from stepwell.values import dataclass


class Lease(Protocol):
    """The lease of a message."""

    def holds(self) -> bool:
        """Tells whether the message still belongs to this worker."""


@quick
@dataclass(frozen=True)  # no slots: `changed` copies it at every record
class Standing:
    """A token as its log has it now, with what is needed to move it."""

    header: Header
    run: RunInfo
    graph: Graph
    token: Token
    saved_slot: int  # the slot of its last snapshot, -1 for none
    read: tuple[Record, ...] | None = None  # its whole log, if that is known: who shows it need not read it again
    branches: tuple[Token, ...] = ()  # to be shown: its first node's members, or its small fork's branches
    rollback: tuple[Undo, ...] | None = None  # of a run that is being undone, once it was read
    may_begin: bool = False  # a branch without a record that nothing holds back, once that was checked
    operation: str = ""  # to be shown: the name of the operation that a function's branch began as
    turn: Turn | None = None  # of a durable function, once it was asked what follows the last record
    is_marked: bool = False  # a mark holds up the next record; the header was looked at since
    permitted: bool = False  # its start is permitted, once that was asked
    spent: Spent | None = None  # what the run has cost, once that was computed for its next record
    held: Held | None = None  # to be shown: what it waits for before it begins
    lane: RunLane | None = None  # the lane in which the branch began, wherever it is now
    batch: OpenBatch | None = None  # collects its worker's records; None: each is appended by itself
    lease: Lease | None = None  # of the message whose worker moves it; None: it is not looked at

    @property
    def run_id(self) -> str:
        return self.header.run_id

    def wake(self, hops: int = 0) -> Wake:
        """Returns the message that pushes the token's last record on, for the workers of its current step.

        A run that gathers starts has one for when it is due and one for when it is full. The one that lets it begin
        pushes on.
        """
        pool = pool_at(self.graph, node_of(self.graph, self.token))
        slot, last = self.token.slot, self.token.last
        if self.run.gathers and last is not None and last.kind is Kind.STARTED:
            slot = int(last.by.rpartition(":")[2])
        elif is_open(self.run, self.token) and not is_full(self.graph, self.token):
            slot = -1
        return Wake(self.run_id, slot, self.token.id, pool, hops)

    @property
    def index(self) -> int:
        """Returns the index of the branch; 0 for the root."""
        return self.token.branch.index if self.token.branch else 0

    @property
    def open_records(self) -> tuple[Record, ...]:
        """Returns its last records, which its log does not have yet."""
        return self.batch.records if self.batch is not None else ()

    @property
    def is_open(self) -> bool:
        """Tells whether there are records that the log does not have yet."""
        return self.batch is not None and bool(self.batch.records)

    @property
    def is_whole(self) -> bool:
        """Tells whether a redriven or forked run has all records that it keeps. Until then nobody moves it."""
        kind, _, origin = self.header.origin.partition(":")
        return kind not in {REDRIVE, FORK} or self.token.origin == origin

    @property
    def lane_held(self) -> RunLane | None:
        """Returns the lane that has the token's next slot; None: it lies in its own log."""
        return self.lane if self.lane is not None and self.lane.state.holds(self.index) else None

    @property
    def caught_up(self) -> Standing:
        """Returns the token after all records that its lane is known to have."""
        at = self
        while at.lane is not None and (record := at.lane.state.decided(at.index, at.token.next_slot)) is not None:
            at = at.after(record)
        return at

    def after(self, record: Record) -> Standing:
        token = apply(self.token, record)
        run = self.run if token.gathered is None else with_input(self.run, token)
        return changed(self, token=token, run=run, read=None, turn=None, is_marked=False, spent=None)


@dataclass(frozen=True, slots=True)
class ForkedParent:
    """A token as it was when it forked, and its branches."""

    parent: Standing
    branches: Branches

    @property
    def fork(self) -> Fork:
        return self.branches.fork

    @property
    def id(self) -> str:
        return self.branches.id


class Forks(dict[tuple[str, int], ForkedParent]):
    """Forks that were read before, and the lanes that the branches of one message share, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: dict[str, RunLane] = {}

    def lane_of(self, fork: str, index: int) -> RunLane | None:
        """Returns the lane of a branch if it is among those that are shared. `fork`: the fork's id."""
        for lane in self.lanes.values():
            if index in lane.state.place.indexes and lane.state.place.fork == fork:
                return lane
        return None

    def apart(self) -> Forks:
        """Returns the forks without the lanes, for a branch that runs beside the others and shares no lane."""
        found = Forks()
        found.update(self)
        return found


def run_info(header: Header, known: RunInfo | None = None) -> RunInfo:
    """Returns the run's data for the engine. `known`: as read before, with the input that gathered starts made."""
    gathers = header.origin.startswith(f"{STARTS}:")
    return RunInfo(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        input=known.input if gathers and known is not None else header.input,
        created_ms=header.created_ms,
        started_ms=header.started_ms,
        idle=header.idle,
        start_at_ms=header.start_at_ms,
        is_paused=header.paused_ms > 0,
        gathers=gathers,
        tags=header.tags,
    )


def pool_at(graph: Graph, name: str) -> str:
    """Returns the pool that the definition names for this node's step; the function's decorator is not known here."""
    node = graph.nodes.get(name)
    return (node.step.pool if node and node.step else None) or DEFAULT_POOL


def standing_bytes(at: Standing) -> int:
    """Returns the size of the token's data, with the run's input and what a branch has from its parents."""
    around = [at.run.input, dict(at.token.branch.state) if at.token.branch else None]
    return own_bytes(at) + about_bytes(around)


def own_bytes(at: Standing) -> int:
    """Returns the size of the token's data, with the item of a branch."""
    return token_bytes(at.token) + about_bytes(at.token.branch.item if at.token.branch else None)
