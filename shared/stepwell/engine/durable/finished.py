"""Finished operations: what other tasks of a function had completed when their run failed, and a redriven run keeps.

    failed run   tasks 1, 2 begin a, b ── a failed ── b ended ── 2 begins c ── c ended ── the function failed
    new run      tasks 1, 2 begin a, b ── REDRIVEN: 2 has finished c ── b ended ── 2 begins c, with c's result

The log before the failure is kept. After it, each task that the failure did not reach takes its own results, in order,
as long as it asks for what it asked for then. A task is named by who made it and as which of its tasks, so it has the
same path in both runs: `2.1` is the first task of the function's second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stepwell.engine.durable.turns import Asked
from stepwell.engine.records import CleanUp, Compensate, End, Finished, Fork, Kind, Record
from stepwell.engine.token import Token

UNKNOWN = "?"  # a task that has no name: nothing of it is finished for another run
KINDS = frozenset({"step", "run", "transact"})  # of the operations that can be taken; waits and children begin anew
_LONGEST = 60  # characters of a name: a task that is made by the twentieth in a row has none


def task_name(maker: str, number: int, slot: int) -> str:
    """Returns the name of a task, with the slots of the records in reaction to which it and its makers were made.

    `2@0.1@7`: the first task of the second one of the function.
    """
    made = f"{maker}.{number}@{slot}" if maker else f"{number}@{slot}"
    return UNKNOWN if maker == UNKNOWN or len(made) > _LONGEST else made


def path_of(task: str) -> str:
    """Returns a task's name without the slots."""
    return ".".join(level.partition("@")[0] for level in task.split("."))


def made_at(task: str) -> Iterator[tuple[str, int]]:
    """Yields the makers of the task, from the function itself on, each with the slot in which it made the next one."""
    maker = ""
    for level in task.split(".") if task not in ("", UNKNOWN) else ():
        number, _, slot = level.partition("@")
        yield maker, int(slot)
        maker = f"{maker}.{number}" if maker else number


def makers_of(path: str) -> Iterator[str]:
    """Yields the paths of the task itself, of the one that made it, and so on, up to the function itself."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def by_task(finished: Sequence[Finished]) -> dict[str, tuple[Finished, ...]]:
    """Returns them by their tasks, in order."""
    found: dict[str, tuple[Finished, ...]] = {}
    for one in finished:
        found[one.task] = (*found.get(one.task, ()), one)
    return found


def taken_by(token: Token, task: str, asked: Asked) -> str:
    """Returns where the result of this operation is, if its task has finished it in the run that failed; else ""."""
    first = next(iter(token.finished.get(path_of(task), ())), None) if task else None
    is_it = first is not None and (first.what, first.arguments) == (str(asked), asked.arguments)
    return first.place if first is not None and is_it else ""


def after(token: Token, record: Record) -> Mapping[str, tuple[Finished, ...]]:
    """Returns what is left: a task that asks for something else takes nothing more."""
    if record.kind is Kind.REDRIVEN:
        return by_task(record.finished)
    if record.kind is Kind.RETURNED or isinstance(record.next, End | CleanUp | Compensate):
        return {}
    left = dict(token.finished)
    for task, is_taken in _asked(record):
        if task in left:
            left[task] = left[task][1:] if is_taken else ()
    return {task: found for task, found in left.items() if found} if left != token.finished else token.finished


def _asked(record: Record) -> Iterator[tuple[str, bool]]:
    """Yields the tasks that begin a step with this record, and whether they take its result."""
    if record.kind in {Kind.STEP, Kind.BEGAN} and record.task:
        yield path_of(record.task), bool(record.taken)
    taken = {index for index, _ in record.next.taken} if isinstance(record.next, Fork) else set()
    for index, (what, task) in enumerate(begun_by(record)):
        if what.partition(" ")[0] in KINDS:
            yield path_of(task), index in taken


def begun_by(record: Record) -> Iterator[tuple[str, str]]:
    """Yields the operations that tasks begin with this record, and their tasks."""
    parked = record.parked
    if parked is None or not parked.of_tasks:
        return
    begun: list[str] = parked.data["begun"]
    tasks: list[str] = parked.data.get("by") or [""] * len(begun)
    yield from zip(begun, tasks, strict=True)
