"""The example `subscription`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import examples.subscription.test_subscription as example
from examples.subscription.test_subscription import *  # noqa: F403 - its tests and its fixtures
from stepwell.engine.records import Kind, Record
from stepwell.runtime.log.logbook import Logbook
from stepwell.testing.kit import Stepwell
from tests.scenarios.conftest import BACKENDS

FOLDER = Path(example.__file__).parent


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_process_that_has_never_seen_the_run_replays_its_twelfth_month_alone(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session's replay reads through this method alone."""
    replayed: list[Record] = []
    read = Logbook.history

    async def history(self: Logbook, run_id: str, token_id: str, after: int, limit: int | None) -> Sequence[Record]:
        records = await read(self, run_id, token_id, after, limit)
        replayed.extend(records)
        return records

    with BACKENDS[backend](tmp_path) as ports:
        run = Stepwell(FOLDER, ports).start("subscription", {"customer": "kim"})
        Stepwell(FOLDER, ports).advance("340d")
        monkeypatch.setattr(Logbook, "history", history)
        elsewhere = Stepwell(FOLDER, ports)
        elsewhere.event("subscription.upgrade", {"plan": "pro"}, key="kim")
        elsewhere.settle()
        monkeypatch.undo()
        view = elsewhere.view(run.id)
        assert (view["state"]["period"], view["state"]["plan"]) == (12, "pro")
    assert [(record.kind, record.node) for record in replayed] == [
        (Kind.RETURNED, "subscription"),  # it begins with what the eleventh month handed on
        (Kind.STEP, "charge"),
        (Kind.WAITING, "month"),
        (Kind.RESUMED, "month"),
    ]
    assert replayed[0].slot > 30
