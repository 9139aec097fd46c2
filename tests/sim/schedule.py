"""One schedule: from a seed to the end of the last message, and what the laws say of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from unittest import mock

from stepwell import limits
from stepwell.errors import EngineFault, NotFound, PortError
from stepwell.limits import FORK_CHUNK, PAGE_BRANCHES
from stepwell.runtime.dispatch import dispatch, give_up, is_exhausted
from stepwell.runtime.forks import children
from stepwell.runtime.ports import Lane
from stepwell.runtime.waits.paces import Paces
from tests.sim.actors import Actor, Envelope
from tests.sim.asked_programs import make_asked
from tests.sim.backlog_programs import make_backlog, with_backlog
from tests.sim.batch_programs import make_batched, with_batches
from tests.sim.called_programs import STALLS, post_calls, with_calls
from tests.sim.child_programs import DEEPEST, make_family
from tests.sim.clients import addressed, call, post_clients
from tests.sim.code_laws import with_bad_deploys
from tests.sim.cost_programs import make_costly
from tests.sim.deploying import deploy
from tests.sim.endless import Limits
from tests.sim.erased_programs import with_deletions
from tests.sim.first_programs import make_first
from tests.sim.fn_programs import make_durable
from tests.sim.fork_laws import BrokenLawError
from tests.sim.fork_programs import make_program
from tests.sim.gather_programs import make_gathered
from tests.sim.handed_programs import make_handed
from tests.sim.kept import CHECKED, kept_values
from tests.sim.laws import check_end, check_overlap, check_parked, check_quiet
from tests.sim.leases import Leased
from tests.sim.limit_programs import make_limited
from tests.sim.lock_programs import make_locked
from tests.sim.overlap_programs import make_fork, with_times
from tests.sim.pace_laws import lost_turns
from tests.sim.part_programs import make_parts
from tests.sim.paused_programs import with_pauses
from tests.sim.programs import Program
from tests.sim.race_programs import make_race
from tests.sim.released_programs import make_released
from tests.sim.repeated_programs import make_calm, repeat_call, with_repeats
from tests.sim.several_programs import make_several
from tests.sim.shared_programs import make_shared
from tests.sim.shown_programs import make_shown
from tests.sim.snag_programs import SNAGGED
from tests.sim.snags import is_doomed, make_snags
from tests.sim.stream_programs import make_streamed
from tests.sim.task_programs import make_permitted, make_tasks
from tests.sim.throttle_programs import make_throttled
from tests.sim.tree import RUN
from tests.sim.undo_programs import with_compensations
from tests.sim.versions import Deploy, as_old, two_versions
from tests.sim.world import World
from tests.sim.zombies import chance_of_death, is_appending, make_held, make_zombie, make_zombies

_LAW_OF_FAULT = {"gap_in_log": 1, "illegal_transition": 2}
CALM_AFTER_CALLS = 2_000  # a world that never calms proves nothing about its end
MOST_ACTORS = 5
BURSTS = (1, 2, 4, 8, 16, 32, 64)  # calls that one actor makes before another has its turn
BACKED_UP_FROM = 16_000_000_000  # seeds from here on are of short invocations, behind a queue that is backed up
REPEATED_FROM = 17_000_000_000  # seeds from here on are of calls that are made again, where else nothing comes twice
SNAGGED_FROM = 14_000_000_000  # seeds from here on are of actors that are held up at a call
EACH_SNAGGED = 100_000_000  # seeds are of each of these programs, in this order
(
    RACED_FROM, CROWDED_FROM, DOUBLED_FROM, PATCHED_FROM, STOPPED_FROM, PACED_FROM, OVERTAKEN_FROM, RETRIED_FROM,
    RESULTED_FROM, DISBANDED_FROM, ANSWERED_FROM, BEATEN_FROM, BROADCAST_FROM,
) = (SNAGGED_FROM + number * EACH_SNAGGED for number in range(len(SNAGGED)))  # fmt: skip
PAUSED_FROM = 13_000_000_000  # seeds from here on are of runs and workflows that are paused for a while
ERASED_FROM = 12_000_000_000  # seeds from here on are of runs that are deleted, and whose ids are used again
CALLED_FROM = 11_000_000_000  # seeds from here on are of clients who call anything at any time
ZOMBIES_FROM = 7_000_000_000  # seeds from here on are of workers that outlive their leases
HELD_FROM = 7_500_000_000  # seeds from here on are of such workers, in chains of steps that take time
OVERLAPS_FROM = 8_000_000_000  # seeds from here on are of steps that take time
LANES_FROM = 9_000_000_000  # seeds from here on are those of all families, with lanes
BATCHES_FROM = 10_000_000_000  # seeds from here on are of chains, and of all families, whose records are gathered
OUTPUTS_FROM = 6_500_000_000  # seeds from here on are of tasks whose outputs stand once; odd ones of two versions
DEPLOYS_FROM = 6_000_000_000  # seeds from here on are of old and new code over one store
COSTLY_FROM = 5_700_000_000  # seeds from here on are of forks of runs that have cost too much
SHOWN_FROM = 5_500_000_000  # seeds from here on are of one fork whose branches wait
RACES_FROM = 5_000_000_000  # seeds from here on are of one event against one wait
TASKS_FROM = 4_500_000_000  # seeds from here on are of durable functions with tasks
PERMITTED_FROM = 4_700_000_000  # seeds from here on are of durable functions whose tasks' steps are throttled
STREAMS_FROM = 4_900_000_000  # seeds from here on are of durable functions whose steps emit live output
SHARED_FROM = 4_950_000_000  # seeds from here on are of durable functions that share a table and locks
ASKED_FROM = 4_800_000_000  # seeds from here on are of durable functions with callers
DURABLE_FROM = 4_000_000_000  # seeds from here on are of durable functions
GATHERED_FROM = 3_900_000_000  # seeds from here on are of starts that become one run
RELEASED_FROM = 3_850_000_000  # seeds from here on are of runs that give back their permits while they wait
THROTTLED_FROM = 3_750_000_000  # seeds from here on are of programs whose steps are throttled
LIMITED_FROM = 3_500_000_000  # seeds from here on are of programs under limits
LOCKED_FROM = 3_000_000_000  # seeds from here on are of programs that want the same locks
HANDED_FROM = 2_500_000_000  # seeds from here on are of waits that are handed on, or kept alive
SEVERAL_FROM = 2_300_000_000  # seeds from here on are of several approvals in one wait
FIRST_FROM = 2_200_000_000  # seeds from here on are of programs that wait for the first of several things
PARTS_FROM = 2_000_000_000  # seeds from here on are of programs that wait for several things
FAMILIES = 1_000_000_000  # seeds from here on are of programs with child runs
EARLY_MS = 60_000  # a one-time schedule is exact to the minute


_MAKERS = (  # by the first of their seeds
    (COSTLY_FROM, make_costly),
    (SHOWN_FROM, make_shown),
    (RACES_FROM, make_race),
    (SHARED_FROM, make_shared),
    (STREAMS_FROM, make_streamed),
    (ASKED_FROM, make_asked),
    (PERMITTED_FROM, make_permitted),
    (TASKS_FROM, make_tasks),
    (DURABLE_FROM, make_durable),
    (GATHERED_FROM, make_gathered),
    (RELEASED_FROM, make_released),
    (THROTTLED_FROM, make_throttled),
    (LIMITED_FROM, make_limited),
    (LOCKED_FROM, make_locked),
    (HANDED_FROM, make_handed),
    (SEVERAL_FROM, make_several),
    (FIRST_FROM, make_first),
    (PARTS_FROM, make_parts),
    (FAMILIES, make_family),
    (0, make_program),
)


def program_of(seed: int) -> Program:
    if SNAGGED_FROM <= seed < BACKED_UP_FROM:
        return SNAGGED[(seed - SNAGGED_FROM) // EACH_SNAGGED](random.Random(f"snags {seed}"))
    for begin, families, changes, name in _CHANGED:
        if seed >= begin:
            number, family = divmod(seed - begin, len(families))
            return changes(program_of(families[family] + number), random.Random(f"{name} {seed}"))
    if seed >= BATCHES_FROM:
        return _gathering(seed - BATCHES_FROM)
    seed, _ = with_lane(seed)
    if seed >= OVERLAPS_FROM:
        return _with_times(seed - OVERLAPS_FROM)
    if seed >= HELD_FROM:
        return make_held(random.Random(f"held {seed}"))
    if has_outputs_once(seed):
        return make_tasks(random.Random(f"outputs {seed}"))
    first = next((first for first in (ZOMBIES_FROM, DEPLOYS_FROM) if seed >= first), None)
    if first is not None:
        number, family = divmod(seed - first, len(_OTHERS))
        return program_of(_OTHERS[family] + number)
    make = next(maker for first, maker in _MAKERS if seed >= first)
    program = make(random.Random(f"program {seed}"))
    is_undone = seed < FAMILIES or (THROTTLED_FROM <= seed < RELEASED_FROM and seed % 4 == 3)
    program = with_compensations(program, random.Random(f"compensations {seed}")) if is_undone else program
    if program.deploys or program.race or seed >= SHOWN_FROM:
        return program
    return with_bad_deploys(program, random.Random(f"deploys {seed}"))


_OTHERS = (0, FAMILIES, PARTS_FROM, LOCKED_FROM, DURABLE_FROM)
_CALLED = (
    0, 0, FAMILIES, PARTS_FROM, HANDED_FROM, LOCKED_FROM, THROTTLED_FROM, GATHERED_FROM, TASKS_FROM, ASKED_FROM,
    STREAMS_FROM,
)  # fmt: skip


_ERASED = (
    0, 0, FAMILIES, PARTS_FROM, HANDED_FROM, LOCKED_FROM, LIMITED_FROM, THROTTLED_FROM, TASKS_FROM, ASKED_FROM,
    STREAMS_FROM,
)  # fmt: skip

_PAUSED = (
    0, GATHERED_FROM, FAMILIES, PARTS_FROM, FIRST_FROM, HANDED_FROM, GATHERED_FROM, LOCKED_FROM, LIMITED_FROM,
    THROTTLED_FROM, RELEASED_FROM, DURABLE_FROM, GATHERED_FROM, TASKS_FROM, PERMITTED_FROM, ASKED_FROM, STREAMS_FROM,
    COSTLY_FROM, SHOWN_FROM, SHARED_FROM,
)  # fmt: skip


_BACKED_UP = (
    HELD_FROM, 0, HELD_FROM, FAMILIES, HELD_FROM, PARTS_FROM, LOCKED_FROM, LIMITED_FROM, THROTTLED_FROM, GATHERED_FROM,
    DURABLE_FROM, TASKS_FROM, BATCHES_FROM, SHOWN_FROM, RELEASED_FROM, ASKED_FROM, OVERLAPS_FROM, FIRST_FROM,
)  # fmt: skip

_REPEATED = (
    HANDED_FROM, 0, HANDED_FROM, FAMILIES, PARTS_FROM, FIRST_FROM, SEVERAL_FROM, LOCKED_FROM, LIMITED_FROM,
    THROTTLED_FROM, RELEASED_FROM, GATHERED_FROM, DURABLE_FROM, TASKS_FROM, ASKED_FROM, OVERLAPS_FROM, SHOWN_FROM,
)  # fmt: skip

_CHANGED = (  # programs of other families, of which more is asked
    (REPEATED_FROM, _REPEATED, with_repeats, "repeats"),
    (BACKED_UP_FROM, _BACKED_UP, with_backlog, "backlogs"),
    (PAUSED_FROM, _PAUSED, with_pauses, "pauses"),
    (ERASED_FROM, _ERASED, with_deletions, "deletions"),
    (CALLED_FROM, _CALLED, with_calls, "calls"),
)


def has_outputs_once(seed: int) -> bool:
    """Whether each operation of a function's tasks has its output in its own log alone."""
    return OUTPUTS_FROM <= seed < ZOMBIES_FROM


_LANED = (0, SHOWN_FROM, OVERLAPS_FROM, DURABLE_FROM, DEPLOYS_FROM, ZOMBIES_FROM, FAMILIES, PARTS_FROM, LOCKED_FROM)


def with_lane(seed: int) -> tuple[int, int]:
    """The schedule of any family whose forks have lanes, and how many branches share one; 0 for all other seeds."""
    if COSTLY_FROM <= seed < DEPLOYS_FROM:
        return seed, 3 * (seed % 2)
    if not LANES_FROM <= seed < BATCHES_FROM:
        return seed, 0
    number, family = divmod(seed - LANES_FROM, len(_LANED))
    return _LANED[family] + number, random.Random(f"lane {seed}").choice((1, 2, 3, 4, 10))


def _gathering(number: int) -> Program:
    """Half of them one chain of steps, the others of every family."""
    if number % 2:
        return make_batched(random.Random(f"batches {number}"))
    number, family = divmod(number // 2, len(_GATHERING))
    return with_batches(program_of(_GATHERING[family] + number))


_GATHERING = (0, SHOWN_FROM, OVERLAPS_FROM, FAMILIES, PARTS_FROM, LOCKED_FROM, THROTTLED_FROM)


def _with_times(number: int) -> Program:
    """Half of them one fork, the others of every family."""
    rng = random.Random(f"times {number}")
    if number % 2:
        return with_times(make_fork(rng), rng)
    number, family = divmod(number // 2, len(_OTHERS))
    return with_times(program_of(_OTHERS[family] + number), rng)


def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None when every law held, else which one did not and how."""
    program = program_of(seed)
    is_large = random.Random(f"large {seed}").random() < 0.3
    seed, lane = with_lane(seed)
    is_deployed = bool(seed % 2) if has_outputs_once(seed) else DEPLOYS_FROM <= seed < OUTPUTS_FROM
    versions = Deploy(random.Random(f"deploy {seed}")) if is_deployed else None
    with (
        _limits(program),
        mock.patch.object(limits, "OUTPUT_HELD_BYTES", 0) if has_outputs_once(seed) else nullcontext(),
        _large() if lane and is_large else nullcontext(),
        two_versions() if versions else nullcontext(),
        kept_values() as kept,
    ):
        world = World(seed, program, tell, versions, lane)
        world.counts_wakes = seed < FAMILIES
        is_family_with_zombies = BATCHES_FROM <= seed < CALLED_FROM or PAUSED_FROM <= seed < SNAGGED_FROM
        if ZOMBIES_FROM <= seed < OVERLAPS_FROM or (is_family_with_zombies and seed % 8 > 5):
            make_zombies(world, are_held=HELD_FROM <= seed < OVERLAPS_FROM)
        if program.snags:
            make_snags(world)
        if program.backlog:
            make_backlog(world)
        if program.repeats:
            make_calm(world)
        if CALLED_FROM <= seed < ERASED_FROM:
            world.chances.stalls = STALLS
        if program.takes_time:
            world.chances.error = 0  # where the queue does not answer, branches do wait
        broken = _run(world)
        if seed % CHECKED == 0 and (changed := kept.changed()):
            return f"law 1: somebody changed what was read: {changed[0]}"
        return broken


@contextmanager
def _limits(program: Program) -> Iterator[None]:
    """Pages and chunks small enough that a few branches make several of them."""
    chunk = program.chunk or FORK_CHUNK
    numbers = count()

    def mark(_: Paces) -> str:
        return str(next(numbers))

    with (
        mock.patch.object(limits, "PAGE_BRANCHES", program.page or PAGE_BRANCHES),
        mock.patch.object(limits, "FORK_CHUNK", chunk),
        mock.patch.object(children, "CHILD_DEPTH", DEEPEST),
        mock.patch.object(Paces, "_mark", mark),  # the same each time
    ):
        yield


@contextmanager
def _large() -> Iterator[None]:
    """Records and batches of a few bytes are large: who is alone leaves the lane, and what several share is a blob."""
    with mock.patch.object(limits, "LANE_ALONE_BYTES", 0), mock.patch.object(limits, "ITEM_BYTES", 300):
        yield


def _run(world: World) -> str | None:
    try:
        post_clients(world)
        _play(world)
        check_quiet(world)
        check_parked(world)
        check_end(world)
    except BrokenLawError as broken:
        return str(broken)
    except EngineFault as fault:
        law = _LAW_OF_FAULT.get(fault.code, 8)
        return f"law {law}: a log that cannot be was met: {fault}"
    finally:
        for actor in world.actors:
            actor.coroutine.close()
        world.processes.reload()
    return None


def _play(world: World) -> None:
    """Until no actor and no envelope is left."""
    limits_of_all = Limits(world.main)
    while world.envelopes or world.actors:
        world.calls += 1
        if world.program.deploys:
            _maybe_deploy(world)
        if world.awaited or world.mended_by:
            post_calls(world)
        _check_call(world, limits_of_all)
        awake = world.awake()
        if not awake and not _ready(world):
            if world.actors:
                if not world.stalled:  # what a stalled client is about to do, nobody does
                    check_overlap(world)
            else:
                check_quiet(world)
            _jump(world)
            awake = world.awake()
        if _maybe_deliver(world, len(awake)):
            awake = world.awake()
        if awake:
            _move(world, _whose_turn(world, awake))


def _check_call(world: World, limits_of_all: Limits) -> None:
    """Tells at once what is wrong: the rest of a schedule that has broken a law may be long."""
    if limits_of_all.are_over(world.calls, world.written):
        raise BrokenLawError("law 5: the run comes to no end")
    for broken in world.wrong:
        raise BrokenLawError(broken)


def _maybe_deploy(world: World) -> None:
    """Other code, or none that can be imported, from this call on."""
    for act, at_call in world.program.deploys:
        if at_call == world.calls - 1:
            deploy(world, act)


def _whose_turn(world: World, awake: list[Actor]) -> Actor:
    """Bursts: an actor often goes on for a while, so that another falls far behind."""
    if world.current not in awake or world.turns_left <= 0:
        world.current = world.rng.choice(awake)
        world.turns_left = world.rng.choice(BURSTS) if world.chances.bursts else 1
    world.turns_left -= 1
    return world.current


def _jump(world: World) -> None:
    """Nothing is due: time goes to the next envelope, or a little past it."""
    times = (*(envelope.at_ms for envelope in world.envelopes), *(actor.until_ms for actor in world.actors))
    first_ms = min(times)
    world.now_ms = max(world.now_ms, first_ms) + world.rng.choice([0, 0, 500, 500 if world.main.snags else 40_000])


def _maybe_deliver(world: World, awake: int) -> bool:
    """Whether somebody may have taken a message. `awake`: how many are at work."""
    rng, calm = world.rng, world.calls > CALM_AFTER_CALLS
    if world.urgent:
        _deliver(world, world.urgent.pop())
        is_small = world.actors[-1].envelope.body.get("type") in {"publish", "wake"}  # to the other's very next call
        turns = (1, 2, 3, 3, 8) if is_small else (16, 64, 64, 64)
        world.current, world.turns_left = world.actors[-1], world.rng.choice(turns)
        return True
    if awake >= MOST_ACTORS or (awake and rng.random() > 0.3):
        return False
    ready = _ready(world)
    if not calm and rng.random() < world.chances.early:
        soon_ms = world.now_ms + EARLY_MS
        ready = ready or [
            envelope for envelope in world.envelopes if envelope.kind != "client" and envelope.at_ms <= soon_ms
        ]
    if not ready:
        return False
    _deliver(world, rng.choice(ready))
    return True


def _ready(world: World) -> list[Envelope]:
    """The messages that can be taken now."""
    due = world.due()
    return [one for one in due if not is_appending(world, one)] if world.main.snags else due


def _deliver(world: World, envelope: Envelope) -> None:
    """An actor takes the envelope; a copy may stay behind."""
    rng, calm = world.rng, world.calls > CALM_AFTER_CALLS
    if envelope not in world.envelopes or is_appending(world, envelope):
        return
    make_zombie(world, envelope)
    if calm or envelope.kind == "client" or rng.random() >= world.chances.double:
        world.envelopes.remove(envelope)
    if envelope.kind == Lane.WORK:
        world.past.append(envelope)
    envelope.deliveries += 1
    name = f"{envelope.kind[0]}{envelope.number}.{envelope.deliveries}"
    skew_ms = rng.randint(-world.chances.skew_ms, world.chances.skew_ms)
    is_old = world.deploy is not None and world.deploy.takes_old(world.calls)
    worker = world.fate.randrange(60) + 100 * is_old
    work = _work(world, envelope)
    actor = Actor(name, envelope, work, skew_ms, worker=worker, is_old=is_old, since_ms=world.now_ms)
    actor.since, actor.delivery = world.written, envelope.deliveries
    world.actors.append(actor)
    if world.tell:
        world.say(f"{name}: takes {envelope}{' with old code' if is_old else ''}")


def _move(world: World, actor: Actor) -> None:
    """One actor goes on to its next stop, or dies there, or is told that its call failed."""
    rng = world.rng
    world.current, at = actor, actor.at
    given: bool | None = None
    if at != "start":
        calm = world.calls > CALM_AFTER_CALLS
        if not calm and (is_doomed(actor) or rng.random() < chance_of_death(world, actor)):
            world.say(f"{actor.name}: dies at {at}")
            world.seen.crashes += 1
            actor.coroutine.close()
            _come_again(world, actor)
            return
        given = not calm and not at.startswith("step") and rng.random() < world.chances.error
    try:
        actor.at = as_old(actor.coroutine.send, given) if actor.is_old else actor.coroutine.send(given)
        if world.tell:
            world.say(f"{actor.name}: {actor.at}")
    except StopIteration:
        world.actors.remove(actor)
        world.wrong += lost_turns(world, actor)
    except (PortError, EngineFault, NotFound) as error:
        if (
            not isinstance(error, PortError) and not world.erasing
        ):  # else its run's logs were deleted while it read them
            raise
        world.say(f"{actor.name}: gives up: {error}")
        world.seen.crashes += 1
        _come_again(world, actor)


def _come_again(world: World, actor: Actor) -> None:
    world.actors.remove(actor)
    if actor.is_zombie:
        return  # the message is another's by now
    envelope = actor.envelope
    envelope.at_ms = min(envelope.at_ms, world.now_ms)  # also one that came too early, of which a copy stayed behind
    if envelope not in world.envelopes:
        envelope.at_ms = world.now_ms
        world.envelopes.append(envelope)


async def _work(world: World, envelope: Envelope) -> None:
    if envelope.kind == "client":
        envelope.body = addressed(world, envelope.body)  # who repeats a call asks the same
        operation, _, of_child = str(envelope.body["type"]).partition(" ")
        run_id = str(envelope.body["run"]) if of_child else RUN
        if run_id == RUN or run_id in world.memory._runs:
            await call(world, operation, envelope.body, run_id)
            repeat_call(world, envelope)
        return
    lane = Lane(envelope.kind)
    if is_exhausted(envelope.deliveries) and await give_up(world.parts, lane, envelope.body):
        world.seen.crashes += 1  # copies enough, and a living worker is taken for dead
        return
    await dispatch(world.parts, lane, envelope.body, Leased(world, world.current))
    repeat_call(world, envelope)
