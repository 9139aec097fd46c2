"""A folder with one state machine and the functions that its tasks name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stepwell.runtime.steps.calls import Calls
from stepwell.testing.backend import Backend, in_memory
from stepwell.testing.kit import Run, Stepwell
from tests.contract.emulated import Cloud
from tests.scenarios.conftest import on_aws, on_sqlite

MODULE = """
calls = []


class CardDeclined(Exception):
    pass


class Busy(Exception):
    pass


def echo(**given):
    calls.append(given)
    return given


def plus(number):
    return number + 1


def fail(times=99, name="CardDeclined", **given):
    calls.append(given)
    if len(calls) <= times:
        raise {"CardDeclined": CardDeclined, "Busy": Busy}[name]("no " + name)
    return {"tries": len(calls)}


def state(ctx):
    return ctx.state


def loud(characters):
    raise Busy('"' * characters)


def early(ctx, token, fails=False):
    send[0](token, "early")
    if fails:
        raise Busy("the token has been used")


send = []


def key(ctx):
    calls.append(ctx.idempotency_key)
    if len(calls) < 3:
        raise Busy("again")
    return list(calls)
"""
RESOURCES = {"resources": {name: f"python:work.{name}" for name in ("echo", "plus", "fail", "key", "loud", "state")}}
RESOURCES["resources"]["arn:x:early.waitForTaskToken"] = "python:work.early"
Machine = dict[str, Any]
Begin = Callable[..., Run]
Put = Callable[[str, str | bytes], None]


def machine(**states: Machine) -> Machine:
    return {"StartAt": next(iter(states)), "States": states}


def task(resource: str, **fields: Any) -> Machine:
    return {"Type": "Task", "Resource": resource, **({} if "Next" in fields else {"End": True}), **fields}


def _in_memory(_: Path) -> AbstractContextManager[Backend]:
    return nullcontext(in_memory())


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[Backend]]] = {
    "memory": _in_memory,
    "sqlite": on_sqlite,
    "aws": on_aws,
}


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def put(cloud: Cloud) -> Iterator[Put]:
    """Puts an object into the bucket `data`, which is emulated."""
    s3 = cloud.service("s3")
    s3.create_bucket(Bucket="data")

    def put(key: str, body: str | bytes) -> None:
        s3.put_object(Bucket="data", Key=key, Body=body)

    yield put
    for one in s3.list_objects_v2(Bucket="data").get("Contents", ()):
        s3.delete_object(Bucket="data", Key=one["Key"])
    s3.delete_bucket(Bucket="data")


@pytest.fixture
def calls() -> Calls | None:
    """The systems that steps may call: none, unless a module of tests has a fixture of its own."""
    return None


@pytest.fixture(params=BACKENDS)
def begin(request: pytest.FixtureRequest, tmp_path: Path, calls: Calls | None) -> Iterator[Begin]:
    """Starts a run of a machine, and settles it."""
    (tmp_path / "work.py").write_text(MODULE)
    (tmp_path / "resources.yaml").write_text(json.dumps(RESOURCES))
    with ExitStack() as stack:

        def begin(written: Machine, given: Any = None, **others: Machine) -> Run:
            for name, one in {"m": written, **others}.items():
                (tmp_path / f"{name}.asl.json").write_text(json.dumps(one))
            stack.close()  # one world at a time
            own = tmp_path / f"data{next(numbers)}"
            own.mkdir()
            backend = stack.enter_context(BACKENDS[request.param](own))
            kit = Stepwell(tmp_path, replace(backend, calls=calls))
            stack.callback(kit.close)
            return kit.start("m", given)

        numbers = count()
        yield begin


def advance(run: Run, duration: str) -> Run:
    run._kit.advance(duration)
    return run
