"""The queues, and what becomes of a message that kills whoever takes it.

work (one for each pool) ──5 tries──▶ its dead letters ──▶ coordinator: the step has failed, `worker_lost`
                                            └──10 tries──▶ dead
resume ──5 tries──────────────────────────────────────────▶ dead ──▶ an alarm, and a person
letters (where webhooks go out) ──5 tries──▶ dead letters ──▶ an alarm, and a person
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.props import EngineProps

DELIVERIES = 5  # of a message, before it counts as one that kills its worker
BURIALS = 10  # of a dead letter, before it is a person's
KEPT = cdk.Duration.days(7)
# Longer than KEPT, because a dead letter's age counts from when it was first sent.
DEAD_KEPT = cdk.Duration.days(14)
COORDINATOR_SECONDS = 60
SENDER_SECONDS = 30  # an endpoint may take 15 to answer
DELAY_SECONDS = 900  # the longest that SQS makes


class Queues(Construct):
    """`work` and `work_dead` by pool, `resume`, and `dead`; `letters` and `dead_letters` with `sends`."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps, *, sends: bool = False) -> None:
        """`sends`: whether the folder has endpoints that webhooks go out to."""
        super().__init__(scope, construct_id)
        self._key, self._pools = props.kms_key, props.pools
        coordinator_timeout = cdk.Duration.seconds(COORDINATOR_SECONDS)
        self.dead = self._make("Dead", DEAD_KEPT)
        self.resume = self._make("Resume", KEPT, coordinator_timeout, _after(DELIVERIES, self.dead))
        self.work: dict[str, sqs.Queue] = {}
        self.work_dead: dict[str, sqs.Queue] = {}
        for name, pool in props.pools.items():
            buried = self._make(f"WorkDead-{name}", DEAD_KEPT, coordinator_timeout, _after(BURIALS, self.dead))
            # The least a mapping takes; while a worker works, it keeps its message by a heartbeat much shorter.
            timeout = cdk.Duration.seconds(pool.timeout_seconds)
            self.work[name] = self._make(f"Work-{name}", KEPT, timeout, _after(DELIVERIES, buried))
            self.work_dead[name] = buried
        self.letters: sqs.Queue | None = None
        self.dead_letters: sqs.Queue | None = None
        if sends:
            self.dead_letters = self._make("DeadLetters", DEAD_KEPT)
            sender_timeout = cdk.Duration.seconds(SENDER_SECONDS)
            self.letters = self._make("Letters", KEPT, sender_timeout, _after(DELIVERIES, self.dead_letters))

    def _make(
        self,
        construct_id: str,
        kept: cdk.Duration,
        visibility: cdk.Duration | None = None,
        dead: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            retention_period=kept,
            visibility_timeout=visibility,
            dead_letter_queue=dead,
            encryption=sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=self._key,
            enforce_ssl=True,
        )

    def taken_from(self) -> Iterator[tuple[str, sqs.Queue, int]]:
        """Every queue that the engine itself takes from: its name for people, and how old a message may rightly be,
        in seconds, which is its delay and the time of its function."""
        yield "resume", self.resume, DELAY_SECONDS + COORDINATOR_SECONDS
        for name, queue in self.work.items():
            yield f"work {name}", queue, DELAY_SECONDS + self._pools[name].timeout_seconds
        for name, queue in self.work_dead.items():
            yield f"dead letters of work {name}", queue, COORDINATOR_SECONDS
        if self.letters:
            yield "letters", self.letters, DELAY_SECONDS + SENDER_SECONDS

    def places(self) -> Mapping[str, object]:
        """URL and ARN of the queues that are sent to, as the functions read them."""
        work = {name: _place(queue) for name, queue in self.work.items()}
        return {"resume": _place(self.resume), "work": work}


def _after(tries: int, queue: sqs.Queue) -> sqs.DeadLetterQueue:
    return sqs.DeadLetterQueue(max_receive_count=tries, queue=queue)


def _place(queue: sqs.Queue) -> Mapping[str, str]:
    return {"url": queue.queue_url, "arn": queue.queue_arn}
