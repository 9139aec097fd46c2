"""Mutants so rare that each has its own schedule, in which it was a fault of the engine, or of a law, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest import mock

from stepwell.definition.graph import Retry
from stepwell.engine import decide, effects, pushing, receiving, settle
from stepwell.engine.actions import Action, AskPermit, Drop, Pace
from stepwell.engine.copying import changed
from stepwell.engine.decide import due_ms
from stepwell.engine.effect_kinds import ShowStatus
from stepwell.engine.forks.lines import next_in_line
from stepwell.engine.forks.marks import is_in_lines, is_one_set, place_of_branches
from stepwell.engine.inputs import TimerFired
from stepwell.engine.pushing import pushes
from stepwell.engine.records import End, Kind, Record
from stepwell.engine.retry import Policy
from stepwell.engine.token import Permit, Token
from stepwell.engine.waits import run_of
from stepwell.runtime.durable import warm
from stepwell.runtime.forks import forking, showing
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.forks.lines import join_name
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log import door, token_reader
from stepwell.runtime.log.door import Answer, Budget, FoundInput
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.loop import coordinator, worker
from stepwell.runtime.loop.advance import Advance, can_move
from stepwell.runtime.loop.worker import Worker, _Turn
from stepwell.runtime.ports import Event, Joined, Waiter
from stepwell.runtime.waits import mailbox, paces, throttling
from stepwell.runtime.waits.mailbox import Mailbox
from stepwell.runtime.waits.paces import Paces
from stepwell.runtime.waits.permits import Reply
from stepwell.runtime.waits.throttling import Throttling
from tests.sim import endless, undo_laws
from tests.sim.backlog_mutants import spare_after_another, spare_by_its_header
from tests.sim.erased_mutants import broken_logs_stay
from tests.sim.pause_mutants import abandoned_left_at_rest
from tests.sim.repeated_mutants import copies_go_on_anyway, picks_up_the_ended
from tests.sim.suite_mutants import copies_go_on, paused_with_its_permit, sent_with_the_call, woken_at_once

MANY = 1_000_000  # tries
_following = Forking._following


@contextmanager
def part_makes_stale() -> Iterator[None]:
    """Who began a wait drops its message once a part has come, though it had died before it registered the wait."""

    def is_stale(token: Token, slot: int, *names: str) -> bool:
        return not pushes(token, *names, sent_for=slot)

    with (
        mock.patch.object(decide, "is_stale", is_stale),
        mock.patch.object(worker, "is_stale", is_stale),
        mock.patch.object(coordinator, "is_stale", is_stale),
    ):
        yield


@contextmanager
def part_hides_a_branch() -> Iterator[None]:
    """Who began a wait in the branch after its own leaves it unregistered once a part of it has come."""
    with mock.patch.object(forking, "is_left_to", pushes):
        yield


@contextmanager
def beat_set_back() -> Iterator[None]:
    """A heartbeat counts from when it was sent, also if another that counts for longer was written before it."""
    with mock.patch.object(receiving, "last_beat_ms", return_value=0):
        yield


@contextmanager
def header_of_before() -> Iterator[None]:
    """A worker goes on with the header that it read before another picked up the run."""
    with mock.patch.object(worker, "has_begun", return_value=False):
        yield


@contextmanager
def timer_of_its_own_part() -> Iterator[None]:
    """A part written by the wait's timer sets that timer again, which takes itself for a message that came twice."""

    def timer_slot(token: Token, since_ms: int) -> int:
        return token.waiting_slot if due_ms(changed(token, received=())) == due_ms(token) else token.slot

    few = mock.patch.object(endless, "MOST_CALLS", 5_000)  # a loop without end is noticed early
    with mock.patch.object(effects, "timer_slot", timer_slot), few:
        yield


@contextmanager
def later_turn_dropped() -> Iterator[None]:
    """Who gives a turn back deletes the one that a worker has taken since, too."""

    async def forgotten(self: Paces, pace: Pace, who: str) -> int | None:
        at_ms = await self.kept(pace, who)
        is_mine = at_ms is not None and await self._notes.drop_note(paces._kind(pace), paces._TURN + who)
        return at_ms if is_mine else None

    with mock.patch.object(Paces, "_forgotten", forgotten):
        yield


@contextmanager
def woken_by_all() -> Iterator[None]:
    """Whoever finds that a run was ended performs the effects of that too, and wakes it, whoever ended it."""

    def pushes_end(token: Token, by: str) -> bool:
        last = token.last
        return last is not None and (last.by == by or last.kind is Kind.ENDED or isinstance(last.next, End))

    few = mock.patch.object(endless, "MOST_CALLS", 5_000)  # a loop without end is noticed early
    with mock.patch.object(coordinator, "pushes_end", pushes_end), few:
        yield


@contextmanager
def shown_by_the_dead() -> Iterator[None]:
    """A wait stays shown that was over, if the worker died that had shown it before it looked again."""
    with mock.patch.object(Showing, "show_again"):
        yield


@contextmanager
def children_for_ever() -> Iterator[None]:
    """Children that fail are started anew without end."""

    def policy(retry: Retry | None, timeout_ms: int, *, at_most_once: bool) -> Policy:
        return Policy(retry and replace(retry, max_retries=MANY), timeout_ms, at_most_once)

    few = mock.patch.object(endless, "MOST_RECORDS", 500)  # a loop without end is noticed early
    with mock.patch.object(settle, "Policy", policy), few:
        yield


@contextmanager
def no_run_counted() -> Iterator[None]:
    """A family of hundreds of runs is given no more calls and records than one run."""
    with mock.patch.object(endless, "most_runs", return_value=1):
        yield


@contextmanager
def locks_taken_for_a_beginning() -> Iterator[None]:
    """A run that is cancelled while it waits for its own locks is said to have begun, and must be undone."""
    with mock.patch.object(undo_laws, "_is_of_own_locks", return_value=False):
        yield


@contextmanager
def untold_in_a_line() -> Iterator[None]:
    """The fork's join hears nothing of a fork in a branch that waits, where branches begin one after the other."""
    told_inside = Showing._told_inside

    async def told(self: Showing, fork: ForkedParent, index: int) -> Joined:
        if not is_in_lines(fork.fork):
            return await told_inside(self, fork, index)
        page = 0 if is_one_set(fork.fork) else fork.fork.page_of(index)
        return await self._log.report(fork.parent.run_id, join_name(fork, page), place_of_branches(index), 1)

    with mock.patch.object(Showing, "_told_inside", told):
        yield


@contextmanager
def shown_without_lease() -> Iterator[None]:
    """A worker that has lost its message writes the header as it read it long ago."""
    load = Worker._load

    async def loaded(self: Worker, turn: _Turn, *, fresh: bool = False) -> Standing | None:
        lasting = mock.Mock(wraps=turn.budget, holds=mock.Mock(return_value=True))
        return await load(self, changed(turn, budget=lasting), fresh=fresh)

    with mock.patch.object(Worker, "_load", loaded):
        yield


@contextmanager
def due_as_a_start_comes() -> Iterator[None]:
    """A wake that is due, and finds another start in its slot, leaves the run to nobody."""
    real = pushing.is_stale

    def is_stale(token: Token, slot: int, *names: str) -> bool:
        is_late = token.last is not None and token.last.kind is Kind.GATHERED and slot >= 0
        return not pushes(token, *names, sent_for=slot) if is_late else real(token, slot, *names)

    with mock.patch.object(decide, "is_stale", is_stale):
        yield


@contextmanager
def shown_though_joined() -> Iterator[None]:
    """A run is shown as waiting for branches that its join does not need any more: it goes on, and nobody says so."""

    def fires(*_: object) -> bool:
        return False

    with mock.patch.object(showing, "fires", fires):
        yield


@contextmanager
def last_uncounted() -> Iterator[None]:
    """After the answer to a whole batch was lost, a worker goes on from records that do not say how many they were."""
    real = door._behind

    def behind(at: Standing, found: Sequence[Record], by: str, action: Action) -> tuple[Standing, Answer | None]:
        after, answer = real(at, found, by, action)
        return (after if answer or after.token.slot != at.token.slot else at), answer

    with mock.patch.object(door, "_behind", behind):
        yield


@contextmanager
def permitted_without_lease() -> Iterator[None]:
    """A worker whose message is another's takes the run's permit, and appends nothing; the other has found no room."""

    async def permit(self: Worker, at: Standing, asked: AskPermit, turn: _Turn) -> Reply:
        return await self._performer.permits.ask(at, asked)

    with mock.patch.object(Worker, "_permit", permit):
        yield


@contextmanager
def begun_though_paused() -> Iterator[None]:
    """A run that is paused in the moment in which it is let in is shown as begun, so that it keeps its permit."""

    def picked_up(token: Token, now_ms: int) -> ShowStatus:
        return replace(effects.picked_up(token, now_ms), unless_paused=False)

    with mock.patch.object(worker, "picked_up", picked_up):
        yield


@contextmanager
def forked_without_patches() -> Iterator[None]:
    """A branch begins from its parent's session with a patch, though code from before that has forked it."""
    with mock.patch.object(warm, "_has_all", return_value=True):
        yield


@contextmanager
def read_on_from_an_end() -> Iterator[None]:
    """Who knows a token as ended reads on from there, though a late worker wrote the log of a deleted run anew."""
    real = token_reader.TokenReader._read_from_snapshot

    async def read(self: token_reader.TokenReader, at: Standing) -> Standing:
        kept = self._tokens.get(token_reader._key(at), self._clock.now_ms())
        if kept is None or not kept.token.ended:
            return await real(self, at)
        loaded = await self._log.load(at.run_id, at.token.id, kept.token.slot)
        return await self._folded(at, kept.token, loaded.records, kept.size_bytes)

    with mock.patch.object(token_reader.TokenReader, "_read_from_snapshot", read):
        yield


@contextmanager
def read_for_each_arm() -> Iterator[None]:
    """Of two arms for the same event, each has the mailbox read anew: one may find the event, and the other not."""

    async def pending(self: Mailbox, at: Standing) -> list[FoundInput]:
        waiters = () if at.token.parked is None else mailbox.waiters_of(at, at.token.parked, at.token.waiting_slot)
        now_ms = self._ports.clock.now_ms()
        read = [(one, await self._ports.mailbox.pending_events(one.topic, now_ms)) for one in waiters]
        found = sorted(((one.at_ms, one.id, waiter, one) for waiter, events in read for one in events),
                       key=lambda one: one[:2])  # fmt: skip
        offers = [self.offer(at, waiter, event) for _, _, waiter, event in found]
        return [FoundInput(at, given) for given in offers if given is not None]

    with mock.patch.object(Mailbox, "pending", pending):
        yield


@contextmanager
def turn_of_the_deleted() -> Iterator[None]:
    """Who takes a turn while its run is deleted keeps it: there is no record after its own."""

    async def is_late(self: Throttling, at: Standing, permit: Permit) -> bool:
        if not await self._ports.log.read_log(at.run_id, at.token.id, at.token.slot, 1):
            return False
        return not await self._claims.lives(throttling._claim(at, permit))

    with mock.patch.object(Throttling, "_is_late", is_late):
        yield


@contextmanager
def older_unregistered() -> Iterator[None]:
    """The message about an older event with a key does not find the wait that is to have it, if it comes first."""
    waits_for = coordinator._waits_for

    def waiting(at: Standing, event: Event) -> list[Waiter]:
        return [] if run_of(event.topic) is None else waits_for(at, event)

    with mock.patch.object(coordinator, "_waits_for", waiting):
        yield


@contextmanager
def round_in_circles() -> Iterator[None]:
    """A late worker of a deleted run goes from branch to branch for ever: the arrivals before theirs are gone."""

    def following(self: Forking, fork: ForkedParent, index: int, joined: Joined) -> list[int]:
        if fork.fork.needs:
            return _following(self, fork, index, joined)
        return next_in_line(fork.fork, index, joined.order)

    with mock.patch.object(Forking, "_following", following):
        yield


@contextmanager
def ready_by_a_copy() -> Iterator[None]:
    """The copy of a message whose branch ended long ago begins what later branches let begin."""
    with mock.patch.object(forking, "come_with", return_value=set()):
        yield


@contextmanager
def looks_once() -> Iterator[None]:
    """A timer that has lost its slot to an event does not look whether another part of its wait takes that, too."""

    async def look(self: Advance, at: Standing, given: TimerFired, by: str, budget: Budget) -> Answer:
        moved = await self._put_found(at, await self._performer.mailbox.pending(at), by, budget)
        if moved is not None and can_move(moved.token):
            return Answer(moved, Drop(), is_mine=True)
        return await self._door.put(moved or at, replace(given, looked=mock.ANY), by, budget)

    with mock.patch.object(Advance, "look", look):
        yield


OF_SEEDS: tuple[tuple[Callable[[], AbstractContextManager[None]], tuple[int, ...]], ...] = (
    (part_makes_stale, (2_541_000_030, 2_541_000_331, 2_541_000_593)),
    (part_hides_a_branch, (15_000_020_771,)),
    (beat_set_back, (2_541_000_572,)),
    (header_of_before, (6_041_000_175,)),
    (untold_in_a_line, (8_031_001_790,)),
    (children_for_ever, (1_000_001_467,)),
    (locks_taken_for_a_beginning, (3_750_044_827,)),
    (no_run_counted, (7_122_001_176,)),
    (shown_by_the_dead, (5_622_001_033,)),
    (shown_without_lease, (7_046_003_581,)),
    (shown_though_joined, (4_048_300_405,)),
    (due_as_a_start_comes, (3_948_400_020,)),
    (last_uncounted, (10_049_500_263,)),
    (permitted_without_lease, (13_000_132_190,)),
    (turn_of_the_deleted, (12_081_003_985,)),
    (older_unregistered, (5_083_002_451,)),
    (abandoned_left_at_rest, (13_000_012_198,)),
    (round_in_circles, (12_083_003_284,)),
    (read_for_each_arm, (2_381_003_119,)),
    (forked_without_patches, (4_081_003_250,)),
    (read_on_from_an_end, (12_081_002_969,)),
    (begun_though_paused, (13_070_000_892,)),
    (timer_of_its_own_part, (11_000_000_454,)),
    (later_turn_dropped, (3_820_000_247,)),
    (woken_by_all, (9_000_700_184,)),
    (ready_by_a_copy, (12_085_001_918,)),
    (broken_logs_stay, (12_000_012_343,)),
    (looks_once, (2_389_001_082,)),
    (spare_by_its_header, (16_000_001_838, 16_000_003_386)),
    (spare_after_another, (16_000_001_269, 16_000_003_771)),
    (picks_up_the_ended, (17_094_005_897,)),
    (paused_with_its_permit, (13_095_002_109,)),
)
# Schedules that were found when a copy of a message went on beside another, a repeated call woke a second worker at
# once, the message about a callback came with its call, or a run that had ended was picked up. They are played so.
PLAYED_WITH: Mapping[int, Sequence[Callable[[], AbstractContextManager[None]]]] = {
    6_041_000_175: (copies_go_on,),
    **dict.fromkeys(
        (5_622_001_033, 7_046_003_581, 4_048_300_405, 10_049_500_263, 12_085_001_918),
        (copies_go_on, copies_go_on_anyway),
    ),
    **dict.fromkeys((12_081_003_985, 13_000_012_198), (woken_at_once, copies_go_on_anyway)),
    9_000_700_184: (woken_at_once,),
    **dict.fromkeys((12_083_003_284, 16_000_001_838, 16_000_003_386), (copies_go_on_anyway,)),
    15_000_020_771: (sent_with_the_call,),
    **dict.fromkeys((12_081_002_969, 12_000_012_343), (picks_up_the_ended,)),
}
SLOW = (no_run_counted,)  # its schedule has hundreds of runs: with the command that the rare mutants have
