"""Joins: when a fork's branches have come together, and what the parent makes of them.

Both are functions of the branches' records and of numbers that only grow, never of the order in which they were told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stepwell.definition.graph import FanIn, Graph, Json
from stepwell.engine.dag import outputs, written
from stepwell.engine.names import Moment
from stepwell.engine.records import Failure, Fork, Record, Status, Tally
from stepwell.engine.routing import Ended
from stepwell.engine.token import Token
from stepwell.engine.writing import joined, with_writes
from stepwell.errors import EngineFault

_MARKS = {"joined": "", "without": "-", "failed": "!"}


def fan_in_of(graph: Graph, fork: Fork) -> FanIn:
    """How the branches of this fork meet; where no node says so: all of them, at the end."""
    node = graph.nodes.get(fork.join)
    return node.fan_in if node is not None and node.fan_in is not None else FanIn()


# -- arrivals


def member_of(index: int, branch: Token) -> str:
    """An ended branch as a member of its page's set: its index, and how it ended."""
    if branch.end is None:
        raise EngineFault(f"{branch.id} has not ended", code="broken_log")
    if branch.end.status is not Status.COMPLETED:
        return f"{index}{_MARKS['failed']}"
    return f"{index}" if branch.end.at_join else f"{index}{_MARKS['without']}"


def indexes_of(members: Iterable[str]) -> set[int]:
    """The branches that have arrived."""
    return {int(member.rstrip("".join(_MARKS.values()))) for member in members}


def tally_of(members: Iterable[str]) -> Tally:
    """How a page's set stands."""
    marks = [member[-1] for member in members]
    return Tally(len(marks), marks.count(_MARKS["failed"]), marks.count(_MARKS["without"]))


_BASE = 1_000  # more than the branches of a page


def packed(tally: Tally) -> int:
    """A page's tally as one number that only grows."""
    return (tally.arrived * _BASE + tally.failed) * _BASE + tally.without_output


def unpacked(reports: Mapping[int, int]) -> Tally:
    """The pages' tallies together."""
    arrived = failed = without = 0
    for value in reports.values():
        rest, one = divmod(value, _BASE)
        without += one
        arrived += rest // _BASE
        failed += rest % _BASE
    return Tally(arrived, failed, without)


def must_tell(fan_in: FanIn, page_width: int, tally: Tally) -> bool:
    """Whether the root of a wide fork must hear of this arrival: the page is full, or a part of it may be enough."""
    return tally.arrived >= page_width or fan_in.policy != "all" or tally.failed > 0


# -- firing


def fires(fan_in: FanIn, width: int, tally: Tally) -> bool:
    """Whether the join has what it needs, or can no longer get it."""
    if tally.arrived >= width or tally.failed > tolerated(fan_in, width):
        return True
    return fan_in.policy != "all" and _counted(fan_in, tally) >= needed(fan_in, width)


def tolerated(fan_in: FanIn, width: int) -> int:
    """How many branches may fail."""
    if fan_in.on_branch_failure == "collect":
        return width
    percent = 0 if fan_in.tolerate_percent is None else int(width * fan_in.tolerate_percent // 100)
    return max(fan_in.tolerate_count or 0, percent)


def needed(fan_in: FanIn, width: int) -> int:
    """How many branches make the join."""
    match fan_in.policy:
        case "any":
            return min(1, width)
        case "m_of_n":
            return fan_in.need if width else 0
        case _:
            return width


def _counted(fan_in: FanIn, tally: Tally) -> int:
    return tally.arrived if fan_in.on_branch_failure == "collect" else tally.arrived - tally.failed


def joined_record(moment: Moment, parent: Token, branches: Sequence[Token]) -> Record:
    """What the parent goes on with. `branches`: those that have ended, in any order."""
    fork = parent.fork
    if fork is None:
        raise EngineFault(f"{parent.id} stands at no fork", code="broken_log")
    fan_in = fan_in_of(moment.graph, fork)
    name = fork.join or parent.node
    ended = sorted((one for one in branches if one.branch and one.end), key=_index)
    failed = [one for one in ended if one.end and one.end.status is not Status.COMPLETED]
    merged, failure, timed_out = _chosen(fan_in, fork.width, ended), None, False
    if len(failed) > tolerated(fan_in, fork.width):
        failure = _failure_of(failed, name) if fork.groups[0].rule else _error_of(failed[0])
        timed_out = failed[0].end is not None and failed[0].end.status is Status.TIMED_OUT
    elif len(merged) < (needed(fan_in, fork.width) if fan_in.policy != "all" else 0):
        message = f"{len(merged)} of {fork.width} branches came to {name}; it needs {needed(fan_in, fork.width)}"
        failure = Failure("join_unmet", "step", message, step=name)
    outcome = Ended(name, 0, failure=failure, timed_out=timed_out)
    if failure is None:
        result: Json = _merged(fan_in, merged, at_join=bool(fork.join))
        writes = {fan_in.target or name: result} if fork.join else {}
        if moment.graph.dag and parent.branch is None:
            result, writes = outputs(merged), written(merged)
        outcome = with_writes(moment, parent, replace(outcome, result=result), None, writes)
    tally = Tally(len(ended), len(failed), sum(_is_without(one) for one in ended), sum(one.calls for one in ended))
    at_ms = max((one.last.at_ms for one in ended if one.last), default=0)
    record = joined(moment, parent, fork, outcome, tally)
    return replace(record, at_ms=max(record.at_ms, at_ms))


def _index(branch: Token) -> int:
    return branch.branch.index if branch.branch else 0


def _is_without(branch: Token) -> bool:
    return branch.end is not None and branch.end.status is Status.COMPLETED and not branch.end.at_join


def _chosen(fan_in: FanIn, width: int, ended: Sequence[Token]) -> list[Token]:
    """The branches whose outputs are merged: all that arrived, or the first so many."""
    collect = fan_in.on_branch_failure == "collect"
    arrived = [one for one in ended if collect or (one.end and one.end.status is Status.COMPLETED)]
    if fan_in.policy == "all":
        return arrived
    first = sorted(arrived, key=lambda one: (one.last.at_ms if one.last else 0, _index(one)))
    return sorted(first[: needed(fan_in, width)], key=_index)


def _error_of(failed: Token) -> Failure:
    error = failed.end.error if failed.end and failed.end.error else None
    if error is None:
        return Failure("branch_failed", "step", "it was ended", step=failed.branch.start if failed.branch else "")
    return error if error.step else replace(error, step=failed.node)


def _failure_of(failed: Sequence[Token], name: str) -> Failure:
    """The failure of the first branch by index, and how many others there are."""
    first, error = failed[0], _error_of(failed[0])
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    data = {"branch": _index(first), "failed": len(failed), "data": error.data}
    message = f"branch {_index(first)}: {error.message}{others}"
    return Failure(error.type, error.category, message, step=error.step or name, attempts=error.attempts, data=data)


def _output(branch: Token) -> Json:
    if branch.end is not None and branch.end.error is not None:
        return {"error": {"type": branch.end.error.type, "message": branch.end.error.message, "branch": _index(branch)}}
    return dict(branch.scope)


def _merged(fan_in: FanIn, branches: Sequence[Token], at_join: bool) -> Json:
    """The outputs of those that have one, as the join's `merge` says."""
    with_output = [one for one in branches if not _is_without(one)] if at_join else list(branches)
    outputs = [(_index(one), _output(one)) for one in with_output]
    match fan_in.merge:
        case "merge_object":
            return {name: value for _, output in outputs for name, value in output.items()}
        case "keyed_by_branch":
            return {str(index): output for index, output in outputs}
        case "last_wins":
            last = max(with_output, key=lambda one: (one.last.at_ms if one.last else 0, _index(one)), default=None)
            return None if last is None else _output(last)
        case _:
            return [output for _, output in outputs]
