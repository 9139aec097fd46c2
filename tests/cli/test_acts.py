"""Events, approvals, and the end of runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Cli, FakeApi, problem


def test_an_event_goes_to_whoever_waits(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/events", (202, {"event_id": "e1"}))
    result = cli("event", "paid", "--key", "A-1", "--payload", '{"amount": 5}', "--id", "e1")
    assert (result.exit_code, result.stdout) == (0, "sent paid for A-1\n")
    assert api.calls[0].body == {"name": "paid", "payload": {"amount": 5}, "key": "A-1", "id": "e1"}


IN_2040 = "2040-01-01T00:00:00.000Z"


TAKES, MATCH = "its name and key, and", "it unless a `match` does not fit"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"waits": 1, "starts": []}, f"sent paid for A-1: 1 wait has {TAKES} takes {MATCH}\n"),
        (
            {"waits": 2, "starts": ["refund"]},
            f"sent paid for A-1: 2 waits have {TAKES} take {MATCH}; it may start refund\n",
        ),
        ({"waits": 0, "starts": ["refund"]}, "sent paid for A-1: it may start refund\n"),
        ({"duplicate": True, "waits": 0}, "sent paid for A-1: it was sent before, and changes nothing\n"),
    ],
)
def test_an_event_tells_whom_it_reached(api: FakeApi, cli: Cli, answer: dict[str, Any], told: str) -> None:
    api.on("POST", "/events", (202, {"event_id": "e1", "duplicate": False, "kept_until": IN_2040, **answer}))
    assert cli("event", "paid", "--key", "A-1").stdout == told


@pytest.mark.parametrize(
    ("kept_until", "told"),
    [
        (IN_2040, "sent paid: nothing waits for it yet; it is kept until "),
        (None, "sent paid: nothing waits for it, and it is lost\n"),
    ],
)
def test_an_event_that_nothing_waits_for_says_what_becomes_of_it(
    api: FakeApi, cli: Cli, kept_until: str | None, told: str
) -> None:
    sent = {"event_id": "e1", "duplicate": False, "waits": 0, "starts": [], "kept_until": kept_until}
    api.on("POST", "/events", (202, sent))
    api.on("POST", "/runs/r1/events", (202, sent))
    result = cli("event", "paid")
    assert result.stdout.startswith(told)
    assert "a wait for this name may have a key (--key): stepwell runs --waiting-for event\n" in result.stdout
    assert "what the run waits for: stepwell explain r1\n" in cli("event", "paid", "--run", "r1").stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("piad", "did you mean `paid`? what the run waits for (paid, shipped): stepwell explain r1\n"),
        ("xyz", "what the run waits for (paid, shipped): stepwell explain r1\n"),
        ("paid", "what the run waits for (paid, shipped): stepwell explain r1\n"),
    ],
)
def test_an_event_that_its_run_does_not_wait_for_is_told_with_the_names_that_it_waits_for(
    api: FakeApi, cli: Cli, name: str, told: str
) -> None:
    sent = {"event_id": "e1", "duplicate": False, "waits": 0, "starts": [], "kept_until": None}
    details = ["an event paid with key 'A-1'", "an event paid sent to this run (POST /runs/r1/events)",
               "an event shipped sent to this run (POST /runs/r1/events) that satisfies {{ event.ok }}"]  # fmt: skip
    api.on("POST", "/runs/r1/events", (202, sent))
    api.on("GET", "/runs/r1/explain", (200, {"wakers": [{"what": "event", "detail": one} for one in details]}))
    assert cli("event", name, "--run", "r1").stdout.endswith(f"\n{told}")


def test_an_event_can_be_for_one_run(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/events", (202, {"event_id": "e1"}))
    result = cli("event", "paid", "--run", "r1", "--json")
    assert json.loads(result.stdout) == {"event_id": "e1"}
    assert api.calls[0].body.pop("id")  # a new one, so that it can be sent again
    assert api.calls[0].body == {"name": "paid", "payload": None}


def test_an_event_for_one_run_with_a_key_is_wrong_usage(cli: Cli) -> None:
    result = cli("event", "paid", "--run", "r1", "--key", "k")
    assert result.exit_code == 2
    assert "an event for one run has no key" in result.stderr


def test_a_single_mistake_is_told_once(api: FakeApi, cli: Cli) -> None:
    detail = "the input violates input_schema: / lacks order_id"
    problem = {"code": "invalid_input", "detail": detail, "errors": [{"path": "/input", "message": "lacks order_id"}]}
    api.on("POST", "/runs/r1/approve", (422, problem))
    hint = "correct the input as the message says"
    assert cli("approve", "r1").stderr == f"error: the input lacks `order_id` [invalid_input]\n  hint: {hint}\n"
    message = "`before` and `key` do not combine"
    api.on("POST", "/runs/r1/approve",
           (422, {"code": "bad_filter", "detail": message, "errors": [{"path": "", "message": message}]}))  # fmt: skip
    assert cli("approve", "r1").stderr.count(message) == 1


def test_a_part_of_an_id_is_answered_with_the_whole(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/approve", (200, {"run_id": "run_r1"}))
    api.on("POST", "/runs/r1/rerun", (201, {"run_id": "run_r2", "origin": {"kind": "rerun", "run_id": "run_r1"}}))
    assert cli("approve", "r1").stdout == "approved run_r1\n"
    assert cli("rerun", "r1").stdout == "run_r1 is started anew as run_r2\n"


def test_an_approval_is_by_who_is_logged_in_unless_named(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/approve", (200, {}))
    assert cli("approve", "r1", "--data", '{"limit": 5}').stdout == "approved r1\n"
    cli("approve", "r1", "--by", "eva", "--step", "second")
    assert [call.body for call in api.calls] == [
        {"data": {"limit": 5}, "by": "ana"},
        {"data": None, "by": "eva", "wait": "second"},
    ]


def test_a_vote_that_is_not_enough_names_who_may_still_approve(api: FakeApi, cli: Cli) -> None:
    data = {"need": 2, "approvers": ["leo", "kim"], "votes": [{"decision": "approved", "by": "ana", "data": None}]}
    asked = {"run_id": "r1", "waiting_for": "approval", "waiting_data": data}
    done = {"run_id": "r1", "waiting_for": None, "waiting_data": None}
    another = {**asked, "waiting_data": {**data, "votes": []}}  # the run waits for the next approval
    api.on("POST", "/runs/r1/approve", (200, asked), (200, done), (200, another))
    assert cli("approve", "r1").stdout == "approved r1: 1 of 2 agree, and it waits for one of leo, kim\n"
    assert [cli("approve", "r1").stdout for _ in range(2)] == ["approved r1\n"] * 2


def test_a_rejection_that_is_not_enough_tells_that_the_run_waits_on(api: FakeApi, cli: Cli) -> None:
    votes = [{"decision": "approved", "by": "leo"}, {"decision": "rejected", "by": "ana"}]
    data = {"need": 2, "approvers": ["kim"], "votes": votes}
    asked = {"run_id": "r1", "waiting_for": "approval", "waiting_data": data}
    first = {**asked, "waiting_data": {**data, "approvers": ["leo", "kim"], "votes": votes[1:]}}
    api.on("POST", "/runs/r1/reject", (200, first), (200, asked))
    assert [cli("reject", "r1").stdout for _ in range(2)] == [
        "rejected r1: 0 of 2 agree, 1 against, and it waits for one of leo, kim\n",
        "rejected r1: 1 of 2 agree, 1 against, and it waits for one of kim\n",
    ]


def test_a_rejection_has_a_reason(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/reject", (200, {}))
    assert cli("reject", "r1", "--reason", "no budget").stdout == "rejected r1\n"
    assert api.calls[0].body == {"reason": "no budget", "by": "ana"}


def test_an_approval_is_handed_on(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/delegate", (200, {}))
    assert cli("delegate", "r1", "--to", "bea").stdout == "delegated r1\n"
    assert api.calls[0].body == {"to": "bea", "by": "ana"}


def test_approving_what_does_not_wait_is_refused_with_3(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/approve", problem(409, "not_waiting", "the run does not wait for an approval"))
    result = cli("approve", "r1")
    assert result.exit_code == 3
    assert result.stderr == (
        "error: Not waiting: the run does not wait for an approval [not_waiting]\n"
        "  hint: stepwell explain r1 says what the run waits for\n"
    )


def test_cancel_and_terminate_tell_whether_they_did_it(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/cancel", (200, {"cancelled": True}), (200, {"cancelled": False}))
    api.on("POST", "/runs/r1/terminate", (200, {"terminated": True}), (200, {"terminated": False}))
    assert cli("cancel", "r1", "--reason", "a mistake").stdout == "cancelled r1\n"
    assert cli("cancel", "r1").stdout == "r1 had already ended\n"
    assert cli("terminate", "r1").stdout == "terminated r1\n"
    assert cli("terminate", "r1").stdout == "r1 had already ended\n"
    assert api.calls[0].body == {"reason": "a mistake", "by": "ana"}


def test_a_cancelled_run_that_is_undone_first_says_so_and_cannot_be_cancelled_again(api: FakeApi, cli: Cli) -> None:
    hint = "terminate ends it at once, without the rest of its compensations"
    refusal = problem(409, "compensating", "the run is being undone, which cannot be cancelled", hint=hint)
    api.on("POST", "/runs/r1/cancel", (200, {"cancelled": True, "status": "compensating"}), refusal)
    assert cli("cancel", "r1").stdout == "cancelled r1; its compensation begins\n"
    again = cli("cancel", "r1")
    assert again.exit_code == 3
    assert again.stderr == (
        "error: Compensating: the run is being undone, which cannot be cancelled [compensating]\n"
        f"  hint: {hint}\n")  # fmt: skip


def test_an_update_prints_what_its_handler_answers(api: FakeApi, cli: Cli) -> None:
    made = {"run_id": "r1", "name": "add", "update_id": "u1", "pending": False, "output": 3, "error": None}
    api.on("POST", "/runs/r1/updates/add", (200, made))
    assert cli("update", "r1", "add", "-i", '{"n": 3}', "--id", "u1").stdout == "3\n"
    assert (api.calls[0].body, api.calls[0].query) == ({"input": {"n": 3}, "id": "u1"}, {"wait": ["20.0"]})
    assert json.loads(cli("update", "r1", "add", "--json").stdout) == made


def test_an_update_that_is_pending_or_failed_is_told(api: FakeApi, cli: Cli) -> None:
    told = {"run_id": "r1", "name": "add", "update_id": "u1", "output": None}
    api.on("POST", "/runs/r1/updates/add", (202, {**told, "pending": True, "error": None}))
    pending = cli("update", "r1", "add", "--wait", "0").stdout
    assert pending.startswith("update u1 is pending")
    assert "stepwell gate" in pending
    failed = {"type": "step_input", "message": "n is missing"}
    api.on("POST", "/runs/r1/updates/add", (200, {**told, "pending": False, "error": failed}))
    result = cli("update", "r1", "add")
    assert (result.exit_code, "step_input: n is missing" in result.stderr) == (1, True)


def test_a_failed_update_is_one_json_document(api: FakeApi, cli: Cli) -> None:
    failed = {"type": "step_input", "message": "n is missing"}
    told = {"run_id": "r1", "name": "add", "update_id": "u1", "output": None, "pending": False, "error": failed}
    api.on("POST", "/runs/r1/updates/add", (200, told))
    result = cli("update", "r1", "add", "--json")
    assert (result.exit_code, json.loads(result.stdout), result.stderr) == (1, told, "")


def test_redrive_names_the_run_that_goes_on(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/redrive", (201, {"run_id": "r2", "status": "running"}))
    assert cli("redrive", "r1", "--from", "ship").stdout == "r1 goes on as r2\n"
    released = {"run_id": "r4", "status": "running", "dropped": [{"token": "0", "step": "release"}]}
    api.on("POST", "/runs/r3/redrive", (201, released))
    lines = cli("redrive", "r3").stdout.splitlines()
    assert lines[:2] == ["r3 goes on as r4", "  drops  0  release, which completed after the failure"]
    assert api.calls[0].body == {"from": "ship", "by": "ana"}


def test_a_refused_redrive_of_a_run_with_tolerated_failures_names_the_command_that_runs_its_branches_again(
    api: FakeApi, cli: Cli
) -> None:
    hint = 'POST /runs/{id}/fork with "at": 3 runs score and all its branches again; rerun starts it anew'
    api.on("POST", "/runs/r1/redrive", problem(409, "completed", "the run completed: 1 branch failed", hint=hint))
    told = " ".join(cli("redrive", "r1").stderr.split())
    assert "stepwell fork r1 --at 3 runs score and all its branches again; rerun starts it anew" in told


def test_a_dry_run_of_a_redrive_counts_the_branches_of_a_wide_fork(api: FakeApi, cli: Cli) -> None:
    kept = [{"token": "0", "step": "list"}, *({"token": f"0/1.{n}", "step": "work"} for n in range(200))]
    again = [{"token": "0/1.200", "step": "work"}, {"token": "0/1.201", "step": ""}]
    api.on("POST", "/runs/r1/redrive", (200, {"run_id": "r1", "kept_records": 401, "kept": kept, "again": again}))
    assert cli("redrive", "r1", "--dry-run").stdout.splitlines() == [
        "keeps 401 records of r1",
        "  kept   0  list",
        "  kept   0/1.0 …  work, in 200 branches",
        "  again  0/1.200  work",
        "  again  0/1.201  what comes next",
    ]


def test_a_dry_run_of_a_redrive_tells_what_is_kept_and_what_runs_again(api: FakeApi, cli: Cli) -> None:
    kept, again = [{"token": "0", "step": "charge"}], [{"token": "0/1.1", "step": "ship"}, {"token": "0", "step": ""}]
    told = {"run_id": "r1", "kept_records": 3, "kept": kept, "again": again}
    told["dropped"] = [{"token": "0/4.0", "step": "pack"}]
    api.on("POST", "/runs/r1/redrive", (200, told))
    lines = cli("redrive", "r1", "--dry-run").stdout.splitlines()
    assert api.calls[0].body == {"dry_run": True}
    assert lines[:2] == ["keeps 3 records of r1", "  kept   0  charge"]
    api.on("POST", "/runs/r2/redrive", (200, {**told, "run_id": "r2", "kept_records": 1}))
    assert cli("redrive", "r2", "--dry-run").stdout.startswith("keeps 1 record of r2\n")
    assert lines[2:4] == ["  again  0/1.1  ship", "  again  0  what comes next"]
    assert lines[4:] == ["  again  0/4.0  pack, which completed after the failure"]
    api.on("POST", "/runs/r5/redrive", (200, {**told, "again": again[1:], "dropped": []}))
    assert cli("redrive", "r5", "--dry-run").stdout.splitlines()[2:] == [
        "  again  0  what comes next",
        "No operation runs again. If the function's own code raised, mend it, or go on --from a step.",
    ]
    released = {**told, "dropped": [{"token": "0", "step": "release"}]}
    api.on("POST", "/runs/r4/redrive", (200, released))
    assert cli("redrive", "r4", "--dry-run").stdout.splitlines()[4:] == [
        "  drops  0  release, which completed after the failure",
        "If one of these undid a step that is kept, go on --from that step, or start anew.",
    ]
    cv = {"event": "UPLOADED", "document": "cv", "event_id": "e1", "at": "2026-03-01T13:00:00.000Z"}
    sent = {**told, "sent_again": [cv, {**cv, "token": "0/2.1", "event": "paid", "document": ""}]}
    api.on("POST", "/runs/r3/redrive", (200, sent))
    assert cli("redrive", "r3", "--dry-run").stdout.splitlines()[4:-1] == [
        "  sent   0  UPLOADED  cv, of 2026-03-01T13:00:00.000Z",
        "  sent   0/2.1  paid  e1, of 2026-03-01T13:00:00.000Z",
    ]


def test_fork_names_the_new_run_and_a_dry_run_tells_the_way(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/fork", (201, {"run_id": "r2", "status": "running"}))
    assert cli("fork", "r1", "--at", "2", "--result", "null").stdout == "r1 goes on from slot 2 as r2\n"
    assert api.calls[0].body == {"at": 2, "result": None, "by": "ana"}
    steps = [{"slot": 3, "step": "decide", "by": "caller"}, {"slot": 4, "step": "ship", "by": ""}]
    way = {"run_id": "r1", "kept": 2, "steps": steps, "stops": "wait", "stops_at": "till", "status": None}
    api.on("POST", "/runs/r1/fork", (200, way))
    told = cli("fork", "r1", "--at", "2", "--dry-run").stdout.splitlines()
    assert told[:3] == ["keeps 2 records of r1", "  3  decide: the given result", "  4  ship"]
    assert told[3] == "till has no end in the log: the run would wait"
    api.on("POST", "/runs/r1/fork", (200, {**way, "stops": "compensation", "stops_at": "ship"}))
    told = cli("fork", "r1", "--at", "2", "--dry-run").stdout.splitlines()
    assert told[3] == "ship fails, and what completed would be undone"
    api.on("POST", "/runs/r1/fork", (200, {**way, "stops": "function", "stops_at": "tasks"}))
    told = cli("fork", "r1", "--at", "2", "--dry-run").stdout.splitlines()
    assert told[3] == "tasks is the function's own code, which goes on from here and is not run by a dry run"


def test_rerun_names_the_new_run(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/rerun", (201, {"run_id": "r2", "status": "pending"}))
    assert cli("rerun", "r1", "--key", "k").stdout == "r1 is started anew as r2\n"
    assert api.calls[0].headers["idempotency-key"] == "k"


def test_start_begins_an_idle_run(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/r1/start", (200, {"run_id": "r1", "status": "running"}))
    assert cli("start", "r1").stdout == "started r1\n"
    assert [call.body for call in api.calls] == [{"by": "ana"}]


def test_pause_and_unpause_say_by_whom(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs/run_1/pause", (200, {}))
    api.on("POST", "/runs/run_1/unpause", (200, {}))
    api.on("GET", "/runs/run_1/explain", (200, {"workflow_paused": None}))
    assert cli("pause", "run_1", "--reason", "the bank is down").stdout == "paused run_1\n"
    assert cli("unpause", "run_1").stdout == "run_1 goes on\n"
    assert [call.body for call in api.calls if call.method == "POST"] == [
        {"reason": "the bank is down", "by": "ana"},
        {"by": "ana"},
    ]


def test_a_second_pause_says_that_there_was_one_and_since_when(api: FakeApi, cli: Cli) -> None:
    since = "2026-01-31T09:00:00.000Z"
    told = {"run_id": "run_1", "pending_reason": f"paused by eva since {since}: the bank is down"}
    api.on("POST", "/runs/run_1/pause", (200, told | {"paused_before": True}))
    api.on("POST", "/runs/run_2/pause", (200, {"run_id": "run_2", "paused_before": True}))
    pause = {"workflow": "order", "since": since, "by": "eva", "reason": None, "paused_before": True}
    api.on("POST", "/workflows/order/pause", (200, pause))
    first = "run_1 was paused already, by eva since 2026-01-31 09:00:00: the bank is down\n"
    assert cli("pause", "run_1").stdout == first
    assert cli("pause", "run_2").stdout == "run_2 was paused already\n"
    assert cli("pause", "order").stdout == "nothing was changed: order is paused by eva since 2026-01-31 09:00:00\n"
    held = {"since": since, "by": "eva", "reason": "the move"}
    api.on("POST", "/schedules/nightly/pause", (200, {"name": "nightly", "paused": held, "paused_before": True}))
    said = "nothing was changed: nightly is paused by eva since 2026-01-31 09:00:00: the move\n"
    assert cli("schedule", "pause", "nightly").stdout == said


@pytest.mark.parametrize(
    ("workflow", "told"),
    [
        ("order", "order is paused by eva since 8:15; end that pause with: stepwell unpause order"),
        (
            "*",
            "all workflows are paused by eva since 8:15; end that pause with: stepwell unpause --all",
        ),
    ],
)
def test_unpause_says_that_the_workflow_is_still_paused(api: FakeApi, cli: Cli, workflow: str, told: str) -> None:
    pause = {"workflow": workflow, "since": "8:15", "by": "eva", "reason": None}
    api.on("POST", "/runs/run_1/unpause", (200, {"run_id": "run_1"}))
    api.on("GET", "/runs/run_1/explain", (200, {"workflow_paused": pause}))
    api.on("POST", "/workflows/order/unpause", (200, {"workflow": "order"}))
    api.on("GET", "/workflows/order", (200, {"paused": pause}))
    assert cli("unpause", "run_1").stdout == f"run_1 is still held: {told}\n"
    assert cli("unpause", "order").stdout == f"the runs of order are still held: {told}\n"


def test_pause_takes_a_workflow_or_all_of_them(api: FakeApi, cli: Cli) -> None:
    pause = {"workflow": "order", "since": "2026-11-20T08:15:00.000Z", "by": "ana", "reason": None}
    for verb in ("pause", "unpause"):
        api.on("POST", f"/workflows/order/{verb}", (200, pause))
        api.on("POST", f"/workflows:{verb}", (200, pause | {"workflow": "*"}))
    api.on("GET", "/workflows/order", (200, {"paused": None}))
    assert cli("pause", "order").stdout == "paused the runs of order: each stops before its next step\n"
    assert cli("unpause", "order").stdout == "the runs of order go on\n"
    assert cli("pause", "--all").stdout == "paused all runs: each stops before its next step\n"
    api.on("GET", "/stats", (200, {"paused": []}))
    assert cli("unpause", "--all").stdout == "all runs go on\n"
    assert json.loads(cli("pause", "order", "--json").stdout) == pause
    assert cli("pause").exit_code == cli("pause", "order", "--all").exit_code == 2


def test_unpause_of_all_says_which_workflows_are_still_paused(api: FakeApi, cli: Cli) -> None:
    pauses = [{"workflow": name, "since": "8:15", "by": "eva", "reason": None} for name in ("order", "refund")]
    api.on("POST", "/workflows:unpause", (200, {"workflow": "*"}))
    api.on("GET", "/stats", (200, {"paused": pauses}))
    assert cli("unpause", "--all").stdout == (
        "all runs go on\n"
        "except that order is paused by eva since 8:15; end that pause with: stepwell unpause order\n"
        "except that refund is paused by eva since 8:15; end that pause with: stepwell unpause refund\n"
    )


def test_pause_takes_a_run_that_has_no_workflows_name(api: FakeApi, cli: Cli) -> None:
    """A run's id may be any name."""
    api.on("POST", "/workflows/mine/pause", problem(404, "unknown_workflow", "there is no workflow 'mine'"))
    api.on("POST", "/runs/mine/pause", (200, {"run_id": "mine"}))
    assert cli("pause", "mine").stdout == "paused mine\n"


@pytest.mark.parametrize("verb", ["pause", "unpause"])
def test_a_name_that_neither_a_run_nor_a_workflow_has_is_told_as_such(api: FakeApi, cli: Cli, verb: str) -> None:
    none = problem(404, "unknown_workflow", "there is no workflow 'mine'", hint="deployed: order")
    api.on("POST", f"/workflows/mine/{verb}", none)
    api.on("POST", f"/runs/mine/{verb}", problem(404, "unknown_run", "there is no run 'mine'"))
    told = cli(verb, "mine")
    assert told.exit_code == 3
    assert told.stderr == (
        "error: Unknown run: there is no workflow and no run 'mine' [unknown_run]\n"
        "  hint: stepwell runs lists the runs; deployed: order\n"
    )


def test_the_command_prints_the_groups(api: FakeApi, cli: Cli) -> None:
    one = {"fingerprint": "9f2c", "workflow": "order", "type": "CarrierDown", "step": "ship", "count": 41,
           "first_at": "2026-03-01T13:00:00Z", "last_at": "2026-03-01T14:00:00Z", "run_id": "run_1"}  # fmt: skip
    api.on("GET", "/failures", (200, {"items": [one], "next_cursor": None}))
    told = cli("failures").stdout
    assert "CarrierDown" in told
    assert "41" in told
    api.on("GET", "/failures", (200, {"items": [], "next_cursor": None}))
    assert "no run failed" in cli("failures").stderr
    assert json.loads(cli("failures", "--json").stdout) == {"items": [], "next_cursor": None}


def test_failures_of_a_workflow_that_there_is_not_are_refused(api: FakeApi, cli: Cli) -> None:
    """A name that is misspelt looked like a workflow without failures."""
    empty: tuple[int, dict[str, Any]] = (200, {"items": [], "next_cursor": None})
    api.on("GET", "/failures", empty)
    api.on("GET", "/runs", empty)
    api.on("GET", "/workflows/ordr", problem(404, "unknown_workflow", "there is no workflow 'ordr'"))
    api.on("GET", "/workflows/order", (200, {"name": "order"}))
    told = cli("failures", "--workflow", "ordr")
    assert (told.exit_code, "there is no workflow 'ordr'" in told.stderr) == (3, True)
    assert cli("failures", "--workflow", "order").exit_code == 0


def test_an_update_is_not_sent_with_a_wait_that_the_api_would_refuse(api: FakeApi, cli: Cli) -> None:
    for wait in ("60", "-1"):
        told = cli("update", "r1", "add", "--wait", wait)
        assert (told.exit_code, "--wait" in told.stderr) == (2, True)
    assert api.calls == []


@pytest.mark.parametrize("at", ["ship", "-1", "1.5", "²"])
def test_a_fork_at_what_is_no_number_says_where_the_numbers_are(cli: Cli, at: str) -> None:
    result = cli("fork", "r1", f"--at={at}")
    assert result.exit_code != 0
    assert f"--at takes the number of a slot, not '{at}'" in result.stderr
    assert "stepwell history r1" in result.stderr
    assert "--from a step" in result.stderr
