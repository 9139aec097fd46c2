"""Queues and their event sources: who takes what, how long, how often, and what becomes of the rest."""

from __future__ import annotations

import pytest

from stepwell.cdk.functions import QUERIES_AT_ONCE
from stepwell.cdk.queues import POSTINGS
from stepwell.limits import DELIVERIES, NOTIFICATION_MS, SECOND_MS
from tests.infra.kit import KEYED, PLAIN, SENDING, VARIANTS, Json, Made, made

EVERY = pytest.mark.parametrize("variant", VARIANTS)


def redrive(stack: Made, queue: str) -> tuple[str, int] | None:
    """(dead letters' queue, tries) of a queue."""
    policy = stack.of("SQS::Queue")[queue].get("RedrivePolicy")
    return (policy["deadLetterTargetArn"]["Fn::GetAtt"][0], policy["maxReceiveCount"]) if policy else None


def test_a_wake_that_kills_its_worker_goes_to_the_coordinator_and_only_then_to_a_person() -> None:
    stack = made(KEYED)
    for pool in ("default", "big"):
        buried = stack.queue(f"WorkDead{pool}")
        assert redrive(stack, stack.queue(f"Work{pool}")) == (buried, DELIVERIES)
        assert redrive(stack, buried) == (stack.queue("Dead"), 10)
    assert redrive(stack, stack.queue("Resume")) == (stack.queue("Dead"), DELIVERIES)
    assert redrive(stack, stack.queue("Dead")) is None


def test_dead_letters_are_kept_longer_than_the_queue_they_come_from_keeps_them() -> None:
    stack = made(PLAIN)
    kept = {id_: queue["MessageRetentionPeriod"] for id_, queue in stack.of("SQS::Queue").items()}
    assert kept[stack.queue("Workdefault")] < kept[stack.queue("WorkDeaddefault")] == 14 * 24 * 3600
    assert kept[stack.queue("Resume")] < kept[stack.queue("Dead")] == 14 * 24 * 3600


def test_notifications_that_kill_their_sender_lie_with_those_that_nobody_took() -> None:
    stack = made(SENDING)
    assert redrive(stack, stack.queue("Letters")) == (stack.queue("DeadLetters"), POSTINGS)
    assert redrive(stack, stack.queue("DeadLetters")) is None
    assert stack.of("SQS::Queue")[stack.queue("DeadLetters")]["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_a_sender_that_may_not_start_for_half_an_hour_loses_no_notification() -> None:
    """Workers may take all that an account may run at once. AWS counts what it puts back for that as a delivery."""
    stack = made(SENDING)
    _, tries = redrive(stack, stack.queue("Letters")) or ("", 0)
    assert tries * stack.of("SQS::Queue")[stack.queue("Letters")]["VisibilityTimeout"] >= 1_800


def test_senders_wait_for_their_endpoints_one_notification_each_and_not_all_of_the_account_at_once() -> None:
    (mapping,) = made(SENDING).mappings("sender")
    assert (mapping["BatchSize"], maximum(mapping)) == (1, 20)
    assert made(SENDING).functions()["sender"]["Timeout"] * SECOND_MS > NOTIFICATION_MS


@EVERY
def test_each_message_is_taken_by_one_function(variant: str) -> None:
    stack = made(VARIANTS[variant])
    pools = VARIANTS[variant].get("pools", {"default": {}})
    assert sources(stack, "coordinator") == {stack.queue("Resume"), *(stack.queue(f"WorkDead{pool}") for pool in pools)}
    for pool in pools:
        assert sources(stack, f"worker-{pool}") == {stack.queue(f"Work{pool}")}
    assert sources(stack, "stream") == {next(iter(stack.of("DynamoDB::Table")))}
    sends = "sender" in stack.functions()
    assert not sends or sources(stack, "sender") == {stack.queue("Letters")}
    assert len(stack.of("Lambda::EventSourceMapping")) == 2 + 2 * len(pools) + sends


def sources(stack: Made, name: str) -> set[str]:
    return {one["EventSourceArn"]["Fn::GetAtt"][0] for one in stack.mappings(name)}


@EVERY
def test_a_message_stays_invisible_as_long_as_its_function_may_take(variant: str) -> None:
    stack = made(VARIANTS[variant])
    for name, function in stack.functions().items():
        for queue in sources(stack, name) & set(stack.of("SQS::Queue")):
            assert stack.of("SQS::Queue")[queue]["VisibilityTimeout"] == function["Timeout"], (name, queue)


@EVERY
def test_a_failed_message_does_not_bring_its_batch_back(variant: str) -> None:
    for one in made(VARIANTS[variant]).of("Lambda::EventSourceMapping").values():
        assert one["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_worker_takes_one_message_at_a_time() -> None:
    stack = made(KEYED)
    assert {one["BatchSize"] for pool in ("default", "big") for one in stack.mappings(f"worker-{pool}")} == {1}
    batches = {one["EventSourceArn"]["Fn::GetAtt"][0]: one["BatchSize"] for one in stack.mappings("coordinator")}
    assert batches == {stack.queue("Resume"): 10, stack.queue("WorkDeaddefault"): 1, stack.queue("WorkDeadbig"): 1}


@EVERY
def test_a_function_has_reserved_what_its_sources_may_ask_for(variant: str) -> None:
    stack = made(VARIANTS[variant])
    for name, function in stack.functions().items():
        reserved = function.get("ReservedConcurrentExecutions")
        if reserved is not None:
            asked = [maximum(one) for one in stack.mappings(name)]
            assert None not in asked, f"{name} is bounded, and a source of it is not"
            assert reserved >= sum(one for one in asked if one is not None)


def test_a_pools_concurrency_is_its_workers_limit_and_its_queues() -> None:
    """The API asks the default pool's worker too, which Lambda would refuse while the queue keeps them all busy."""
    stack = made(KEYED)
    for pool, concurrency, queries in (("default", 5, QUERIES_AT_ONCE), ("big", 2, 0)):
        assert stack.functions()[f"worker-{pool}"]["ReservedConcurrentExecutions"] == concurrency + queries
        assert [maximum(one) for one in stack.mappings(f"worker-{pool}")] == [concurrency]
    assert stack.functions()["coordinator"]["ReservedConcurrentExecutions"] == 10 + 2 + 2


def test_nothing_is_reserved_unless_asked_for() -> None:
    """A new account may run ten functions at once, and can reserve none of them."""
    assert not [name for name, one in made(PLAIN).functions().items() if "ReservedConcurrentExecutions" in one]


def maximum(mapping: Json) -> int | None:
    found: int | None = mapping.get("ScalingConfig", {}).get("MaximumConcurrency")
    return found
