"""The program `expense`: three weeks of it in virtual time, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

from stepwell.testing.kit import Run, Stepwell
from stepwell.testing.mocks import Mock
from tests.durable.dying import deaths_of

CLAIM = {"claim": {"who": "kim", "amount": 80, "manager": "leo", "director": "ana"}}


def days(stepwell: Stepwell, write: Mock, most: int) -> list[tuple[int, str]]:
    """On which days somebody got a mail."""
    found: list[tuple[int, str]] = []
    for day in range(most):
        found += [(day, call["to"]) for call in write.calls[len(found) :]]
        stepwell.advance("1d")
    return found


def test_the_manager_is_reminded_and_later_the_director_too(stepwell: Stepwell) -> None:
    write = stepwell.mock("write")
    run = stepwell.start("expense", CLAIM)
    stepwell.settle()
    assert days(stepwell, write, 11) == [
        (0, "leo"), (2, "leo"), (4, "leo"), (6, "leo"), (8, "leo"), (8, "ana"), (10, "leo"), (10, "ana"),
    ]  # fmt: skip
    run.approve(by="ana")
    assert run.result == "approved by ana"
    before = len(write.calls)
    stepwell.advance("5d")
    assert len(write.calls) == before


def test_a_decision_on_the_first_day_needs_no_reminder(stepwell: Stepwell) -> None:
    write = stepwell.mock("write")
    run = stepwell.start("expense", CLAIM)
    run.reject("not a business trip", by="leo")
    assert run.result == "rejected: not a business trip (by leo)"
    assert [call["to"] for call in write.calls] == ["leo", "kim"]


def test_after_three_weeks_it_is_refused(stepwell: Stepwell) -> None:
    stepwell.mock("write")
    run = stepwell.start("expense", CLAIM)
    stepwell.advance("21d")
    assert run.result == "nobody has decided"


def test_whoever_dies_each_mail_is_sent_once(tmp_path: Path) -> None:
    """A process dies before or after each write; the decision comes on the third day."""

    def play(kit: Stepwell) -> None:
        run = kit.start("expense", CLAIM, run_id="one")
        kit.settle()
        kit.advance("3d")
        run.approve(by="leo")
        kit.settle()

    for kit, mails in deaths_of(Path(__file__).parent, tmp_path, "MAIL_DATA", play):
        assert Run(kit, "one").result == "approved by leo"
        texts = sorted(mail.read_text() for mail in mails.iterdir())
        assert texts[:2] == ["kim: approved by leo", "leo: kim asks for 80.00"]
        assert set(texts[2:]) == {"leo: kim still waits for 80.00"}
