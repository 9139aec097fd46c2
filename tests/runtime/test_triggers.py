"""What starts runs: events and firings, each once however often it comes, and what is done where one cannot start."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepwell.engine.names import iso
from stepwell.errors import PortError
from stepwell.runtime.log.messages import Scheduled, from_json, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane, Schedule
from stepwell.runtime.ports.headers import Header, RunQuery
from tests.runtime.kit import NOW_MS, World

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
DUE_MS = NOW_MS // DAY * DAY + 9 * HOUR + DAY  # the next 09:00 UTC
SLOW = "timeline: [{name: a, wait: {for: approval, timeout: 30d}}]"
QUICK = "timeline: [{name: a, run: python:m.a}]"


def triggered(trigger: str, rest: str = QUICK, name: str = "flow", more: str = "") -> World:
    return World(f"workflow: {name}\n{more}\ntriggers: [{trigger}]\n{rest}")


def send(world: World, payload: Any = None, name: str = "order.created", **more: str) -> None:
    run_now(world.service.send_event(name, payload, **more))
    world.deliver()


def runs(world: World, workflow: str = "") -> list[Header]:
    """Oldest first."""
    return list(reversed(run_now(world.service.runs(RunQuery(workflow, limit=500))).headers))


def fire(world: World, at_ms: int = DUE_MS, name: str = "flow:1", made: Schedule | None = None) -> None:
    """The time has come, and the message with it."""
    world.clock.set(max(world.clock.now_ms(), at_ms))
    world.send(Lane.RESUME, to_json(Scheduled(name, at_ms, made)))
    world.deliver()


# -- events


def test_an_event_starts_a_run_of_each_workflow_that_has_a_trigger_for_it() -> None:
    event = "triggers: [{event: order.created}]"
    world = World(*(f"workflow: {name}\n{event}\n{QUICK}" for name in ("a", "b")), f"workflow: c\n{QUICK}")
    send(world, {"n": 1})
    assert {run.workflow: (run.input, run.status) for run in runs(world)} == {
        "a": ({"n": 1}, "completed"), "b": ({"n": 1}, "completed")
    }  # fmt: skip
    send(world, {"n": 1}, name="order.paid")
    assert len(runs(world)) == 2


def test_an_event_of_one_id_starts_one_run_however_often_it_is_sent_or_comes() -> None:
    world = triggered("{event: order.created}")
    for _ in range(2):
        send(world, {"n": 1}, event_id="e-1")
    send(world, {"n": 1}, event_id="e-2")
    assert len(runs(world)) == 2
    assert world.parts.triggers.counts == {"TriggeredRuns": 2}


def test_a_publisher_that_dies_at_any_call_leaves_one_run_that_goes() -> None:
    """Each call of the store that a publication makes fails once; the message comes again."""
    calls = ("get_event", "waiters", "get_run", "put_definition", "create_run")
    for name in calls:
        world = triggered("{event: order.created}")

        def die(*_: Any) -> None:
            raise PortError("away")

        world.store.before[name] = die
        run_now(world.service.send_event("order.created", {"n": 1}))
        with pytest.raises(PortError):
            world.deliver()
        world.pass_time(61_000)  # its lease is over
        (run,) = runs(world)
        assert run.status == "completed", name


def test_a_key_makes_one_run_for_each_value() -> None:
    world = triggered('{event: order.created, key: "{{ event.id }}"}')
    for order, note in ((7, "a"), (7, "b"), (8, "c")):
        send(world, {"id": order, "note": note})
    assert sorted(run.input["note"] for run in runs(world)) == ["a", "c"]


@pytest.mark.parametrize("key", [None, "", True, [1], {"a": 1}, "x" * 600])
def test_a_key_that_is_none_starts_nothing_and_is_told(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    world = triggered('{event: order.created, key: "{{ event.id }}"}')
    send(world, {"id": key})
    assert runs(world) == []
    assert world.parts.triggers.counts == {"RefusedTriggers": 1}
    assert "flow on event order.created" in caplog.text


def test_match_decides_and_the_first_trigger_that_wants_the_event_makes_the_input() -> None:
    world = World(f"""
workflow: flow
triggers:
  - {{event: order.created, match: "event.total > 100", input: {{large: "{{{{ event.total }}}}"}}}}
  - {{event: order.created, match: "event.total > 5"}}
{QUICK}""")
    for total in (1, 50, 500, "many"):
        send(world, {"total": total})
    send(world, "no object")
    found = [run.input for run in runs(world)]
    assert len(found) == 2
    assert {"total": 50} in found
    assert {"large": 500} in found


def test_an_input_that_the_workflow_does_not_take_starts_nothing_and_is_told() -> None:
    world = triggered("{event: order.created}", more="input_schema: {type: object, required: [id]}")
    send(world, {"n": 1})
    assert runs(world) == []
    assert world.parts.triggers.counts == {"RefusedTriggers": 1}


LIMITED = 'concurrency: {limit: 1, key: "{{ input.who }}"}'


def test_an_input_without_the_key_of_a_limit_starts_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = triggered("{event: order.created}", more=LIMITED)
    send(world, {"n": 1})
    assert runs(world) == []
    assert world.parts.triggers.counts == {"RefusedTriggers": 1}
    assert "`concurrency.key` cannot be computed: there is no key 'who'" in caplog.text
    world = triggered('{schedule: "cron(0 9 ? * MON-FRI *)"}', more=LIMITED)
    fire(world)
    assert runs(world) == []
    assert world.parts.triggers.counts == {"RefusedTriggers": 1}


def test_an_event_goes_to_who_waits_for_it_too() -> None:
    world = World(
        "workflow: waits\ntimeline: [{name: a, wait: {for: event, name: order.created, key: k}}]",
        f"workflow: flow\ntriggers: [{{event: order.created}}]\n{QUICK}",
    )
    waiting = world.start("waits")
    world.deliver()
    send(world, {"n": 1}, key="k")
    assert world.header(waiting).status == "completed"
    assert len(runs(world, "flow")) == 1


def test_an_event_for_one_run_triggers_nothing() -> None:
    world = triggered("{event: order.created}", SLOW)
    run_id = world.start()
    world.deliver()
    send(world, {"n": 1}, run_id=run_id)
    assert len(runs(world)) == 1


def test_what_a_trigger_of_a_manual_workflow_makes_is_idle_until_it_is_started() -> None:
    world = triggered("{event: order.created}", more="start: manual")
    send(world, {"n": 1})
    (run,) = runs(world)
    assert run.status == "idle"
    run_now(world.service.start_idle(run.run_id))
    world.deliver()
    assert world.header(run.run_id).status == "completed"
    assert world.header(world.start()).status == "pending"  # who asks for a run gets one that goes


# -- firings

DAILY = '{schedule: "cron(0 9 * * ? *)"}'


def test_a_firing_starts_one_run_however_often_it_comes() -> None:
    world = triggered(DAILY)
    for _ in range(3):
        fire(world)
    (run,) = runs(world)
    assert run.input == {"schedule": "flow:1", "scheduled_at": iso(DUE_MS)}
    fire(world, DUE_MS + DAY)
    assert len(runs(world)) == 2
    assert world.parts.triggers.counts == {"TriggeredRuns": 2}


def test_its_input_is_a_template_over_the_firing() -> None:
    world = triggered('{schedule: "0 9 * * *", input: {day: "{{ event.scheduled_at }}", at: "{{ string(now) }}"}}')
    fire(world)
    assert runs(world)[0].input["day"] == iso(DUE_MS)


def test_a_firing_that_dies_at_any_call_leaves_one_run_that_goes() -> None:
    for name in ("get_run", "get_note", "put_note", "put_definition", "create_run"):
        world = triggered(DAILY)

        def die(*_: Any) -> None:
            raise PortError("away")

        world.store.before[name] = die
        with pytest.raises(PortError):
            fire(world)
        world.pass_time(61_000)
        (run,) = runs(world)
        assert run.status == "completed", name


def test_while_the_run_of_an_earlier_firing_lives_a_firing_is_skipped_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = triggered(DAILY, SLOW)
    fire(world)
    fire(world, DUE_MS + DAY)
    (run,) = runs(world)
    assert "flow:1" in caplog.text
    assert "had not ended" in caplog.text
    assert world.parts.triggers.counts == {"TriggeredRuns": 1, "SkippedFirings": 1}
    run_now(world.service.approve(run.run_id))
    world.deliver()
    fire(world, DUE_MS + DAY)  # the one that was skipped comes again
    assert len(runs(world)) == 1
    fire(world, DUE_MS + 2 * DAY)
    assert len(runs(world)) == 2


def test_a_paused_schedule_starts_nothing_and_tells_nobody_until_its_pause_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hears = "timeline: [{name: a, wait: {for: event, name: SCHEDULE_REACHED, key: 'flow:1', timeout: 30d}}]"
    world = World(f"workflow: flow\ntriggers: [{DAILY}]\n{QUICK}", f"workflow: hearer\n{hears}")
    hearer = world.start(workflow="hearer")
    world.deliver()
    run_now(world.parts.scheduling.pause("flow:1", "the move", "ana"))
    fire(world)
    assert runs(world, "flow") == []
    assert "flow:1 at" in caplog.text
    assert "it is paused" in caplog.text
    assert world.parts.triggers.counts == {"SkippedFirings": 1}
    assert world.header(hearer).status == "waiting"
    run_now(world.parts.scheduling.unpause("flow:1"))
    fire(world, DUE_MS + DAY)
    assert len(runs(world, "flow")) == 1
    assert world.header(hearer).status == "completed"


def test_a_run_that_is_fired_by_hand_is_one_more_than_that_of_the_time() -> None:
    world = triggered(DAILY, QUICK)
    world.clock.set(DUE_MS)
    assert run_now(world.parts.triggers.fire_now("flow:1")).created
    fire(world)
    assert len(runs(world)) == 2
    assert run_now(world.parts.scheduling.get("flow:1")).last is not None


def test_a_run_that_is_fired_by_hand_for_a_time_is_that_of_the_time() -> None:
    world = triggered(DAILY, SLOW)
    world.clock.set(DUE_MS)
    by_hand = run_now(world.parts.triggers.fire_now("flow:1", DUE_MS))
    assert by_hand.created
    fire(world)
    (run,) = runs(world)
    assert run.run_id == by_hand.header.run_id
    assert world.parts.triggers.counts == {"TriggeredRuns": 1}


def test_a_firing_that_comes_after_a_later_one_is_not_said_to_meet_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """No firing of this schedule ever started a run."""
    world = triggered('{schedule: "* * * * *", input: "{{ event.nothing }}"}')
    for at_ms in (DUE_MS, DUE_MS + MINUTE, DUE_MS):
        fire(world, at_ms)
    assert "had not ended" not in caplog.text
    assert "2023-11-15T09:00:00.000Z starts nothing: it, or a later firing, was handled before" in caplog.text


def test_with_overlap_allow_runs_go_beside_each_other() -> None:
    world = triggered('{schedule: "cron(0 9 * * ? *)", overlap: allow}', SLOW)
    for days in range(3):
        fire(world, DUE_MS + days * DAY)
    assert [run.status for run in runs(world)] == ["waiting"] * 3


def test_a_run_that_could_not_start_does_not_keep_the_next_one_from_starting() -> None:
    world = triggered('{schedule: "0 9 * * *", input: "{{ event.nothing }}"}')
    fire(world)
    assert runs(world) == []
    assert world.parts.triggers.counts == {"RefusedTriggers": 1}
    made = Schedule("often", "flow", "0 9 * * *")
    fire(world, DUE_MS, "often", made)
    fire(world, DUE_MS + DAY, "often", made)
    assert len(runs(world)) == 2


@pytest.mark.parametrize(
    ("more", "late_ms", "starts"),
    [
        ("", 23 * HOUR, True),  # still the last one there was
        ("", 25 * HOUR, False),  # there has been one since
        (", catch_up: 3d", 25 * HOUR, True),
        (", catch_up: 3d", 73 * HOUR, False),
        (", catch_up: 0", 23 * HOUR, False),
        (", catch_up: 0", 2 * MINUTE, True),
    ],
)
def test_a_firing_that_comes_late_is_made_up_for_as_catch_up_says(more: str, late_ms: int, starts: bool) -> None:
    world = triggered(f'{{schedule: "cron(0 9 * * ? *)"{more}}}')
    world.clock.set(DUE_MS + late_ms)
    fire(world)
    assert len(runs(world)) == starts
    assert world.parts.triggers.counts == ({"TriggeredRuns": 1} if starts else {"MissedFirings": 1})


def test_two_firings_at_once_agree_which_of_them_starts() -> None:
    """The other one comes in between the look at the note and its change."""
    world = triggered(DAILY, SLOW)
    world.clock.set(DUE_MS + DAY)

    def other(*_: Any) -> None:
        run_now(world.parts.triggers.fire(Scheduled("flow:1", DUE_MS + DAY)))

    world.store.before["put_note"] = other
    run_now(world.parts.triggers.fire(Scheduled("flow:1", DUE_MS + DAY - HOUR)))
    assert len(runs(world)) == 1


def test_a_firing_of_what_is_no_longer_deployed_starts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = triggered(DAILY)
    with caplog.at_level(logging.WARNING):
        fire(world, name="gone:1")
        fire(world, name="flow:2")
        fire(world, name="often", made=Schedule("often", "gone", "0 9 * * *"))
    assert runs(world) == []
    assert caplog.text.count("no longer deployed") == 3


def test_a_firing_of_which_nobody_says_when_is_of_this_minute() -> None:
    world = triggered('{schedule: "rate(1 minute)"}')
    world.clock.set(NOW_MS // MINUTE * MINUTE + 30_000)
    for _ in range(2):
        world.send(Lane.RESUME, {"type": "scheduled", "schedule": "flow:1", "at": "<aws.scheduler.scheduled-time>"})
        world.deliver()
    (run,) = runs(world)
    assert run.input["scheduled_at"] == iso(NOW_MS // MINUTE * MINUTE)


def test_a_firing_is_the_same_after_it_was_sent() -> None:
    made = Schedule("often", "flow", "rate(5 minutes)", "UTC", {"a": [1]}, "allow", 5_000, NOW_MS)
    for message in (Scheduled("flow:1", DUE_MS), Scheduled("often", DUE_MS, made), Scheduled("often")):
        assert from_json(to_json(message)) == message
    assert from_json({"type": "scheduled", "schedule": "a", "at": "2030-01-31T09:00:00Z"}) == Scheduled(
        "a", 1_896_080_400_000
    )


def test_an_event_that_starts_runs_is_not_refused_for_a_full_mailbox() -> None:
    world = World(
        "workflow: flow\ntriggers: [{event: order.created}]\nevents: {order.created: {max_pending: 1}}\n"
        "timeline:\n  - {name: a, run: python:m.a}\n"
    )
    for number in range(3):
        send(world, {"n": number})
    assert len(runs(world)) == 3
