"""Stacks for tests: `deployed(definition, steps)`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.emulated import aws_queue, s3_blobs, table_of
from tests.functions.kit import Deployment, write_package

Deploy = Callable[..., Deployment]


@pytest.fixture
def root_logger(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A handler takes the logs of the whole process, and writes them to `capsys`; then they are pytest's again."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root_logger: None) -> Iterator[Deploy]:
    """Deploys one stack. Its handlers are this test's own: their modules and clients are gone afterwards."""
    modules = set(sys.modules)
    with ExitStack() as stack:

        def deploy(definition: str, steps: str = "", **packed: object) -> Deployment:
            write_package(tmp_path, definition, steps, **packed)
            queue = stack.enter_context(aws_queue())
            table = stack.enter_context(table_of(queue.cloud))
            blobs = stack.enter_context(s3_blobs(cloud=queue.cloud))
            clients, clock = queue.cloud.clients, queue.clock
            for module in ("stepwell.aws.wiring", "stepwell.aws.entry", "stepwell.aws.sending"):
                monkeypatch.setattr(f"{module}.RealClock", lambda: clock)
                monkeypatch.setattr(f"{module}.open_clients", lambda: clients)
            return Deployment(tmp_path, queue, table.name, blobs._bucket, monkeypatch)

        yield deploy
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
