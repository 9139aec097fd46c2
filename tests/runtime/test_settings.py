"""The environment: what a person sets, and what a stack tells its functions."""

from __future__ import annotations

import json

import pytest

from stepwell.errors import UserError
from stepwell.limits import FORK_CHUNK, FORK_LANE, RUN_STEPS
from stepwell.settings import QueuePlace, read_deployment, read_settings

PLACE = {"url": "https://sqs/1/q", "arn": "arn:aws:sqs:eu-west-1:1:q"}
QUEUES = json.dumps({"resume": PLACE, "work": {"default": PLACE, "heavy": PLACE}})


def test_a_function_knows_its_queues_by_pool() -> None:
    deployment = read_deployment({"STEPWELL_QUEUES": QUEUES, "STEPWELL_TABLE": "t", "STEPWELL_POOL": "heavy"})
    assert deployment.work["heavy"] == QueuePlace(**PLACE)
    assert (deployment.table, deployment.pool, deployment.max_steps) == ("t", "heavy", RUN_STEPS)
    assert deployment.steps_per_invocation == 1


def test_branches_are_written_together_unless_the_setting_says_otherwise() -> None:
    for given in ({}, {"STEPWELL_LANES": ""}, {"STEPWELL_LANES": "on"}):
        assert (read_deployment(given).lane, read_settings(given).lane) == (FORK_LANE, FORK_LANE)
    off = {"STEPWELL_LANES": "off"}
    assert (read_deployment(off).lane, read_settings(off).lane) == (0, 0)


def test_a_function_that_sends_nothing_needs_no_queues() -> None:
    assert read_deployment({}).work == {}


def test_the_live_feed_of_an_emulator_is_below_its_address_by_whatever_name_a_page_came() -> None:
    path = "/_aws/execute-api/a1/live"
    told = {"STEPWELL_LIVE_URL": path, "STEPWELL_LIVE_CALLBACK": path, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
    deployment = read_deployment(told)
    assert deployment.live_url == f"ws://127.0.0.1:4566{path}"
    assert deployment.live_callback == f"http://127.0.0.1:4566{path}"
    assert read_deployment({"STEPWELL_LIVE_URL": "wss://a.example.com/live"}).live_url == "wss://a.example.com/live"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STEPWELL_QUEUES", "not json"),
        ("STEPWELL_QUEUES", "[1]"),
        ("STEPWELL_QUEUES", '{"work": {}}'),
        ("STEPWELL_QUEUES", '{"resume": {"url": "u"}, "work": {}}'),
        ("STEPWELL_MAX_STEPS", "0"),
        ("STEPWELL_MAX_STEPS", "-5"),
        ("STEPWELL_MAX_STEPS", "1e3"),
        ("STEPWELL_MAX_STEPS", str(RUN_STEPS + 1)),
        ("STEPWELL_STEPS_PER_INVOCATION", "0"),
        ("STEPWELL_STEPS_PER_INVOCATION", str(FORK_CHUNK + 1)),
        ("STEPWELL_LOG_LEVEL", "loud"),
        ("STEPWELL_LANES", "maybe"),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(UserError, match=name) as refusal:
        read_deployment({name: value})
    assert refusal.value.code == "bad_setting"


def test_keys_and_tokens_are_not_shown() -> None:
    settings = read_settings({"STEPWELL_API_KEY": "k-secret", "STEPWELL_TOKEN": "t-secret"})
    assert (settings.api_key, settings.token) == ("k-secret", "t-secret")
    assert "secret" not in repr(settings)
