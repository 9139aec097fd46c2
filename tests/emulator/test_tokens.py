"""`auth: jwt` on the emulator: the template's own check of tokens, through what `stepwell dev --aws` serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from stepwell.aws.emulation.deployment import Stack
from stepwell.cli.folder.emulate import API, gateway_to
from stepwell.client import Client
from stepwell.client.errors import AccessProblem
from tests.emulator.conftest import serving
from tests.emulator.kit import World, until
from tests.emulator.tokens import Issuer, api_before, new_key


@pytest.fixture(scope="module")
def url(world: World, trusted: Issuer) -> Iterator[str]:
    """An API that lets in who has a token of the issuer."""
    formation = world.emulator.client("cloudformation")
    template = json.dumps(api_before(f"{trusted.url}/page", trusted.url))
    formation.create_stack(StackName="Guarded", TemplateBody=template)
    until(lambda: formation.describe_stacks(StackName="Guarded")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE",
          "the API is there")  # fmt: skip
    (api,) = [one for one in formation.describe_stack_resources(StackName="Guarded")["StackResources"]
              if one["ResourceType"] == API]  # fmt: skip
    stack = Stack("Guarded", {}, {(API, "Api"): api["PhysicalResourceId"]})
    with gateway_to(world.emulator, stack) as gateway, serving(gateway) as served:
        until(
            lambda: is_let_in(served, trusted.token()), "the issuer's keys are read"
        )  # on a busy machine, not at once
        yield served


def is_let_in(url: str, token: str) -> bool:
    with Client(url, token=token) as client, suppress(AccessProblem):
        return list(client.runs()) == []
    return False


def test_a_token_of_the_issuer_for_this_api_is_let_in(trusted: Issuer, url: str) -> None:
    for token in (trusted.token(), trusted.token(aud=["another", "stepwell"])):
        with Client(url, token=token) as client:
            assert list(client.runs()) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "another"},
        {"aud": None},
        {"exp": 1_700_000_000},
        {"iss": "https://another.example.org"},
        {"key": new_key()},
    ],
    ids=["audience", "no-audience", "expired", "issuer", "forged"],
)
def test_another_token_is_refused(trusted: Issuer, url: str, changed: dict[str, Any]) -> None:
    with Client(url, token=trusted.token(**changed)) as client, pytest.raises(AccessProblem) as refused:
        list(client.runs())
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    assert refused.value.hint == "STEPWELL_TOKEN is wrong or has expired"


def test_a_call_without_a_token_is_refused(url: str) -> None:
    with Client(url) as client, pytest.raises(AccessProblem) as refused:
        list(client.runs())
    assert refused.value.status == 401
