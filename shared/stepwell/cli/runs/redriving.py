"""The commands that make a run of another one: go on where it failed, start it anew, or fork it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli.arguments import AsJson, By, OfVersion, RunId, Url, option, read_json
from stepwell.cli.completing import complete_workflow
from stepwell.cli.connect import connect, person, there
from stepwell.cli.runs.acts import id_of
from stepwell.cli.screen import report
from stepwell.cli.views.words import counted
from stepwell.client.errors import JsonObject
from stepwell.engine.records import ROOT
from stepwell.errors import UserError

if TYPE_CHECKING:
    from stepwell.client.run_calls import ForkOptions

_EACH_BRANCH = 10  # so many branches at a step have a line each
_STOPS = {
    "step": "has no result in the log: it would run",
    "wait": "has no end in the log: the run would wait",
    "fork": "opens branches, which are not followed here",
    "function": "is the function's own code, which goes on from here and is not run by a dry run",
    "compensation": "fails, and what completed would be undone",
    "limit": "is as far as this tells",
}


def redrive(
    run_id: RunId,
    since: Annotated[str, option("--from", "STEP", "Go on from this step instead.")] = "",
    version: OfVersion = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is kept, runs again and is sent again; start none.")
    ] = False,
    by: By = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Go on from where a run failed, as a new run. Completed steps are kept."""
    with connect(url) as client:
        run = client.handle(run_id)
        if dry_run:
            answer = run.redrive_foretold(since, version=version)
        else:
            answer = run.redrive(since, version=version, by=person(by))
    said = _kept(answer) if dry_run else f"{_origin_of(answer, run_id)} goes on as {answer['run_id']}"
    report(answer, as_json, "\n".join([said, *_dropped(answer)]))


def _kept(answer: JsonObject) -> str:
    """What a redrive keeps, and what runs again: a line for each."""
    lines = [f"keeps {counted(answer['kept_records'], 'records')} of {answer['run_id']}"]
    if made := answer.get("redriven_as"):
        would = (
            "is refused: that was from another step or version" if answer.get("refused") else "answers with that run"
        )
        lines = [f"redriven already, as {made}; a redrive {would}. It would have done this:", *lines]
    lines += [f"  kept   {where}" for where in _places(answer["kept"])]
    lines += [f"  again  {where}" for where in _places(answer["again"])]
    if answer["again"] and not any(one["step"] for one in answer["again"]):
        lines.append("No operation runs again. If the function's own code raised, mend it, or go on --from a step.")
    sent = answer.get("sent_again", ())
    lines += [f"  sent   {one.get('token', ROOT)}  {one['event']}  {one['document'] or one['event_id']}, of {one['at']}"
              for one in sent]  # fmt: skip
    return "\n".join(lines)


def _places(found: Sequence[JsonObject]) -> list[str]:
    """Where steps are, a line each; those of a step in many branches share one, where the first of them is."""
    wide = Counter(one["step"] for one in found if one["token"] != ROOT)
    lines: dict[str, str] = {}
    for one in found:
        token, step = one["token"], one["step"]
        count = wide[step] if token != ROOT else 0
        if count > _EACH_BRANCH:
            lines.setdefault(f"*{step}", f"{token} …  {step or 'what comes next'}, in {count} branches")
        else:
            lines[f"{token} {step} {len(lines)}"] = f"{token}  {step or 'what comes next'}"
    return list(lines.values())


def _dropped(answer: JsonObject) -> list[str]:
    """A line for each step that completed after the failure and is not kept. Those of tasks run again."""
    found = [(one["token"], one["step"]) for one in answer.get("dropped", ())]  # an older server does not say
    lines = [
        f"  {'drops' if token == ROOT else 'again'}  {token}  {step}, which completed after the failure"
        for token, step in found
    ]
    if any(token == ROOT for token, _ in found):
        lines.append("If one of these undid a step that is kept, go on --from that step, or start anew.")
    return lines


def rerun(
    run_id: RunId,
    key: Annotated[str | None, option("--key", "KEY", "Repeated calls with this key start one run.")] = None,
    version: OfVersion = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Start a run anew, with the same input and tags. For another input: stepwell run WORKFLOW -i INPUT."""
    with connect(url) as client:
        answer = client.handle(run_id).rerun(key=key, version=version)
    report(answer, as_json, f"{_origin_of(answer, run_id)} is started anew as {answer['run_id']}")


def fork(
    run_id: RunId,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="SLOT",
            show_default=False,
            help="The first slot that is not kept; `history` has it in ids: 2 in 0@2.0.",
        ),
    ],
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "Another input; - for stdin.")] = None,
    state: Annotated[str | None, option("--state", "FILE|JSON", "Values to set in the state, by their names.")] = None,
    result: Annotated[
        str | None, option("--result", "FILE|JSON", "The result of the step in that slot, which does not run.")
    ] = None,
    workflow: Annotated[str, option("--workflow", "NAME", "Another deployed workflow.", complete_workflow)] = "",
    version: OfVersion = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the way that the run would take, and start none.")
    ] = False,
    key: Annotated[
        str | None, option("--key", "KEY", "Make another run than a call with the same changes and another key.")
    ] = None,
    by: By = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Go on from any slot of a run, as a new, changed run. Changes its input, its state or a step's result."""
    slot = _slot(at, run_id)
    changes: ForkOptions = {"by": person(by)}
    if given is not None:
        changes["input"] = read_json(given, "--input")
    if state is not None:
        changes["state"] = read_json(state, "--state")
    if result is not None:
        changes["result"] = read_json(result, "--result")
    if workflow:
        changes["workflow"] = workflow
    if version:
        changes["version"] = version
    with connect(url) as client:
        run = client.handle(run_id)
        answer = run.foretell(slot, **changes) if dry_run else run.fork(slot, key=key, **changes)
    told = _way(answer) if dry_run else f"{_origin_of(answer, run_id)} goes on from slot {slot} as {answer['run_id']}"
    report(answer, as_json, told)


def _slot(at: str, run_id: str) -> int:
    """Returns the number of a record. Raises UserError."""
    if not (at.isascii() and at.isdecimal()):
        shown = there(f"stepwell history {run_id}")
        hint = f"give the number of a record, which {shown} shows; stepwell redrive goes on --from a step"
        raise UserError(f"--at takes the number of a slot, not {at[:80]!r}", code="bad_usage", hint=hint)
    return int(at)


def _way(answer: JsonObject) -> str:
    """The steps of a dry run, a line each."""
    lines = [f"keeps {counted(answer['kept'], 'records')} of {answer['run_id']}"]
    for one in answer["steps"]:
        told = {"log": "as in the log", "caller": "the given result"}.get(one["by"], "")
        lines.append(f"  {one['slot']}  {one['step']}" + (f": {told}" if told else ""))
    end = f"{answer['stops_at']} {_STOPS[answer['stops']]}" if answer["stops"] in _STOPS else ""
    return "\n".join([*lines, end or f"it ends as {answer['status']}"])


def _origin_of(answer: JsonObject, given: str) -> str:
    return id_of(answer.get("origin") or {}, given)
