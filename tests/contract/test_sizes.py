"""Sizes: what is large is kept and read back like what is small, and nothing is lost between two pages of a read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell import limits
from stepwell.engine.records import Status, Topic
from stepwell.runtime.ports import Lane, Loaded, Saved
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.kit import NOW_MS, ORDER, LocalQueue, Store, event, header, run, waiter

MEGABYTE = 1_048_576
JUST_AN_ITEM = "x" * (limits.ITEM_BYTES - 1_000)  # the largest that DynamoDB keeps itself: 34 of them fill a page
MANY = 40  # of these are more than a page


@pytest.mark.parametrize(
    "size", [limits.ITEM_BYTES, limits.ITEM_BYTES + 1, limits.CLAIM_CHECK_BYTES, 399_000, 400 * 1_024, MEGABYTE]
)
@pytest.mark.parametrize("letter", ["x", "漢"])
def test_a_text_of_any_size_comes_back_from_wherever_it_is_put(store: Store, size: int, letter: str) -> None:
    text = letter * (size // len(letter.encode()))
    assert run(store.append("r1", "0", 0, text)) is None
    assert run(store.append("r1", "0", 0, "other")) == text
    run(store.save_snapshot("r1", "0", 0, text))
    assert run(store.load("r1", "0")) == Loaded(Saved(0, text), [])
    assert run(store.put_event(event(payload=text)))
    assert run(store.append("r1", "0", 1, text, consumes=(ORDER, "e1"))) is None
    assert run(store.get_event(ORDER, "e1")) == event(payload=text, consumed_by="r1|0|1")
    assert run(store.create_run(header(input=text))) is None
    assert run(store.create_run(header())) == header(input=text)
    run(store.put_definition("v1", text))
    assert run(store.get_definition("v1")) == text


def test_a_header_as_large_as_may_be_is_changed_and_listed(store: Store) -> None:
    tags = {f"{number:0>{limits.NAME_CHARACTERS}}": "漢" * limits.KEY_CHARACTERS for number in range(limits.TAGS)}
    name = "w" * limits.NAME_CHARACTERS
    made = header("r" * limits.NAME_CHARACTERS, workflow=name, tags=tags, input="x" * limits.BODY_BYTES)
    assert run(store.create_run(made)) is None
    assert run(store.change_status(StatusChange(made.run_id, 1, Status.WAITING, NOW_MS, waiting_node=name)))
    expected = replace(made, rev=1, status=Status.WAITING, changed_ms=NOW_MS, waiting_node=name)
    assert run(store.list_runs(RunQuery(workflow=name, tag=next(iter(tags.items()))))).headers == (expected,)


def test_a_log_of_more_than_a_megabyte_is_read_whole(store: Store) -> None:
    saved = [Saved(slot, f"{slot}{JUST_AN_ITEM}") for slot in range(MANY)]
    for record in saved:
        run(store.append("r1", "0", record.slot, record.body))
    run(store.save_snapshot("r1", "0", 1, "folded"))
    assert run(store.read_log("r1", "0")) == saved
    assert run(store.read_log("r1", "0", after=2, limit=36)) == saved[3:39]
    assert run(store.load("r1", "0")) == Loaded(Saved(1, "folded"), saved[2:])


def test_events_of_more_than_a_megabyte_are_all_pending(store: Store) -> None:
    for number in range(MANY):
        run(store.put_event(event(f"e{number:02}", NOW_MS + MANY - number, payload=JUST_AN_ITEM)))
    run(store.append("r1", "0", 0, "resumed", consumes=(ORDER, "e38")))
    pending = [found.id for found in run(store.pending_events(ORDER, NOW_MS))]
    assert pending == [f"e{number:02}" for number in range(MANY - 1, -1, -1) if number != 38]


def test_keys_as_long_as_they_may_be_are_told_apart(store: Store) -> None:
    for letter in ("k", "漢", "#", "🧀"):
        names = [letter * (limits.KEY_CHARACTERS - 1) + end for end in "ab"]
        for name in names:
            topic = Topic("n" * limits.NAME_CHARACTERS, f"={name}")
            assert run(store.put_event(event(name, topic=topic, payload=name)))
            run(store.put_waiter(waiter(topic=topic)))
            assert [found.payload for found in run(store.pending_events(topic, NOW_MS))] == [name]
            assert run(store.waiters(topic)) == [waiter(topic=topic)]


@pytest.mark.needs("speed")
def test_a_page_and_the_counts_take_in_more_runs_than_a_batch_holds(store: Store) -> None:
    for number in range(230):
        run(store.create_run(header(f"r{number:03}", created_ms=NOW_MS + number, input="x" * 1_000 * (number % 2))))
    page = run(store.list_runs(RunQuery(limit=230)))
    assert [found.run_id for found in page.headers] == [f"r{number:03}" for number in range(229, -1, -1)]
    assert (page.headers[0].input, page.next_cursor) == ("x" * 1_000, "")
    assert [row["count"] for row in run(store.stats())] == [230]


def test_a_message_of_almost_a_megabyte_travels(queue: LocalQueue) -> None:
    text = "x" * (MEGABYTE - 8)
    run(queue.send(Lane.WORK, {"m": text}))
    delivery = queue.receive([Lane.WORK], NOW_MS, 1_000)
    assert delivery is not None
    assert delivery.message == {"m": text}
