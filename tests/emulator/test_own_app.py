"""A CDK app of a user's own, deployed: its function starts a run by the grant it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.aws.emulation.deployment import deploy
from stepwell.cli.deploying.synthesis import synthesise
from stepwell.cli.folder.emulate import gateway_to
from stepwell.client import Client
from tests.emulator.conftest import serving
from tests.emulator.kit import DEADLINE_SECONDS, HERE, World


@pytest.mark.slow  # its template is checked in tests/infra each time
def test_a_function_of_the_app_starts_a_run_on_the_engine_beside_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has stepwell from the emulator's Python; on AWS it is packed with it."""
    monkeypatch.setenv("SHOP_STAGE", "emulator")
    synthesise(HERE / "shop", {}, tmp_path / "cdk.out")
    (stack,) = deploy(world.emulator, tmp_path / "cdk.out")
    order = json.dumps({"order_id": "A-1"}).encode()
    answer = world.emulator.client("lambda").invoke(FunctionName=stack.outputs["OrdersName"], Payload=order)
    started = json.loads(answer["Payload"].read())
    assert started == {"run_id": "order-A-1"}
    with gateway_to(world.emulator, stack) as gateway, serving(gateway) as url, Client(url) as client:
        assert client.handle("order-A-1").result(DEADLINE_SECONDS) == "A-1 is confirmed"
