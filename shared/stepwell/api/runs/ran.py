"""What ran: a run's steps and those of its branches, with how many are in each status; its live tokens; its edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from typing_extensions import TypedDict

from stepwell.api.runs.dags import is_done, step_views
from stepwell.api.runs.shared_rows import Row, labelled, own_rows, tells_waits, wait_in
from stepwell.api.runs.states import begun_phase, fork_at, is_shown_waiting, status_of, wait_of
from stepwell.api.runs.steps import StepResult, step_result, time_of
from stepwell.definition.durations import span
from stepwell.definition.graph import END, Graph, dependency_id
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.names import node_of
from stepwell.engine.parts import open_kinds, shown_kind
from stepwell.engine.records import Parked, Status
from stepwell.engine.token import StepView, Token
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing

_LIVE = ("running", "waiting", "paused", "pending")  # what shows of a node while there is one such branch
_OVER = ("failed", "cancelled", "completed", "compensated", "skipped")  # the worst first
_COUNTED = ("completed", "failed", "skipped", "cancelled", "compensated", *_LIVE)


class TokenView(TypedDict):
    """A live token: the run's own, or a branch; of a wide fork, its parent.

    `awaits`: the kinds of what can still come, several for a wait `any` or `all`.
    """

    id: str
    step: str
    phase: str
    waiting_for: str | None
    awaits: list[str]
    waiting_until: str | None


def tokens_of(at: Standing, forks: Iterable[Surveyed]) -> Iterator[TokenView]:
    """Yields the run's live tokens: those that run or wait, without those that have branches."""
    if at.token.ended or (at.token.last is None and not at.header.started_ms):
        return
    opened = {fork.id: fork for fork in _all(forks) if fork.is_open}
    yield from _live(at.graph, at.token, node_of(at.graph, at.token), opened)


def _all(forks: Iterable[Surveyed]) -> Iterator[Surveyed]:
    for fork in forks:
        yield fork
        yield from _all(fork.inner)


def _live(graph: Graph, token: Token, node: str, opened: Mapping[str, Surveyed]) -> Iterator[TokenView]:
    forks = _forks_of(token, opened)
    if not forks:
        wait = wait_of(graph, token)
        yield TokenView(
            id=token.id,
            step=graph.seen_as(wait[1] if wait else node),
            phase=begun_phase(token),
            waiting_for=shown_kind(token, wait[0]) if wait else None,
            awaits=_awaits(token, wait[0]) if wait else [],
            waiting_until=time_of(wait[0].until_ms) if wait else None,
        )
    for fork in forks:
        for index, branch in enumerate(fork.branches):
            if not branch.ended and (branch.last is not None or index in fork.may_begin):
                yield from _live(graph, branch, _stands_at(graph, fork, branch), opened)


def shown_inside(at: Standing, forks: Iterable[Surveyed]) -> Token | None:
    """Returns the branch whose wait the header shows, of forks in branches or of wide ones; None if it was not read."""
    if not is_shown_waiting(at):
        return None
    header = at.header
    for fork in _all(forks):
        for one in fork.branches if fork.is_open else ():
            if (
                is_waiting(one)
                and one.parked is not None
                and (at.graph.seen_as(one.node), one.parked.since_ms) == (header.waiting_node, header.waiting_since_ms)
                and shown_kind(one, one.parked) == header.waiting_for
            ):
                return one
    return None


def _awaits(token: Token, shown: Parked) -> list[str]:
    if token.parked is not None and token.parked.of_tasks:
        return [shown.kind]
    return open_kinds(token) or [shown.kind]


def _forks_of(token: Token, opened: Mapping[str, Surveyed]) -> list[Surveyed]:
    """Returns the fork where a token stands, or those of what a function's tasks have begun, if they were read."""
    slots = list(token.tasks) if token.has_open_tasks else [token.slot] if fork_at(token) is not None else []
    found = [opened.get(fork_id(token.id, slot)) for slot in slots]
    return [fork for fork in found if fork is not None and fork.branches]


def words_of(steps: Mapping[str, StepResult]) -> dict[str, str]:
    """Returns how each step went, such as `200: 198 completed, 1 failed, 1 running` or `2 tries · 1.2 s`."""
    return {name: " · ".join(_words(step)) for name, step in steps.items() if any(_words(step))}


def _words(step: StepResult) -> Iterator[str]:
    if counts := step["branches"]:
        each = ", ".join(f"{count} {status}" for status, count in counts.items() if status != "total")
        yield f"{counts['total']}: {each}"
    elif step["attempts"] > 1:
        yield f"{step['attempts']} tries"
    if step["started_at"] and step["ended_at"]:
        took = datetime.fromisoformat(step["ended_at"]) - datetime.fromisoformat(step["started_at"])
        if took:
            yield span(took.total_seconds())


def attempts_of(token: Token, forks: Iterable[Surveyed]) -> int:
    """Counts the attempts of a token and of its branches; of a wide fork that is open, one for each that has ended.

    When branches have joined, or a function has taken the end of its task, their attempts are the token's own.
    """
    return token.calls + sum(_attempts_in(token, fork) for fork in forks if fork.is_open)


def _attempts_in(token: Token, fork: Surveyed) -> int:
    begun = next((one for slot, one in token.tasks.items() if fork.id == fork_id(token.id, slot)), None)
    found = 0 if begun else sum(counts.get(over, 0) for counts in fork.counts.values() for over in _OVER)
    for index, branch in enumerate(fork.branches):
        if index not in fork.fork.kept and (begun is None or index in begun.open):
            found += attempts_of(branch, [one for one in fork.inner if one.id.startswith(f"{branch.id}/")])
    return found


def taken_edges(at: Standing, forks: Iterable[Surveyed]) -> dict[str, int]:
    """Returns how often each rule was taken, by the run and its branches.

    The branches of a wide fork are not read: those that completed are counted as far as there is only one way.
    """
    taken = Counter(at.token.rule_uses)
    taken.update(_dependencies(at))
    for fork in _all(forks):
        for branch in fork.branches:
            taken.update(branch.rule_uses)
        for start, counts in fork.counts.items():
            over = counts.get("completed", 0) + counts.get("compensated", 0)
            taken.update(dict.fromkeys(_only_way(at.graph, start, fork.fork.join), over))
    return {rule: count for rule, count in taken.items() if count}


def _dependencies(at: Standing) -> Iterator[str]:
    """Yields the edges of a DAG behind the steps that are done."""
    views = step_views(at)
    for name, needs in at.graph.dependencies.items():
        yield from (dependency_id(name, place) for place, one in enumerate(needs) if is_done(views[one]))


def _only_way(graph: Graph, start: str, join: str) -> list[str]:
    """Returns the rules that every branch takes which begins at this node and completes."""
    found: list[str] = []
    name = start
    while name in graph.nodes and name != join:
        rules = graph.nodes[name].rules
        if len(rules) != 1 or rules[0].when is not None or rules[0].max_uses or rules[0].id in found:
            break
        found.append(rules[0].id)
        name = rules[0].to or END
    return found


def steps_of(at: Standing, forks: Sequence[Surveyed]) -> dict[str, StepResult]:
    """Returns each step in the log, and a step on its first visit, which the log does not have yet.

    For a DAG, returns every step. A step that ran in branches has `branches`: how many are in each status.
    """
    own = own_rows(at, _own(at))
    rows = {row: step_result(step) for row, step in own.items()}
    in_branches = _in_branches(at.graph, _inner(forks) if at.graph.dependencies else forks, apart=tells_waits(at))
    for row, (views, counts) in in_branches.items():
        if row in own:
            views.append(own[row])
            counts[own[row].status] += 1
        rows[row] = summed(views, _over(counts) if at.token.ended else counts)
    found = labelled(rows)
    found = {name: one for name, one in found.items() if at.graph.seen_as(name) == name}
    return found if at.graph.dependencies else dict(sorted(found.items(), key=_began))


def _over(counts: Counter[str]) -> Counter[str]:
    """Returns the counts for a run that has ended: a branch that still waited then was cancelled with it."""
    left = sum(counts[live] for live in _LIVE)
    return Counter({name: count for name, count in counts.items() if name not in _LIVE}) + Counter(cancelled=left)


def _began(named: tuple[str, StepResult]) -> tuple[bool, str, bool, str]:
    """Sorts steps by when they began, then by when they ended; those that have not come last."""
    started_at, ended_at = named[1]["started_at"], named[1]["ended_at"]
    return started_at is None, started_at or "", ended_at is None, ended_at or ""


def _own(at: Standing) -> Mapping[str, StepView]:
    if at.graph.dependencies:
        return step_views(at)
    shown = dict(at.token.steps)
    name = node_of(at.graph, at.token)
    is_at_it = status_of(at) is Status.RUNNING and fork_at(at.token) is None
    node = at.graph.nodes.get(name)  # a durable function's operations are no nodes
    if is_at_it and name not in shown and node is not None and node.step is not None:
        since_ms = at.token.last_ms or at.header.started_ms
        shown[name] = StepView("running", attempts=at.token.attempt + 1, started_ms=since_ms)
    return shown


def _inner(forks: Iterable[Surveyed]) -> list[Surveyed]:
    return [inner for fork in forks for inner in fork.inner]


def _in_branches(
    graph: Graph, forks: Iterable[Surveyed], *, apart: bool
) -> dict[Row, tuple[list[StepView], Counter[str]]]:
    """By node: what is known of each branch's step there, and how many are in each status. `apart`: the waits are."""
    found: dict[Row, tuple[list[StepView], Counter[str]]] = {}
    for fork in forks:
        for kind, name, view in _views(graph, fork):
            views, counts = found.setdefault((name, kind if apart else ""), ([], Counter()))
            views.append(view)
            counts[view.status] += 1
        for name, by_status in fork.counts.items():
            node = fork.node if fork.fork.is_awaited and not fork.names else name
            found.setdefault((node, ""), ([], Counter()))[1].update(by_status)
        for row, (views, counts) in _in_branches(graph, fork.inner, apart=apart).items():
            there = found.setdefault(row, ([], Counter()))
            there[0].extend(views)
            there[1].update(counts)
    return found


def _views(graph: Graph, fork: Surveyed) -> Iterator[tuple[str, str, StepView]]:
    for index, branch in enumerate(fork.branches):
        kind = wait_in(branch.parked)
        yield from ((kind, name, view) for name, view in views_in(graph, fork, index, branch))


def views_in(graph: Graph, fork: Surveyed, index: int, branch: Token) -> Iterator[tuple[str, StepView]]:
    """Yields the steps of a branch, including one that its log does not have yet."""
    yield from branch.steps.items()
    name = _stands_at(graph, fork, branch)
    node = graph.nodes.get(name)
    if node is not None and node.is_made:  # `all` or `first` of a durable function, whose operations are no nodes
        node = None
    is_cancelled = branch.end is not None and branch.end.status is Status.CANCELLED
    if (branch.ended and not is_cancelled) or name in branch.steps or fork_at(branch) is not None:
        return
    if node is None or node.step is not None or node.wait is not None or node.call is not None:
        has_begun = branch.last is not None or index in fork.may_begin
        status = "waiting" if is_waiting(branch) else "running" if has_begun else "pending"
        if is_cancelled or not fork.is_open:
            status = "cancelled"
        started_ms = branch.last_ms or fork.may_begin.get(index, 0)
        started_ms = 0 if is_cancelled else started_ms
        is_tried = status == "running" and (node is None or node.step is not None)
        yield name, StepView(status, attempts=branch.attempt + is_tried, started_ms=started_ms)


def _stands_at(graph: Graph, fork: Surveyed, branch: Token) -> str:
    """Returns the node; an operation of a durable function that has no record yet is known by its fork only."""
    if not fork.fork.is_awaited or branch.last is not None:
        return node_of(graph, branch)
    return fork.names[branch.branch.index] if fork.names and branch.branch else fork.node


def summed(views: Sequence[StepView], counts: Counter[str]) -> StepResult:
    """Returns what became of a step in branches: of those that were read, and of all by status."""
    status = next((one for one in (*_LIVE, *_OVER) if counts[one]), "pending")
    failed = next((view for view in views if view.error is not None and view.status == "failed"), None)
    started = [view.started_ms for view in views if view.started_ms]
    ended = max((view.ended_ms for view in views), default=0) if status not in _LIVE else 0
    whole = StepView(
        status,
        error=failed.error if failed else None,
        attempts=sum(view.attempts for view in views),
        started_ms=min(started, default=0),
        ended_ms=ended,
    )
    result = step_result(whole)
    result["branches"] = {"total": counts.total(), **{name: counts[name] for name in _COUNTED if counts[name]}}
    return result
