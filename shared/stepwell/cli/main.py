"""The entry point of the command line: the commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from stepwell.cli import dead, deliveries, limiting, opening, scheduling, versions, webhook
from stepwell.cli.borrowed import BORROWED
from stepwell.cli.deploying import alarming, deploy, doctor, gate
from stepwell.cli.examples import epilog
from stepwell.cli.exits import FAILED, INTERRUPTED, WRONG_USAGE, status_of
from stepwell.cli.folder import checking, develop, importing, simulating, verifying
from stepwell.cli.runs import (
    acts,
    batching,
    comparing,
    estimating,
    failing,
    logs,
    pausing,
    purging,
    recovering,
    redriving,
    replays,
    showing,
)
from stepwell.cli.screen import print_error
from stepwell.errors import StepwellError, UserError
from stepwell.extras import BOTO3, OF_AWS
from stepwell.os_errors import explained, misplaced
from stepwell.settings import fix_hash_seed

# The base of what typer raises for wrong arguments; its module differs between versions of typer.
USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]
REPLAYING = frozenset({"deploy", "dev", "gate", "replay", "simulate", "verify"})  # commands that run durable functions


class Commands(TyperGroup):
    """All commands; prints a StepwellError as a message instead of a traceback."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = Named()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses what comes before the command's name."""
        given = [*args]
        if wrong := next((one for one in given if not _is_text(one)), ""):
            hint = "write it in the encoding of the terminal, which is UTF-8 almost everywhere"
            raise _told(UserError(f"{wrong!r} is not text", code="bad_usage", hint=hint), given)
        try:
            return super().parse_args(ctx, _url_behind(args))
        except USAGE_ERROR as error:
            raise _refused(error, given) from error

    def invoke(self, ctx: Any) -> Any:
        """Runs the selected command."""
        return copy_context().run(self._invoke, ctx)  # what the command remembers ends with it

    def _invoke(self, ctx: Any) -> Any:
        given = [*ctx.args]  # the command takes them away
        try:
            return super().invoke(ctx)
        except StepwellError as error:
            raise _told(error, given) from error
        except USAGE_ERROR as error:
            raise _refused(error, given, _named(ctx.invoked_subcommand or "", given)) from error
        except ModuleNotFoundError as error:
            if error.name not in OF_AWS:
                raise
            wanted = UserError(f"this needs {error.name}, which is not installed", code="not_installed", hint=BOTO3)
            raise _told(wanted, given) from error
        except OSError as error:
            found = explained(error) or misplaced(error)
            if found is None:
                raise
            raise _told(found, given) from error
        except KeyboardInterrupt:  # for example at the end of a watch: nothing failed
            raise typer.Exit(INTERRUPTED) from None


def _url_behind(args: list[str]) -> list[str]:
    """Moves a `--url` from before the command's name to behind it, where the command takes it."""
    length = 2 if args[:1] == ["--url"] else 1 if "".join(args[:1]).startswith("--url=") else 0
    return [*args[length : length + 1], *args[:length], *args[length + 1 :]] if length < len(args) else args


def _is_text(argument: str) -> bool:
    """Returns whether an argument's bytes were text: Python puts half a character for each byte that was not."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _told(error: StepwellError, given: Sequence[str]) -> typer.Exit:
    """Prints an error, and returns the exit with its status. `given`: the command's arguments."""
    print_error(error, as_json="--json" in given, commands=_of_an_api())
    return typer.Exit(status_of(error))


def _of_an_api() -> Iterator[str]:
    """Yields the names of the commands that take a `--url`."""
    named = {command.__name__: command for command in COMMANDS}
    named |= {f"{group} {name}": command for group, made in GROUPS.items() for name, command in made.items()}
    yield from (name for name, command in named.items() if "url" in signature(command).parameters)


def _named(name: str, given: Sequence[str]) -> str:
    """Returns the words that call a command of this name. `given`: what follows it."""
    one = next((word for word in given[:1] if word in GROUPS.get(name, ())), "")
    return " ".join(word for word in ("stepwell", name, one) if word)


def _refused(error: Any, given: Sequence[str], command: str = "stepwell") -> Exception:
    """Prints a usage error like all errors, and returns the exit; returns the error itself if it shows a help.

    `command`: the one that was called, for an error that does not know it.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        return cast("Exception", error)
    message = " ".join(error.format_message().split())  # choices come in lines of their own
    message = message.replace("Value error, ", "")  # pydantic's words in new versions of typer
    called = error.ctx.command_path if error.ctx else command
    hint = f"{called} --help shows the arguments and options"
    is_no_command = called == "stepwell" and message.startswith("No such command '")  # a group has its own
    if is_no_command and (meant := BORROWED.get(message.split("'")[1])):
        message, hint = message.partition(". ")[0], f"write stepwell {meant}"
    return _told(UserError(message.rstrip("."), code="bad_usage", hint=hint), given)


app = typer.Typer(
    name="stepwell", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)
COMMANDS: tuple[Callable[..., None], ...] = (  # in the order of the help
    *(develop.init, develop.dev, checking.check, develop.graph, develop.schema, deploy.deploy, doctor.doctor),
    opening.console,
    *(
        showing.run,
        showing.runs,
        showing.show,
        showing.history,
        showing.watch,
        showing.explain,
        showing.query,
        showing.stats,
    ),
    *(scheduling.schedules, limiting.limits, logs.logs),
    *(failing.failures, versions.versions, versions.alias),
    *(verifying.verify, simulating.simulate, estimating.estimate),
    *(comparing.diff, replays.export, replays.replay, gate.gate),
    *(acts.start, acts.event, acts.update, acts.approve, acts.reject, acts.delegate, acts.cancel, acts.terminate),
    *(pausing.pause, pausing.unpause, redriving.redrive, redriving.rerun, redriving.fork, batching.batch),
    *(purging.delete, purging.purge),
    *(recovering.recover, alarming.alarms),
)
GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "import": {"asl": importing.asl},
    "schedule": {"pause": scheduling.pause, "unpause": scheduling.unpause, "fire": scheduling.fire},
    "webhook": {"test": webhook.send_signed, "deliveries": deliveries.deliveries, "replay": deliveries.replay},
    "dlq": {
        "list": dead.list_letters,
        "show": dead.show_letter,
        "redrive": dead.redrive_letters,
        "delete": dead.delete_letters,
    },
}
_HELP = {
    "import": "Take a workflow of another system into the workflow folder.",
    "schedule": "Pause a schedule, end its pause, or start its run now.",
    "webhook": "Test a source of webhooks.yaml, and replay its deliveries.",
    "dlq": "List, send back or delete messages that nobody could take.",
}


def _alone(command: Callable[..., None]) -> typer.Typer:
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    made.command(epilog=epilog(command.__name__), cls=gate.Gate if command is gate.gate else None)(command)
    return made


def _together(group: str) -> typer.Typer:
    made = typer.Typer(
        name=group, help=_HELP[group], add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )  # fmt: skip
    made.callback()(_nothing)  # else a group of one command would be that command
    for name, command in GROUPS[group].items():
        made.command(name, epilog=epilog(f"{group} {name}"))(command)
    return made


def _nothing() -> None:
    """A group by itself does nothing."""


class Named(Mapping[str, Any]):
    """Commands by name, each built when it is asked for: Typer takes milliseconds for one, and there are fifty."""

    def __init__(self) -> None:
        alone = {command.__name__: partial(_alone, command) for command in COMMANDS}
        self._makers = alone | {group: partial(_together, group) for group in GROUPS}
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = typer.main.get_command(self._makers[name]())
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def print_version(wanted: bool) -> None:
    """Prints the version for `--version`, and exits."""
    if wanted:
        try:
            typer.echo(version("stepwell"))
        except PackageNotFoundError:
            typer.echo("not installed")
        raise typer.Exit


@app.callback()
def stepwell(
    show_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Durable workflows on AWS, in Python."""


def main() -> None:
    """Runs the command line; the entry point `stepwell`."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        _forgive(stream)
    _leave_out("httpx._main")  # httpx's own command, with click, rich and pygments: more than httpx itself
    if REPLAYING & {*sys.argv[1:2]}:
        fix_hash_seed()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # else Python does it as its last act, and a full disk ends in a traceback
    except OSError as error:
        found = explained(error)
        if found is None and not isinstance(error, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
        if found is not None:  # who closes a pipe wants no more
            print_error(found)
        sys.exit(WRONG_USAGE if found else FAILED)


def _open_closed_streams() -> None:
    """Gives a process without standard streams empty ones: cron may close them (`<&-`), pythonw has none."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process


def _leave_out(module: str) -> None:
    """Makes the import of a module fail, for a package that does without it."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault(module, None)


def _forgive(stream: TextIO) -> None:
    """Makes a stream show ? for characters that it cannot encode."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
