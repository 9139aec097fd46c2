"""What steps log and print on this machine: whose code it is that logs, and how its lines look on the screen."""

from __future__ import annotations

import importlib
import io
import logging
import os
import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy
from stepwell.local.ids import short
from stepwell.local.once import tell_held
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.steps.port import StepCall, Steps, Updated, WriteRecord
from stepwell.runtime.steps.secrets import READ, masked_text
from stepwell.runtime.stores.log_lines import branch_of

PRINTED = "stepwell.print"
OF_USERS = frozenset({"stepwell.step", "stepwell.workflow", PRINTED})  # other loggers of that name are the engine's
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_NOT_USERS = (_PACKAGE, str(Path(importlib.__file__).parent) + os.sep, "<frozen importlib")
_printed = logging.getLogger(PRINTED)
# What moves the cursor, names the window or turns text around. Colours, tabs and ends of lines stay.
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(slots=True)
class About:
    """The run and the attempt whose code runs here."""

    run_id: str
    step: str = ""
    attempt: int = 0
    branch: str = ""
    begun: list[str] = field(default_factory=list)  # of a printed line, until it ends
    _before: About | None = None

    def __enter__(self) -> None:
        """No token of the variable is kept: the rest of a long attempt moves to another thread and context."""
        self._before = _ABOUT.get()
        _ABOUT.set(self)

    def __exit__(self, *_: object) -> None:
        _ABOUT.set(self._before)
        if self.begun:
            _say("".join(self.begun), self)


_ABOUT: ContextVar[About | None] = ContextVar("about", default=None)


class LoggedSteps:
    """The Steps port, which knows for each line whose code logs or prints it."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def policy(self, step: Step) -> Policy:
        return self._steps.policy(step)

    async def run(self, call: StepCall) -> Outcome:
        tell_held()
        with _about(call):
            return await self._steps.run(call)

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        with _about(call):
            return await self._steps.run_in_session(call, at, logbook)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        with About(at.run_id):
            return await self._steps.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        with About(at.run_id):
            return await self._steps.answered(at, logbook, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        with About(at.run_id):
            return await self._steps.updated(at, logbook, asked, write)


def _about(call: StepCall) -> About:
    return About(call.run_id, call.node, call.attempt, branch_of(call.token))


def _say(text: str, about: About) -> None:
    ids = {"run_id": about.run_id, "step": about.step, "attempt": about.attempt}
    _printed.info("%s", text, extra=ids)


class Printed(io.TextIOBase):
    """Standard output whose lines are log lines where a run's code prints them, and go through elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        about = _ABOUT.get()
        if about is None:
            return self._stream.write(text)
        *lines, rest = text.split("\n")
        for line in lines:
            _say("".join([*about.begun, line]), about)
            about.begun.clear()
        if rest:
            about.begun.append(rest)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def about_of(record: logging.LogRecord) -> About:
    """What the record says itself, else what runs here. Its run is empty if it is about none."""
    about = _ABOUT.get() or About("")
    given: dict[str, Any] = {name: getattr(record, name, None) or None for name in ("run_id", "step", "attempt")}
    attempt = given["attempt"] if isinstance(given["attempt"], int) else about.attempt
    return About(str(given["run_id"] or about.run_id), str(given["step"] or about.step), attempt, about.branch)


class OwnFrames(logging.Formatter):
    """Shows a traceback from the user's code on, without Stepwell's frames; no secret; of a long text the beginning."""

    def format(self, record: logging.LogRecord) -> str:
        return masked_text(super().format(record), tuple(READ))  # other threads read secrets

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the standard library's name
        kind, error, trace = ei
        return super().formatException((kind, error, users_trace(trace) or trace))


def users_trace(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the user's code on; None if it has nothing of that."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_NOT_USERS):
        trace = trace.tb_next
    return trace


class Lines(OwnFrames):
    """Short lines for a person: `14:02:11 I 4t385k charge: booked`. Data in them cannot control the terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        about, is_users = about_of(record), record.name in OF_USERS or not record.name.startswith("stepwell.")
        if about.run_id and is_users:
            whose = " ".join(filter(None, (short(about.run_id), about.step, about.branch)))
            record.message = f"{whose}: {record.message}"
        elif isinstance(record.args, tuple) and record.args and not is_users:
            record.message = _with_short_id(record.message, str(record.args[0]))
        return super().formatMessage(record)


def _with_short_id(message: str, first: str) -> str:
    """Returns the engine's line about a run with the end of its id. `first`: what the line begins with."""
    is_of_run = first.startswith("run_") and message.startswith(first)
    return short(first) + message.removeprefix(first) if is_of_run else message
