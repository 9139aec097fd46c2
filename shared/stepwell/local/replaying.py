"""Replays a durable function over a stored history, without side effects.

The records are in a separate store in memory. The replay asks the function for its next operation wherever one of its
lives ended in the log, and at the end of the log. It runs only the code between operations, no step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import Json
from stepwell.engine.durable.journal import INPUTS, Journal
from stepwell.engine.durable.operations import OF_ENGINE
from stepwell.engine.durable.turns import Completed, ContinueAs, Failed, Stuck, Suspended, Together, Turn
from stepwell.engine.forks.branches import parent_of
from stepwell.engine.records import ROOT, End, Goto, Kind, Record, Status
from stepwell.engine.stored.codec import decode_record
from stepwell.errors import NotFound, UserError
from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.project import project_of
from stepwell.runtime.calls.exporting import FORMAT
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.steps.registry import Registry
from stepwell.values import dataclass

ENDING = ".jsonl"
_FACTS = frozenset({"run_id", "workflow", "version", "status", "input", "created_ms"})
_URL = "https://callback.invalid/"  # the base of callback URLs, which the function may read


@dataclass(frozen=True, slots=True)
class Export:
    """A run exported by `stepwell export`."""

    run: Mapping[str, Any]
    definition: Json
    logs: Mapping[str, list[str]]  # the bodies of each token's records, in order

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the code asks for another operation than the log has."""

    token: str
    slot: int | None  # None: the code cannot run, so it reached no record
    expected: str  # "": the code cannot begin with the run's input, or cannot run
    came: str
    at: str | None = None  # file:line of the code that asks; None: it asks for nothing more, or that is not known

    def __str__(self) -> str:
        place = "" if self.slot is None else f"record {self.slot}{'' if self.token == ROOT else f' of {self.token}'}: "
        came = f"{self.came} at {self.at}" if self.at else self.came
        return f"{place}expected {self.expected}, came {came}" if self.expected else f"{place}{came}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. `stands` is the function's state at the end of the log."""

    run_id: str
    workflow: str
    operations: int
    stands: str
    difference: Difference | None = None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"{self.run_id} ({self.workflow}) differs: {self.difference}"
        operations = "1 operation" if self.operations == 1 else f"{self.operations} operations"
        return f"{self.run_id} ({self.workflow}) replays: {operations}, {self.stands}"


def read_exports(path: Path) -> list[Export]:
    """Reads the exports of a file, or of all `*.jsonl` of a folder. Raises NotFound, UserError."""
    files = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise NotFound(f"there is no export at {path}", code="no_such_export",
                       hint="stepwell export RUN > run.jsonl; a folder's are its *.jsonl")  # fmt: skip
    return [exported(_lines_of(file), str(file)) for file in files]


def _lines_of(file: Path) -> list[str]:
    """Returns the lines of an export. Raises UserError if it is no text.

    Only a line feed ends one: a text in it may have other separators, where another program has written the file.
    """
    try:
        return file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not an export of a run: {error}", code="bad_export",
                        hint="create one: stepwell export RUN") from error  # fmt: skip


def exported(lines: Iterable[str | Mapping[str, Any]], name: str) -> Export:
    """Parses an export from its lines, as text or JSON. Raises UserError for other content."""
    try:
        first, *others = [json.loads(line) if isinstance(line, str) else line for line in lines if line]
        if first.get("format") != FORMAT:
            raise ValueError(f"its format is {first.get('format')!r}, not {FORMAT!r}")
        logs: dict[str, list[str]] = {ROOT: []}
        for line in others:
            logs.setdefault(line["token"], []).append(json.dumps(line["record"]))
        return Export(_run_of(first["run"]), first["definition"], logs)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{name} is not an export of a run: {error}", code="bad_export",
                        hint="create one: stepwell export RUN") from error  # fmt: skip


def _run_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the facts of a run if they are whole. Raises ValueError, TypeError, AttributeError."""
    if lacking := _FACTS - given.keys():
        raise ValueError(f"its run lacks {', '.join(sorted(lacking))}")
    Status(given["status"])
    return given


def is_function(export: Export) -> bool:
    """Returns whether the run is a durable function's; runs of graphs keep their definition."""
    return isinstance(export.definition, dict) and "function" in export.definition


def replay(export: Export, folder: Path, *, is_whole: bool = True) -> Replayed:
    """Replays a run against the folder's code. Raises UserError if it is not a durable function's run.

    `is_whole`: also what it did before it began anew, which a run that goes on never reads again.
    """
    if not is_function(export):
        message = f"{export.run_id} is a run of a graph; a replay needs a durable function"
        hint = "it keeps the definition that it began with"
        raise UserError(message, code="not_a_function", hint=hint)
    one = _Replay(export, folder, is_whole)
    try:
        return one.replayed()
    finally:
        one.close()


class _Replay:
    def __init__(self, export: Export, folder: Path, is_whole: bool) -> None:
        self._export, self._is_whole, store = export, is_whole, MemoryStore()
        run = {name: value for name, value in export.run.items() if name != "status"}
        self._header = Header(**run, status=Status(export.run["status"]))
        clock = VirtualClock(self._header.created_ms)
        queue = MemoryQueue(clock)
        catalog = Catalog(partial(compile_document, trusted=True))
        self._log = store
        ports = Ports(store, store, store, store, store, store, queue, queue, MemoryBlobs(), clock)
        self._logbook = Logbook(ports, catalog)
        self._sessions = Sessions(
            self._logbook, Registry(folder, project_of(folder).paths), lambda own, until_ms: f"{_URL}{own}"
        )
        self._operations = 0
        self._branches: dict[int, list[str]] = {}  # that are not replayed yet, by the slot of the root's fork
        run_now(store.create_run(self._header))
        run_now(store.put_definition(self._header.version, json.dumps(export.definition)))

    def close(self) -> None:
        """Releases the function."""
        self._sessions.close()

    def replayed(self) -> Replayed:
        """Replays token by token, parents first, because a parent's code defines its branches."""
        branches = sorted(self._export.logs.keys() - {ROOT}, key=lambda token: (token.count("/"), token))
        for token in branches:
            self._branches.setdefault(_slot_in_root(token), []).append(token)
        stands, difference = self._token(ROOT)
        if difference is None:
            difference = self._branches_until(None)
        return self._told(stands, difference)

    def _branches_until(self, slot: int | None) -> Difference | None:
        """Replays the branches of a life of the root that ends in this slot, which are not those of the next life."""
        ended = sorted(one for one in self._branches if slot is None or one < slot)
        for token in [token for one in ended for token in self._branches.pop(one)]:
            if (difference := self._token(token)[1]) is not None:
                return difference
        return None

    def _begins_anew(self, record: Record) -> Difference | None:
        """Compares what the function did up to this record, with which it began anew."""
        if not self._is_whole:
            self._branches = {slot: tokens for slot, tokens in self._branches.items() if slot > record.slot}
            return None
        return _differs(ROOT, self._asked(ROOT), record) or self._branches_until(record.slot)

    def _told(self, stands: str, difference: Difference | None) -> Replayed:
        return Replayed(self._header.run_id, self._header.workflow, self._operations, stands, difference)

    def _token(self, token: str) -> tuple[str, Difference | None]:
        journal, stands, is_over = Journal(), "", False
        record: Record | None = None
        for body in self._export.logs[token]:
            record = decode_record(body)
            entry = journal.take(record)
            self._operations += entry is not None and entry.ended_ms is not None and entry.kind not in INPUTS
            if record.kind is Kind.RETURNED and isinstance(record.next, Goto) and token == ROOT:
                if (difference := self._begins_anew(record)) is not None:
                    return stands, difference
                stands = "then begin anew, as it did"
            elif record.kind is Kind.RETURNED:
                turn = self._asked(token)
                if (difference := _differs(token, turn, record)) is not None:
                    return stands, difference
                stands = f"then {_would(turn)}, as it did"
                is_over = isinstance(record.next, End)
            run_now(self._log.append(self._header.run_id, token, record.slot, body))
        if is_over:
            return stands, None
        turn = self._asked(token)
        if journal.open is not None and parent_of(token) is not None and record and isinstance(record.next, End):
            self._operations += 1  # a branch of a single operation ends with it
        if record is not None and record.kind is Kind.ENDED and isinstance(record.next, End):
            return f"{record.next.status} where it would {_would(turn)}", _differs(token, turn, None)
        return f"would now {_would(turn)}", _differs(token, turn, None)

    def _asked(self, token: str) -> Turn:
        at = run_now(self._logbook.load(self._header.run_id, token))
        if at is None:
            raise UserError(f"the export has records of {token}, but no fork that created it", code="bad_export")
        turn = run_now(self._sessions.asked(at)).turn
        if turn is None:
            raise UserError(f"{self._header.workflow} was not asked", code="bad_export")
        return turn


def _slot_in_root(token: str) -> int:
    """Returns the slot of the root's fork that a branch belongs to, at whatever depth."""
    return int(token.split("/")[1].partition(".")[0])


def _differs(token: str, turn: Turn, end: Record | None) -> Difference | None:
    """Compares the function's next operation with the log, or with its end there."""
    if isinstance(turn.result, Stuck):
        failure = turn.result.failure
        data = failure.data if isinstance(failure.data, dict) else {}
        if data.get("came") == "step_input":  # the run has begun with this input
            why = failure.message.removeprefix(f"record {data['slot']} holds {data['expected']}, and ")
            return Difference(token, data["slot"], "", why)
        if "slot" in data:
            return Difference(token, data["slot"], data["expected"], data["came"] or "its end", data.get("at"))
        return Difference(token, None, "", f"{failure.type}: {failure.message}")
    came = _would(turn)
    if end is None or _did(end) in (None, came):
        return None
    return Difference(token, end.slot, str(_did(end)), came)


def _would(turn: Turn) -> str:
    match turn.result:
        case Suspended(asked):
            return f"await {asked}"
        case Together(begun):
            return f"await {', '.join(str(one) for one in begun) or 'its tasks'}"
        case Completed():
            return "return"
        case ContinueAs():
            return "begin anew"
        case Failed(failure):
            return f"raise {failure.type}"
        case _:
            return "not go on"


def _did(end: Record) -> str | None:
    """Returns how the function ended; None if something else ended it, such as a limit, a cancel or a schema."""
    if isinstance(end.next, Goto):
        return "begin anew"
    if isinstance(end.next, End) and end.next.status is not Status.COMPLETED and end.error is None:
        return None
    if end.error is not None and end.error.type in OF_ENGINE:
        return None
    return f"raise {end.error.type}" if end.error is not None else "return"
