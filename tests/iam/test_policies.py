"""The evaluator, and what calls need: against what IAM's documentation says, and against ministack's evaluator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ministack.core import iam_evaluator

from tests.iam.policies import Need, Statement, allows, read
from tests.iam.requests import needs_of
from tests.iam.template import ACCOUNT, REGION

TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/t"
PASSED = frozenset({("iam:passedtoservice", "scheduler.amazonaws.com")})


def allow(*actions: str, on: str = "*", **more: Any) -> Statement:
    return read({"Effect": "Allow", "Action": list(actions), "Resource": on, **more})


@pytest.mark.parametrize(
    ("statement", "need", "verdict"),
    [
        (allow("sqs:SendMessage"), Need("sqs:sendmessage", "q"), True),
        (allow("sqs:SendMessage"), Need("sqs:SendMessageBatch", "q"), False),
        (allow("sqs:*"), Need("sqs:SendMessage", "q"), True),
        (allow("sqs:SendMessage", on="Q"), Need("sqs:SendMessage", "q"), False),
        (allow("s3:GetObject", on="bucket/*"), Need("s3:GetObject", "bucket/a/b"), True),
        (allow("s3:GetObject", on="bucket/*"), Need("s3:GetObject", "bucket"), False),
        (allow("s:Get", on="secret:shop-??????"), Need("s:Get", "secret:shop-Ab12Cd"), True),
        (allow("s:Get", on="secret:shop-??????"), Need("s:Get", "secret:shop-Ab12C"), False),
        (allow("s:Get", on="a.c"), Need("s:Get", "abc"), False),
    ],
)
def test_patterns_are_those_of_iam(statement: Statement, need: Need, verdict: bool) -> None:
    assert allows([statement], need) is verdict


def test_a_condition_whose_key_does_not_come_is_not_met() -> None:
    passing = allow("iam:PassRole", Condition={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}})
    assert allows([passing], Need("iam:PassRole", "role", PASSED))
    assert not allows([passing], Need("iam:PassRole", "role"))


def test_a_denial_goes_before_all_else() -> None:
    denial = read({"Effect": "Deny", "Action": "sqs:*", "Resource": "*"})
    assert not allows([allow("sqs:SendMessage"), denial], Need("sqs:SendMessage", "q"))


def test_nothing_is_allowed_that_nothing_allows() -> None:
    assert not allows([], Need("sqs:SendMessage", "q"))


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "NotResource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Principal": "*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "true"}}},
        {"Effect": "allow", "Action": "s3:*", "Resource": "*"},
    ],
)
def test_what_is_not_understood_is_refused(statement: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not understood"):
        read(statement)


TEXTS = st.text("aA*?:.", max_size=5)
STATEMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "Effect": st.sampled_from(["Allow", "Allow", "Deny"]),
            "Action": st.lists(TEXTS, min_size=1, max_size=2),
            "Resource": st.lists(TEXTS, min_size=1, max_size=2),
        },
        optional={"Condition": st.just({"StringEquals": {"iam:PassedToService": ["a", "b"]}})},
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=500, deadline=None)
@given(STATEMENTS, st.text("aA:.", max_size=4), st.text("aA:.", max_size=4), st.sampled_from(["", "a", "c"]))
def test_verdicts_are_those_of_ministack(
    statements: list[dict[str, Any]], action: str, resource: str, passed_to: str
) -> None:
    keys = {"iam:passedtoservice": passed_to} if passed_to else {}
    context = iam_evaluator.EvalContext(
        principal_arn="role", principal_type="AssumedRole", principal_account=ACCOUNT, action=action,
        resource_arn=resource, region=REGION, service_context=dict(keys),
    )  # fmt: skip
    theirs = iam_evaluator.evaluate(context, [iam_evaluator.parse_policy_document({"Statement": statements})])
    ours = allows([read(one) for one in statements], Need(action, resource, frozenset(keys.items())))
    assert ours is (theirs.decision == "Allow")


# -- what calls need


def test_a_transaction_needs_what_its_items_need() -> None:
    items = [{"Put": {"TableName": "t"}}, {"Update": {"TableName": "t"}}, {"ConditionCheck": {"TableName": "t"}}]
    assert list(needs_of("dynamodb", "TransactWriteItems", {"TransactItems": items})) == [
        Need("dynamodb:PutItem", TABLE), Need("dynamodb:UpdateItem", TABLE), Need("dynamodb:ConditionCheckItem", TABLE)
    ]  # fmt: skip


def test_a_query_of_an_index_needs_the_index_and_not_the_table() -> None:
    query = {"TableName": "t", "IndexName": "by_state"}
    assert list(needs_of("dynamodb", "Query", query)) == [Need("dynamodb:Query", f"{TABLE}/index/by_state")]


def test_a_schedule_needs_its_role_to_be_passed() -> None:
    schedule = {"GroupName": "g", "Name": "n", "Target": {"RoleArn": "arn:aws:iam::1:role/r"}}
    assert list(needs_of("scheduler", "CreateSchedule", schedule)) == [
        Need("scheduler:CreateSchedule", f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/g/n"),
        Need("iam:PassRole", "arn:aws:iam::1:role/r", PASSED),
    ]


@pytest.mark.parametrize(
    "service", ["dynamodb", "events", "lambda", "s3", "scheduler", "secretsmanager", "sqs", "ssm", "sns"]
)
def test_a_call_that_is_not_known_is_refused(service: str) -> None:
    with pytest.raises(ValueError, match=f"not known: {service}:Unheard"):
        list(needs_of(service, "Unheard", {}))
