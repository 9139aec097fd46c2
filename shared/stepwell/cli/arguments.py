"""Parses command-line arguments: JSON from a file, a pipe or the line itself; name=value pairs; times."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.completing import STATUSES, complete_run, complete_workflow
from stepwell.definition.durations import parse_duration
from stepwell.definition.text import closest
from stepwell.errors import UserError
from stepwell.os_errors import path_hint


def option(names: str, metavar: str, text: str, completing: Callable[[str], Any] | None = None) -> Any:
    """Returns an option whose default its help does not show. `names`: one, or several with blanks: `--input -i`."""
    return typer.Option(*names.split(), metavar=metavar, show_default=False, help=text, autocompletion=completing)


def argument(metavar: str, text: str, completing: Callable[[str], Any] | None = None) -> Any:
    """Returns an argument whose default its help does not show."""
    return typer.Argument(metavar=metavar, show_default=False, help=text, autocompletion=completing)


# Of a command whose output is JSON anyway, or that serves; the main program reads it from the words.
ErrorsAsJson = Annotated[bool, typer.Option("--json", help="Print an error as JSON, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON and nothing else.")]
ResultAsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Url = Annotated[str, option("--url", "URL", "The API; default STEPWELL_URL or this machine.")]
RunId = Annotated[str, argument("RUN", "The run's id, its beginning or end, or last.", complete_run)]
WorkflowName = Annotated[str, argument("WORKFLOW", "The workflow's name.", complete_workflow)]
By = Annotated[str, option("--by", "NAME", "Who acts, for the history; default your user name.")]
OfVersion = Annotated[
    str,
    option(
        "--version",
        "pin|latest|HASH|NUMBER|ALIAS",
        "latest: the deployed one (default). pin: the run's own (default of a pinned run). Or another.",
    ),
]
Reason = Annotated[str, option("--reason", "TEXT", "The reason, for the history.")]
OfWorkflow = Annotated[str, option("--workflow", "NAME", "Only runs of this workflow.", complete_workflow)]
OfTag = Annotated[str, option("--tag", "NAME=VALUE", "Only runs with this tag.")]
Cursor = Annotated[str, option("--cursor", "CURSOR", "Where the page begins, as the page before it says.")]
Since = Annotated[str, option("--since", "TIME", "Created since 2h, 7d, or a time.")]
Before = Annotated[str, option("--before", "TIME", "Created before 30d ago, or a time.")]
OfFolder = Annotated[
    Path | None, argument("FOLDER", "Workflow folder; default the project's, else `workflows/`, else `.`.")
]
OfProfile = Annotated[str, option("--profile", "NAME", "AWS profile; default AWS_PROFILE.")]
OfRegion = Annotated[str, option("--region", "NAME", "Default: AWS_REGION, or the profile's.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the runs, and do nothing.")]
Rate = Annotated[
    float, typer.Option("--rate", min=0, show_default=False, help="At most so many runs a second; default: no limit.")
]
Memory = Annotated[int, typer.Option("--memory", min=128, help="The Lambda function's memory, in MB.")]
OfFailure = Annotated[
    str, option("--failure", "FINGERPRINT", "Only runs that failed so; `stepwell failures` lists them.")
]


def read_json(given: str, option: str) -> Any:
    """Reads standard input (`-`), JSON (text that begins like it), or else a file. Raises UserError."""
    if not given.strip():  # as of a variable that is not set
        raise UserError(f"{option} is empty", code="bad_json", hint=f"give a file or JSON, or leave {option} out")
    if given == "-":
        if not (text := _text_of("standard input", sys.stdin.buffer.read)).strip():
            hint = f"pipe JSON into the command, or give {option} a file or JSON"
            raise UserError("standard input is empty", code="bad_json", hint=hint)
        return _parse(text, "standard input")
    if given.lstrip()[:1] in {"{", "[", '"'}:
        return _parse(given, option)
    if _is_file(given):
        return _parse(_text_of(given, Path(given).read_bytes), given)
    try:
        return json.loads(given, parse_constant=_refuse)  # a number, true, false or null
    except ValueError:
        raise UserError(
            f"{given[:200]!r} is neither a file nor JSON",
            code="bad_json",
            hint=f"{option} takes a file, JSON such as '{{\"amount\": 5}}', or - for standard input",
        ) from None


def read_key(given: str | None) -> str:
    """Returns the key; "" where none is given. Raises UserError for an empty one."""
    if given == "":
        raise UserError("--key is empty", code="bad_key", hint="name a key, or leave --key out")
    return given or ""


def read_pairs(given: Sequence[str], option: str, example: str = "team=payments") -> dict[str, str]:
    """Parses name=value pairs. Raises UserError."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            message, hint = f"{text!r} is not of the form name=value", f"for example {option} {example}"
            raise UserError(message, code="bad_pair", hint=hint)
        if name in pairs:
            raise UserError(f"{option} {name} is given twice", code="bad_pair", hint="give each name once")
        pairs[name] = value
    return pairs


def read_statuses(given: Iterable[str], more: Sequence[str] = ()) -> list[str]:
    """Returns these statuses of runs, of which each may be several with commas. Raises UserError for an unknown one."""
    return read_words(given, [*STATUSES, *more], "status")


def read_words(given: Iterable[str], known: Sequence[str], thing: str) -> list[str]:
    """Returns the words that an option was given, of those that are known. Raises UserError for another one."""
    words = [word.strip() for one in given for word in one.split(",") if word.strip()]
    if unknown := next((word for word in words if word not in known), ""):
        close, there_are = closest(unknown.lower(), known), f"known: {', '.join(known)}"
        hint = f"{close} {there_are}" if close.startswith("did you mean") else there_are
        raise UserError(f"there is no {thing} {unknown!r:.80}", code="bad_choice", hint=hint)
    return words


def read_filter(tag: str, since: str, before: str) -> tuple[str, str]:
    """Returns the two times as `read_since` does. Raises UserError for one of them, or for a tag that is no pair."""
    if tag:
        read_pairs([tag], "--tag")
    return read_since(since), read_since(before)


def refuse_empty(called: typer.Context, *options: str) -> None:
    """Raises UserError for one of these options that was given as "", as by an unset variable of a script.

    It would name more runs than were meant. `called`: the command.
    """
    for name in options:
        given, source = called.params.get(name), called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and given in ("", [""]):
            hint = f"give it a value, or leave --{name} out: then it leaves no run out"
            raise UserError(f"--{name} is empty", code="bad_filter", hint=hint)


def read_since(given: str) -> str:
    """Converts a time, or an age such as `2h` or `7d`, to RFC 3339; "" if it is not given.

    Raises UserError, also for a number alone: as seconds it would leave out nearly all.
    """
    if not given:
        return ""
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        return (datetime.now(UTC) - timedelta(milliseconds=_age_ms(given))).isoformat()
    return _with_zone(moment)


def _age_ms(given: str) -> int:
    number = given.strip()
    if number.replace(".", "", 1).isdecimal():
        hint = f"write {number}h for hours, {number}d for days, or a time such as 2027-01-01T09:00"
        raise UserError(f"{given!r:.40} has no unit", code="bad_duration", hint=hint)
    try:
        return parse_duration(given)
    except UserError as error:
        hint = "write how long ago, such as 2h or 7d, or a time such as 2027-01-01T09:00"
        raise UserError(f"{given!r:.40} is neither a duration nor a time", code=error.code, hint=hint) from None


def read_start(start_at: str, delay: str) -> str:
    """Converts the time of a start, or a delay such as `2h`, to RFC 3339; "" for a start at once. Raises UserError."""
    if start_at and delay:
        raise UserError("--start-at and --delay both say when the run starts", code="bad_option", hint="keep one")
    if delay:
        return (datetime.now(UTC) + timedelta(milliseconds=parse_duration(delay))).isoformat()
    return read_time("--start-at", start_at, "; --delay takes 2h or 7d")


def read_time(option: str, given: str, more: str = "") -> str:
    """Converts an option's time to RFC 3339; "" if it is not given. `more` ends the hint. Raises UserError."""
    try:
        return _with_zone(datetime.fromisoformat(given)) if given else ""
    except ValueError:
        hint = f"write 2027-01-01T09:00 (this machine's time) or 2027-01-01T09:00:00Z{more}"
        raise UserError(f"{option} {given!r:.40} is no time", code="bad_time", hint=hint) from None


def _with_zone(moment: datetime) -> str:
    """Formats a time, which is this machine's if it names no zone.

    Raises UserError for one at the ends of time, and for one that the clocks leave out, as when summer time begins.
    """
    try:
        zoned = moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError) as error:
        hint = "write a time such as 2027-01-01T09:00, with a year that is not the first or the last one"
        raise UserError(f"{moment.isoformat()} is no time here: {error}", code="bad_time", hint=hint) from error
    if not moment.tzinfo and zoned.replace(tzinfo=None) != moment:
        message = f"{moment.isoformat()} is no time here: the clocks are put forward over it"
        hint = f"write {(moment + timedelta(hours=1)).isoformat()}, or a time with its zone"
        raise UserError(message, code="bad_time", hint=hint)
    return zoned.isoformat()


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a file name
        return False


def _text_of(name: str, read: Callable[[], bytes]) -> str:
    try:
        return read().decode("utf-8-sig")  # with the mark that Windows writes, or without
    except (OSError, UnicodeDecodeError) as error:
        raise unread(name, error) from error


def unread(file: Path | str, error: OSError | UnicodeDecodeError) -> UserError:
    """Returns the error for a file, or standard input, that cannot be read. It has the path once."""
    of_system = error if isinstance(error, OSError) else None
    why = of_system.strerror.lower() if of_system and of_system.strerror else str(error)
    return UserError(f"cannot read {file}: {why}", code="unreadable", hint=path_hint(of_system) if of_system else None)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        hint = f"put JSON in single quotes: {where} '{{\"amount\": 5}}'" if where.startswith("-") else None
        raise UserError(f"{where} is not JSON: {error.msg} at {place}", code="bad_json", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}", code="bad_json") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; use null")
