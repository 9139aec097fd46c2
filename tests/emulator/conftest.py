"""The project's own template, deployed once for all tests of this folder, with the examples and the small workflows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell.aws.emulation.deployment import deploy
from stepwell.aws.emulation.emulator import Emulator
from stepwell.cli.deploying.synthesis import synthesise
from stepwell.cli.folder.emulate import gateway_to
from stepwell.client import Client
from stepwell.local.dev import HOST, Server, listen
from stepwell.local.gateway import Gateway
from tests.emulator.kit import EXAMPLES, HERE, MAX_STEPS, ROOT, SECRET, Clock, World, until
from tests.emulator.tokens import Issuer, issuer

POOL = {"timeout_seconds": 30, "memory_mb": 256}  # as short as a pool may be, so that a dead worker is soon replaced

DEPLOYED = (
    "order/order.yaml", "order/shop.py", "order/backoffice.py", "triage/triage.yaml", "triage/desk.py",
    "subscription/subscription.py", "subscription/billing.py",
)  # fmt: skip


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All workflows in one folder, as a project would have them."""
    made = tmp_path_factory.mktemp("project") / "workflows"
    shutil.copytree(HERE / "workflows", made)
    for example in DEPLOYED:
        shutil.copy(EXAMPLES / example, made)
    return made


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """An issuer of tokens whose certificate the emulator takes."""
    with issuer(tmp_path_factory.mktemp("issuer")) as made:
        yield made


@pytest.fixture(scope="session")
def world(folder: Path, trusted: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data = tmp_path_factory.mktemp("emulator")
    clock = Clock(data / "clock")
    variables = {
        "PYTHONPATH": str(HERE / "clock"),
        "SSL_CERT_FILE": str(trusted.certificate),
        "STEPWELL_TEST_CLOCK": str(clock.file),
        "DESK_DATA": str(data / "desk"),
        "SHOP_DATA": str(data / "shop"),
        "BILLING_DATA": str(data / "billing"),
    }
    context = {
        "emulator": True,
        "folder": str(folder),
        "max_steps": MAX_STEPS,
        "events": "all",
        "pools": {"default": POOL, "brief": POOL},
    }
    synthesise(ROOT, context, data / "cdk.out")
    with (data / "log").open("w") as log, Emulator(data / "tmp", log, variables) as emulator:
        emulator.client("secretsmanager").create_secret(Name="hub", SecretString=SECRET)
        (stack,) = deploy(emulator, data / "cdk.out")
        with gateway_to(emulator, stack) as gateway, serving(gateway) as url, Client(url) as client:
            yield World(emulator, stack, clock, url, client, data / "log")


@contextmanager
def serving(gateway: Gateway) -> Iterator[str]:
    listening = listen(0)
    server = Server(gateway, threading.Event())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started, "the gateway serves")
        yield f"http://{HOST}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
