"""The numbers of stored data: the format that this code writes, and the fold of its snapshots.

Old and new workers run side by side during a deploy, and a deploy may be rolled back. So a reader reads its own format
and the one before. It leaves data of a newer format unchanged, for a newer reader.
"""

from __future__ import annotations

from stepwell.errors import EngineFault, NewerFormat

FORMAT = 2  # of records, snapshots, messages and events; data without a number is format 1
GATHERED = 3  # of forks with lanes, of what is in them, and of records that one append wrote together
REFERRING = 4  # of a record whose output another one has, and of a snapshot with it
FREEING = 5  # of a record with which a run gives back its permit, or asks for it again, and of a snapshot with it
FINISHING = 6  # of a redriven run that takes results of the run that failed, and of a snapshot with them
DONE = 7  # of a step that is undone though its output could not be written, and of a snapshot with it
ANSWERED = 8  # of a step that waits for its callback, whose body is its result, and of a snapshot with it
LEAVING = 9  # of a token that leaves the line of a limit for a pause
NEWEST = LEAVING  # of records and snapshots that this code reads
FOLD = 8  # of the fold: a snapshot of another one is ignored, and the log is folded anew
EVALUATOR = 1  # of expressions: what a fork or a rollback evaluates again, it evaluates as its record says
KEY = "v"  # of the number in stored JSON
OLDEST = 1  # the number of data that carries none
MARK = '{"v":1000000000}'  # what stores keep of a mark in a log: code that knows none leaves it to a newer version

BROKEN = (AttributeError, LookupError, RecursionError, TypeError, ValueError)  # errors that reading broken data raises


def check_format(number: object, what: str, newest: int | None = None) -> None:
    """Raises NewerFormat for data of newer code, EngineFault for data that is too old or has no valid number.

    `newest`: the greatest number that is read; else that of the format which this code writes.
    """
    newest = FORMAT if newest is None else max(newest, FORMAT)
    if not isinstance(number, int):
        raise EngineFault(f"{what}: format {number!r:.40}, which is no number", code=f"broken_{what}")
    if number > newest:
        raise NewerFormat(f"{what}: format {number}; this version reads up to {newest}",
                          hint="a newer version of Stepwell wrote it: deploy that version again")  # fmt: skip
    if number < FORMAT - 1:
        raise EngineFault(f"{what}: format {number}; this version reads {FORMAT - 1} and {FORMAT}",
                          code="format_too_old", hint="deploy a version in between first")  # fmt: skip


def check_evaluator(number: int) -> None:
    """Raises NewerFormat if the record needs an evaluator that only newer code has."""
    if number > EVALUATOR:
        raise NewerFormat(f"a record asks for evaluator {number}; this version has {EVALUATOR}",
                          hint="a newer version of Stepwell wrote it: deploy that version again")  # fmt: skip


def unreadable(what: str, error: Exception) -> EngineFault:
    """Returns the error for unreadable data, without its content, which may be secret."""
    return EngineFault(f"{what}: it cannot be read ({type(error).__name__})", code=f"broken_{what}")
