"""The schedules that definitions ask for, in the template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.engine.stored.formats import FORMAT
from tests.infra.kit import ORDER, ROOT, Made, made, plain

NIGHTLY = """
workflow: nightly
triggers:
  - {event: order.created}
  - {schedule: "30 2 * * 1-5", timezone: Europe/Madrid, input: {full: true}}
  - {schedule: "rate(1 hour)", overlap: allow}
timeline: [{name: a, sleep: 1s}]
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder: Path = tmp_path_factory.mktemp("workflows")
    (folder / "nightly.yaml").write_text(NIGHTLY)
    return made({"folder": str(folder)})


def test_each_schedule_of_a_definition_is_a_recurring_one_in_its_zone(stack: Made) -> None:
    schedules = stack.of("Scheduler::Schedule").values()
    assert [(one["ScheduleExpression"], one["ScheduleExpressionTimezone"]) for one in schedules] == [
        ("cron(30 2 ? * 2,3,4,5,6 *)", "Europe/Madrid"), ("rate(1 hour)", "UTC")
    ]  # fmt: skip
    group = next(iter(stack.of("Scheduler::ScheduleGroup")))
    for one in schedules:
        assert (one["FlexibleTimeWindow"], plain(one["GroupName"])) == ({"Mode": "OFF"}, f"<{group}>")


def test_it_tells_the_coordinator_which_one_fired_for_what_time(stack: Made) -> None:
    schedules = list(stack.of("Scheduler::Schedule").values())
    targets = [one["Target"] for one in schedules]
    assert [json.loads(target["Input"]) for target in targets] == [
        {"type": "scheduled", "schedule": f"nightly:{number}", "at": "<aws.scheduler.scheduled-time>", "v": FORMAT}
        for number in (1, 2)
    ]
    resume = f"<{stack.queue('Resume')}.Arn>"
    assert {plain(target["Arn"]) for target in targets} == {resume}
    (role,) = {target["RoleArn"]["Fn::GetAtt"][0] for target in targets}
    (sends,) = [one for one in stack.statements_of(role) if plain(one["Resource"]) == resume]
    assert sends["Action"] == "sqs:SendMessage"


def test_without_schedules_there_are_none() -> None:
    assert not made({"folder": str(ROOT / ORDER)}).has("Scheduler::Schedule")
