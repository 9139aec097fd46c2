"""The log, its snapshots, and joins: one slot has one winner, and a join's set only grows."""

from __future__ import annotations

from functools import partial

import pytest

from stepwell.runtime.log.claims import claim_check
from stepwell.runtime.loop.together import for_all
from stepwell.runtime.ports import Appended, Joined, Loaded, Marked, Saved
from tests.contract.kit import ORDER, Store, at_once, event, run

LARGE = "ä" * 2_500_000  # 5 MB of UTF-8


def fill(store: Store, count: int, run_id: str = "r1", at: str = "0") -> list[Saved]:
    saved = [Saved(slot, f'{{"slot":{slot}}}') for slot in range(count)]
    for record in saved:
        assert run(store.append(run_id, at, record.slot, record.body)) is None
    return saved


def test_the_first_append_to_a_slot_wins_and_later_ones_get_the_winners_body(store: Store) -> None:
    assert run(store.append("r1", "0", 0, "first")) is None
    assert run(store.append("r1", "0", 0, "second")) == "first"
    assert run(store.append("r1", "0", 0, "first")) == "first"
    assert run(store.read_log("r1", "0")) == [Saved(0, "first")]


def test_slots_of_other_tokens_and_runs_are_free(store: Store) -> None:
    for run_id, token in (("r1", "0"), ("r1", "0/1.0"), ("r2", "0"), ("r", "10"), ("r1", "")):
        assert run(store.append(run_id, token, 0, run_id + token)) is None
    assert run(store.read_log("r1", "0/1.0")) == [Saved(0, "r10/1.0")]


def _appended(store: Store, slot: int, number: int) -> Appended:
    return run(store.append("r1", "0", slot, f"body {number}"))


@pytest.mark.threads
def test_of_64_threads_that_append_to_one_slot_exactly_one_wins(store: Store) -> None:
    for slot in range(5):
        answers = at_once(64, partial(_appended, store, slot))
        winners = [number for number, answer in enumerate(answers) if answer is None]
        assert len(winners) == 1
        assert {answer for answer in answers if answer is not None} == {f"body {winners[0]}"}
    assert [record.slot for record in run(store.read_log("r1", "0"))] == list(range(5))


@pytest.mark.threads
def test_threads_that_append_to_their_own_logs_all_win(store: Store) -> None:
    def five(number: int) -> list[Saved]:
        return fill(store, 5, at=f"0/0.{number}")

    for number, saved in enumerate(at_once(64, five)):
        assert run(store.read_log("r1", f"0/0.{number}")) == saved


@pytest.mark.threads
def test_a_copy_of_logs_that_threads_write_is_whole_and_a_late_one_changes_nothing(store: Store) -> None:
    places = [(f"0/3.{number}", slot) for number in range(40) for slot in range(3)]

    async def copy(body: str, place: tuple[str, int]) -> None:
        await store.append("r1", *place, body)

    run(for_all(places[::2], partial(copy, "kept"), 8))  # whoever wrote these died
    run(for_all(places, partial(copy, "kept"), 8))
    for number in range(40):
        assert run(store.append("r1", f"0/3.{number}", 3, "moved on")) is None
    run(for_all([(token, slot + 1) for token, slot in places], partial(copy, "late"), 8))
    for number in range(40):
        bodies = [one.body for one in run(store.read_log("r1", f"0/3.{number}"))]
        assert bodies == ["kept", "kept", "kept", "moved on"]


def test_the_log_is_read_in_slot_order_from_a_place_and_up_to_a_limit(store: Store) -> None:
    saved = fill(store, 12)
    assert run(store.read_log("r1", "0")) == saved
    assert run(store.read_log("r1", "0", after=8)) == saved[9:]
    assert run(store.read_log("r1", "0", after=2, limit=3)) == saved[3:6]
    assert run(store.read_log("r1", "0", after=11)) == []
    assert run(store.read_log("r1", "0", limit=0)) == []
    assert run(store.read_log("unknown", "0")) == []


def test_slots_written_out_of_order_are_read_in_order(store: Store) -> None:
    for slot in (2, 10, 0, 9, 1):
        run(store.append("r1", "0", slot, str(slot)))
    assert [record.slot for record in run(store.read_log("r1", "0"))] == [0, 1, 2, 9, 10]


@pytest.mark.parametrize("body", ["", "käse 🧀 \u2028", "a\x00b", LARGE], ids=["empty", "unicode", "nul", "5MB"])
def test_a_body_comes_back_as_it_was_written(store: Store, body: str) -> None:
    run(store.append("läuft-🏃", "0", 0, body))
    run(store.save_snapshot("läuft-🏃", "1", 0, body))
    assert run(store.read_log("läuft-🏃", "0")) == [Saved(0, body)]
    assert run(store.append("läuft-🏃", "0", 0, "other")) == body
    assert run(store.load("läuft-🏃", "1")).snapshot == Saved(0, body)


def test_bodies_are_read_by_their_places_in_any_logs_and_marks_are_none(store: Store) -> None:
    fill(store, 3)
    places = [(f"0/{fork}.{index}", slot) for fork in range(3) for index in (0, 50, 150) for slot in (0, 2)]
    for token, slot in places:
        assert run(store.append("r1", token, slot, f"{token} {slot}")) is None
    run(store.append("r2", "0/1.0", 1, "another run's"))
    assert run(store.mark("r1", "0/1.0", 1))
    assert run(store.rest("r1", "0/1.0", 3, "rests"))
    wanted = [*places, ("0", 1), ("0", 9), ("0/1.0", 1), ("0/1.0", 3), ("0/9.0", 0)]
    found = run(store.read_bodies("r1", wanted))
    assert found == {**{(token, slot): f"{token} {slot}" for token, slot in places}, ("0", 1): '{"slot":1}'}
    assert run(store.read_bodies("r1", [])) == {}


@pytest.mark.parametrize("count", [1, 250])
def test_many_bodies_are_read_at_once(store: Store, count: int) -> None:
    fill(store, count)
    places = [("0", slot) for slot in range(count)]
    assert run(store.read_bodies("r1", [*places, *places])) == {place: f'{{"slot":{place[1]}}}' for place in places}


def test_loading_an_unknown_token_gives_nothing(store: Store) -> None:
    assert run(store.load("r1", "0")) == Loaded(None, [])


def test_loading_without_a_snapshot_gives_every_record(store: Store) -> None:
    saved = fill(store, 3)
    assert run(store.load("r1", "0")) == Loaded(None, saved)


def test_loading_gives_the_snapshot_and_only_the_records_after_it(store: Store) -> None:
    saved = fill(store, 6)
    run(store.save_snapshot("r1", "0", 3, "folded"))
    assert run(store.load("r1", "0")) == Loaded(Saved(3, "folded"), saved[4:])
    run(store.save_snapshot("r1", "0", 5, "all"))
    assert run(store.load("r1", "0")) == Loaded(Saved(5, "all"), [])


def test_who_has_read_a_log_reads_on_without_its_snapshot(store: Store) -> None:
    saved = fill(store, 6)
    run(store.save_snapshot("r1", "0", 3, "folded"))
    assert run(store.load("r1", "0", 1)) == Loaded(None, saved[2:])
    assert run(store.load("r1", "0", 5)) == Loaded(None, [])
    assert run(store.mark("r1", "0", 6))
    assert run(store.load("r1", "0", 5)) == Loaded(None, [], is_marked=True)
    assert run(store.load("r9", "0", 5)) == Loaded(None, [])


def test_the_snapshot_of_the_greatest_slot_stays(store: Store) -> None:
    fill(store, 6)
    for slot, body in ((3, "three"), (1, "late"), (3, "three again")):
        run(store.save_snapshot("r1", "0", slot, body))
    assert run(store.load("r1", "0")).snapshot == Saved(3, "three")


def test_a_snapshot_leaves_the_history_whole(store: Store) -> None:
    saved = fill(store, 4)
    run(store.save_snapshot("r1", "0", 3, "folded"))
    assert run(store.read_log("r1", "0")) == saved


def test_a_join_returns_its_set_and_a_second_arrival_changes_nothing(store: Store) -> None:
    assert run(store.arrive("r1", "0/3@0", "0")).members == {"0"}
    assert run(store.arrive("r1", "0/3@0", "1")).members == {"0", "1"}
    assert run(store.arrive("r1", "0/3@0", "0")).members == {"0", "1"}
    assert run(store.arrive("r1", "0/3@1", "9")).members == {"9"}
    assert run(store.arrive("r2", "0/3@0", "9")).members == {"9"}


def test_a_join_in_order_keeps_each_members_place(store: Store) -> None:
    for member in ("9", "10!", "2"):
        joined = run(store.arrive("r1", "0/3@0", member, in_order=True))
    assert (joined.order, joined.members) == (("9", "10!", "2"), frozenset({"9", "10!", "2"}))
    assert run(store.arrive("r1", "0/3@0", "10!", in_order=True)) == joined
    assert run(store.report("r1", "0/3@0", 4, 7)) == Joined(joined.members, {4: 7}, joined.order)
    assert run(store.read_join("r1", "0/3@0")).order == joined.order
    run(store.arrive("r1", "0/3@1", "9"))
    assert run(store.read_join("r1", "0/3@1")).order == ()


@pytest.mark.threads
def test_of_64_threads_that_arrive_in_order_each_has_a_place(store: Store) -> None:
    orders = at_once(64, lambda number: run(store.arrive("r1", "j", f"{number}", in_order=True)).order)
    last = max(orders, key=len)
    assert sorted(last) == sorted(f"{number}" for number in range(64))
    assert all(tuple(order) == tuple(last)[: len(order)] for order in orders)


@pytest.mark.threads
def test_of_64_threads_that_arrive_at_a_join_exactly_one_completes_it(store: Store) -> None:
    sets = at_once(64, lambda number: run(store.arrive("r1", "j", f"{number}")).members)
    assert sorted(len(members) for members in sets) == list(range(1, 65))


def test_a_definition_is_kept_under_its_hash_and_never_changes(store: Store) -> None:
    assert run(store.get_definition("v1")) is None
    run(store.put_definition("v1", "äpfel"))
    run(store.put_definition("v1", "other"))
    assert run(store.get_definition("v1")) == "äpfel"


def test_a_page_reports_a_number_that_only_grows_and_hears_those_of_all(store: Store) -> None:
    assert run(store.report("r1", "0/3", 0, 5)).numbers == {0: 5}
    assert run(store.report("r1", "0/3", 7, 2)).numbers == {0: 5, 7: 2}
    assert run(store.report("r1", "0/3", 0, 4)).numbers == {0: 5, 7: 2}
    assert run(store.report("r1", "0/3", 0, 9)).numbers == {0: 9, 7: 2}
    assert run(store.report("r1", "0/4", 0, 1)).numbers == {0: 1}
    assert run(store.report("r2", "0/3", 0, 1)).numbers == {0: 1}


def test_a_join_is_read_and_each_write_returns_all_of_it(store: Store) -> None:
    assert run(store.read_join("r1", "0/3@0")) == Joined()
    run(store.arrive("r1", "0/3@0", "7"))
    assert run(store.report("r1", "0/3@0", 4, 2**62)) == Joined(frozenset({"7"}), {4: 2**62})
    run(store.report("r1", "0/3@0", -1, 5))
    assert run(store.arrive("r1", "0/3@0", "8!")) == Joined(frozenset({"7", "8!"}), {4: 2**62, -1: 5})
    assert run(store.read_join("r1", "0/3@0")) == Joined(frozenset({"7", "8!"}), {4: 2**62, -1: 5})


@pytest.mark.threads
def test_of_64_threads_that_report_exactly_one_hears_of_all(store: Store) -> None:
    heard = at_once(64, lambda number: run(store.report("r1", "0/3", number, 1)).numbers)
    assert sorted(len(pages) for pages in heard) == list(range(1, 65))


def test_the_logs_of_a_page_are_read_together_and_those_that_are_asked_for(store: Store) -> None:
    saved = {index: fill(store, index + 1, at=f"0/3.{index}") for index in (0, 1, 11, 99)}
    fill(store, 1, at="0/3.100")
    fill(store, 1, at="0/31.1")
    fill(store, 1, at="0/3.1/0.1")
    tokens = [f"0/3.{index}" for index in (0, 1, 2, 11, 99)]
    found = run(store.read_logs("r1", tokens))
    assert {token: list(log) for token, log in found.items()} == {f"0/3.{index}": log for index, log in saved.items()}
    assert run(store.read_logs("r1", [])) == {}
    assert run(store.read_logs("r2", tokens)) == {}


def test_logs_of_one_fork_are_read_together_wherever_they_lie(store: Store) -> None:
    """A fork's record says how many branches make a page: not always as many as the store keeps together."""
    tokens = ["0/3.99", "0/3.100", "0/3.250"]
    saved = {token: fill(store, 2, at=token) for token in tokens}
    found = run(store.read_logs("r1", [*tokens, "0/3.101"]))
    assert {token: list(log) for token, log in found.items()} == saved


def test_a_mark_holds_up_the_record_of_its_slot_and_is_none_itself(store: Store) -> None:
    assert run(store.is_blank("r1", "0"))
    assert run(store.append("r1", "0", 0, "a")) is None
    assert run(store.mark("r1", "0", 1))
    assert run(store.mark("r1", "0", 1))
    assert run(store.append("r1", "0", 1, "b")) == Marked()
    assert run(store.load("r1", "0")) == Loaded(None, [Saved(0, "a")], is_marked=True)
    assert run(store.read_log("r1", "0")) == [Saved(0, "a")]
    run(store.unmark("r1", "0", 1))
    run(store.unmark("r1", "0", 1))
    assert run(store.append("r1", "0", 1, "b")) is None
    assert run(store.load("r1", "0")) == Loaded(None, [Saved(0, "a"), Saved(1, "b")])


def test_a_slot_with_a_record_takes_no_mark_and_loses_nothing_to_its_removal(store: Store) -> None:
    assert run(store.append("r1", "0", 0, "a")) is None
    assert not run(store.mark("r1", "0", 0))
    run(store.unmark("r1", "0", 0))
    assert run(store.read_log("r1", "0")) == [Saved(0, "a")]


def test_a_mark_tells_who_rests_before_it_and_changes_what_it_tells_for_one(store: Store) -> None:
    assert not run(store.rest("r1", "0", 0, "woken", "rests"))  # there is no mark
    assert run(store.rest("r1", "0", 0, "rests"))
    assert run(store.mark("r1", "0", 0))  # it tells the same still
    assert run(store.load("r1", "0")) == Loaded(None, [], is_marked=True)
    assert run(store.append("r1", "0", 0, "a")) == Marked()
    assert run(store.rest("r1", "0", 0, "woken", "rests"))
    assert run(store.rest("r1", "0", 0, "woken", "rests"))  # asked again
    assert not run(store.rest("r1", "0", 0, "goes on", "rests"))
    assert run(store.rest("r1", "0", 0, "rests"))
    run(store.unmark("r1", "0", 0))
    assert run(store.append("r1", "0", 0, "a")) is None
    assert not run(store.rest("r1", "0", 0, "rests"))
    assert run(store.read_log("r1", "0")) == [Saved(0, "a")]


def test_a_branch_that_is_marked_before_it_begins_is_not_blank(store: Store) -> None:
    assert run(store.mark("r1", "0/3.7", 0))
    assert not run(store.is_blank("r1", "0/3.7"))
    assert run(store.is_blank("r1", "0/3.8"))
    assert run(store.read_logs("r1", ["0/3.7", "0/3.8"])) == {}


def test_a_mark_holds_up_a_record_that_consumes_an_event(store: Store) -> None:
    run(store.put_event(event("e1")))
    run(store.mark("r1", "0", 0))
    assert run(store.append("r1", "0", 0, "a", consumes=(ORDER, "e1"))) == Marked()
    found = run(store.get_event(ORDER, "e1"))
    assert found is not None
    assert not found.consumed_by
    run(store.unmark("r1", "0", 0))
    assert run(store.append("r1", "0", 0, "a", consumes=(ORDER, "e1"))) is None


def test_a_lane_is_a_log_beside_those_of_its_branches_and_is_read_with_its_pages_join(store: Store) -> None:
    """The lanes of a page, and nothing else of it; those that nobody wrote to are left out."""
    run(store.arrive("r1", "0/3@0", "7"))
    fill(store, 2, at="0/3.1")
    first, second = fill(store, 3, at="0/3.0+10"), fill(store, 1, at="0/3.90+10")
    fill(store, 1, at="0/3.100+10")
    assert run(store.append("r1", "0/3.0+10", 1, "another")) == '{"slot":1}'
    found = run(store.read_join("r1", "0/3@0", ["0/3.0+10", "0/3.10+10", "0/3.90+10"]))
    assert {name: list(log) for name, log in found.lanes.items()} == {"0/3.0+10": first, "0/3.90+10": second}
    assert found.members == {"7"}
    assert run(store.read_join("r1", "0/3@0")).lanes == {}
    assert run(store.read_join("r2", "0/3@0", ["0/3.0+10"])) == Joined()
    assert run(store.read_log("r1", "0/3.0+10")) == first
    assert set(run(store.read_logs("r1", ["0/3.0", "0/3.1"]))) == {"0/3.1"}


def test_a_lane_of_another_page_size_than_the_stores_partitions_is_found_too(store: Store) -> None:
    written = fill(store, 2, at="0/3.105+10")
    assert run(store.read_join("r1", "0/3@0", ["0/3.105+10"])).lanes == {"0/3.105+10": written}


def test_what_a_claim_check_says_beside_its_reference_is_kept(store: Store) -> None:
    """Who asks who has arrived reads it, and not the batch."""
    told = claim_check(f"sha256:{'0' * 64}@run-{'0' * 32}", {"arrived": ["7", "8!"]})
    run(store.append("r1", "0/3.0+10", 0, told))
    assert run(store.append("r1", "0/3.0+10", 0, "other")) == told
    assert run(store.read_join("r1", "0/3@0", ["0/3.0+10"])).lanes == {"0/3.0+10": [Saved(0, told)]}
    assert run(store.read_log("r1", "0/3.0+10")) == [Saved(0, told)]


def test_the_lanes_of_a_run_are_erased_with_it(store: Store) -> None:
    fill(store, 2, at="0/3.0+10")
    assert run(store.erase_logs("r1", [("0/3", 10, 1)])) == 2
    assert run(store.read_log("r1", "0/3.0+10")) == []
