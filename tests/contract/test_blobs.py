"""Blobs: content under its hash."""

from __future__ import annotations

import hashlib

import pytest

from stepwell.aws.s3_blobs import S3Blobs
from stepwell.errors import PortError
from stepwell.limits import BLOB_DAYS, DAY_MS, DELIVERY_KEPT_MAX_MS, EVENT_KEPT_MAX_MS, EVENT_KEPT_MS
from stepwell.runtime.ports import BROKEN_BLOB, Blobs
from stepwell.runtime.stores.blobs import for_time, of_run
from tests.contract.kit import at_once, run


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"x" * 5_000_000], ids=["empty", "binary", "5MB"])
def test_a_blob_comes_back_under_the_hash_of_its_content(blobs: Blobs, data: bytes) -> None:
    reference = run(blobs.put(data))
    assert reference == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert run(blobs.get(reference)) == data


def test_putting_a_blob_twice_changes_nothing(blobs: Blobs) -> None:
    assert run(blobs.put(b"a")) == run(blobs.put(b"a"))
    assert run(blobs.get(run(blobs.put(b"a")))) == b"a"


@pytest.mark.threads
def test_threads_may_put_the_same_blob_at_once(blobs: Blobs) -> None:
    references = at_once(64, lambda number: run(blobs.put(b"same" * 1_000)))
    assert len(set(references)) == 1
    assert run(blobs.get(references[0])) == b"same" * 1_000


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "x",
        f"sha256:{'0' * 64}",
        f"sha256:{'0' * 63}",
        f"sha256:{'A' * 64}",
        f"sha256:{'0' * 64}\n",
        "sha256:../../../../../../../../../../etc/passwd",
        f"sha256:..{'/' * 62}",
        f"sha512:{'0' * 64}",
        "/etc/passwd",
        "sha256:\x00",
        f"sha256:{'0' * 64}@",
        f"sha256:{'0' * 64}@..",
        f"sha256:{'0' * 64}@run-{'0' * 31}/",
        f"sha256:{'0' * 64}@{of_run('r1')}",
    ],
)
def test_a_reference_to_nothing_is_a_port_error(blobs: Blobs, reference: str) -> None:
    run(blobs.put(b"a"))
    with pytest.raises(PortError):
        run(blobs.get(reference))


OWNERS = ["", of_run("r1"), for_time(EVENT_KEPT_MS), for_time(EVENT_KEPT_MAX_MS)]


@pytest.mark.parametrize("owner", OWNERS, ids=["nobody", "run", "days", "year"])
def test_a_blob_of_an_owner_comes_back(blobs: Blobs, owner: str) -> None:
    reference = run(blobs.put(b"a", owner))
    assert reference.partition("@")[2] == owner
    assert run(blobs.put(b"a", owner)) == reference
    assert run(blobs.get(reference)) == b"a"


def test_dropping_an_owner_deletes_its_blobs_and_nobody_elses(blobs: Blobs) -> None:
    """Owners have a copy each of the same content."""
    kept = [run(blobs.put(b"same", owner)) for owner in ("", of_run("r2"), for_time(DAY_MS))]
    gone = [run(blobs.put(data, of_run("r1"))) for data in (b"same", b"other")]
    for _ in range(2):
        run(blobs.drop(of_run("r1")))
    for reference in gone:
        with pytest.raises(PortError):
            run(blobs.get(reference))
    assert [run(blobs.get(reference)) for reference in kept] == [b"same"] * 3


def test_a_blob_may_be_put_again_after_its_owner_was_dropped(blobs: Blobs) -> None:
    run(blobs.drop(of_run("r1")))
    first = run(blobs.put(b"a", of_run("r1")))
    run(blobs.drop(of_run("r1")))
    assert run(blobs.put(b"a", of_run("r1"))) == first
    assert run(blobs.get(first)) == b"a"


@pytest.mark.parametrize("owner", ["", ".", "..", "ab", "run-", "days-", "days-1/..", of_run("r1").upper()])
def test_what_is_no_owner_cannot_be_dropped(blobs: Blobs, owner: str) -> None:
    reference = run(blobs.put(b"a"))
    with pytest.raises(PortError):
        run(blobs.drop(owner))
    assert run(blobs.get(reference)) == b"a"


@pytest.mark.parametrize("kept_ms", [0, EVENT_KEPT_MS, DELIVERY_KEPT_MAX_MS, EVENT_KEPT_MAX_MS])
def test_a_blob_outlives_by_a_week_what_refers_to_it(kept_ms: int) -> None:
    days = int(for_time(kept_ms).removeprefix("days-"))
    assert days in BLOB_DAYS
    assert days * DAY_MS >= kept_ms + 7 * DAY_MS


def test_run_ids_that_differ_by_case_own_other_blobs() -> None:
    assert of_run("r1") != of_run("R1")


@pytest.mark.parametrize("reference", [f"sha256:{'0' * 64}", "no reference"])
def test_a_blob_that_no_later_try_finds_says_so(blobs: Blobs, reference: str) -> None:
    """Whoever reads for several runs passes over the one that needs it, and waits for no outage to end."""
    with pytest.raises(PortError) as raised:
        run(blobs.get(reference))
    assert raised.value.code == BROKEN_BLOB


def test_a_link_hands_out_that_blob_where_values_are_not_sent_whole(blobs: Blobs) -> None:
    reference = run(blobs.put(b"large", of_run("run_1")))
    link = run(blobs.link(reference))
    if isinstance(blobs, S3Blobs):
        assert reference.rpartition("/")[2].removeprefix("sha256:")[:64] in link
        assert "Signature=" in link
    else:
        assert link == ""
