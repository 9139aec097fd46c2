"""The program `agent`: what it streams, what runs at once, whom it asks, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from stepwell.testing.mocks import Mock
from tests.durable.dying import deaths

TASK = {"task": "oslo, rome, lisbon"}


def test_its_tools_run_at_once_and_a_person_allows_the_booking(stepwell: Stepwell) -> None:
    search = stepwell.mock("search", returns="rome: 400 EUR", takes="10s")
    run = stepwell.start("agent", TASK)
    assert run.waiting_for == "approval"
    assert [len(search.calls), (stepwell.now.minute, stepwell.now.second)] == [3, (0, 10)]
    run.approve(by="kim")
    assert str(run.result).startswith("Done: booked rome: 400 EUR")


def test_whoever_reads_along_sees_the_words_of_the_model(stepwell: Stepwell) -> None:
    run = stepwell.start("agent", TASK)
    run.approve(by="kim")
    stepwell.settle()
    words = [one.data["text"] for one in run_now(stepwell.service.output(run.id, "", 100))]
    assert words[:3] == ["Let me ", "look.", "The cheapest."]
    assert "".join(words[3:]) == run.result


def test_a_refusal_and_a_tool_that_fails_are_for_the_model_to_read(stepwell: Stepwell) -> None:
    run = stepwell.start("agent", TASK)
    run.reject("too dear", by="kim")
    assert run.result == "Done: book: refused: too dear (by kim)"
    stepwell.mock("search", raises=ValueError("no such place"))
    run = stepwell.start("agent", TASK)
    assert (run.waiting_for, run.view["waiting_data"]["argument"]) == ("approval", "search: failed: no such place")


def test_a_booking_that_nobody_allows_is_not_made(stepwell: Stepwell) -> None:
    book = stepwell.mock("book")
    run = stepwell.start("agent", TASK)
    stepwell.advance("1d")
    assert (run.result, book.calls) == ("Done: book: nobody has allowed it", [])


def test_whoever_dies_what_was_recorded_is_not_asked_again() -> None:
    """A process dies before or after each write: the model is asked again at most for the answer that was lost."""

    def make() -> Stepwell:
        kit = Stepwell(Path(__file__).parent, sessions=0)
        made.append(kit.mock("search", returns="rome: 400 EUR"))
        return kit

    def play(kit: Stepwell) -> None:
        run = kit.start("agent", {"task": "oslo, rome"}, run_id="one")
        kit.advance("3m")  # whoever died has been replaced
        run.approve(by="kim")

    made: list[Mock] = []
    for kit in deaths(make, play, each=2):
        run = Run(kit, "one")
        assert str(run.result).startswith("Done: booked rome: 400 EUR")
        assert len(made[-1].calls) in {2, 3}
        assert [entry["type"] for entry in run.history].count("wait.approved") <= 1
        kit.close()
