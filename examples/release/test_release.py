"""The workflow `release`: how a train starts, whom it waits for, how it is taken back. GitHub's calls are signed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from examples.release import train
from stepwell.errors import Conflict
from stepwell.testing.kit import Run, Stepwell

HERE = Path(__file__).parent
SECRET = "It's a Secret to Everybody"  # noqa: S105 - published by GitHub
MADRID, OSLO, LIMA = range(train.FIRST_ID, train.FIRST_ID + 3)  # the deployments of the canaries


class GitHub:
    """Sends what is recorded in `events/`, changed in a few places."""

    def __init__(self, stepwell: Stepwell) -> None:
        self._webhooks = stepwell.webhooks({"GITHUB_WEBHOOK_SECRET": SECRET})
        self._numbers = count(1)

    def send(self, source: str, body: dict[str, Any], secret: str = SECRET) -> int:
        """Signed as GitHub does: the body alone. Each delivery has an id of its own in the headers."""
        text = json.dumps(body)
        headers = {
            "X-GitHub-Delivery": f"72d3162e-cc78-11e3-81ab-{next(self._numbers):012d}",
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest(),
        }
        return self._webhooks.deliver(source, text, headers)

    def release(self, action: str = "published", **how: str) -> int:
        return self.send("releases", {**recorded("release.published"), "action": action}, **how)

    def check(self, repository: str, conclusion: str | None = "success", name: str = "release") -> int:
        body = recorded("check_run.completed")
        body["repository"]["full_name"] = repository
        body["check_run"].update(
            id=next(self._numbers), name=name, head_sha=train.COMMITS[repository], conclusion=conclusion
        )
        return self.send("fleet", body)

    def status(self, deployment_id: int, state: str) -> int:
        body = recorded("deployment_status.created")
        body["deployment"]["id"] = deployment_id
        body["deployment_status"].update(id=next(self._numbers), state=state)
        return self.send("fleet", body)


def recorded(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((HERE / "events" / f"{name}.json").read_text())
    return body


@pytest.fixture(autouse=True)
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAIN_DATA", str(tmp_path))


@pytest.fixture
def github(stepwell: Stepwell) -> GitHub:
    return GitHub(stepwell)


Green = Callable[[], Run]


@pytest.fixture
def green(stepwell: Stepwell, github: GitHub) -> Green:
    def green() -> Run:
        """A train whose checks are all green: its three canaries are being watched."""
        github.release()
        for repository in train.COMMITS:
            github.check(repository)
        (run,) = stepwell.runs("release")
        return run

    return green


def at(run: Run) -> list[str]:
    """Where each branch of the fork stands that the run stands at."""
    return [branch["current_step"] or branch["status"] for branch in run.branches()]


def withdrawn() -> list[str]:
    return sorted(line["place"] for line in train.lines("withdrawn"))


def test_a_release_is_checked_tried_agreed_on_and_promoted(stepwell: Stepwell, github: GitHub, green: Green) -> None:
    run = green()
    assert [line["place"] for line in train.lines("deployments")] == train.CANARIES
    for deployment in (MADRID, OSLO, LIMA):
        github.status(deployment, "in_progress")
        github.status(deployment, "success")
    assert run.view["waiting_data"]["tag"] == "v42"
    run.approve(by="ana")
    assert run.status == "waiting"  # for the other one
    run.approve(by="leo")
    assert run.status == "completed"
    assert run.result == {"tag": "v42", "services": [*train.COMMITS], "agreed": ["ana", "leo"]}
    assert withdrawn() == []


def test_all_that_github_tells_of_one_release_is_one_run(stepwell: Stepwell, github: GitHub) -> None:
    assert {github.release(action) for action in ("created", "published", "released", "edited")} == {202}
    assert len(stepwell.runs("release")) == 1


def test_a_forged_release_starts_nothing(stepwell: Stepwell, github: GitHub) -> None:
    assert github.release(secret="a guess") == 401  # noqa: S106
    assert stepwell.runs("release") == []


def test_a_train_leaves_on_tuesdays_at_nine_in_madrid(stepwell: Stepwell) -> None:
    """The clock of the tests begins on Tuesday the 1st of January 2030, an hour after the train has left."""
    stepwell.advance("6d")
    assert stepwell.runs("release") == []
    stepwell.advance("23h")
    (run,) = stepwell.runs("release")
    assert run.view["created_at"] == "2030-01-08T08:00:00.000Z"
    assert run.steps["plan"].output["tag"] == "train-2030-01-08"


def test_each_service_is_waited_for_by_its_own_commit(stepwell: Stepwell, github: GitHub) -> None:
    github.release()
    (run,) = stepwell.runs("release")
    assert at(run) == ["checks", "checks", "checks"]
    github.check("acme/api", name="lint", conclusion="failure")  # another check than the one that counts
    github.check("acme/api", conclusion=None)  # still running
    assert at(run) == ["checks", "checks", "checks"]
    github.check("acme/api")
    assert at(run) == ["checks", "completed", "checks"]
    assert train.lines("deployments") == []


def test_a_check_that_was_done_before_the_train_counts(stepwell: Stepwell, github: GitHub) -> None:
    for repository in train.COMMITS:
        github.check(repository)
    stepwell.advance("12h")
    github.release()
    (run,) = stepwell.runs("release")
    assert at(run) == ["watch", "watch", "watch"]


def test_a_red_service_stops_the_train_before_anything_is_deployed(stepwell: Stepwell, github: GitHub) -> None:
    github.release()
    (run,) = stepwell.runs("release")
    github.check("acme/jobs", conclusion="failure")
    assert run.status == "compensated"
    assert run.error is not None
    assert run.error["message"] == "branch 2: acme/jobs: the check `release` ended with failure"
    assert train.lines("deployments") == []


def test_two_healthy_canaries_are_enough_and_a_sick_one_is_taken_back_at_once(github: GitHub, green: Green) -> None:
    run = green()
    github.status(OSLO, "failure")
    assert (at(run), withdrawn()) == (["watch", "failed", "watch"], ["oslo"])
    github.status(MADRID, "success")
    github.status(LIMA, "success")
    assert run.view["waiting_data"]["canaries"] == ["madrid", "lima"]


def test_the_third_canary_is_not_waited_for(github: GitHub, green: Green) -> None:
    run = green()
    github.status(MADRID, "success")
    github.status(LIMA, "success")
    assert run.view["current_steps"] == ["agree"]


def test_a_second_sick_canary_takes_all_of_them_back(github: GitHub, green: Green) -> None:
    run = green()
    github.status(MADRID, "success")
    github.status(OSLO, "failure")
    github.status(LIMA, "error")
    assert run.status == "compensated"
    assert run.error is not None
    assert run.error["type"] == "Unhealthy"
    assert withdrawn() == ["lima", "madrid", "oslo"]
    assert train.lines("promoted") == []


def test_canaries_that_nobody_hears_of_are_taken_back(stepwell: Stepwell, green: Green) -> None:
    run = green()
    assert at(run) == ["watch", "watch", "watch"]
    stepwell.advance("30m")
    assert (run.status, withdrawn()) == ("compensated", ["lima", "madrid", "oslo"])


def test_a_release_that_is_refused_leaves_no_canary_behind(github: GitHub, green: Green) -> None:
    run = green()
    for deployment in (MADRID, OSLO, LIMA):
        github.status(deployment, "success")
    with pytest.raises(Conflict, match="ana, leo"):
        run.approve(by="sam")
    run.reject("not before the holidays", by="leo")
    assert (run.status, withdrawn()) == ("compensated", ["lima", "madrid", "oslo"])


def test_a_withdrawal_that_fails_for_a_while_is_tried_until_it_works(
    stepwell: Stepwell, github: GitHub, green: Green
) -> None:
    stepwell.mock("deploy.compensate", raises=ConnectionError, times=3)
    run = green()
    github.status(OSLO, "failure")
    github.status(LIMA, "failure")
    stepwell.advance("1m")
    assert (run.status, withdrawn()) == ("compensated", ["lima", "madrid", "oslo"])
