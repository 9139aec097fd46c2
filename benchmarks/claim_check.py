"""From which size on a record is better kept in S3 than in its DynamoDB item, or here in a file than in SQLite.

    python benchmarks/claim_check.py [--records 100] [--folder .]

The costs are worked out from list prices (us-east-1, November 2026), in USD for a million records; what S3's latency
costs is the time for which the function waits. The times on this machine are measured.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from stepwell.local.blobs import FolderBlobs
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore

T = TypeVar("T")
KB = 1_024
WRITE_UNIT, READ_UNIT = 0.625, 0.125  # a million: 1 KB written, 4 KB read with strong consistency
S3_PUT, S3_GET = 5.00, 0.40  # a million
DYNAMODB_GB_MONTH, S3_GB_MONTH = 0.25, 0.023
GB_PER_MILLION_KB = 1_000_000 * KB / 2**30
LAMBDA_GB_SECOND = 0.0000133334 * 1_000_000  # arm64, for a million
FUNCTION_GB = 0.5
S3_SECONDS = 0.1  # a small object: AWS speaks of 100 to 200 ms; a PutItem takes 0.008
ITEM_KB = 0.2  # keys, TTL and the reference
SIZES_KB = (4, 8, 16, 32, 64, 100)
READS = (0, 1, 5, 10, 20)


def in_dynamodb(size_kb: float, reads: int) -> float:
    """The record is the item. A month's storage: an ended run's records are kept so long."""
    units = -(-(size_kb + ITEM_KB) // 1)
    read = reads * (size_kb + ITEM_KB) / 4 * READ_UNIT
    return units * WRITE_UNIT + read + size_kb * GB_PER_MILLION_KB * DYNAMODB_GB_MONTH


def in_s3(size_kb: float, reads: int) -> float:
    """The item holds the reference: one write unit, and a request more for each write and each read."""
    waited = S3_SECONDS * FUNCTION_GB * LAMBDA_GB_SECOND
    read = reads * (ITEM_KB / 4 * READ_UNIT + S3_GET + waited)
    return WRITE_UNIT + S3_PUT + waited + read + size_kb * GB_PER_MILLION_KB * S3_GB_MONTH


def break_even_kb(reads: int) -> float:
    """The smallest size at which S3 costs less."""
    return next(
        tenths / 10 for tenths in range(1, 4_000) if in_s3(tenths / 10, reads) < in_dynamodb(tenths / 10, reads)
    )


def show_costs() -> None:
    """Prints both costs for each size, by how often a record is read, and where they cross."""
    print("USD for a million records, DynamoDB : S3, by the reads of each")
    print(f"{'KB':>8}" + "".join(f"{reads:>16}" for reads in READS))
    for size_kb in SIZES_KB:
        costs = [f"{in_dynamodb(size_kb, reads):.1f} : {in_s3(size_kb, reads):.1f}" for reads in READS]
        print(f"{size_kb:>8}" + "".join(f"{cost:>16}" for cost in costs))
    print(f"{'equal at':>8}" + "".join(f"{break_even_kb(reads):>13.1f} KB" for reads in READS))


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, as those of the local adapters are."""
    try:
        coroutine.send(None)
    except StopIteration as answer:
        result: T = answer.value
        return result
    raise RuntimeError("a local adapter suspended")


def each_ms(act: Callable[[int], object], count: int) -> float:
    began = time.perf_counter()
    for number in range(count):
        act(number)
    return (time.perf_counter() - began) * 1_000 / count


def show_local(folder: Path, count: int) -> None:
    """Prints how long an append takes here, with the record in its row and in a file beside it."""
    database, blobs = Database(folder / "stepwell.db", "FULL"), FolderBlobs(folder / "blobs")
    store = SqliteStore(database)
    print("\nmilliseconds for an append on this machine: in the row, in a file")
    for size_kb in SIZES_KB:
        bodies = [f"{number:08d}" + "x" * (size_kb * KB - 8) for number in range(count)]

        def in_row(slot: int, bodies: list[str] = bodies, run_id: str = f"row-{size_kb}") -> None:
            now(store.append(run_id, "0", slot, bodies[slot]))

        def in_file(slot: int, bodies: list[str] = bodies, run_id: str = f"file-{size_kb}") -> None:
            now(store.append(run_id, "0", slot, now(blobs.put(bodies[slot].encode()))))

        print(f"{size_kb:>8} KB {each_ms(in_row, count):8.2f} {each_ms(in_file, count):8.2f}")
    database.close()


def main() -> None:
    """Measures in a folder of its own, and leaves nothing behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--folder", help="where the files are made: the disk to measure")
    options = parser.parse_args()
    show_costs()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        show_local(Path(folder), options.records)


if __name__ == "__main__":
    main()
