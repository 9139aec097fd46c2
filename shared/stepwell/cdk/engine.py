"""`StepwellEngine`: a construct that runs a folder of workflows on AWS.

engine = StepwellEngine(self, "Stepwell", EngineProps(folder=Path("workflows")))
engine.grant_start(orders_function)                                # it may start runs
orders_table.grant_read_data(engine.workers["default"])            # steps may read the orders
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stepwell.cdk import api, metrics, nag
from stepwell.cdk.alarms import Alarms
from stepwell.cdk.dashboard import make_dashboard
from stepwell.cdk.deploys import Deploys
from stepwell.cdk.errors import BadProperty
from stepwell.cdk.handlers import Handlers
from stepwell.cdk.keys import open_to_services
from stepwell.cdk.live import Live
from stepwell.cdk.permissions import Resources
from stepwell.cdk.props import EngineProps
from stepwell.cdk.queues import Queues
from stepwell.cdk.schedules import Schedules
from stepwell.cdk.storage import BY_DUE, BY_STATE, BY_WORKFLOW, Storage
from stepwell.cdk.timers import Timers
from stepwell.cdk.webhooks import read_webhooks


class StepwellEngine(Construct):
    """The engine, configured by `EngineProps`. Raises BundlingError if the workflows have errors.

    Its parts, for grants, rules and outputs: `table`, `bucket`, `bus`, `queues`, `workers` (functions by pool),
    `api_url`; `link_key`, the secret that signs links; `api_key`, the API's, with `auth="api_key"`; `dashboard` and
    `alarms`, with `alarms`.
    """

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps) -> None:
        super().__init__(scope, construct_id)
        self._props = props
        metrics.name_service(self)
        if props.kms_key:
            open_to_services(self, props.kms_key)
        self._storage = Storage(self, "Storage", props)
        webhooks = read_webhooks(props.webhooks_file)
        self.queues = Queues(self, "Queues", props, sends=bool(webhooks.out))
        places = Resources(_arns(self._storage, self.queues), props.kms_key.key_arn if props.kms_key else "",
                           props.vpc is not None, [key.key_arn for key in props.former_kms_keys])  # fmt: skip
        timers = Timers(self, "Timers", props, places)
        places = places.with_arns(schedules=[timers.arn], schedule_role=[timers.role.role_arn])
        self.api_key: secretsmanager.Secret | None = None
        if props.auth == "api_key":
            self.api_key = _make_secret(self, "ApiKey", "The key of Stepwell's API", props, nag.API_KEY)
        signs = "What signs the links of Stepwell's callbacks and approvals"
        self.link_key = _make_secret(self, "LinkKey", signs, props, nag.LINK_KEY)
        places = places.with_arns(link_key=[self.link_key.secret_arn])
        self._api = api.Api(self, "Api", props)
        live = Live(self, "Live", props) if props.live else None
        places = places.with_arns(connections=[live.table.table_arn] if live else [],
                                  watchers=[live.callback_arn] if live else [])  # fmt: skip
        environment = {"STEPWELL_URL": self._api.url, "STEPWELL_LINK_SECRET": self.link_key.secret_arn}
        self.handlers = Handlers(self, "Functions", props, self._storage, self.queues, timers, places, self.api_key,
                                 environment, webhooks, live)  # fmt: skip
        Schedules(self, "Schedules", timers, self.queues.resume, self.handlers.schedules)
        Deploys(self, "Deploys", self.queues.resume)
        self._api.serve(self.handlers)
        if live and self.handlers.live:
            live.serve(self.handlers.live, self.handlers.stream)
        self.alarms: Alarms | None = None
        self.dashboard: cloudwatch.Dashboard | None = None
        if props.alarms:
            self.alarms = Alarms(self, "Alarms", props, self.queues, self.handlers, self._api.http)
            self.dashboard = make_dashboard(self, self.queues, self.table, self._api, list(self.handlers))

    @property
    def table(self) -> dynamodb.Table:
        """The table of runs, logs, events and waits."""
        return self._storage.table

    @property
    def bucket(self) -> s3.Bucket:
        """The bucket with large values under `blobs/` and snapshots under `runs/`."""
        return self._storage.bucket

    @property
    def bus(self) -> events.EventBus:
        """The event bus of run events; add a rule to subscribe."""
        return self._storage.bus

    @property
    def workers(self) -> Mapping[str, lambda_.Function]:
        """The worker functions by pool."""
        return {name: handler.function for name, handler in self.handlers.workers.items()}

    @property
    def api_url(self) -> str:
        """The API's URL, without a trailing slash."""
        return self._api.http.api_endpoint

    # -- grants

    def grant_start(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows starting runs. Raises BadProperty unless the API uses IAM."""
        return self._grant(grantee, api.START)

    def grant_send_event(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows sending events, to one run or to all waits. Raises BadProperty unless the API uses IAM."""
        return self._grant(grantee, api.SEND_EVENT)

    def grant_links(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows creating links that end waits, and so answering for anybody; meant for a mailer.

        Raises BadProperty unless the API uses IAM.
        """
        return self._grant(grantee, api.LINK)

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows all calls that only read, but of dead letters. Raises BadProperty unless the API uses IAM."""
        return self._grant(grantee, api.READ)

    def grant_step_functions(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows all calls of the API of Step Functions: starting, reading and stopping runs, and ending callbacks.

        Raises BadProperty unless the API uses IAM.
        """
        return self._grant(grantee, api.STATES)

    def _grant(self, grantee: iam.IGrantable, routes: api.Routes) -> iam.Grant:
        if self._props.auth != "iam":
            raise BadProperty(f"auth: a grant needs auth iam, but this API has {self._props.auth}")
        arns = self._api.arns(routes)
        return iam.Grant.add_to_principal(grantee=grantee, actions=["execute-api:Invoke"], resource_arns=arns)

    # -- metrics

    def metric_runs_ended(self) -> cloudwatch.Metric:
        """The number of ended runs."""
        return metrics.own(self, metrics.RUNS_ENDED, "Sum")

    def metric_runs_failed(self) -> cloudwatch.Metric:
        """The number of runs that ended without completing."""
        return metrics.own(self, metrics.RUNS_FAILED, "Sum")

    def metric_overdue(self) -> cloudwatch.Metric:
        """The number of runs that the sweeper woke; none in a healthy system."""
        return metrics.own(self, metrics.OVERDUE, "Maximum")

    def metric_dead_letters(self) -> cloudwatch.Metric:
        """The number of messages in the dead-letter queue."""
        return metrics.waiting(self.queues.dead)

    def metric_oldest_message_age(self, pool: str | None = None) -> cloudwatch.Metric:
        """The age in seconds of the oldest message for a pool's worker, or without one for the coordinator."""
        queue = self.queues.resume if pool is None else self.queues.work[pool]
        return metrics.age_seconds(queue)


def _arns(storage: Storage, queues: Queues) -> dict[str, list[str]]:
    bucket = storage.bucket
    return {
        "table": [storage.table.table_arn],
        "indexes": [storage.index_arn(name) for name in (BY_WORKFLOW, BY_STATE, BY_DUE)],
        "batched": [storage.table.table_arn],
        "batched_indexes": [storage.index_arn(name) for name in (BY_WORKFLOW, BY_STATE)],
        "open": [storage.index_arn(BY_STATE)],
        "swept": [storage.index_arn(name) for name in (BY_STATE, BY_DUE)],
        "stream": [storage.stream_arn],
        "bucket": [bucket.bucket_arn],
        "blobs": [bucket.arn_for_objects("blobs/*")],
        "run_blobs": [bucket.arn_for_objects("blobs/run-*")],
        "event_blobs": [bucket.arn_for_objects("blobs/days-*")],
        "snapshots": [bucket.arn_for_objects("runs/*")],
        "bus": [storage.bus.event_bus_arn],
        "resume": [queues.resume.queue_arn],
        "dead": [queues.dead.queue_arn],
        "work": [queue.queue_arn for queue in queues.work.values()],
        "work_dead": [queue.queue_arn for queue in queues.work_dead.values()],
        "notifications": [queues.notifications.queue_arn] if queues.notifications else [],
        "dead_notifications": [queues.dead_notifications.queue_arn] if queues.dead_notifications else [],
    }


def _make_secret(
    scope: Construct, construct_id: str, description: str, props: EngineProps, reasons: Mapping[str, str]
) -> secretsmanager.Secret:
    secret = secretsmanager.Secret(
        scope,
        construct_id,
        description=description,
        encryption_key=props.kms_key,
        generate_secret_string=secretsmanager.SecretStringGenerator(exclude_punctuation=True, password_length=48),
        removal_policy=props.removal_policy,
    )
    nag.acknowledge(secret, reasons)
    return secret
