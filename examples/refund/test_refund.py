"""The workflow `refund`: who may decide, and how often; each button comes as Slack's own signed call."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from stepwell.testing.kit import Run, Stepwell
from stepwell.testing.mocks import Mock

HERE = Path(__file__).parent
REFUND: dict[str, Any] = json.loads((HERE / "events" / "refund.json").read_text())
LARGE = {**REFUND, "amount_cents": 45_000}
PRESSED: dict[str, Any] = json.loads((HERE / "events" / "button.json").read_text())
ANA, LEO, SAM = ("U01ANA", "ana"), ("U01LEO", "leo"), ("U01SAM", "sam")  # sam asks for the refund
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # noqa: S105 - published by Slack
MESSAGE = {"ok": True, "channel": "C01REFUNDS", "ts": "1893488400.000100"}
POSTED: dict[str, Any] = {"status": 200, "headers": {}, "body": MESSAGE}

Press = Callable[..., int]


@pytest.fixture(autouse=True)
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESK_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def slack(stepwell: Stepwell) -> Mock:
    """What the run tells Slack when the outcome is there."""
    stepwell.mock("ask", returns=POSTED)
    return stepwell.mock("tell", returns=POSTED)


@pytest.fixture
def press(stepwell: Stepwell, slack: Mock) -> Press:
    webhooks = stepwell.webhooks({"SLACK_SIGNING_SECRET": SECRET})

    def press(action: str, who: tuple[str, str], secret: str = SECRET) -> int:
        """The form that Slack sends: its JSON in one field, signed together with the time."""
        user = {**PRESSED["user"], "id": who[0], "username": who[1], "name": who[1]}
        button = {**PRESSED["actions"][0], "action_id": action}
        body = urlencode({"payload": json.dumps({**PRESSED, "user": user, "actions": [button]})})
        signed = f"v0:{webhooks.now_seconds}:{body}".encode()
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": str(webhooks.now_seconds),
            "x-slack-signature": "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest(),
        }
        return webhooks.deliver("slack", body, headers)

    return press


def lines(books: Path, book: str) -> list[dict[str, Any]]:
    path = books / f"{book}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ended(run: Run) -> tuple[str, str, list[str]]:
    return run.status, run.result["outcome"], run.result["decided_by"]


def test_one_click_pays_a_small_refund_back(stepwell: Stepwell, slack: Mock, press: Press, books: Path) -> None:
    run = stepwell.start("refund", REFUND)
    assert run.waiting_for == "event"
    assert press("approve", ANA) == 200
    assert ended(run) == ("completed", "paid", ["ana"])
    assert [line["amount_cents"] for line in lines(books, "paid")] == [4500]
    (told,) = slack.calls
    assert (told["ts"], told["text"]) == (MESSAGE["ts"], "Refund R-7: paid (ana)")


def test_the_message_has_a_button_for_each_answer_that_carries_the_refunds_id(stepwell: Stepwell) -> None:
    asked = stepwell.mock("ask", returns=POSTED)
    assert stepwell.start("refund", REFUND).waiting_for == "event"
    (message,) = asked.calls
    assert message["text"] == "Refund R-7: 45.00 EUR of order A-1001 (the lamp came broken)"
    buttons = message["blocks"][1]["elements"]
    assert [(one["action_id"], one["value"]) for one in buttons] == [("approve", "R-7"), ("reject", "R-7")]


def test_a_forged_click_decides_nothing(stepwell: Stepwell, press: Press) -> None:
    run = stepwell.start("refund", REFUND)
    assert press("approve", ANA, secret="a guess") == 401  # noqa: S106
    assert run.view["current_steps"] == ["decide"]


def test_nobody_approves_what_they_asked_for(stepwell: Stepwell, press: Press) -> None:
    run = stepwell.start("refund", REFUND)
    press("approve", SAM)
    assert run.view["current_steps"] == ["decide"]
    press("approve", ANA)
    assert ended(run) == ("completed", "paid", ["ana"])


def test_a_large_refund_takes_two_different_people(stepwell: Stepwell, press: Press, books: Path) -> None:
    run = stepwell.start("refund", LARGE)
    press("approve", ANA)
    assert run.view["current_steps"] == ["second"]
    press("approve", ANA)
    press("approve", SAM)
    assert (run.view["current_steps"], lines(books, "paid")) == (["second"], [])
    press("approve", LEO)
    assert ended(run) == ("completed", "paid", ["ana", "leo"])


def test_the_second_one_may_still_say_no(stepwell: Stepwell, press: Press, books: Path) -> None:
    run = stepwell.start("refund", LARGE)
    press("approve", ANA)
    assert run.view["waiting_data"]["approved_by"] == "ana"
    press("reject", LEO)
    assert ended(run) == ("completed", "rejected", ["ana", "leo"])
    assert lines(books, "paid") == []


def test_a_rejected_refund_is_not_paid_and_slack_shows_who_said_so(
    stepwell: Stepwell, slack: Mock, press: Press, books: Path
) -> None:
    run = stepwell.start("refund", REFUND)
    press("reject", ANA)
    assert ended(run) == ("completed", "rejected", ["ana"])
    assert (slack.calls[0]["text"], lines(books, "paid")) == ("Refund R-7: rejected (ana)", [])


def test_after_four_hours_the_lead_gets_a_mail_and_after_eight_the_refund_lapses(
    stepwell: Stepwell, slack: Mock, books: Path
) -> None:
    run = stepwell.start("refund", REFUND)
    stepwell.advance("4h")
    (mail,) = lines(books, "mails")
    assert (mail["to"], mail["text"].endswith("nobody has decided")) == ("lead@shop.example", True)
    assert run.view["current_steps"] == ["decide"]
    stepwell.advance("4h")
    assert ended(run) == ("completed", "lapsed", [])
    assert len(lines(books, "mails")) == len(slack.calls) == 1


def test_the_lead_can_decide_after_the_mail(stepwell: Stepwell, press: Press) -> None:
    run = stepwell.start("refund", REFUND)
    stepwell.advance("5h")
    press("approve", LEO)
    assert ended(run) == ("completed", "paid", ["leo"])


@pytest.mark.parametrize(
    "refusal",
    [
        {"returns": {"status": 200, "headers": {}, "body": {"ok": False, "error": "channel_not_found"}}},
        {"raises": ConnectionError("no way to slack.com")},
    ],
    ids=["refuses", "is away"],
)
def test_when_slack_cannot_ask_the_lead_is_asked_and_any_other_way_of_deciding_will_do(
    stepwell: Stepwell, books: Path, refusal: dict[str, Any]
) -> None:
    stepwell.mock("ask", **refusal)
    told = stepwell.mock("tell", returns=POSTED)
    run = stepwell.start("refund", REFUND)
    stepwell.advance("1m")
    assert [mail["text"].endswith("Slack could not be asked") for mail in lines(books, "mails")] == [True]
    stepwell.event("refund.decided", {"decision": "approve", "by": "U01ANA", "name": "ana"}, key="R-7")
    assert ended(run) == ("completed", "paid", ["ana"])
    assert told.calls == []  # there is no message to change


def test_a_bank_that_is_away_for_a_moment_pays_once(stepwell: Stepwell, press: Press, books: Path) -> None:
    stepwell.mock("pay_back", raises=ConnectionError, times=3)
    run = stepwell.start("refund", REFUND)
    press("approve", ANA)
    stepwell.advance("10s")
    assert (run.steps["pay_back"].attempts, len(lines(books, "paid"))) == (4, 1)


def test_more_than_was_paid_is_not_even_asked_for(stepwell: Stepwell) -> None:
    asked = stepwell.mock("ask", returns=POSTED)
    run = stepwell.start("refund", {**REFUND, "order_id": "A-1002", "amount_cents": 6000})
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["message"] == "59.70 EUR of order A-1002 can be paid back, not 60.00 EUR"
    assert asked.calls == []
