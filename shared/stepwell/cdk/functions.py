"""Creates Lambda functions with role, log group and package, and their event sources.

Reserved concurrency is at least the sum of a function's event sources, so that none is throttled into its dead-letter
queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from platform import machine

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stepwell.cdk import nag
from stepwell.cdk.environment import check_environment, check_policies
from stepwell.cdk.permissions import Resources
from stepwell.cdk.props import EngineProps

SWEEP_MINUTES = 5
STREAM_BATCH = 100
STREAM_TRIES = 100  # of a batch: an outage takes seconds of each, and a batch of long snapshots several
COORDINATOR_BATCH = 10
LEAST_CONCURRENCY = 2  # the minimum for a queue's event source
QUERIES_AT_ONCE = 2  # of the API, to the default pool's worker, while its queue keeps all others busy

# New records of a run, new batches of its forks' lanes, and changes or the expiry of its header.
STREAM_PATTERNS: Sequence[Mapping[str, object]] = (
    {"eventName": ["INSERT"], "dynamodb": {"Keys": {"sk": {"S": [{"prefix": "LOG#"}, {"prefix": "JOIN#"}]}}}},
    {"dynamodb": {"Keys": {"sk": {"S": ["RUN"]}}}},
)


@dataclass(frozen=True, slots=True)
class Place:
    """The settings that all functions of an engine share."""

    props: EngineProps
    resources: Resources
    environment: Mapping[str, str]
    security_group: ec2.ISecurityGroup | None
    bucket: s3.IBucket
    schedule_group: str

    def findings(self, handler: str) -> Mapping[str, str]:
        """Suppresses cdk-nag findings about the function's role, with reasons."""
        anywhere = nag.ANYWHERE if self.props.tracing or self.props.vpc else {}
        return {**nag.about_role(handler, self.bucket, self.schedule_group), **anywhere}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A function's size. `concurrency` is the sum of its event sources."""

    memory_mb: int
    timeout_seconds: int
    concurrency: int | None = None
    snapped: bool = False  # starts from a snapshot, if the properties say so
    recursive: bool = False  # a run may pass here many times, which Lambda would detect as a loop
    environment: Mapping[str, str] | None = None


class Handler(Construct):
    """One function, `stepwell.functions.<name>.handler`, with its own role and log group."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        handler: str,
        place: Place,
        code: lambda_.Code,
        shape: Shape,
        more: Mapping[str, Sequence[str]] | None = None,
        extra: Sequence[iam.PolicyStatement] = (),
    ) -> None:
        """`more` are the function's own resources; `extra` are statements beside the table's."""
        super().__init__(scope, construct_id)
        self._place, props = place, place.props
        self.logs = log_group = logs.LogGroup(self, "Logs", retention=props.log_retention, encryption_key=props.kms_key,
                                  removal_policy=props.removal_policy)  # fmt: skip
        own = {**(more or {}), "logs": [log_group.log_group_arn]}
        environment = {**place.environment, **(shape.environment or {})}
        check_environment(self, construct_id, environment)
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Stepwell: {construct_id}",
            runtime=_runtime(props.python_version),
            architecture=_architecture(props.platform),
            code=code,
            handler=f"stepwell.functions.{handler}.handler",
            memory_size=shape.memory_mb,
            timeout=cdk.Duration.seconds(shape.timeout_seconds),
            reserved_concurrent_executions=shape.concurrency,
            recursive_loop=lambda_.RecursiveLoop.ALLOW if shape.recursive else None,
            environment=environment,
            role=self._role(handler, own, extra),
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE if props.tracing else None,
            vpc=props.vpc,
            vpc_subnets=props.vpc_subnets,
            security_groups=[place.security_group] if place.security_group else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if shape.snapped and props.snap_start else None,
        )
        nag.acknowledge(self.function, nag.PYTHON)
        self.called = self._snapped() if shape.snapped and props.snap_start else self.function

    def _snapped(self) -> lambda_.IFunction:
        """What is called in the function's place: only a published version has a snapshot."""
        return lambda_.Alias(self, "Live", alias_name="live", version=self.function.current_version)

    def _role(self, handler: str, own: Mapping[str, Sequence[str]], extra: Sequence[iam.PolicyStatement]) -> iam.Role:
        statements = [*self._place.resources.statements(handler, own)]
        policies = {"engine": iam.PolicyDocument(statements=statements)}
        if extra:
            policies["pool"] = iam.PolicyDocument(statements=list(extra))
        check_policies(self, self.node.id, policies.values())
        service = iam.ServicePrincipal("lambda.amazonaws.com")
        role = iam.Role(self, "Role", assumed_by=service, inline_policies=policies)
        found = {**self._place.findings(handler), **nag.about_calls(self, own), **nag.about_pool(extra)}
        nag.acknowledge(role, found)
        return role

    def take_from(self, construct_id: str, queue: sqs.Queue, *, batch: int, concurrency: int | None) -> None:
        """The queue's messages invoke the function, at most `concurrency` times at once."""
        scaling = lambda_.CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=concurrency)
        lambda_.CfnEventSourceMapping(
            self,
            construct_id,
            function_name=self.called.function_name,
            event_source_arn=queue.queue_arn,
            batch_size=batch,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=scaling if concurrency else None,
        )

    def follow(self, stream_arn: str, failures: sqs.Queue) -> None:
        """The stream's records invoke the function; the positions of failed ones go to a queue.

        No age is set: a change that waits, because the account runs all that it may, must not be passed over for that.
        """
        mapping = lambda_.CfnEventSourceMapping
        stack = cdk.Stack.of(self)
        filters = [mapping.FilterProperty(pattern=stack.to_json_string(pattern)) for pattern in STREAM_PATTERNS]
        failed = mapping.OnFailureProperty(destination=failures.queue_arn)
        mapping(
            self,
            "Stream",
            function_name=self.function.function_name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=STREAM_BATCH,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=STREAM_TRIES,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria=mapping.FilterCriteriaProperty(filters=filters),
            destination_config=mapping.DestinationConfigProperty(on_failure=failed),
        )

    def run_every(self, minutes: int) -> None:
        """A schedule invokes the function, without retries because the next turn follows soon."""
        self.function.configure_async_invoke(retry_attempts=0)  # else Lambda itself tries a failed call twice more
        target = targets.LambdaFunction(self.function, retry_attempts=0)
        events.Rule(self, "Clock", schedule=events.Schedule.rate(cdk.Duration.minutes(minutes)), targets=[target])


def _runtime(python: str) -> lambda_.Runtime:
    found = getattr(lambda_.Runtime, f"PYTHON_{python.replace('.', '_')}")
    assert isinstance(found, lambda_.Runtime)  # noqa: S101 - the versions are checked
    return found


def _architecture(platform: str) -> lambda_.Architecture:
    is_arm = platform == "lambda" or machine() in ("aarch64", "arm64")
    return lambda_.Architecture.ARM_64 if is_arm else lambda_.Architecture.X86_64
