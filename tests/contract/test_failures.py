"""What a header keeps of its run's error, and lists by that."""

from __future__ import annotations

from stepwell.engine.records import Status
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.kit import NOW_MS, Store, header, run

FAILED = frozenset({Status.FAILED})


def test_failed_runs_are_listed_by_the_fingerprint_of_their_error(store: Store) -> None:
    for number, failure in enumerate(("abc E ship", "abc E ship", "ab E ship", "")):
        run(store.create_run(header(f"r{number}")))
        change = StatusChange(f"r{number}", 4, Status.FAILED, NOW_MS, failure=failure, ends_pause=True)
        assert run(store.change_status(change))
    assert getattr(run(store.get_run("r0")), "failure", "") == "abc E ship"
    page = run(store.list_runs(RunQuery(statuses=FAILED, failure="abc")))
    assert sorted(one.run_id for one in page.headers) == ["r0", "r1"]
    assert run(store.list_runs(RunQuery(statuses=FAILED, failure="b"))).headers == ()
