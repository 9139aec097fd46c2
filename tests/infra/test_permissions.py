"""Who may do what: exact actions on exact resources. What ends in `*` is listed here, with why."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from stepwell.api.routes import ROUTES
from stepwell.cdk import api
from stepwell.cdk.engine import StepwellEngine
from stepwell.cdk.errors import BadProperty, BundlingError
from stepwell.cdk.permissions import KEY_USE, PERMISSIONS
from stepwell.cdk.props import EngineProps
from stepwell.settings import read_deployment
from tests.infra.kit import (
    GUARDED,
    KEY_ARN,
    KEYED,
    ORDER,
    PLAIN,
    ROOT,
    SENDING,
    VARIANTS,
    WATCHED,
    Json,
    Made,
    listed,
    made,
    plain,
)

EVERY = pytest.mark.parametrize("variant", VARIANTS)
TRACES = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
NETWORK = {"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
           "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"}  # fmt: skip


def engines_own(stack: Made) -> list[tuple[str, Json]]:
    """Every statement of the engine's roles: not of the CDK's, for custom resources, nor of a pool's owner."""
    return [(role, one) for role, one in stack.all_statements() if "bedrock:InvokeModel" not in listed(one["Action"])]


def allowed(stack: Made, name: str) -> dict[str, set[str]]:
    """What a function may do, by resource."""
    found: dict[str, set[str]] = {}
    for statement in stack.statements(name):
        for resource in listed(statement["Resource"]):
            found.setdefault(plain(resource), set()).update(listed(statement["Action"]))
    return found


@EVERY
def test_no_action_is_a_pattern(variant: str) -> None:
    for role, one in engines_own(made(VARIANTS[variant])):
        assert not [action for action in listed(one["Action"]) if "*" in action], role


@EVERY
def test_every_pattern_of_a_resource_is_one_of_those_that_have_a_reason(variant: str) -> None:
    """Keys in S3, timers' names and connections' ids are not known; X-Ray and EC2's interfaces have no resource."""
    stack = made(VARIANTS[variant])
    bucket = f"<{next(iter(stack.of('S3::Bucket')))}.Arn>"
    for role, one in engines_own(stack):
        actions = set(listed(one["Action"]))
        for resource in map(plain, listed(one["Resource"])):
            if resource == "*":
                assert actions in (TRACES, NETWORK), role
            elif "*" in resource:
                prefixes = ("blobs/*", "blobs/run-*", "blobs/days-*", "runs/*")
                wide = resource in {f"{bucket}/{prefix}" for prefix in prefixes}
                watched = actions == {"execute-api:ManageConnections"} and resource.endswith("/POST/@connections/*")
                timers = actions <= {"scheduler:CreateSchedule", "scheduler:DeleteSchedule"}
                assert wide or watched or timers, (role, resource)


def test_traces_and_networks_are_allowed_where_they_are_asked_for_alone() -> None:
    assert "*" not in {resource for name in made(PLAIN).functions() for resource in allowed(made(PLAIN), name)}
    assert allowed(made(GUARDED), "worker-default")["*"] == NETWORK
    assert allowed(made(KEYED), "worker-default")["*"] == TRACES


def test_every_function_of_the_template_has_its_rows() -> None:
    names = {name.partition("-")[0] for variant in (KEYED, SENDING, WATCHED) for name in made(variant).functions()}
    assert names | {"schedule"} == set(PERMISSIONS) == set(KEY_USE)


def test_a_function_writes_its_own_log_and_no_other() -> None:
    stack = made(KEYED)
    for name, function in stack.functions().items():
        log = f"<{function['LoggingConfig']['LogGroup']['Ref']}.Arn>"
        writes = {resource for resource, actions in allowed(stack, name).items() if "logs:PutLogEvents" in actions}
        assert writes == {log}


def test_a_worker_takes_from_its_own_queue_and_wakes_every_other() -> None:
    stack = made(KEYED)
    queues = {pool: f"<{stack.queue(f'Work{pool}')}.Arn>" for pool in ("default", "big")}
    for pool, queue in queues.items():
        may = allowed(stack, f"worker-{pool}")
        takes = {resource for resource, actions in may.items() if "sqs:ReceiveMessage" in actions}
        assert takes == {queue}
        assert "sqs:ChangeMessageVisibility" in may[queue]
        assert all("sqs:SendMessage" in may[one] for one in queues.values())


@EVERY
def test_a_function_may_take_from_its_sources_and_tell_of_what_it_cannot_take(variant: str) -> None:
    """Lambda refuses to make an event source that the function's role does not allow."""
    stack = made(VARIANTS[variant])
    needed = {"sqs": {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
              "stream": {"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}}  # fmt: skip
    for name in stack.functions():
        for mapping in stack.mappings(name):
            source = plain(mapping["EventSourceArn"])
            assert needed["stream" if "StreamArn" in source else "sqs"] <= allowed(stack, name)[source]
            if "DestinationConfig" in mapping:
                told = plain(mapping["DestinationConfig"]["OnFailure"]["Destination"])
                assert allowed(stack, name)[told] == {"sqs:SendMessage"}


def test_only_the_workers_keep_messages_invisible_and_the_api_shows_dead_letters_again() -> None:
    stack = made(KEYED)
    keeps = {name for name in stack.functions()
             if any("sqs:ChangeMessageVisibility" in actions for actions in allowed(stack, name).values())}  # fmt: skip
    assert keeps == {"api", "worker-default", "worker-big"}


def test_nobody_scans_the_table() -> None:
    for name in made(KEYED).functions():
        assert not [actions for actions in allowed(made(KEYED), name).values() if "dynamodb:Scan" in actions]


def test_whoever_makes_a_schedule_may_pass_its_role_to_the_scheduler_alone() -> None:
    stack = made(PLAIN)
    passing = {name: [one for one in stack.statements(name) if "iam:PassRole" in listed(one["Action"])]
               for name in stack.functions()}  # fmt: skip
    assert {name for name, found in passing.items() if found} == {"api", "webhooks", "coordinator", "worker-default"}
    for found in passing.values():
        for one in found:
            assert one["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
            assert stack.resources[one["Resource"]["Fn::GetAtt"][0]]["Type"] == "AWS::IAM::Role"


def test_a_schedule_sends_to_the_queues_and_does_nothing_else() -> None:
    stack = made(KEYED)
    (role,) = [id_ for id_, one in stack.of("IAM::Role").items() if "scheduler.amazonaws.com" in str(one)
               and "AssumeRolePolicyDocument" in one and "sts:AssumeRole" in str(one["AssumeRolePolicyDocument"])
               and "scheduler.amazonaws.com" in str(one["AssumeRolePolicyDocument"])]  # fmt: skip
    statements = stack.statements_of(role)
    assert {action for one in statements for action in listed(one["Action"])} == {"sqs:SendMessage"}
    sent_to = {plain(resource) for one in statements for resource in listed(one["Resource"])}
    assert sent_to == {f"<{stack.queue(name)}.Arn>" for name in ("Resume", "Workdefault", "Workbig")}


def test_the_webhooks_function_reads_the_secrets_that_the_folder_names_and_no_other() -> None:
    stack = made(PLAIN)
    secrets = [resource for resource, actions in allowed(stack, "webhooks").items()
               if "secretsmanager:GetSecretValue" in actions]  # fmt: skip
    assert [name.rpartition(":secret:")[2] for name in secrets] == ["stepwell/payments-??????"]


def test_the_sender_reads_the_endpoints_secrets_takes_notifications_and_has_no_part_in_runs() -> None:
    stack = made(SENDING)
    may = allowed(stack, "sender")
    notifications, dead = (f"<{stack.queue(name)}.Arn>" for name in ("Letters", "DeadLetters"))
    assert may.pop(notifications) >= {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"}
    assert may.pop(dead) == {"sqs:SendMessage"}
    assert may.pop(KEY_ARN) == {"kms:Decrypt", "kms:GenerateDataKey"}
    read = {name.rpartition("<AWS::AccountId>:")[2] for name, actions in may.items()
            if actions in ({"secretsmanager:GetSecretValue"}, {"ssm:GetParameter"})}  # fmt: skip
    assert read == {"secret:shop/crm-??????", "secret:shop/audit-??????", "parameter/shop/crm/old"}
    assert len(may) == len(read) + 1, "and its own log"


def test_secrets_may_be_named_by_their_arn_parameters_by_their_path_and_each_with_a_field(tmp_path: Path) -> None:
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:theirs-AbCdEf"
    (tmp_path / "webhooks.yaml").write_text(
        f"sources:\n  a: {{scheme: github, event: body.type, secret: 'secretsmanager:{arn}#key'}}\n"
        "  b: {scheme: github, event: body.type, secret: ['ssm:/apps/b', 'env:B', 'secretsmanager:b#new']}\n"
    )
    may = allowed(made({"folder": str(tmp_path)}), "webhooks")
    secrets = {name.rpartition("<AWS::AccountId>:")[2] for name, actions in may.items()
               if actions & {"secretsmanager:GetSecretValue", "ssm:GetParameter"}}  # fmt: skip
    assert secrets == {arn, "parameter/apps/b", "secret:b-??????"}


@pytest.mark.parametrize("text", ["sources: [", "- a\n", "sources: 3\n"])
def test_a_webhooks_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "webhooks.yaml").write_text(text)
    with pytest.raises(BadProperty, match=r"webhooks\.yaml: "):
        made({"folder": str(tmp_path)})


def test_only_the_authorizer_reads_the_apis_key() -> None:
    stack = made(KEYED)
    assert readers_of(stack, "ApiKey") == {"authorizer"}


def test_who_makes_links_or_reads_them_has_their_key_and_nobody_else() -> None:
    assert readers_of(made(KEYED), "LinkKey") == {"api", "worker-default", "worker-big"}


def readers_of(stack: Made, secret: str) -> set[str]:
    (key,) = [f"<{id_}>" for id_ in stack.of("SecretsManager::Secret") if id_.startswith(f"Stepwell{secret}")]
    return {name for name in stack.functions() if key in allowed(stack, name)}


def test_what_a_pools_steps_may_do_is_its_workers_alone() -> None:
    stack = made(KEYED)
    owners = {name for name in stack.functions()
              if any("bedrock:InvokeModel" in actions for actions in allowed(stack, name).values())}  # fmt: skip
    assert owners == {"worker-big"}


CALLS = """
workflow: calls
timeline:
  - {name: a, run: "lambda:score:live"}
  - {name: b, run: "lambda:arn:aws:lambda:eu-west-1:123456789012:function:theirs"}
  - name: c
    run: http:POST https://api.example.com/x
    pool: big
    http: {headers: {a: {secret: secretsmanager:shop/api#key}, b: {secret: [env:KEY, ssm:/shop/key]}}}
"""
_CALLING = {"lambda:InvokeFunction", "secretsmanager:GetSecretValue", "ssm:GetParameter"}


@pytest.fixture
def calling(tmp_path: Path) -> Mapping[str, object]:
    """The context of a folder whose steps call others."""
    (tmp_path / "calls.yaml").write_text(CALLS)
    return {"folder": str(tmp_path), "pools": {"default": {}, "big": {}}, "http_hosts": ["*.example.com"]}


def test_a_worker_may_call_what_the_steps_of_its_pool_name_and_nothing_else(calling: Mapping[str, object]) -> None:
    stack = made(calling)
    found = {
        name: {(action, resource.rpartition("<AWS::AccountId>:")[2])
               for resource, actions in allowed(stack, name).items() for action in actions & _CALLING
               if "LinkKey" not in resource}
        for name in stack.functions()
    }  # fmt: skip
    assert {name for _, name in found.pop("api")} == {f"<{stack.id_of('worker-default')}.Arn>"}  # for queries
    assert {name: calls for name, calls in found.items() if calls} == {
        "worker-default": {
            ("lambda:InvokeFunction", "function:score:live"),
            ("lambda:InvokeFunction", "arn:aws:lambda:eu-west-1:123456789012:function:theirs"),
        },
        "worker-big": {
            ("secretsmanager:GetSecretValue", "secret:shop/api-??????"),
            ("ssm:GetParameter", "parameter/shop/key"),
        },
    }


MACHINE = """
StartAt: Get
States:
  Get:
    Type: Task
    Resource: arn:aws:states:::dynamodb:getItem
    Parameters: {TableName: orders, Key: {id: {S.$: $.id}}}
    Next: Find
  Find:
    Type: Task
    Resource: arn:aws:states:::aws-sdk:dynamodb:query
    Parameters: {TableName: orders, IndexName: by-day, KeyConditionExpression: d = :d}
    Next: Send
  Send:
    Type: Task
    Resource: arn:aws:states:::sqs:sendMessage
    Parameters: {QueueUrl: "https://sqs.eu-west-1.amazonaws.com/123456789012/orders", MessageBody.$: $}
    Next: Tell
  Tell:
    Type: Task
    Resource: arn:aws:states:::sns:publish
    Parameters: {TopicArn: "arn:aws:sns:eu-west-1:123456789012:orders", Message.$: $}
    Next: Put
  Put:
    Type: Task
    Resource: arn:aws:states:::events:putEvents
    Parameters: {Entries: [{Source: shop, DetailType: x, Detail: {}}, {EventBusName: shop, Detail: {}}]}
    Next: Computed
  Computed:
    Type: Task
    Resource: arn:aws:states:::dynamodb:putItem
    Parameters: {TableName.$: $.table, Item: {}}
    Next: Own
  Own: {Type: Task, Resource: "arn:aws:states:::aws-sdk:s3:getObject", Parameters: {Bucket: b, Key: k}, Next: Any}
  Any:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    Parameters: {FunctionName: orders, Qualifier.$: $.version}
    Next: File
  File:
    Type: Map
    ItemReader:
      Resource: arn:aws:states:::s3:getObject
      ReaderConfig: {InputType: JSON}
      Parameters: {Bucket: inbox, Key.$: $.key}
    ItemProcessor:
      ProcessorConfig: {Mode: DISTRIBUTED}
      StartAt: One
      States: {One: {Type: Pass, End: true}}
    Next: List
  List:
    Type: Map
    ItemReader: {Resource: "arn:aws:states:::s3:listObjectsV2", Parameters: {Bucket: inbox, Prefix: in/}}
    ResultWriter: {Resource: "arn:aws:states:::s3:putObject", Parameters: {Bucket: inbox, Prefix: out}}
    ItemProcessor:
      ProcessorConfig: {Mode: DISTRIBUTED}
      StartAt: Two
      States: {Two: {Type: Pass, End: true}}
    End: true
"""


def test_a_worker_may_do_what_the_tasks_of_state_machines_name_on_what_they_write_out(tmp_path: Path) -> None:
    (tmp_path / "m.asl.yaml").write_text(MACHINE)
    stack = made({"folder": str(tmp_path)})
    may = {resource.rpartition("<AWS::AccountId>:")[2]: actions
           for resource, actions in allowed(stack, "worker-default").items()
           if "orders" in resource or "event-bus" in resource or "inbox" in resource}  # fmt: skip
    assert may == {
        "function:orders": {"lambda:InvokeFunction"},
        "function:orders:*": {"lambda:InvokeFunction"},
        "table/orders": {"dynamodb:GetItem", "dynamodb:Query"},
        "table/orders/index/by-day": {"dynamodb:Query"},
        "arn:aws:sqs:eu-west-1:123456789012:orders": {"sqs:SendMessage"},
        "arn:aws:sns:eu-west-1:123456789012:orders": {"sns:Publish"},
        "event-bus/default": {"events:PutEvents"},
        "event-bus/shop": {"events:PutEvents"},
        "arn:<AWS::Partition>:s3:::inbox/*": {"s3:GetObject"},
        "arn:<AWS::Partition>:s3:::inbox": {"s3:ListBucket"},
        "arn:<AWS::Partition>:s3:::inbox/out/*": {"s3:PutObject"},
    }


def test_what_no_permission_is_derived_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.asl.yaml").write_text(MACHINE)
    stack = cdk.Stack(cdk.App(), "Mine")
    engine = StepwellEngine(stack, "Engine", EngineProps(folder=tmp_path, bundle=False))
    (told,) = [one.data for part in engine.node.find_all() for one in part.node.metadata if one.type == "aws:cdk:info"]
    assert "call dynamodb:putItem, s3:getObject, and" in str(told)


def test_the_workers_alone_are_told_the_hosts(calling: Mapping[str, object]) -> None:
    name = "STEPWELL_HTTP_HOSTS"
    variables = {handler: one["Environment"]["Variables"] for handler, one in made(calling).functions().items()}
    told = {handler: read_deployment({name: one[name]}).http_hosts for handler, one in variables.items() if name in one}
    assert told == {"worker-default": ("*.example.com",), "worker-big": ("*.example.com",)}


def test_a_workflow_that_calls_a_host_that_is_not_listed_is_not_deployed(calling: Mapping[str, object]) -> None:
    with pytest.raises(BundlingError, match=r"add api\.example\.com to http_hosts, in \[tool\.stepwell\] of"):
        made({**calling, "http_hosts": ["api.example.org"]})
    with pytest.raises(BundlingError, match=r"'\*.com' is not a valid entry"):
        made({**calling, "http_hosts": ["*.com"]})


def test_with_a_key_of_the_customers_every_function_may_use_it() -> None:
    stack = made(GUARDED)
    for name in stack.functions():
        assert "kms:Decrypt" in allowed(stack, name)[KEY_ARN], name
    assert not [name for name in made(PLAIN).functions() if "kms:" in str(allowed(made(PLAIN), name))]


# -- what others are granted


def granted(grant: str, auth: str = "iam") -> set[str]:
    """Method and path of what a role may call after a grant."""
    stack = cdk.Stack(cdk.App(), "Mine")
    engine = StepwellEngine(stack, "Engine", EngineProps(folder=ROOT / ORDER, bundle=False, auth=auth))
    role = iam.Role(stack, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    getattr(engine, grant)(role)
    resources: Mapping[str, Json] = cdk.assertions.Template.from_stack(stack).to_json()["Resources"]
    (policy,) = [one["Properties"] for id_, one in resources.items() if id_.startswith("CallerDefaultPolicy")]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    return {plain(one).partition("/$default/")[2] for one in listed(statement["Resource"])}


@pytest.mark.parametrize(
    ("grant", "routes"),
    [
        ("grant_start", {"POST/workflows/*/runs", "POST/runs/*/start"}),
        ("grant_links", {"POST/runs/*/links"}),
        ("grant_step_functions", {"POST/aws/states"}),
        ("grant_send_event", {"POST/events", "POST/runs/*/events"}),
        (
            "grant_read",
            {
                "GET/workflows",
                "GET/workflows/*",
                "GET/runs",
                "GET/runs/*",
                "GET/failures",
                "GET/schedules",
                "GET/limits",
                "GET/limits/*",
                "GET/stats",
                "GET/health",
                "GET/deliveries",
                "GET/stream",
            },
        ),
    ],
)
def test_a_grant_is_for_the_routes_that_it_needs(grant: str, routes: set[str]) -> None:
    assert granted(grant) == routes


def test_who_may_read_may_make_every_call_that_only_reads() -> None:
    """But for dead letters, which are for whoever operates the stack, and the pages of links, which are open."""
    patterns = [path for _, path in api.READ]
    paths = {route.path for route in ROUTES if route.method == "GET"}
    left = {path for path in paths if not any(fnmatch(path, pattern) for pattern in patterns)}
    assert left == {"/dlq", "/dlq/{letter_id}", "/approvals/{token}"}


def test_a_grant_says_when_iam_has_no_say() -> None:
    with pytest.raises(BadProperty, match="auth"):
        granted("grant_start", auth="api_key")


def test_a_worker_can_be_granted_what_its_steps_need() -> None:
    stack = cdk.Stack(cdk.App(), "Mine")
    engine = StepwellEngine(stack, "Engine", EngineProps(folder=ROOT / ORDER, bundle=False))
    queue = sqs.Queue(stack, "Theirs")
    queue.grant_send_messages(engine.workers["default"])
    found = cdk.assertions.Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    (policy,) = [one["Properties"] for id_, one in found.items() if "workerdefault" in id_]
    assert "sqs:SendMessage" in policy["PolicyDocument"]["Statement"][0]["Action"]
