"""The trace context of a run is kept by every store."""

from __future__ import annotations

from tests.contract.kit import Store, header, run

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_trace_comes_back_as_it_was_given(store: Store) -> None:
    run(store.create_run(header("r1", trace=TRACE)))
    run(store.create_run(header("r2")))
    found = [run(store.get_run(run_id)) for run_id in ("r1", "r2")]
    assert [one.trace for one in found if one is not None] == [TRACE, ""]
