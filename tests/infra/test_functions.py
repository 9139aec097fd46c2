"""The functions: which there are, what they run on, what they are told, what they write, what invokes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell.cdk.errors import BadProperty
from stepwell.cdk.props import MAX_STEPS_PER_INVOCATION
from stepwell.limits import FORK_CHUNK, RUN_STEPS, WAIT_ANSWER_SECONDS
from stepwell.settings import read_aws, read_deployment
from tests.infra.kit import EMULATOR, GUARDED, KEYED, PLAIN, SENDING, VARIANTS, WATCHED, Made, made, plain

EVERY = pytest.mark.parametrize("variant", VARIANTS)
HANDLERS = ("api", "coordinator", "stream", "sweeper", "webhooks")


def test_there_is_one_function_for_each_handler_and_one_worker_for_each_pool() -> None:
    handlers = {name: one["Handler"] for name, one in made(KEYED).functions().items()}
    thin = {handler: f"stepwell.functions.{handler}.handler" for handler in (*HANDLERS, "authorizer")}
    worker = "stepwell.functions.worker.handler"
    assert handlers == {**thin, "worker-default": worker, "worker-big": worker}


def test_the_authorizer_is_there_for_an_api_key_alone() -> None:
    assert set(made(PLAIN).functions()) == {*HANDLERS, "worker-default"}


def test_the_sender_is_there_for_endpoints_alone_and_the_webhooks_function_for_sources() -> None:
    assert set(made(SENDING).functions()) == {*HANDLERS, "worker-default", "sender"} - {"webhooks"}
    told = {name: one["Environment"]["Variables"] for name, one in made(SENDING).functions().items()}
    assert {name for name in told if "STEPWELL_NOTIFICATIONS" in told[name]} == {"stream", "sender"}
    sender = read_deployment({key: plain(value) for key, value in told["sender"].items()})
    assert sender.notifications == f"<{made(SENDING).queue('Letters')}>"
    assert sender.dead_notifications == f"<{made(SENDING).queue('DeadLetters')}>"
    assert sender.http_hosts == ("*.example.com",)


def test_a_live_feed_is_there_where_it_is_asked_for_alone() -> None:
    """Its function and the stream's may send to watchers; the API tells browsers where it is."""
    assert len(made(PLAIN).of("DynamoDB::Table")) == len(made(PLAIN).of("ApiGatewayV2::Api")) == 1
    stack = made(WATCHED)
    assert set(stack.functions()) == {*HANDLERS, "worker-default", "live"}
    told = {name: one["Environment"]["Variables"] for name, one in stack.functions().items()}
    assert {name for name in told if "STEPWELL_LIVE_TABLE" in told[name]} == {"stream", "live"}
    assert plain(told["api"]["STEPWELL_LIVE_URL"]).startswith("wss://")
    assert plain(told["live"]["STEPWELL_LIVE_CALLBACK"]).startswith("https://")
    (table,) = [one for id_, one in stack.of("DynamoDB::Table").items() if "Connections" in id_]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}


@EVERY
def test_functions_run_the_python_that_deploys_them_on_arm(variant: str) -> None:
    functions = made(VARIANTS[variant]).functions().values()
    assert {one["Runtime"] for one in functions} == {f"python{sys.version_info[0]}.{sys.version_info[1]}"}
    if VARIANTS[variant] is not EMULATOR:
        assert {plain(one["Architectures"][0]) for one in functions} == {"arm64"}


@EVERY
def test_loops_are_allowed_to_exactly_those_who_send_to_queues_that_come_back_to_them(variant: str) -> None:
    functions = made(VARIANTS[variant]).functions()
    allowed = {name for name, one in functions.items() if one.get("RecursiveLoop") == "Allow"}
    assert allowed == {name for name in functions if name in {"coordinator", "sender"} or name.startswith("worker-")}


@EVERY
def test_each_function_has_its_own_role_and_its_own_log(variant: str) -> None:
    stack = made(VARIANTS[variant])
    functions = stack.functions()
    assert len({one["Role"]["Fn::GetAtt"][0] for one in functions.values()}) == len(functions)
    assert len({one["LoggingConfig"]["LogGroup"]["Ref"] for one in functions.values()}) == len(functions)
    assert "ManagedPolicyArns" not in {name for role in functions_roles(stack) for name in role}


def functions_roles(stack: Made) -> list[dict[str, Any]]:
    roles = stack.of("IAM::Role")
    return [roles[one["Role"]["Fn::GetAtt"][0]] for one in stack.functions().values()]


@pytest.mark.parametrize(("variant", "days"), [("plain", 30), ("guarded", 7)])
def test_every_log_ends(variant: str, days: int) -> None:
    assert {one["RetentionInDays"] for one in made(VARIANTS[variant]).of("Logs::LogGroup").values()} == {days}


@EVERY
def test_a_function_reads_its_environment_as_the_stack_wrote_it(variant: str) -> None:
    stack = made(VARIANTS[variant])
    pools = set(VARIANTS[variant].get("pools", {"default": {}}))
    for name, function in stack.functions().items():
        variables = {key: plain(value) for key, value in function["Environment"]["Variables"].items()}
        told = read_deployment(variables)
        assert bool(told.lane) == VARIANTS[variant].get("lanes", True)
        assert read_aws(variables).is_thin == (VARIANTS[variant].get("aws_client") != "boto3")
        assert set(told.work) == pools
        assert told.resume.url == f"<{stack.queue('Resume')}>"
        assert told.work["default"].arn == f"<{stack.queue('Workdefault')}.Arn>"
        assert told.table == f"<{next(iter(stack.of('DynamoDB::Table')))}>"
        assert told.bucket == f"<{next(iter(stack.of('S3::Bucket')))}>"
        assert (told.max_steps, told.log_level) == (RUN_STEPS, "info")
        assert told.trace == bool(VARIANTS[variant].get("tracing"))
        assert told.compresses == bool(VARIANTS[variant].get("compress"))
        assert bool(told.api_key_secret) == (name == "authorizer")
        assert told.pool == (name.removeprefix("worker-") if name.startswith("worker-") else "default")
        assert told.steps_per_invocation == (4 if name == "worker-big" else 1)
        assert told.schedule_role
        assert told.schedule_group


def test_a_pool_may_run_as_many_steps_at_once_as_a_message_has_branches() -> None:
    assert MAX_STEPS_PER_INVOCATION == FORK_CHUNK


def test_a_pools_variables_are_its_workers_alone() -> None:
    functions = made(KEYED).functions()
    assert [name for name, one in functions.items() if "MODEL" in one["Environment"]["Variables"]] == ["worker-big"]


@pytest.mark.parametrize(
    ("pools", "function"),
    [
        ({"default": {}, **{f"pool-{number}": {} for number in range(11)}}, "api"),
        ({"default": {"environment": {"MODEL": "x" * 3_500}}}, "worker-default"),
    ],
)
def test_an_environment_that_lambda_would_refuse_is_refused_before_the_deploy(
    pools: dict[str, Any], function: str
) -> None:
    with pytest.raises(BadProperty, match=rf"the environment of {function} has at least \d+ bytes") as refusal:
        made({"pools": pools})
    assert "4096" in str(refusal.value)


def test_seven_pools_fit() -> None:
    pools: dict[str, Any] = {"default": {}, **{f"pool-{number}": {} for number in range(6)}}
    assert "worker-pool-5" in made({"pools": pools, "live": True, "auth": "api_key"}).functions()


@pytest.mark.parametrize("functions", [50, 200])
def test_a_role_that_iam_would_refuse_is_refused_before_the_deploy(functions: int, tmp_path: Path) -> None:
    """IAM takes 10,240 characters of policies in one role."""
    steps = "".join(f"  - {{name: s{number}, run: lambda:shop-score-{number}}}\n" for number in range(functions))
    (tmp_path / "flow.yaml").write_text(f"workflow: flow\ntimeline:\n{steps}")
    if functions == 50:
        assert f"function:shop-score-{functions - 1}" in str(
            made({"folder": str(tmp_path)}).statements("worker-default")
        )
        return
    with pytest.raises(
        BadProperty, match=r"the policies of worker-default have at least \d+ characters, but IAM takes"
    ):
        made({"folder": str(tmp_path)})


@EVERY
def test_the_workers_which_run_durable_functions_have_one_hash_seed(variant: str) -> None:
    """So that a set of text has one order in all of them."""
    functions = made(VARIANTS[variant]).functions()
    seeds = {name: one["Environment"]["Variables"].get("PYTHONHASHSEED") for name, one in functions.items()}
    assert {name for name, seed in seeds.items() if seed == "0"} == {n for n in seeds if n.startswith("worker-")}


def test_two_stacks_of_an_account_do_not_mix_their_metrics() -> None:
    named = made({**PLAIN, "stack_name": "Stepwell"}).functions()["api"]["Environment"]["Variables"]
    assert named["POWERTOOLS_SERVICE_NAME"] == "Stepwell"
    assert named["POWERTOOLS_METRICS_NAMESPACE"] == "Stepwell"


def test_the_api_may_wait_as_long_as_a_caller_may_ask_it_to() -> None:
    assert WAIT_ANSWER_SECONDS < made(PLAIN).functions()["api"]["Timeout"] < 30


def test_the_sweeper_is_run_by_a_clock_once_and_is_done_before_its_next_turn() -> None:
    stack = made(PLAIN)
    (rule,) = (one for one in stack.of("Events::Rule").values() if "ScheduleExpression" in one)
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    assert [target["Arn"]["Fn::GetAtt"][0] for target in rule["Targets"]] == [stack.id_of("sweeper")]
    assert stack.functions()["sweeper"]["Timeout"] < 5 * 60
    called = list(stack.of("Lambda::EventInvokeConfig").values())
    assert [one["MaximumRetryAttempts"] for one in called] == [0]
    assert called[0]["FunctionName"] == {"Ref": stack.id_of("sweeper")}


def test_the_stream_is_filtered_down_to_new_records_batches_and_headers() -> None:
    """A fork's branches that one message brings have no records but those of their lane's batches."""
    (mapping,) = made(PLAIN).mappings("stream")
    patterns = [json.loads(one["Pattern"]) for one in mapping["FilterCriteria"]["Filters"]]
    passed = {
        (kind, sort): any(passes(pattern, kind, sort) for pattern in patterns)
        for kind in ("INSERT", "MODIFY", "REMOVE")
        for sort in ("RUN", "RUN#INPUT#1", "LOG#0#1", "JOIN#0/3.0+10#0", "SNAP#0", "JOIN", "E#1")
    }
    new = {("INSERT", "LOG#0#1"), ("INSERT", "JOIN#0/3.0+10#0"), ("INSERT", "RUN")}
    wanted = new | {("MODIFY", "RUN"), ("REMOVE", "RUN")}
    assert {one for one, does in passed.items() if does} == wanted


def passes(pattern: dict[str, Any], kind: str, sort: str) -> bool:
    """As Lambda filters: every field that the pattern names has one of the values, or begins with one."""
    values = pattern["dynamodb"]["Keys"]["sk"]["S"]
    fits = any(sort.startswith(one["prefix"]) if isinstance(one, dict) else sort == one for one in values)
    return fits and kind in pattern.get("eventName", [kind])


def test_what_the_stream_cannot_take_is_halved_then_told_to_a_person() -> None:
    stack = made(PLAIN)
    (mapping,) = stack.mappings("stream")
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"] == [stack.queue("Dead"), "Arn"]


def test_a_short_outage_loses_nothing_of_the_stream_nor_does_a_long_wait_for_its_function() -> None:
    """Lambda tries a failed batch at once again. The age of a change counts also where the function may not start."""
    (mapping,) = made(PLAIN).mappings("stream")
    assert mapping["MaximumRetryAttempts"] >= 100
    assert "MaximumRecordAgeInSeconds" not in mapping


def test_all_functions_are_in_the_vpc_that_is_given() -> None:
    for one in made(GUARDED).functions().values():
        assert one["VpcConfig"]["SubnetIds"] == ["subnet-12345678"]
    assert "VpcConfig" not in made(PLAIN).functions()["api"]


def test_traces_are_made_where_they_are_asked_for() -> None:
    assert {one["TracingConfig"]["Mode"] for one in made(KEYED).functions().values()} == {"Active"}
    assert not [one for one in made(PLAIN).functions().values() if "TracingConfig" in one]


@EVERY
def test_nothing_has_a_name_that_a_second_stack_could_not_have(variant: str) -> None:
    names = {"TableName", "QueueName", "BucketName", "RoleName", "LogGroupName", "TopicName", "AlarmName",
             "DashboardName", "PolicyName", "GroupName"}  # fmt: skip
    for id_, one in made(VARIANTS[variant]).resources.items():
        if one["Type"] == "AWS::IAM::Policy" or not one["Type"].startswith("AWS::"):
            continue  # a policy's name is its role's own; a custom resource names what it works on
        found = names & set(one.get("Properties", {}))
        assert not found, (id_, found)
        assert "FunctionName" not in one.get("Properties", {}) or one["Type"] != "AWS::Lambda::Function"
        assert "Name" not in one.get("Properties", {}) or one["Type"] in NAMED, id_


# An API's name is for people. A bus must have one: the CDK makes it of the stack's own.
NAMED = {"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Authorizer", "AWS::Events::EventBus"}


def test_a_second_stack_has_a_bus_of_its_own() -> None:
    first, second = made(PLAIN), made({**PLAIN, "stack_name": "Second"})
    assert first.only("Events::EventBus")["Name"] != second.only("Events::EventBus")["Name"]
