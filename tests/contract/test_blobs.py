"""Blobs: content under its hash."""

from __future__ import annotations

import hashlib

import pytest

from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB, Blobs
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
    ],
)
def test_a_reference_to_nothing_is_a_port_error(blobs: Blobs, reference: str) -> None:
    run(blobs.put(b"a"))
    with pytest.raises(PortError):
        run(blobs.get(reference))


@pytest.mark.parametrize("reference", [f"sha256:{'0' * 64}", "no reference"])
def test_a_blob_that_no_later_try_finds_says_so(blobs: Blobs, reference: str) -> None:
    """Whoever reads for several runs passes over the one that needs it, and waits for no outage to end."""
    with pytest.raises(PortError) as raised:
        run(blobs.get(reference))
    assert raised.value.code == BROKEN_BLOB
