"""What a workflow's limits cost on DynamoDB: nothing where there is none, and the same however many runs wait."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition.graph import Limit, RateLimit
from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.limits import MINUTE_MS, SECOND_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.steps.port import StepCall
from tests.aws.kit import AwsWorld, aws_world
from tests.runtime.test_permit_kills import deliver

PLAIN = """
workflow: flow
timeline: [{name: one, run: python:m.one}]
"""
LIMITED = PLAIN.replace("timeline", 'concurrency: {limit: 100, key: "{{ input }}"}\ntimeline')
HELD = """
workflow: flow
concurrency: {limit: 2}
timeline: [{name: hold, wait: {for: approval}}]
"""
PACED = PLAIN.replace("timeline", "rate_limit: {limit: 1, per: 10s}\ntimeline")
OF_HELD = Counter(LOG=1 + 2, RUN=6 + 2)  # the wait and its answer, and the header, as without a limit


def costs(world: AwsWorld) -> tuple[Counter[str], Counter[str], int]:
    """Write units by item, requests, and messages since the last time."""
    found = Counter(world.meter.units), Counter(world.meter.requests), Counter(world.sent)["SendMessage"]
    world.meter.clear()
    world.sent.clear()
    return found


def test_a_permit_that_is_free_costs_two_write_units_however_high_the_limit() -> None:
    """And four reads: of the limit, and of the run's own log; and of the limit before and after it is returned."""
    spent = []
    for definition in (PLAIN, LIMITED):
        with aws_world(definition) as world:
            world.start(given="ana")
            world.deliver()
            costs(world)
            run_id = world.start(given="ana")
            world.deliver()
            assert world.header(run_id).status == "completed"
            spent.append(costs(world))
    (units, requests, messages), (limited, more, as_many) = spent
    assert limited - units == Counter(NOTE=2)
    assert units - limited == Counter()
    assert more - requests == Counter(put_item=1, delete_item=1, query=4)
    assert as_many == messages


def test_a_permit_that_is_taken_costs_three_write_units_and_one_message_more() -> None:
    """Its place is written and deleted; who ends writes its own id out and the next one's in, as one write."""
    with aws_world(HELD) as world:
        first, second, third, fourth = (world.start() for _ in range(4))
        world.deliver()
        run_now(world.service.approve(first))
        world.deliver()
        costs(world)
        waiting = world.start()
        world.deliver()
        units, _, messages = costs(world)
        assert (units["NOTE"], messages) == (1, 1)
        run_now(world.service.approve(second))
        world.deliver()
        units, _, messages = costs(world)
        assert units["NOTE"] == 1 + 1  # the holders, and the place of the run that begins
        assert world.header(fourth).status == "waiting"
        for run_id in (third, fourth, waiting):
            run_now(world.service.approve(run_id))
            world.deliver()
        assert world.header(waiting).status == "completed"


def test_a_run_that_gives_back_its_permit_while_it_waits_pays_five_write_units_more_for_each_wait() -> None:
    """Two records and the header; the permit back, and another one taken. And six reads."""
    spent = []
    for definition in (HELD, HELD.replace("limit: 2", "limit: 2, while_waiting: release")):
        with aws_world(definition) as world:
            run_id = world.start()
            world.deliver()
            run_now(world.parts.workflow_pauses.all())
            costs(world)
            run_id = world.start()
            world.deliver()
            run_now(world.service.approve(run_id))
            world.deliver()
            assert world.header(run_id).status == "completed"
            spent.append(costs(world))
    (units, requests, messages), (released, more, as_many) = spent
    assert released - units == Counter(LOG=2, NOTE=2, RUN=1)
    assert units - released == Counter()
    assert (more - requests)["query"] + (more - requests)["get_item"] == 6
    assert as_many == messages


OPEN_FORK = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
nodes:
  hold: {wait: {for: approval}, transitions: [{to: each, foreach: "{{ input }}"}]}
  each: {wait: {for: event, name: paid, key: k}, transitions: [{to: met}]}
  met: {fan_in: {policy: all}}
"""


def test_a_run_that_finds_its_permit_taken_when_its_wait_is_over_pays_two_write_units_and_a_message_more() -> None:
    """Its place in line is written and deleted, and the header shows that it waits; whoever ends lets it on in the

    write with which it leaves. That is one more of the table, and none for the permit.
    """
    spent = []
    for inputs in ([[1]], [[1], []]):
        with aws_world(OPEN_FORK) as world:
            holder, *waits = (world.start(given=one) for one in inputs)
            world.deliver()
            run_now(world.service.approve(holder))
            world.deliver()
            costs(world)
            for one in waits:
                run_now(world.service.approve(one))
            world.deliver()
            asked, _, _ = costs(world)
            run_now(world.service.send_event("paid", {}, key="k"))
            world.deliver()
            given, _, messages = costs(world)
            assert {world.header(one).status for one in (holder, *waits)} == {"completed"}
            assert run_now(world.store.notes("permits:flow")) == {}
            spent.append((asked["NOTE"], given["NOTE"], messages))
    (_, alone, sent), (place, both, more) = spent
    assert place == 1
    assert both - alone == 1 + 1  # its place; and its own end gives back the permit as the holder's did alone
    assert more - sent == 1


def test_what_a_limited_run_costs_does_not_grow_with_those_that_wait() -> None:
    spent = []
    for waiting in (3, 30):
        with aws_world(HELD) as world:
            runs = [world.start() for _ in range(2 + waiting)]
            world.deliver()
            costs(world)
            run_now(world.service.approve(runs[0]))
            world.deliver()
            spent.append(costs(world))
    assert spent[0] == spent[1]


def test_thirty_runs_under_a_limit_of_three_are_never_four_and_none_is_left() -> None:
    with aws_world(HELD.replace("limit: 2", "limit: 3")) as world:
        runs = [world.start(priority=number % 2) for number in range(30)]
        ended: list[str] = []
        while len(ended) < 30:
            world.deliver()
            under_way = [one for one in runs if world.header(one).status == "waiting"]
            assert len(under_way) == min(3, 30 - len(ended))
            run_now(world.service.approve(under_way[0]))
            ended.append(under_way[0])
        world.deliver()
        assert run_now(world.store.notes("permits:flow")) == {}


def test_a_turn_under_a_rate_limit_costs_one_write_unit_and_two_more_for_a_run_that_waits_for_it() -> None:
    with aws_world(PACED) as world:
        world.start()
        world.deliver()
        assert world.meter.units["NOTE"] == 1
        world.start()
        world.deliver()
        world.pass_time(11 * SECOND_MS)
        assert world.meter.units["NOTE"] == 1 + 1 + 2


class Dying:
    """A store of which each n-th call is not answered, before or after it happened, in turns."""

    def __init__(self, inner: Any, every: int) -> None:
        self.inner, self._every, self._calls = inner, every, 0

    def sure_header(self, run_id: str) -> Header:
        header: Header | None = run_now(self.inner.get_run(run_id))
        assert header is not None
        return header

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self._calls += 1
            turn, which = divmod(self._calls, self._every)
            if which == 0 and turn % 2:
                raise PortError("away")
            made = await method(*args, **named)
            if which == 0:
                raise PortError("no answer")
            return made

        return call


THROTTLED = PLAIN.replace("run: python:m.one", "run: python:m.one, throttle: stripe")


def throttled(limit: Limit) -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """What a throttled run costs beside the same without: of the first, and of one that waits for its turn.

    Both worlds have read before which workflows are paused, which counts again after five seconds.
    """
    with aws_world(PLAIN) as world:
        run_now(world.parts.workflow_pauses.all())
        costs(world)
        world.start()
        world.deliver()
        plain, requests, messages = costs(world)
    with aws_world(THROTTLED) as world:
        world.catalog.limits = {"stripe": limit}
        run_now(world.parts.workflow_pauses.all())
        costs(world)
        world.start()
        world.deliver()
        units, more, as_many = costs(world)
        assert as_many == messages
        assert plain - units == Counter()
        world.start()
        world.deliver()
        world.pass_time(11 * SECOND_MS)
        later, reads, more_messages = costs(world)
    assert (reads - requests)["query"] + (reads - requests)["get_item"] == (8 if limit.rate else 4)
    return units - plain, more - requests, later - plain, more_messages - messages


def test_a_throttled_step_costs_five_write_units_when_its_permit_is_free() -> None:
    """Two records, the header, and its permit taken and given back; and four reads."""
    units, requests, later, messages = throttled(Limit(100))
    assert units == Counter(LOG=2, NOTE=2, RUN=1)
    assert requests == Counter(put_item=3, delete_item=1, query=4, update_item=1)
    assert (later, messages) == (units, 0)


def test_a_turn_under_a_named_rate_costs_one_write_unit_and_two_more_for_a_step_that_waits_for_it() -> None:
    units, _, later, messages = throttled(Limit(None, RateLimit(1, 10 * SECOND_MS)))
    assert units == Counter(LOG=2, NOTE=1, RUN=1)
    assert (later, messages) == (Counter(LOG=2, NOTE=3, RUN=2), 1)


class GoneError(Exception):
    """The worker died in its step."""


def dying(call: StepCall) -> Any:
    raise GoneError


def test_a_throttled_step_that_waits_for_another_costs_seven_write_units_and_no_message_while_it_waits() -> None:
    """Beside its records and its permit, its place in line, and the header shows that it waits."""
    with aws_world(THROTTLED) as world:
        world.catalog.limits = {"stripe": Limit(1)}
        world.start()
        world.steps.of["one"] = dying
        with pytest.raises(GoneError):
            world.deliver()
        world.steps.of.clear()
        costs(world)
        world.start()
        world.deliver()
        units, _, messages = costs(world)
        assert (units["LOG"], units["NOTE"], messages) == (1, 1, 1)  # its wait, its place, and the start's message
        world.pass_time(10 * MINUTE_MS)
        units, _, messages = costs(world)
        assert world.service is not None
        assert (units["LOG"], units["NOTE"]) == (1 + 2, 3)  # both steps, one's end; two permits in one write, a place
        assert messages == 1
        assert run_now(world.store.notes("permits:@stripe")) == {}


def test_twenty_throttled_steps_under_a_limit_of_three_are_never_four_and_cost_no_more_than_a_few() -> None:
    """On the emulated table: three are under way while the others wait; then the line moves up by itself."""
    with aws_world(THROTTLED) as world:
        world.catalog.limits = {"stripe": Limit(3)}
        most = [0]

        def count(call: StepCall) -> Any:
            held = run_now(world.store.notes("permits:@stripe")).get("h00", "[]")
            most[0] = max(most[0], len(json.loads(held)))
            return {}

        runs = [world.start() for _ in range(20)]
        world.steps.of["one"] = dying
        for _ in range(3):
            with pytest.raises(GoneError):
                world.deliver()
        world.steps.of["one"] = count
        world.deliver()
        assert [world.header(one).status for one in runs].count(Status.WAITING) == 17
        costs(world)
        world.pass_time(10 * MINUTE_MS)
        assert [world.header(one).status for one in runs].count(Status.COMPLETED) == 20
        assert most == [3]
        assert run_now(world.store.notes("permits:@stripe")) == {}
        units, _, _ = costs(world)
        assert units["NOTE"] <= 3 * 20


@pytest.mark.slow
def test_one_thousand_runs_under_a_limit_of_ten_are_never_eleven_and_lose_no_permit_though_workers_die() -> None:
    """On the emulated table; each 61st call of the store is not answered, before or after it happened."""
    slept = HELD.replace("limit: 2", "limit: 10").replace("wait: {for: approval}", "sleep: 1s")
    with aws_world(slept) as world:
        runs = [world.start(priority=number % 3) for number in range(1_000)]
        world.store.inner = Dying(world.store.inner, 61)
        most, left = 0, set(runs)
        while left:
            deliver(world, world.clock.now_ms() + SECOND_MS)
            held = run_now(world.store.inner.inner.notes("permits:flow")).get("h00", "[]")
            most = max(most, len(json.loads(held)))
            left = {one for one in left if not world.store.inner.sure_header(one).status.terminal}
        assert most == 10
        assert run_now(world.store.inner.inner.notes("permits:flow")) == {}
        units = world.meter.units
        assert units["NOTE"] <= 3.5 * 1_000
