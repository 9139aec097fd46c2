"""The command that compares the histories of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated, Any, TypeAlias

import typer

from stepwell.cli.arguments import ResultAsJson, RunId, Url, argument
from stepwell.cli.completing import complete_run
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable
from stepwell.engine.records import ROOT
from stepwell.values import dataclass

Entries: TypeAlias = Sequence[Mapping[str, Any]]

DIFFERENT = 1  # the exit status, as that of `diff`
_OF_TIME = frozenset({"at", "until", "start_at", "retry_at"})  # in an entry's data: no two runs have the same
_RUN = "the run"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first entries that differ, of one token; None where a history ends."""

    token: str
    same: int  # entries of the token before them
    first: Mapping[str, Any] | None
    second: Mapping[str, Any] | None


def diff(
    run_id: RunId,
    other_id: Annotated[str, argument("RUN", "The run to compare it with.", complete_run)],
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Show where the histories of two runs first differ. The exit status is 1 if they do."""
    with connect(url) as client:
        first, second = (list(client.handle(one).history()) for one in (run_id, other_id))
        run_id, other_id = client.whole(run_id), client.whole(other_id)
    found = first_divergence(first, run_id, second, other_id)
    if as_json:
        print_json(None if found is None else asdict(found))
    elif found is None:
        console().print(printable(f"the same: {len(first)} entries"))
    else:
        _show(found, run_id, other_id)
    if found is not None:
        raise typer.Exit(DIFFERENT)


def first_divergence(first: Entries, run_id: str, second: Entries, other_id: str) -> Divergence | None:
    """Compares token by token, because the order of branches is a matter of chance; the first in time counts."""
    ours, theirs = _by_token(first), _by_token(second)
    found = []
    for token in dict.fromkeys((*ours, *theirs)):
        pairs = zip_longest(ours.get(token, ()), theirs.get(token, ()))
        for same, (one, other) in enumerate(pairs):
            if _said(one, run_id) != _said(other, other_id):
                found.append(Divergence(token, same, one, other))
                break
    return min(found, key=lambda it: str((it.first or it.second or {}).get("at", "")), default=None)


def _by_token(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Entries]:
    tokens: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        tokens.setdefault(str(entry.get("token")), []).append(entry)
    return tokens


def _said(entry: Mapping[str, Any] | None, run_id: str) -> object:
    """What an entry says that another run could say too: not when, by whom, or of which run."""
    if entry is None:
        return None
    return [entry.get("type"), entry.get("step"), entry.get("attempt"), _timeless(entry.get("data"), run_id)]


def _timeless(value: Any, run_id: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _timeless(one, run_id) for name, one in value.items() if name not in _OF_TIME | {"run_id"}}
    if isinstance(value, list):
        return [_timeless(one, run_id) for one in value]
    return value.replace(run_id, _RUN) if isinstance(value, str) else value


def _show(found: Divergence, run_id: str, other_id: str) -> None:
    from stepwell.cli.views.telling import history_line  # noqa: PLC0415 - rich

    out, now = console(), datetime.now(UTC)
    where = "" if found.token == ROOT else f" of {found.token}"
    same = f"the same for {found.same} {'entry' if found.same == 1 else 'entries'}{where}, then"
    out.print(printable(same if found.same else f"different from the first entry{where} on"))
    for name, entry in ((run_id, found.first), (other_id, found.second)):
        out.print(printable(f"{name}:"))
        out.print(printable("  its history ends") if entry is None else history_line(entry, now), soft_wrap=True)
