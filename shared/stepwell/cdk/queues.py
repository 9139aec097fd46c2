"""The queues, and the path of a message that kills its worker.

work (one for each pool) ──5 tries──▶ its dead-letter queue ──▶ coordinator: the step has failed, `worker_lost`
                                            └──10 tries──▶ dead
resume ──5 tries──────────────────────────────────────────▶ dead ──▶ an alarm, and the sweeper: to resume again,
                                                                     24 times at most; then a person
notifications (of webhooks to endpoints) ──100 tries──▶ dead letters ──▶ an alarm, and a person
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stepwell.cdk.props import EngineProps

DELIVERIES = 5  # of a message, before it goes to the dead-letter queue
BURIALS = 10  # of a dead letter, before it goes to the queue with the alarm
# Of a notification, which counts only where its sender dies or may not start: what an endpoint refuses is sent anew.
# While workers take all that an account may run at once, five would be over after two minutes.
POSTINGS = 100
KEPT = cdk.Duration.days(7)
# Longer than KEPT, because a dead letter's age counts from the first send.
DEAD_KEPT = cdk.Duration.days(14)
COORDINATOR_SECONDS = 60
SENDER_SECONDS = 30  # an endpoint may take 15 to answer
DELAY_SECONDS = 900  # the maximum of SQS


class Queues(Construct):
    """`work` and `work_dead` by pool, `resume`, and `dead`; `notifications` and `dead_notifications` with `sends`."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps, *, sends: bool = False) -> None:
        """`sends`: whether the folder has endpoints for outgoing webhooks."""
        super().__init__(scope, construct_id)
        self._key, self._pools, self._policy = props.kms_key, props.pools, props.removal_policy
        coordinator_timeout = cdk.Duration.seconds(COORDINATOR_SECONDS)
        self.dead = self._make("Dead", DEAD_KEPT)
        self.resume = self._make("Resume", KEPT, coordinator_timeout, _after(DELIVERIES, self.dead))
        self.work: dict[str, sqs.Queue] = {}
        self.work_dead: dict[str, sqs.Queue] = {}
        for name, pool in props.pools.items():
            buried = self._make(f"WorkDead-{name}", DEAD_KEPT, coordinator_timeout, _after(BURIALS, self.dead))
            # The minimum for an event source; a working worker extends it by a much shorter heartbeat.
            timeout = cdk.Duration.seconds(pool.timeout_seconds)
            self.work[name] = self._make(f"Work-{name}", KEPT, timeout, _after(DELIVERIES, buried))
            self.work_dead[name] = buried
        self.notifications: sqs.Queue | None = None
        self.dead_notifications: sqs.Queue | None = None
        if sends:  # their ids are those of release 0.1: under others, CloudFormation would make new queues
            self.dead_notifications = self._make("DeadLetters", DEAD_KEPT)
            sender_timeout = cdk.Duration.seconds(SENDER_SECONDS)
            self.notifications = self._make("Letters", KEPT, sender_timeout, _after(POSTINGS, self.dead_notifications))

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
            removal_policy=self._policy,  # as the table's: events and dead letters are data until somebody takes them
        )

    def taken_from(self) -> Iterator[tuple[str, sqs.Queue, int]]:
        """Returns the engine's queues with their names and the normal maximum age of a message in seconds.

        That age is the delay plus the time of the function.
        """
        yield "resume", self.resume, DELAY_SECONDS + COORDINATOR_SECONDS
        for name, queue in self.work.items():
            yield f"work {name}", queue, DELAY_SECONDS + self._pools[name].timeout_seconds
        for name, queue in self.work_dead.items():
            yield f"dead letters of work {name}", queue, COORDINATOR_SECONDS
        if self.notifications:
            yield "notifications", self.notifications, DELAY_SECONDS + SENDER_SECONDS

    def places(self) -> Mapping[str, object]:
        """Returns the URLs and ARNs of the queues for the functions' environment."""
        work = {name: _place(queue) for name, queue in self.work.items()}
        return {"resume": _place(self.resume), "work": work}


def _after(tries: int, queue: sqs.Queue) -> sqs.DeadLetterQueue:
    return sqs.DeadLetterQueue(max_receive_count=tries, queue=queue)


def _place(queue: sqs.Queue) -> Mapping[str, str]:
    return {"url": queue.queue_url, "arn": queue.queue_arn}
