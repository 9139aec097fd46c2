"""Each mutant that is not left to schedules is caught by the test that names what it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stepwell.aws.store.store import DynamoStore
from stepwell.engine.effect_kinds import Close
from stepwell.testing.kit import Stepwell
from tests.api import test_callbacks
from tests.aws import test_faults
from tests.contract.emulated import Cloud, table_of
from tests.durable import test_pauses, test_update_races
from tests.durable.conftest import Flows
from tests.engine import test_effects, test_lives, test_overtaken
from tests.runtime import (
    test_batches,
    test_children,
    test_copies,
    test_end_kills,
    test_function_cancels,
    test_lost_workers,
    test_parts,
    test_permits,
    test_showing,
    test_sweeper,
    test_throttle_kills,
    test_throttles,
    test_woken_once,
    test_worker,
)
from tests.sim import repeated_mutants, suite_mutants
from tests.sim.pause_mutants import rests_before_it_opens
from tests.sim.repeated_mutants import copies_go_on_anyway


def _takes_no_other_record() -> None:
    cloud = Cloud()
    with table_of(cloud, retry=test_faults.FOUR_TRIES) as table:
        test_faults.test_a_consumption_whose_answers_are_lost_takes_no_other_record_for_its_own(
            cloud, DynamoStore(table)
        )


def _keeps_no_permit() -> None:
    test_permits.test_a_run_that_is_let_in_as_it_ends_keeps_no_permit(0)


def _ends_an_earlier_life() -> None:
    test_effects.test_a_cancel_ends_what_a_new_life_left_behind_if_who_began_that_may_have_died(
        "another", [Close(0, (0,))]
    )


def _begins_after_a_pause() -> None:
    with TemporaryDirectory() as folder:
        test_pauses.test_an_operation_begins_though_its_worker_died_before_a_pause_and_others_wrote_during_it(
            Flows(Path(folder))
        )


def _goes_on_with_the_clean_up() -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "hotel.py").write_text(test_function_cancels.MODULE)
        test_function_cancels.test_an_event_goes_on_with_the_clean_up_though_its_bringer_died_and_a_deadline_came_first(
            Stepwell(folder)
        )


def _takes_the_next_slot() -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        test_update_races.test_an_update_that_loses_its_slot_to_another_takes_the_next_one_at_once(
            Flows(Path(folder)), patched
        )


def _leaves_it_to_the_first() -> None:
    test_copies.test_a_message_of_one_name_that_comes_amid_a_step_leaves_it_to_the_first_unless_that_may_be_dead(1)


@contextmanager
def woken_beside_another() -> Iterator[None]:
    """A worker that is woken beside another goes on, though the other has written."""
    with suite_mutants.woken_at_once(), copies_go_on_anyway():
        yield


@contextmanager
def late_and_beside_another() -> Iterator[None]:
    with suite_mutants.late_goes_on(), copies_go_on_anyway():
        yield


@pytest.mark.parametrize(
    ("mutant", "test"),
    [
        (
            suite_mutants.part_registers_nothing,
            test_parts.test_a_part_registers_the_wait_whose_worker_died_before_it_did,
        ),
        (
            suite_mutants.callback_not_queued,
            test_callbacks.test_a_callback_whose_api_died_in_the_midst_ends_the_wait_all_the_same,
        ),
        (suite_mutants.buried_though_stale, test_lost_workers.test_a_dead_letter_that_is_past_wakes_nobody),
        (
            suite_mutants.straggler_repeats,
            test_worker.test_a_copy_of_a_wake_that_fell_behind_runs_no_step_that_the_other_has_ended,
        ),
        (
            suite_mutants.taken_far_behind,
            test_throttle_kills.test_a_permit_taken_once_the_token_is_far_ahead_is_given_back_though_its_worker_died,
        ),
        (
            suite_mutants.let_in_by_the_dead,
            test_permits.test_a_run_that_is_let_in_as_it_ends_keeps_no_permit_though_who_let_it_in_died,
        ),
        (
            suite_mutants.straggler_repeats_a_batch,
            test_batches.test_a_twin_that_fell_behind_runs_no_step_again_when_its_batch_is_refused,
        ),
        (
            suite_mutants.shown_after_its_end,
            test_effects.test_an_operation_that_ends_after_a_wait_for_code_has_the_run_shown_as_running,
        ),
        (
            suite_mutants.shown_by_the_late,
            test_showing.test_a_late_message_of_a_fork_that_is_over_changes_nothing_in_the_header,
        ),
        (
            suite_mutants.lost_and_not_asked,
            test_lives.test_a_function_whose_code_died_is_asked_when_an_operation_of_it_ends,
        ),
        (suite_mutants.left_to_the_dead, _ends_an_earlier_life),
        (rests_before_it_opens, _begins_after_a_pause),
        (suite_mutants.tried_once, _takes_the_next_slot),
        (suite_mutants.settled_for_another, _goes_on_with_the_clean_up),
        (
            woken_beside_another,
            test_woken_once.test_a_call_that_is_repeated_amid_the_next_step_runs_it_no_second_time,
        ),
        (
            woken_beside_another,
            test_woken_once.test_an_event_that_another_s_message_took_wakes_no_second_worker,
        ),
        (
            late_and_beside_another,
            test_woken_once.test_a_late_wake_leaves_the_steps_of_the_first_worker_to_that_one,
        ),
        (suite_mutants.sent_with_the_call, test_woken_once.test_a_callback_s_message_comes_once_its_call_is_over),
        (suite_mutants.redriven_at_once, test_woken_once.test_a_run_that_is_redriven_twice_at_once_goes_on_once),
        (
            suite_mutants.copies_go_on,
            test_worker.test_the_second_message_of_a_start_that_was_repeated_leaves_the_run_to_the_first,
        ),
        (
            suite_mutants.copies_go_on,
            test_children.test_a_detached_childs_first_step_is_done_once_however_long_it_takes,
        ),
        (
            suite_mutants.left_as_it_came,
            test_sweeper.test_a_spare_message_that_old_code_leaves_to_newer_is_the_runs_own,
        ),
        (
            suite_mutants.forgotten_once_cancelled,
            test_overtaken.test_who_began_what_others_cancelled_shows_the_run_all_the_same,
        ),
        (
            suite_mutants.end_left_to_the_dead,
            test_end_kills.test_a_run_that_ends_for_its_hops_is_closed_though_whoever_ended_it_died_after_the_first_page,
        ),
        (
            suite_mutants.taken_from_another,
            test_worker.test_a_copy_of_a_wake_that_fell_behind_leaves_its_parent_to_whoever_joined_it_again,
        ),
        (
            suite_mutants.left_without_a_word,
            test_throttles.test_a_copy_that_still_takes_the_run_for_paused_leaves_the_permit_to_the_step_under_way,
        ),
        (
            suite_mutants.kept_at_rest,
            test_throttles.test_a_run_that_is_paused_at_its_step_gives_the_permit_back_when_that_ends,
        ),
        (
            suite_mutants.paused_with_its_permit,
            test_throttles.test_runs_of_a_paused_workflow_hold_up_nobody_in_their_line_and_ask_again_when_it_goes_on,
        ),
        (
            repeated_mutants.second_goes_on,
            test_copies.test_of_two_messages_of_one_name_that_write_at_once_the_second_stops,
        ),
        (repeated_mutants.late_goes_on_too, _leaves_it_to_the_first),
        (
            repeated_mutants.picks_up_the_ended,
            test_worker.test_a_run_that_is_ended_as_its_worker_picks_it_up_begins_no_step,
        ),
        (
            repeated_mutants.second_wakes_another,
            test_copies.test_two_messages_of_one_event_that_come_at_once_wake_one_worker,
        ),
        (
            repeated_mutants.new_whenever_it_is_sent,
            test_copies.test_a_message_that_was_put_off_amid_its_work_goes_on_there,
        ),
        (suite_mutants.any_record_is_mine, _takes_no_other_record),
        (suite_mutants.granted_to_the_ended, _keeps_no_permit),
        (
            suite_mutants.told_though_begun,
            test_permits.test_a_run_that_found_its_permit_by_itself_is_not_woken,
        ),
    ],
)
def test_an_engine_without_one_of_its_laws_fails_the_test_of_that_law(
    mutant: Callable[[], AbstractContextManager[None]], test: Callable[[], None]
) -> None:
    test()
    with mutant(), pytest.raises((AssertionError, KeyError, ValueError, pytest.fail.Exception)):
        test()
