"""Every call that the handlers make is allowed by their roles in the template, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import pytest

from stepwell.api.routes import ROUTES
from tests.iam.policies import Need, Statement
from tests.iam.proof import Roles, missing, permissions, unused
from tests.iam.services import Needs, needs_of_key, needs_of_lambda
from tests.iam.stack import KEY_ARN, Played
from tests.iam.template import SCHEDULE, Template

# Permissions that no scenario uses, by who has them and the action, each with its reason.
SPARE: Mapping[tuple[str, str], str] = {}


@pytest.fixture(scope="session")
def needs(template: Template, played: Played) -> Needs:
    found = {*played.needs, *needs_of_lambda(template)}
    return frozenset(found | set(needs_of_key(found, KEY_ARN)))


def test_nobody_lacks_a_permission(template: Template, needs: Needs) -> None:
    assert missing(template.statements, needs) == []


def test_nobody_has_a_permission_without_a_use(template: Template, needs: Needs) -> None:
    assert unused(template.statements, needs, SPARE) == []


# -- that what was played is all there is to play


def test_every_function_of_the_template_acted(template: Template, played: Played) -> None:
    assert {actor for actor, _ in played.needs} == set(template.statements)


def test_every_route_of_the_api_was_called(played: Played) -> None:
    def was_called(method: str, path: str) -> bool:
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        return any(method == called and pattern.fullmatch(place) for called, place in played.called)

    assert [route.path for route in ROUTES if not was_called(route.method, route.path)] == []


def test_every_queue_but_the_last_got_messages_from_the_handlers(template: Template, played: Played) -> None:
    """The dead letters come from SQS itself; the last ones are for people."""
    sent = {need.resource for _, need in played.needs if need.action == "sqs:SendMessage"}
    assert sent == {
        template.attribute(template.made.queue(name), "Arn")
        for name in ("Resume", "Workdefault", "Workheavy", "Letters", "DeadLetters")
    }


# -- that the proof can fail


def without(roles: Roles, actor: str, gone: Statement) -> Roles:
    """The roles, less one action on one resource."""
    return {**roles, actor: tuple(one for kept in roles[actor] for one in kept.split() if one != gone)}


def test_each_permission_that_is_taken_away_is_missed(template: Template, needs: Needs) -> None:
    roles, found = template.statements, dict[tuple[str, str], list[str]]()
    for actor, its in groupby(permissions(roles), itemgetter(0)):
        seen = {need for need in needs if need[0] == actor}  # the others keep their roles
        found |= {(actor, str(one)): missing(without(roles, actor, one), seen) for _, one in its}
    assert len(found) > 200
    for (actor, permission), told in found.items():
        assert told, (actor, permission)
        assert all(one.startswith(f"{actor} may not {permission.partition(' on ')[0]} on ") for one in told)


@pytest.mark.parametrize(
    "extra",
    [
        Statement("Allow", ("dynamodb:DeleteTable",), ("*",)),
        Statement("Allow", ("sqs:SendMessage",), ("arn:aws:sqs:us-east-1:000000000000:another",)),
        Statement("Allow", ("s3:ListBucket", "s3:GetObject"), ("arn:aws:s3:::another/*",)),
    ],
    ids=str,
)
def test_a_permission_more_is_told(template: Template, needs: Needs, extra: Statement) -> None:
    more = {**template.statements, "worker-default": (*template.statements["worker-default"], extra)}
    assert unused(more, needs, {}) == [f"worker-default never does {one}" for one in sorted(extra.split(), key=str)]
    spare = {("worker-default", action): "a reason" for action in extra.actions}
    assert unused(more, needs, spare) == []


def test_a_spare_permission_that_is_used_or_not_there_is_told(template: Template, needs: Needs) -> None:
    spare = {("api", "dynamodb:PutItem"): "used", ("api", "dynamodb:Scan"): "not there"}
    assert unused(template.statements, needs, spare) == [
        "api: dynamodb:PutItem is no spare", "api: dynamodb:Scan is no spare"
    ]  # fmt: skip


def test_a_role_passed_to_another_service_is_missed(template: Template) -> None:
    (role,) = {one.resources[0] for one in template.statements["api"] if one.actions == ("iam:PassRole",)}
    need = Need("iam:PassRole", role, frozenset({("iam:passedtoservice", "lambda.amazonaws.com")}))
    assert missing(template.statements, {("api", need)}) == [f"api may not iam:PassRole on {role}"]


def test_a_denial_is_missed_whatever_else_allows_it(template: Template, needs: Needs) -> None:
    denial = replace(template.statements[SCHEDULE][0], effect="Deny")
    roles = {**template.statements, SCHEDULE: (*template.statements[SCHEDULE], denial)}
    assert missing(roles, needs) == [f"{SCHEDULE} may not sqs:SendMessage on {denial.resources[0]}"]
