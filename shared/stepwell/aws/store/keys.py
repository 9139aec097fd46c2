"""The keys of the table and its indexes. Outside text is escaped, so that `#` is always a separator.

RUN#<run>                  RUN                          the header
RUN#<run>                  RUN#INPUT#<hash>             an input too large to be rewritten with the header
RUN#<run>[#<fork>@<page>]  LOG#<token>#<slot>           a record
RUN#<run>[#<fork>@<page>]  SNAP#<token>                 the last snapshot
RUN#<run>                  BLOBS                        the expired run's blobs are to be deleted
RUN#<run>                  SENT#<name>                  events of this name were sent to the run alone
RUN#<run>#<join>           JOIN                         the members that have arrived
RUN#<run>#<fork>@<page>    JOIN#<lane>#<slot>           a batch of a lane
BOX#<name>#<key>           E#<id>                       an event
BOX#<name>#<key>           W#<run>#<token>#<slot>#<arm> a wait
DEF#<version>              DEF                          a definition
WORKFLOWS                  WORKFLOWS                    the names that runs were started of
NOTES#<kind>               NOTE#<name>                  a note
"""

from __future__ import annotations

import hashlib
import zlib

from stepwell.aws.protocols import Item
from stepwell.engine.records import TERMINAL, Status, Topic
from stepwell.errors import InvalidInput
from stepwell.runtime.stores.answers import LATEST_MS

PARTITION, SORT = "pk", "sk"
PARTITION_BRANCHES = 100  # that share a partition: part of every stored key, so it must never change
BY_WORKFLOW, BY_STATE, BY_DUE = "by_workflow", "by_state", "by_due"

PART_BYTES = 900  # of one part of a key; a longer one is hashed. Partition keys hold 2,048 bytes, sort keys 1,024
STATE_SHARDS = 4  # partitions of each state, and of due runs: each takes about 1,000 writes a second
LIVE, DUE = "live", "due"
LOGS, SNAPSHOTS, SENT, JOIN = "LOG#", "SNAP#", "SENT#", "JOIN"  # of sort keys


def part(text: str) -> str:
    """Encodes text as one part of a key: escaped, or hashed if it is long."""
    escaped = text.replace("%", "%25").replace("#", "%23")
    try:
        data = escaped.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{text[:80]!r} cannot be part of a key", code="bad_key") from error
    return escaped if len(data) <= PART_BYTES else f"%sha256-{hashlib.sha256(data).hexdigest()}"


def unpart(escaped: str) -> str:
    """The inverse of `part`, for text that was not hashed."""
    return escaped.replace("%23", "#").replace("%25", "%")


def key(partition: str, sort: str) -> Item:
    return {PARTITION: {"S": partition}, SORT: {"S": sort}}


def run_partition(run_id: str) -> str:
    return f"RUN#{part(run_id)}"


def header_key(run_id: str) -> Item:
    return key(run_partition(run_id), "RUN")


def blobs_key(run_id: str) -> Item:
    return key(run_partition(run_id), "BLOBS")


def input_sort(text: str) -> str:
    return f"RUN#INPUT#{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def token_partition(run_id: str, token: str) -> str:
    """Returns a token's partition: the run's for the root, the page's for a branch, so no partition grows with a fork.

    A branch's id is its fork's path, a dot and its index: `0/3.17`; a lane's is `0/3.10+10`.
    """
    fork, dot, index = token.rpartition(".")
    index = index.partition("+")[0]  # a lane is where its first branch is
    if not dot or not index.isdecimal():
        return run_partition(run_id)
    return page_partition(run_id, fork, int(index) // PARTITION_BRANCHES)


def partitions_of(width: int) -> int:
    """Returns the number of partitions that hold the branches of a fork."""
    return -(-width // PARTITION_BRANCHES)


def page_partition(run_id: str, fork: str, page: int) -> str:
    """Returns the partition of a page's branches and arrivals."""
    return f"{run_partition(run_id)}#{part(fork)}@{page}"


def log_prefix(token: str) -> str:
    return f"{JOIN if '+' in token else LOGS.rstrip('#')}#{part(token)}#"


def log_sort(token: str, slot: int) -> str:
    return f"{log_prefix(token)}{slot:010d}"


def token_of(sort: str) -> str:
    """Returns the token of a record's sort key, escaped by `part`."""
    return sort.removeprefix(LOGS).rpartition("#")[0]


def slot_of(sort: str) -> int:
    return int(sort.rpartition("#")[2])


def record_key(run_id: str, token: str, slot: int) -> Item:
    return key(token_partition(run_id, token), log_sort(token, slot))


def snapshot_key(run_id: str, token: str) -> Item:
    return key(token_partition(run_id, token), f"{SNAPSHOTS}{part(token)}")


def join_key(run_id: str, join: str) -> Item:
    return key(join_partition(run_id, join), JOIN)


def join_partition(run_id: str, join: str) -> str:
    """Returns the partition of a join, where the lanes of its page are too."""
    return f"{run_partition(run_id)}#{part(join)}"


def box_partition(topic: Topic) -> str:
    return f"BOX#{part(topic.name)}#{part(topic.key)}"


def event_key(topic: Topic, event_id: str) -> Item:
    return key(box_partition(topic), f"E#{part(event_id)}")


def sent_sort(name: str, branch: str = "") -> str:
    return f"{SENT}{part(name)}#{part(branch)}" if branch else f"{SENT}{part(name)}"


def unsent(sort: str) -> tuple[str, str]:
    """Returns the event's name, and the branch, of such a sort key."""
    name, _, branch = sort.removeprefix(SENT).partition("#")
    return unpart(name), unpart(branch)


def events_after(event_id: str) -> dict[str, str]:
    """The bounds of the events of a topic that have greater ids."""
    return {":after": f"E#{part(event_id)}\x00", ":end": "E$"}


def waiter_key(topic: Topic, run_id: str, token: str, slot: int, arm: int) -> Item:
    return key(box_partition(topic), f"W#{part(run_id)}#{part(token)}#{slot}#{arm}")


def definition_key(version: str) -> Item:
    return key(f"DEF#{part(version)}", "DEF")


def notes_partition(kind: str) -> str:
    return f"NOTES#{part(kind)}"


def note_key(kind: str, name: str) -> Item:
    return key(notes_partition(kind), f"NOTE#{part(name)}")


WORKFLOWS_KEY = key("WORKFLOWS", "WORKFLOWS")


def place(created_ms: int, run_id: str) -> str:
    """Returns a run's sort key in lists: time, then id."""
    if not 0 <= created_ms <= LATEST_MS:
        raise InvalidInput(f"{created_ms} is not a valid creation time", code="bad_time")
    return f"{created_ms:015d}#{run_id}"


def created_and_run(at: str) -> tuple[int, str]:
    """The inverse of `place`."""
    created_ms, _, run_id = at.partition("#")
    return int(created_ms), run_id


def group_of(status: Status) -> str | None:
    """Returns the state that lists a run of this status; None for completed runs, the most frequent ones."""
    if status is Status.COMPLETED:
        return None
    return status.value if status in TERMINAL else LIVE


def state_key(group: str, shard: int) -> str:
    return f"{group}#{shard}"


def state_of(status: Status, run_id: str) -> str | None:
    """Returns the partition of the index `by_state`, constant for a live run, so waiting costs no index write."""
    group = group_of(status)
    return None if group is None else state_key(group, _shard(run_id))


def due_key(run_id: str) -> str:
    """Returns a partition of the index `by_due`."""
    return state_key(DUE, _shard(run_id))


def _shard(run_id: str) -> int:
    return zlib.crc32(run_id.encode()) % STATE_SHARDS
