"""Joins: when a fork's branches complete their join, and the result that the parent gets.

Both depend on the branches' records and on numbers that only grow, never on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stepwell.definition.graph import GIVEN, FanIn, Graph, Json
from stepwell.engine.forks.branches import share_of, with_needs
from stepwell.engine.forks.needs import outputs, written
from stepwell.engine.names import Moment
from stepwell.engine.records import Failure, Fork, Record, Status, Tally
from stepwell.engine.routing import Ended
from stepwell.engine.stored.codec import told_failure
from stepwell.engine.token import Token
from stepwell.engine.writing import joined, with_writes
from stepwell.errors import EngineFault
from stepwell.values import dataclass

FAILED = "stepwell.failure"  # the only key of what stands for a failure among the results that a function gets


def fan_in_of(graph: Graph, fork: Fork) -> FanIn:
    """Returns the join of this fork; without a node, it needs all branches."""
    if fork.is_awaited and fork.groups[0].tolerated:
        return FanIn(tolerate_count=fork.groups[0].tolerated)
    node = graph.nodes.get(fork.join)
    fan_in = node.fan_in if node is not None and node.fan_in is not None else FanIn()
    tolerated = sum(group.tolerated for group in fork.groups)
    return replace(fan_in, tolerate_count=tolerated, tolerate_percent=None) if tolerated else fan_in


# -- arrivals


_BASE = 1_000  # more than the branches of a page


def packed(tally: Tally) -> int:
    """Packs a page's tally into one number that only grows, with few digits if all branches succeeded."""
    return (tally.without_output * _BASE + tally.failed) * _BASE + tally.arrived


def unpacked(reports: Mapping[int, int]) -> Tally:
    """Adds up the pages' tallies. Numbers below 0 are the places of marks."""
    arrived = failed = without = 0
    for value in (value for place, value in reports.items() if place >= 0):
        rest, one = divmod(value, _BASE)
        arrived += one
        without += rest // _BASE
        failed += rest % _BASE
    return Tally(arrived, failed, without)


def must_tell(fan_in: FanIn, fork: Fork, page: int, tally: Tally, *, is_failed: bool) -> bool:
    """Tells whether the root of a wide fork needs this arrival, which gave its page this tally.

    It does if the page is full, or if the join could be complete by this arrival were all other pages full. As long as
    it could not, no sum over the pages can, so the last arrival that counts is told in each page.
    """
    page_width = len(fork.page_indexes(page))
    others = fork.width - page_width
    if tally.arrived >= page_width:
        return True
    if is_failed and tally.failed + others > tolerated(fan_in, fork.width):
        return True
    counts = fan_in.policy != "all" and (not is_failed or fan_in.on_branch_failure == "collect")
    return counts and _counted(fan_in, tally) + others >= needed(fan_in, fork.width)


# -- firing


def fires(fan_in: FanIn, width: int, tally: Tally) -> bool:
    """Tells whether the join has what it needs, or can no longer get it."""
    if tally.arrived >= width or tally.failed > tolerated(fan_in, width):
        return True
    return fan_in.policy != "all" and _counted(fan_in, tally) >= needed(fan_in, width)


def tolerated(fan_in: FanIn, width: int) -> int:
    """Returns how many branches may fail. A join that needs only some waits while enough others may succeed."""
    if fan_in.on_branch_failure == "collect":
        return width
    is_bounded = fan_in.tolerate_count is not None or fan_in.tolerate_percent is not None
    if fan_in.first_failure == "wait" and not is_bounded:
        return max(width - needed(fan_in, width), 0)
    return max(fan_in.tolerate_count or 0, share_of(width, fan_in.tolerate_percent or 0))


def needed(fan_in: FanIn, width: int) -> int:
    """Returns how many branches the join needs."""
    match fan_in.policy:
        case "any":
            return min(1, width)
        case "m_of_n":
            return fan_in.need if width else 0
        case _:
            return width


def _counted(fan_in: FanIn, tally: Tally) -> int:
    return tally.arrived if fan_in.on_branch_failure == "collect" else tally.arrived - tally.failed


@dataclass(frozen=True, slots=True)
class Arrival:
    """The data that a join keeps of an ended branch; there may be ten thousand branches."""

    index: int
    at_ms: int
    calls: int
    output: Json
    error: Failure | None  # None: it completed
    timed_out: bool
    without_output: bool  # it completed, and not at the join
    member: Token | None  # the whole of it, where it is one of a node's members
    slot: int = -1  # of the branch's last record, if that holds the output as it is; else -1
    given: Json = None  # the branch's input, if it kept that


def arrival_of(fork: Fork, branch: Token) -> Arrival:
    """Raises EngineFault for a branch that has not ended."""
    if branch.branch is None or branch.end is None or branch.last is None:
        raise EngineFault(f"{branch.id} is no branch that has ended", code="broken_log")
    index, end, last = branch.branch.index, branch.end, branch.last
    is_failed = end.status is not Status.COMPLETED
    output = _of_failed(fork, end.error, index) if end.error else _output_of(fork, branch)
    return Arrival(
        index=index,
        at_ms=last.at_ms,
        calls=branch.calls,
        output=output,
        error=_error_of(branch.branch.start, branch) if is_failed else None,
        timed_out=end.status is Status.TIMED_OUT,
        without_output=not is_failed and not end.at_join,
        member=branch if fork.needs else None,
        slot=last.slot if last.output == output else -1,
        given=branch.scope.get(GIVEN),
    )


def _output_of(fork: Fork, branch: Token) -> Json:
    """Returns the branch's writes, or its result if that is what its join gets."""
    return branch.result if fork.is_awaited or fork.by_result else dict(branch.scope)


def _of_failed(fork: Fork, error: Failure, index: int) -> Json:
    if fork.is_awaited:
        raised = {} if error.raised is None else {"raised": error.raised}
        return {FAILED: {**(told_failure(error) or {}), **raised}}
    return _error_output(error, index)


def failures_in(result: Json) -> tuple[Failure, ...]:
    """Returns the failures among the results that a function gets of a fork which tolerates them, or of forks in it."""
    found: list[Failure] = []
    for one in result if isinstance(result, list) else []:
        if isinstance(one, dict) and FAILED in one:
            told = one[FAILED]
            found.append(Failure(told["type"], told["category"], told["message"]))
        else:
            found += failures_in(one)
    return tuple(found)


def _error_of(start: str, failed: Token) -> Failure:
    error = failed.end.error if failed.end else None
    if error is None:
        return Failure("branch_failed", "step", "it was ended", step=start)
    return error if error.step else replace(error, step=failed.node)


def _error_output(error: Failure, index: int) -> Json:
    return {"error": {"type": error.type, "message": error.message, "branch": index}}


def joined_record(moment: Moment, parent: Token, branches: Iterable[Arrival]) -> Record:
    """Returns the parent's next record. `branches` are the ended ones, in any order."""
    if parent.fork is None:
        raise EngineFault(f"{parent.id} stands at no fork", code="broken_log")
    fork = with_needs(moment.graph, parent.fork)
    fan_in = fan_in_of(moment.graph, fork)
    name = fork.join or parent.node
    ended = sorted(branches, key=lambda one: one.index)
    failed = [one for one in ended if one.error]
    merged, failure, timed_out = _chosen(fan_in, fork, ended), None, False
    if len(failed) > tolerated(fan_in, fork.width):
        seen = moment.graph.seen_as(name)
        failure, timed_out = _told(fan_in, fork, failed, seen), failed[0].timed_out and fan_in.tells != "unmet"
    elif len(merged) < (needed(fan_in, fork.width) if fan_in.policy != "all" else 0):
        message = f"{len(merged)} of {fork.width} branches came to {name}; it needs {needed(fan_in, fork.width)}"
        failure = Failure("join_unmet", "step", message, step=name)
    is_kept = failure is not None and fan_in.merge == "outcomes"  # the node fails once it has written them
    outcome = Ended(name, 0, failure=None if is_kept else failure, timed_out=timed_out)
    if outcome.failure is None:
        result: Json = _merged(fan_in, merged, at_join=bool(fork.join))
        result = {"outcomes": result, "failure": told_failure(failure)} if is_kept else result
        writes = {fan_in.target or name: result} if fork.join and not fork.is_awaited else {}
        if fork.needs:
            members = [one.member for one in merged if one.member]
            result, writes = outputs(members), written(members)
        outcome = with_writes(moment, parent, replace(outcome, result=result), None, writes)
    without = sum(one.without_output for one in ended)
    calls = sum(one.calls for one in ended if one.index not in fork.kept)
    tally = Tally(len(ended), len(failed), without, calls)
    record = joined(moment, parent, fork, outcome, tally)
    return replace(record, at_ms=max([record.at_ms, *(one.at_ms for one in ended)]))


def _by_time(arrival: Arrival) -> tuple[int, int]:
    return arrival.at_ms, arrival.index


def _chosen(fan_in: FanIn, fork: Fork, ended: Sequence[Arrival]) -> list[Arrival]:
    """Returns the branches to merge: all that arrived, or the first ones."""
    is_collected = fan_in.on_branch_failure == "collect" or (fork.is_awaited and fan_in.tolerate_count is not None)
    is_collected = is_collected or fan_in.merge == "outcomes"
    arrived = [one for one in ended if one.error is None or is_collected]
    if fan_in.policy == "all":
        return arrived
    first = sorted(arrived, key=_by_time)
    return sorted(first[: needed(fan_in, fork.width)], key=lambda one: one.index)


def _failure_of(first: Arrival, error: Failure, count: int, width: int, may: int, name: str) -> Failure:
    """Returns the failure of the first failed branch by index, the number of failures, and how many may fail."""
    others = f"; {count} of {width} branches failed" if count > 1 else ""
    others += f", and {may} may" if others and may else ""
    data = {"branch": first.index, "failed": count, "data": error.data}
    message = f"branch {first.index}: {error.message}{others}"
    return Failure(error.type, error.category, message, step=error.step or name, attempts=error.attempts, data=data)


def _told(fan_in: FanIn, fork: Fork, failed: Sequence[Arrival], name: str) -> Failure | None:
    """Returns the failure of a join that more branches have failed than it tolerates."""
    error = failed[0].error
    if fan_in.tells == "unmet":
        message = f"{len(failed)} of {fork.width} branches failed; {tolerated(fan_in, fork.width)} may"
        return Failure("join_unmet", "step", message, step=name)
    if error is None or not fork.groups[0].rule:
        return error
    if fan_in.tells == "error":
        return replace(error, step=error.step or name, retry_after_ms=0, traceback="", raised=None)
    return _failure_of(failed[0], error, len(failed), fork.width, tolerated(fan_in, fork.width), name)


def _outcome(one: Arrival) -> Json:
    came = {"output": one.output} if one.error is None else {"error": told_failure(one.error)}
    return {"index": one.index, "given": one.given, **came}


def _merged(fan_in: FanIn, branches: Sequence[Arrival], at_join: bool) -> Json:
    """Merges the outputs as the join's `merge` says."""
    with_output = [one for one in branches if not (at_join and one.without_output)]
    match fan_in.merge:
        case "merge_object":
            return {name: value for one in with_output for name, value in one.output.items()}
        case "outcomes":
            return [_outcome(one) for one in branches]
        case "keyed_by_branch":
            return {str(one.index): one.output for one in with_output}
        case "last_wins":
            last = max(with_output, key=_by_time, default=None)
            return None if last is None else last.output
        case _:
            return [one.output for one in with_output]
