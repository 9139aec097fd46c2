"""A worker, or whoever answers, may die at any call: no answer that was taken is lost, and none counts twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict, PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from stepwell.testing.verify import verify
from tests.machines.conftest import BACKENDS, MODULE, RESOURCES, machine, task
from tests.machines.test_task_tokens import module_of

TOKEN = {"token.$": "$$.Task.Token"}
MACHINE = machine(
    A=task("arn:x:early.waitForTaskToken", Parameters={**TOKEN, "fails": True}, ResultPath="$.a", Next="B"),
    B=task("ask.waitForTaskToken", Parameters=TOKEN, ResultPath="$.b", HeartbeatSeconds=600, Next="C"),
    C={"Type": "Succeed"},
)


ONCE = """

from stepwell import step


@step(at_most_once=True)
def once(token):
    send[0](token, "early")
"""


class Killing:
    """Ports one of whose calls does not answer, before or after it has happened."""

    def __init__(self) -> None:
        self.left, self.is_after = 0, False

    def arm(self, at: int, *, is_after: bool) -> None:
        self.left, self.is_after = at, is_after

    def __call__(self, inner: Any) -> Any:
        return _Port(self, inner)


class _Port:
    def __init__(self, killing: Killing, inner: Any) -> None:
        self._killing, self._inner = killing, inner

    def __getattr__(self, name: str) -> Any:
        method, killing = getattr(self._inner, name), self._killing

        async def call(*args: Any, **named: Any) -> Any:
            killing.left -= 1
            is_now = killing.left == 0
            if is_now and not killing.is_after:
                raise PortError("away")
            made = await method(*args, **named)
            if is_now:
                raise PortError("no answer")
            return made

        return call


@pytest.fixture(params=BACKENDS)
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Stepwell, Killing]]:
    (tmp_path / "work.py").write_text(MODULE + ONCE)
    own = {"ask.waitForTaskToken": "python:work.echo", "once.waitForTaskToken": "python:work.once"}
    resources = {"resources": {**RESOURCES["resources"], **own}}
    (tmp_path / "resources.yaml").write_text(json.dumps(resources))
    (tmp_path / "m.asl.json").write_text(json.dumps(MACHINE))
    once = machine(A=task("once.waitForTaskToken", Parameters=TOKEN))
    (tmp_path / "once.asl.json").write_text(json.dumps(once))
    data = tmp_path / "data"
    data.mkdir()
    with ExitStack() as stack:
        backend, killing = stack.enter_context(BACKENDS[request.param](data)), Killing()
        ports = backend.ports
        store = {name: killing(getattr(ports, name)) for name in ("log", "mailbox", "runs", "notes", "slots")}
        kit = Stepwell(tmp_path, replace(backend, ports=replace(ports, **store, queue=killing(ports.queue))))
        stack.callback(kit.close)
        yield kit, killing


def settled(kit: Stepwell) -> None:
    """Handles everything; a message whose worker died comes again."""
    for _ in range(3):
        try:
            kit.settle()
            return
        except PortError:
            kit.advance("61s")


def wait_for(kit: Stepwell, killing: Killing, holds: Callable[[], object]) -> None:
    """Until it holds. Whoever answered may have died before the worker was woken: that is made up for in 15 minutes."""
    left, killing.left = killing.left, 0  # nobody dies meanwhile
    for _ in range(17):
        if holds():
            break
        kit.advance("1m")
    killing.left = left


def post(kit: Stepwell, token: str, output: Any) -> None:
    """Posts until there is a definite answer. Raises Conflict if the first post, whose answer was lost, has arrived."""
    link = kit._links.callback(token, kit._clock.now_ms())
    with suppress(PortError):
        run_now(kit.service.callbacks.complete(link, output))
        return
    run_now(kit.service.callbacks.complete(link, output))


def played(kit: Stepwell, killing: Killing, at: int, *, is_after: bool) -> Run:
    run = kit.start("m", {})
    killing.arm(at, is_after=is_after)
    names = module_of_kit(kit)
    names["send"][:] = [lambda token, output: post(kit, token, output)]
    names["calls"].clear()
    settled(kit)
    wait_for(kit, killing, lambda: names["calls"])
    (token, *again) = [one["token"] for one in names["calls"]]
    assert all(one == token for one in again), "a redelivery has the same token"
    with suppress(Conflict):
        post(kit, token, run.id)
    settled(kit)
    wait_for(kit, killing, lambda: run.status not in {"waiting", "running"})
    return run


def module_of_kit(kit: Stepwell) -> dict[str, Any]:
    return module_of(Run(kit, ""))


@pytest.mark.parametrize("is_after", [False, True], ids=["before it", "after it"])
def test_no_answer_is_lost_whoever_dies_at_whatever_call(killed: tuple[Stepwell, Killing], is_after: bool) -> None:
    kit, killing = killed
    at, has_killed = 1, True
    while has_killed:
        run = played(kit, killing, at, is_after=is_after)
        has_killed = killing.left <= 0
        killing.arm(0, is_after=is_after)
        assert (run.status, run.result) == ("completed", {"a": "early", "b": run.id}), f"call {at}"
        at += 1
    assert at > 10


def test_an_answer_counts_for_a_function_that_is_not_run_again(killed: tuple[Stepwell, Killing]) -> None:
    """Its worker died after the answer, so that nobody knows its outcome, and the answer does."""
    kit, killing = killed
    for answers in (True, False):
        run = kit.start("once", {})

        def answer(token: str, output: Any, answers: bool = answers) -> None:
            if answers:
                post(kit, token, output)
            killing.arm(1, is_after=False)

        module_of_kit(kit)["send"][:] = [answer]
        settled(kit)
        kit.advance("10m")
        settled(kit)
        told = run.result if answers else run.error and run.error["type"]
        assert (run.status, told) == (("completed", "early") if answers else ("failed", "outcome_unknown"))


def test_a_machine_with_tokens_holds_in_a_hostile_world(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(MODULE)
    (tmp_path / "resources.yaml").write_text(json.dumps(RESOURCES))
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 5}]
    ask = task("arn:aws:states:::lambda:invoke.waitForTaskToken", Retry=tried, TimeoutSeconds=3600,
               Parameters={"FunctionName": "echo", "Payload": {}})  # fmt: skip
    (tmp_path / "m.asl.json").write_text(json.dumps(machine(A=ask)))
    answers = [{"callback": {"error": "Busy", "message": "later"}}, {"callback": {"result": 7}}]
    report = verify(tmp_path, "m", {}, answers=answers, shuffles=20)
    assert report.holds, str(report)
