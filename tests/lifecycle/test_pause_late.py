"""A pause whose process stalls between its reads of the token and of the header, while the run ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.actions import Refuse
from stepwell.engine.records import ROOT, Status
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Pause
from tests.runtime.kit import World, fails

PLAIN = "workflow: flow\ntimeline:\n  - {name: hold, wait: {for: approval, timeout: 7d}}\n"
UNDONE = (
    "workflow: flow\nfailure_policy: compensate\ncompensate_on: [cancel]\ntimeline:\n"
    "  - {name: book, run: python:m.book, compensate: {run: python:m.unbook, retry: {on: [step], "
    "max_retries: 3, initial_delay: 1h, max_delay: 1h}}}\n"
    "  - {name: hold, wait: {for: approval, timeout: 7d}}\n"
)


@pytest.mark.parametrize(
    ("text", "status", "code"), [(PLAIN, Status.CANCELLED, "run_ended"), (UNDONE, Status.COMPENSATING, "compensating")]
)
@pytest.mark.parametrize("of", ["", "flow"], ids=["the run's own", "its workflow's"])
def test_a_pause_that_has_read_the_token_before_its_run_ended_changes_nothing(
    text: str, status: Status, code: str, of: str
) -> None:
    world = World(text)
    world.steps.of["book.compensate"] = lambda call: fails()
    run_id = world.start()
    world.deliver()
    before = run_now(Logbook(world.parts.ports, world.catalog).load(run_id, ROOT))
    assert before is not None
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert world.header(run_id).status is status
    late = replace(before, header=world.header(run_id))
    if of:
        assert run_now(world.parts.pausing.stop(late, Pause("kim", "wait", of))) is False
    else:
        refused = run_now(world.parts.pausing.pause(late, Pause("kim", "wait", "")))
        assert isinstance(refused, Refuse)
        assert refused.code == code
    assert (world.header(run_id).status, world.header(run_id).paused_ms) == (status, 0)
