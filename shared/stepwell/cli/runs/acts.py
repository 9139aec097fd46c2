"""The commands that act on a run: send events, answer approvals, end it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli.arguments import AsJson, By, Reason, RunId, Url, argument, option, read_json
from stepwell.cli.completing import complete_run
from stepwell.cli.connect import connect, person, there
from stepwell.cli.exits import DONE, FAILED
from stepwell.cli.hints import events_in
from stepwell.cli.screen import console, print_json, report
from stepwell.cli.views.words import counted, printable, when
from stepwell.client.errors import JsonObject
from stepwell.definition.text import closest
from stepwell.errors import StepwellError, UserError
from stepwell.limits import WAIT_ANSWER_SECONDS

if TYPE_CHECKING:
    from stepwell.client import Client

EVENTS_NAMED = 10  # of those that a run waits for

Step = Annotated[
    str,
    option(
        "--step",
        "NAME",
        "Which, if the run waits for several approvals: the step or branch; of one wait, such as hold/approval_2.",
    ),
]


def event(
    name: Annotated[str, argument("NAME", "The event's name.")],
    key: Annotated[str, option("--key", "KEY", "The event's key.")] = "",
    payload: Annotated[str | None, option("--payload -i", "FILE|JSON", "The payload; - for stdin.")] = None,
    event_id: Annotated[str | None, option("--id", "ID", "The event's id; a duplicate has no effect.")] = None,
    run_id: Annotated[str, option("--run", "RUN", "Only to this run.", complete_run)] = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Send an event to the runs that wait for it, now or later."""
    if run_id and key:
        raise typer.BadParameter("an event for one run has no key", param_hint="--key")
    content = read_json(payload, "--payload") if payload is not None else None
    with connect(url) as client:
        if run_id:
            answer = client.handle(run_id).signal(name, content, id=event_id)
        else:
            answer = client.send_event(name, content, key=key, id=event_id)
        nobody = answer.get("waits") == 0 and not answer.get("starts") and not answer.get("duplicate")
        awaited = _awaited(client, run_id) if nobody and run_id and not as_json else []
    sent = f"sent {name}{f' for {key}' if key else ''}{f' to {run_id}' if run_id else ''}"
    report(answer, as_json, f"{sent}{_whom(answer)}")
    if nobody and not as_json:
        console().print(printable(_why_nobody(name, run_id, key, awaited)), style="dim", soft_wrap=True)


def _whom(answer: JsonObject) -> str:
    """Tells whom an event reached, as far as its answer says so."""
    if answer.get("duplicate"):
        return ": it was sent before, and changes nothing"
    if (waits := answer.get("waits")) is None:  # of an older version
        return ""
    starts = ", ".join(answer.get("starts") or ())
    has = "has its name and key, and takes" if waits == 1 else "have its name and key, and take"
    reached = [f"{counted(waits, 'waits')} {has} it unless a `match` does not fit"] if waits else []
    if reached := [*reached, f"it may start {starts}"] if starts else reached:
        return f": {'; '.join(reached)}"
    until = when(answer.get("kept_until"), datetime.now(UTC))
    return (
        f": nothing waits for it yet; it is kept until {until}" if until else ": nothing waits for it, and it is lost"
    )


def _awaited(client: Client, run_id: str) -> list[str]:
    """Returns the names of the events that the run waits for; none if the API does not say."""
    try:
        wakers = client.handle(run_id).explain().get("wakers") or ()
    except StepwellError:  # the event was sent all the same
        return []
    return list(dict.fromkeys(name for waker in wakers for name in events_in(str(waker.get("detail")))))


def _why_nobody(name: str, run_id: str, key: str, awaited: Sequence[str]) -> str:
    if run_id:
        near = closest(name, awaited) if name not in awaited else ""
        told = f"{near} what the run" if near.startswith("did you mean") else "what the run"
        names = f" ({', '.join(awaited[:EVENTS_NAMED])})" if awaited else ""
        return f"{told} waits for{names}: {there(f'stepwell explain {run_id}')}"
    of_key = "another key, or none" if key else "a key (--key)"
    return f"a wait for this name may have {of_key}: {there('stepwell runs --waiting-for event')}"


def update(
    run_id: RunId,
    name: Annotated[str, argument("NAME", "The name in `@ctx.update`.")],
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "The input; - for stdin.")] = None,
    update_id: Annotated[str | None, option("--id", "ID", "The update's id; a duplicate has no effect.")] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=WAIT_ANSWER_SECONDS, help="How long to wait for the answer."
        ),
    ] = 20,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Call an update of a durable function, and print its answer."""
    content = read_json(given, "--input") if given is not None else None
    with connect(url) as client:
        found = client.handle(run_id).send_update(name, content, id=update_id, wait=wait)
    error = found.get("error")
    if as_json:  # one document, which has the error too
        print_json(found)
        raise typer.Exit(DONE if error is None else FAILED)
    if error is not None:
        raise UserError(f"{error['type']}: {error['message']}", code="update_failed")
    if found.get("pending"):
        console().print(
            printable(f"update {found.get('update_id')} is pending: its function or its handler is not done")
        )
        console().print(printable("if that stays so, the code may no longer fit the run: stepwell gate tells"))
    else:
        print_json(found.get("output"))


def approve(
    run_id: RunId,
    data: Annotated[str | None, option("--data -i", "FILE|JSON", "Data for the workflow.")] = None,
    by: By = "",
    step: Step = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Approve the approval that a run waits for."""
    content = read_json(data, "--data") if data is not None else None
    with connect(url) as client:
        answer = client.handle(run_id).approve(content, by=person(by), wait=step)
    report(answer, as_json, f"approved {id_of(answer, run_id)}{_still_asked(answer)}")


def _still_asked(answer: JsonObject) -> str:
    """How many have agreed and rejected, if that is not enough to end the approval: the run waits on."""
    data = answer.get("waiting_data")
    if answer.get("waiting_for") != "approval" or not isinstance(data, dict):
        return ""
    need, votes, left = data.get("need"), data.get("votes"), data.get("approvers")
    if not isinstance(need, int) or not isinstance(votes, list):
        return ""
    agreed = sum(isinstance(vote, dict) and vote.get("decision") == "approved" for vote in votes)
    if not votes or agreed >= need:
        return ""
    rejected = f", {len(votes) - agreed} against" if len(votes) > agreed else ""
    named = ", ".join(map(str, left)) if isinstance(left, list) else ""
    return f": {agreed} of {need} agree{rejected}, and it waits for {f'one of {named}' if named else 'more'}"


def reject(
    run_id: RunId, reason: Reason = "", by: By = "", step: Step = "", as_json: AsJson = False, url: Url = ""
) -> None:
    """Reject the approval that a run waits for."""
    with connect(url) as client:
        answer = client.handle(run_id).reject(reason, by=person(by), wait=step)
    report(answer, as_json, f"rejected {id_of(answer, run_id)}{_still_asked(answer)}")


def delegate(
    run_id: RunId,
    to: Annotated[str, option("--to", "NAME", "The new approver.")],
    by: By = "",
    step: Step = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Delegate an approval to another person."""
    with connect(url) as client:
        answer = client.handle(run_id).delegate(to, by=person(by), wait=step)
    report(answer, as_json, f"delegated {id_of(answer, run_id)}")


def start(run_id: RunId, by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Start an idle run, one that was created and not started."""
    with connect(url) as client:
        answer = client.handle(run_id).begin(by=person(by))
    report(answer, as_json, f"started {id_of(answer, run_id)}")


def cancel(run_id: RunId, reason: Reason = "", by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Cancel a run. A run that has ended stays as it is."""
    with connect(url) as client:
        answer = client.handle(run_id).cancel(reason, by=person(by))
    _report_end(run_id, answer, as_json, "cancelled")


def terminate(run_id: RunId, reason: Reason = "", by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """End a run at once, without compensation."""
    with connect(url) as client:
        answer = client.handle(run_id).terminate(reason, by=person(by))
    _report_end(run_id, answer, as_json, "terminated")


_GOES_ON = {  # what a run does that was cancelled and has not ended, by its status
    "compensating": "; its compensation begins",
    **dict.fromkeys(("running", "waiting"), "; it cleans up"),
}


def _report_end(run_id: str, answer: JsonObject, as_json: bool, told: str) -> None:
    happened = answer.get(told, True)  # false for a run that had ended
    run_id = id_of(answer, run_id)
    done = f"{told} {run_id}{_GOES_ON.get(answer.get('status', ''), '')}"
    report(answer, as_json, done if happened else f"{run_id} had already ended")


def id_of(answer: JsonObject, given: str) -> str:
    """The run's whole id, where a part of it was given."""
    return str(answer.get("run_id") or given)
