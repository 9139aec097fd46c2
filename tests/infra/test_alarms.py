"""Alarms and the dashboard: what a person is told of, and how they are told."""

from __future__ import annotations

import json

import aws_cdk as cdk
import pytest

from stepwell.cdk.engine import StepwellEngine
from stepwell.cdk.props import EngineProps
from tests.infra.kit import EMULATOR, KEYED, ORDER, PLAIN, ROOT, SENDING, Json, Made, made


def alarms(stack: Made, metric: str) -> list[Json]:
    return [one for one in stack.of("CloudWatch::Alarm").values() if one["MetricName"] == metric]


def about(alarm: Json) -> str:
    """Of what the metric is: the id of a queue or a function, or a name."""
    (dimension,) = alarm["Dimensions"]
    value = dimension["Value"]
    return str(value["Fn::GetAtt"][0] if "Fn::GetAtt" in value else value["Ref"]) if isinstance(value, dict) else value


def test_one_dead_letter_is_told() -> None:
    stack = made(PLAIN)
    (alarm,) = alarms(stack, "ApproximateNumberOfMessagesVisible")
    assert about(alarm) == stack.queue("Dead")
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")


def test_a_webhook_that_no_endpoint_took_is_told_and_so_are_notifications_that_nobody_takes() -> None:
    stack = made(SENDING)
    dead = {about(alarm) for alarm in alarms(stack, "ApproximateNumberOfMessagesVisible")}
    assert dead == {stack.queue("Dead"), stack.queue("DeadLetters")}
    assert stack.queue("Letters") in {about(alarm) for alarm in alarms(stack, "ApproximateAgeOfOldestMessage")}


@pytest.mark.parametrize("metric", ["Overdue", "NoProgress", "NothingWakes", "Unreadable"])
def test_whatever_the_sweeper_finds_is_told(metric: str) -> None:
    (alarm,) = alarms(made(PLAIN), metric)
    assert (alarm["Namespace"], alarm["Threshold"], about(alarm)) == ("Stepwell", 0, "Stepwell")


def test_a_sweeper_that_does_not_run_is_told_after_three_sweeps_that_did_not_come() -> None:
    """Lambda reports no invocations as no data. One period of five minutes may miss a sweep that the next has twice."""
    stack = made(PLAIN)
    (alarm,) = alarms(stack, "Invocations")
    assert (about(alarm), alarm["Namespace"], alarm["Statistic"]) == (stack.id_of("sweeper"), "AWS/Lambda", "Sum")
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "LessThanOrEqualToThreshold")
    assert alarm["TreatMissingData"] == "breaching"
    rule = next(one for one in stack.of("Events::Rule").values() if "ScheduleExpression" in one)
    assert (rule["ScheduleExpression"], alarm["Period"]) == ("rate(5 minutes)", 300)
    assert alarm["DatapointsToAlarm"] == alarm["EvaluationPeriods"] == 3


def test_a_message_that_nobody_takes_is_told_for_every_queue_that_is_taken_from() -> None:
    stack = made(KEYED)
    names = ("Resume", "Workdefault", "Workbig", "WorkDeaddefault", "WorkDeadbig")
    watched = {about(alarm) for alarm in alarms(stack, "ApproximateAgeOfOldestMessage")}
    assert watched == {stack.queue(name) for name in names}


def test_a_message_is_no_alarm_while_it_is_delayed_and_then_worked_on() -> None:
    """A queue's oldest message is as old as SQS's longest delay and its function's timeout make it."""
    stack = made(KEYED)
    threshold = {about(alarm): alarm["Threshold"] for alarm in alarms(stack, "ApproximateAgeOfOldestMessage")}
    for name, queue in (("coordinator", "Resume"), ("worker-default", "Workdefault"), ("worker-big", "Workbig")):
        assert 900 + stack.functions()[name]["Timeout"] < threshold[stack.queue(queue)] < 3600


@pytest.mark.parametrize("metric", ["Errors", "Throttles"])
def test_a_function_that_keeps_failing_is_told(metric: str) -> None:
    stack = made(KEYED)
    found = alarms(stack, metric)
    assert {about(alarm) for alarm in found} == {stack.id_of(name) for name in stack.functions()}
    assert {(alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) for alarm in found} == {(2, 3)}


def test_a_stream_that_falls_behind_is_told_long_before_it_forgets() -> None:
    stack = made(PLAIN)
    (alarm,) = alarms(stack, "IteratorAge")
    assert about(alarm) == stack.id_of("stream")
    assert alarm["Threshold"] < 24 * 3_600_000 / 2


def test_every_alarm_says_what_it_means_and_silence_is_no_alarm_but_of_the_sweeper() -> None:
    for alarm in made(PLAIN).of("CloudWatch::Alarm").values():
        assert len(alarm["AlarmDescription"]) > 20
        assert alarm["TreatMissingData"] == "notBreaching" or alarm["MetricName"] == "Invocations"


def test_an_address_is_told_of_every_alarm_and_alarms_may_reach_it() -> None:
    stack = made(KEYED)
    (topic,) = stack.of("SNS::Topic")
    assert {json.dumps(alarm["AlarmActions"]) for alarm in stack.of("CloudWatch::Alarm").values()} == {
        json.dumps([{"Ref": topic}])
    }
    assert stack.only("SNS::Subscription")["Endpoint"] == "someone@example.org"
    statements = stack.only("SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    assert [one["Action"] for one in statements if one["Principal"] == {"Service": "cloudwatch.amazonaws.com"}] == [
        "sns:Publish"
    ]


def test_without_an_address_alarms_are_seen_on_the_console_alone() -> None:
    assert not made(PLAIN).has("SNS::Topic")
    assert not [one for one in made(PLAIN).of("CloudWatch::Alarm").values() if "AlarmActions" in one]


def test_the_dashboard_shows_what_the_alarms_watch() -> None:
    shown = json.dumps(made(PLAIN).only("CloudWatch::Dashboard"))
    for metric in ("ApproximateNumberOfMessagesVisible", "Overdue", "ApproximateAgeOfOldestMessage", "RunsEnded",
                   "Errors", "Throttles", "ConsumedWriteCapacityUnits", "5xx"):  # fmt: skip
        assert metric in shown


def test_an_emulator_has_no_alarms_and_nothing_else_that_it_cannot_do() -> None:
    stack = made(EMULATOR)
    kinds = {one["Type"] for one in stack.resources.values()}
    assert not {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::Scheduler::ScheduleGroup"} & kinds
    assert not [kind for kind in kinds if kind.startswith("Custom::")]
    told = stack.functions()["worker-default"]["Environment"]["Variables"]
    assert told["STEPWELL_SCHEDULE_GROUP"] == "default"
    missing = {one["Type"] for one in made(PLAIN).resources.values()} - kinds
    assert missing == {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::Scheduler::ScheduleGroup"}


def test_the_construct_gives_its_metrics_to_alarms_of_others() -> None:
    stack = cdk.Stack(cdk.App(), "Mine")
    engine = StepwellEngine(stack, "Engine", EngineProps(folder=ROOT / ORDER, bundle=False))
    given = {
        "RunsEnded": engine.metric_runs_ended(),
        "RunsFailed": engine.metric_runs_failed(),
        "Overdue": engine.metric_overdue(),
    }
    for name, metric in given.items():
        assert (metric.namespace, metric.metric_name, metric.dimensions) == ("Stepwell", name, {"service": "Mine"})
    names = (engine.queues.dead.queue_name, engine.queues.resume.queue_name, engine.queues.work["default"].queue_name)
    ages = (
        engine.metric_dead_letters(),
        engine.metric_oldest_message_age(),
        engine.metric_oldest_message_age("default"),
    )
    assert [metric.dimensions for metric in ages] == [{"QueueName": name} for name in names]
