"""Lanes: what a batch says of its branches, who asks for their join, and how a batch is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.actions import Write
from stepwell.engine.forks.branches import with_lanes
from stepwell.engine.forks.lanes import LaneLog, lane_at, lanes_of, split_lane, stays
from stepwell.engine.records import End, Failure, Fork, Goto, Group, Kind, Next, Record, RetryAt, Status, Topic
from stepwell.engine.stored import formats
from stepwell.engine.stored.batches import Batch, arrived_in, beside, decode_batch, encode_batch
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.errors import EngineFault, NewerFormat
from tests.engine.golden_lanes import FILE, folded, recorded
from tests.runtime.kit import graph_of

WIDE = Fork((Group("r", "m", 25),), page=20, chunk=10, lane=10)
DONE, BROKEN = End(Status.COMPLETED, at_join=True), End(Status.FAILED, Failure("X", "step", "no"))
GONE = End(Status.CANCELLED)
FLOW = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, transitions: [{to: gather}]}
  gather: {fan_in: {policy: POLICY}}
"""


def record(index: int, slot: int = 0, following: Next = DONE, **more: Any) -> Record:
    given: dict[str, Any] = {"node": "m", "output": {"n": index}, "at_ms": 1_000 + index, "started_ms": 990, **more}
    return Record(slot, Kind.STEP, f"wake:0/3.{index}:-1", next=following, **given)


def lane(*batches: Batch) -> LaneLog:
    return LaneLog(lane_at(WIDE, "0/3", 20), batches)


def ended(*indexes: int, way: End = DONE, moved: tuple[int, ...] = ()) -> Batch:
    return Batch({index: record(index, following=way) for index in indexes}, frozenset(moved))


def test_a_lane_lies_within_its_page_and_its_name_says_which_branches_it_has() -> None:
    assert [place.name for place in lanes_of(WIDE, "0/3", range(25))] == ["0/3.0+10", "0/3.10+10", "0/3.20+10"]
    assert lane_at(WIDE, "0/3", 24).indexes == range(20, 25)
    assert split_lane("0/3.20+10") == ("0/3", 20)
    assert split_lane("0/3.20") is None


def test_a_batch_survives_its_storing() -> None:
    batch = Batch(
        {
            3: record(3),
            4: record(4, following=BROKEN, error=Failure("X", "step", "no"), output=None),
            5: record(5, following=Goto("next"), output=1),
            6: record(6, slot=2, output=True, writes={"%t": "0/3.6"}),
        },
        frozenset({7, 9}),
    )
    assert decode_batch(encode_batch(batch, "0/3"), "0/3") == batch
    for one in (Batch(moved=frozenset({1})), Batch({2: record(2)})):
        assert decode_batch(encode_batch(one, "0/3"), "0/3") == one


@pytest.mark.parametrize("by", ["", "event:50%:t%t", "wake:0/3.25:-1", "0/3.2%250/3.2"])
def test_whoever_wrote_a_record_is_told_exactly(by: str) -> None:
    batch = Batch({2: Record(0, Kind.ENDED, by, 5, next=GONE)})
    assert decode_batch(encode_batch(batch, "0/3"), "0/3") == batch


def test_what_all_records_of_a_batch_share_is_stored_once() -> None:
    few, many = (encode_batch(ended(*range(20, 20 + count)), "0/3") for count in (1, 5))
    assert len(many) - len(few) < 4 * 30
    one, true = Batch({1: record(1, output=1), 2: record(2, output=True)}), 2
    assert decode_batch(encode_batch(one, "0/3"), "0/3").records[true].output is True


def test_older_code_leaves_lanes_to_newer_code() -> None:
    batch = json.loads(encode_batch(ended(20), "0/3"))
    forked = encode_record(Record(3, Kind.MOVED, "me", 5, "n", next=WIDE))
    assert batch[formats.KEY] == json.loads(forked)[formats.KEY] == formats.GATHERED
    assert json.loads(encode_record(record(20)))[formats.KEY] == formats.FORMAT
    assert decode_record(forked).next == WIDE
    with pytest.raises(NewerFormat):
        decode_batch(json.dumps({**batch, formats.KEY: formats.NEWEST + 1}), "0/3")


@pytest.mark.parametrize(
    "body", ["", "[]", '{"lane":[1]}', '{"lane":[1,2],"at_ms":1,"same":{},"each":{"slot":[0]},"v":3}']
)
def test_a_broken_batch_is_a_named_fault(body: str) -> None:
    with pytest.raises(EngineFault) as raised:
        decode_batch(body, "0/3")
    assert raised.value.code == "broken_batch"


def test_only_what_ends_or_goes_on_at_once_and_writes_nothing_else_lies_in_a_lane() -> None:
    assert stays(Write(record(1)))
    assert stays(Write(record(1, following=Goto("next"))))
    assert not stays(Write(record(1, following=RetryAt(5))))
    assert not stays(Write(record(1), consumes=(Topic("t"), "e")))
    assert not stays(Write(Record(0, Kind.WAITING, "me", 5)))


def test_a_branch_is_held_until_it_ends_or_moves() -> None:
    there = lane(ended(20, moved=(21,)), Batch({22: record(22, following=Goto("next"))}))
    assert [there.holds(index) for index in (20, 21, 22, 23)] == [False, False, True, True]
    assert there.decided(22, 0) == record(22, following=Goto("next"))
    assert there.decided(22, 1) is None


def test_one_of_the_last_to_arrive_asks_once_nobody_is_left_in_the_lane() -> None:
    assert not any(lane(ended(20, 21, 22)).asks(index) for index in (20, 21, 22))
    settled = lane(ended(20, 21, moved=(22,)), ended(23, 24))
    assert [index for index in (20, 21, 23, 24) if settled.asks(index)] == [24]
    last_moved = lane(ended(20, 21, 22, 23), Batch(moved=frozenset({24})))
    assert [index for index in (20, 21, 22, 23) if last_moved.asks(index)] == [23]


def test_a_failure_asks_at_once_and_a_cancelled_branch_arrives_nowhere() -> None:
    there = lane(ended(20), ended(21, way=BROKEN), ended(22, 23, 24, way=GONE))
    assert there.asks(21)
    batches = (
        ended(20),
        ended(21, way=BROKEN),
        ended(22, 23, 24, way=GONE),
        Batch({20: record(20), 21: record(21, following=BROKEN), 22: record(22, following=Goto("next"))}),
    )
    assert [arrived_in(encode_batch(one, "0/3")) for one in batches] == [{"20"}, {"21!"}, set(), {"20", "21!"}]
    assert arrived_in(encode_batch(ended(20, way=End(Status.COMPLETED)), "0/3")) == {"20-"}
    assert arrived_in(encode_batch(Batch(moved=frozenset({20})), "0/3")) == set()
    assert not there.has_arrived(22)
    for one in batches:  # a large one is told of by what is kept beside it
        assert arrived_in(json.dumps(beside(one))) == arrived_in(encode_batch(one, "0/3"))


@pytest.mark.parametrize(
    ("policy", "lanes"),
    [("all", 10), ("all, tolerate: {percent: 10}", 10), ("any", 0), ("{m_of_n: 2}", 0)],
)
def test_a_fork_has_lanes_where_all_its_branches_are_wanted(policy: str, lanes: int) -> None:
    graph = graph_of(FLOW.replace("POLICY", policy))
    plain = Fork((Group("r", "work", 25),), "gather")
    assert with_lanes(graph, plain, 10).lane == lanes
    bounded = Fork((Group("r", "work", 25, max_concurrency=5),), "gather", by_arrival=True)
    for fork in (
        bounded,
        Fork((Group("r", "work", 1),), "gather"),
        Fork((Group("", "work", 3, is_apart=True),), "all"),
    ):
        assert with_lanes(graph, fork, 10).lane == 0
    assert with_lanes(graph, plain, 0) == plain


def test_a_golden_log_of_lanes_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded() == golden
    assert folded(golden) == golden["tokens"]


def test_older_code_can_read_nothing_of_what_only_lanes_explain() -> None:
    """The fork, the batches, and what is in the own log of a branch that began in a lane."""
    logs = json.loads(FILE.read_text(encoding="utf-8"))["logs"]
    newer = {token for token, log in logs.items() if any(one.get(formats.KEY) == formats.GATHERED for one in log)}
    assert newer == {"0", "0/0.0+10", "0/0.10+10", "0/0.2"}
    assert any("moved" in one for one in logs["0/0.0+10"])
