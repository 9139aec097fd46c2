"""Routing: the next node of a token when a node has ended, by diverge, retry, branch and transitions, in that order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import END, Graph, Json, Node, Rule
from stepwell.engine.copying import changed, quick
from stepwell.engine.durable.turns import Suspended
from stepwell.engine.forks.branches import fork_over
from stepwell.engine.names import Moment, Names, node_of
from stepwell.engine.records import End, Failure, Fork, Goto, Next, Pause, RetryAt, Status
from stepwell.engine.retry import Policy, retry_by, retry_delay_ms, used_before
from stepwell.engine.stored.field_json import build
from stepwell.engine.token import StepView, Token
from stepwell.errors import ExpressionError, KeptFailure
from stepwell.values import dataclass


@quick
@dataclass(frozen=True)  # no slots: `changed` copies it
class Ended:
    """The end of a node's attempt: its result or failure, and its writes."""

    node: str
    attempt: int
    result: Json = None
    failure: Failure | None = None
    writes: Mapping[str, Json] = field(default_factory=dict)
    on_failure: str = "abort"
    policy: Policy | None = None  # None: nothing to try again (a wait, a routing node)
    stands: bool = False  # the node makes no result of its own: `result` is the last step's, and is not stored again
    timed_out: bool = False  # the failure is a wait's time-out: unhandled, the run ends `timed_out`
    is_done: bool = False  # the failure is that of what it was to write: the step itself has succeeded
    event: Json = None  # the payload of the event that ended its wait


@dataclass(frozen=True, slots=True)
class Way:
    """The decision: the next node, the rules taken, and whether a failure was skipped."""

    next: Next
    rules: tuple[str, ...] = ()
    skipped: bool = False


def route(moment: Moment, token: Token, ended: Ended) -> Way:
    """Tries the node's rules in order. A rule that cannot be evaluated fails the run with a `validation` error."""
    try:
        way = _route(moment, token, ended)
    except ExpressionError as error:
        node = moment.graph.seen_as(ended.node)
        way = Way(End(Status.FAILED, validation_failure(error, node, ended.attempt)))
    return replace(way, next=_back(moment, token, way.next)) if moment.graph.nodes[ended.node].durable else way


def _back(moment: Moment, token: Token, following: Next) -> Next:
    """Leads an ended operation back to its function, which may catch the failure.

    A branch that consists of this operation ends with it.
    """
    if not isinstance(following, End):
        return following
    result = moment.turn.result if moment.turn else None
    if isinstance(result, Suspended) and result.is_whole:
        return replace(following, at_join=following.status is Status.COMPLETED)
    return step_limit(moment, token, moment.graph.start) or Goto(moment.graph.start)


def validation_failure(error: ExpressionError, node: str, attempt: int) -> Failure:
    """Returns the error of a node whose expression failed at run time."""
    if isinstance(error, KeptFailure):
        return build(Failure, error.failure)
    return Failure(error.code, "validation", str(error), step=node, attempts=max(attempt, 1))


def _route(moment: Moment, token: Token, ended: Ended) -> Way:
    node = moment.graph.nodes[ended.node]
    diverges, branches, onward = node.stages
    names = _Seen(moment, token, ended)
    taken: tuple[str, ...] = ()
    failure = ended.failure
    if rule := names.first(diverges):
        if rule.to or rule.fail:
            return Way(_follow(moment, token, ended, rule, names), (rule.id,))
        taken, failure = (rule.id,), None  # `continue`: the error is dealt with
    if failure is not None:
        way = _after_failure(moment, token, ended, failure, names)
        if way is not None:
            return way
        names = _Seen(moment, token, ended, skipped=True)
    skipped = failure is not None
    rule = names.first(branches)
    if rule is not None and not (rule.to or rule.fail):
        taken, rule = (*taken, rule.id), None  # `continue`: no other branch is looked at
    if rule is None and node.fan_out == "all" and (matching := names.all(onward)):
        way = _forked(moment, token, node, matching, names)
        return replace(way, rules=(*taken, *way.rules), skipped=skipped)
    if rule := rule or names.first(onward):
        return Way(_follow(moment, token, ended, rule, names), (*taken, rule.id), skipped)
    if not node.rules:
        return Way(_completed(moment.graph, token, ended), taken, skipped)
    return Way(End(Status.FAILED, _no_match(ended.node)), taken, skipped)


def _forked(moment: Moment, token: Token, node: Node, matching: tuple[Rule, ...], names: _Seen) -> Way:
    """Returns a fork with a branch for each matching rule, or for each item of its collection."""
    following = step_limit(moment, token, node.name) or fork_over(moment.graph, node, matching, names.seen, moment.lane)
    return Way(following, tuple(rule.id for rule in matching))


def _after_failure(moment: Moment, token: Token, ended: Ended, failure: Failure, names: _Seen) -> Way | None:
    """Returns retry, block, a transition that names the error, or the end. None: continue without a result."""
    if (retry := again(moment, token, ended, failure)) is not None:
        return Way(retry)
    if failure.category == "governance":
        data = {"type": "governance", "reason": failure.message, "data": failure.data}
        asked = Pause("approval", data=data, timeout_ms=_GOVERNANCE_MS, then="again")
        return Way(step_limit(moment, token, ended.node) or asked)
    node = moment.graph.nodes[ended.node]
    handlers = [rule for rule in node.rules if rule.stage == "transition" and rule.reads_error]
    if node.fan_out == "all" and (matching := names.all(handlers)):
        return _forked(moment, token, node, matching, names)
    if rule := names.first(handlers):
        return Way(_follow(moment, token, ended, rule, names), (rule.id,))
    if ended.on_failure == "skip":
        return None
    return Way(End(Status.TIMED_OUT if ended.timed_out else Status.FAILED))


def again(moment: Moment, token: Token, ended: Ended, failure: Failure) -> RetryAt | None:
    """Returns when the node is tried again, by its policy or one of its retriers; None if it is not."""
    policy = ended.policy
    if policy is None:
        return None
    if policy.retriers:
        return retry_by(policy.retriers, used_before(token), failure, moment.now_ms, moment.jitter)
    delay_ms = retry_delay_ms(policy.retry, failure, ended.attempt, moment.jitter)
    return None if delay_ms is None else RetryAt(moment.now_ms + delay_ms)


_GOVERNANCE_MS = 24 * 3_600_000  # an approval's default


_RUNNING = StepView("running")


class _Seen:
    """The names that a node's rules see: this attempt's result or error, and the scope and the steps with it.

    They are those of the token after the record: the branches of a fork evaluate its collection again from there.
    """

    def __init__(self, moment: Moment, token: Token, ended: Ended, *, skipped: bool = False) -> None:
        self._moment, self._token, self._ended, self._skipped = moment, token, ended, skipped
        self._uses = token.rule_uses

    @cached_property
    def _names(self) -> Names:
        ended = self._ended
        scope = {**self._token.scope, **ended.writes}
        result = ended.result if ended.failure is None else None
        token = changed(self._token, scope=scope, result=result, error=ended.failure, steps=self._steps())
        return Names(self._moment, token, event=ended.event)

    def _steps(self) -> Mapping[str, StepView]:
        """Returns the steps with the one that has just ended, as the fold will show it."""
        ended, steps = self._ended, self._token.steps
        if ended.stands and ended.node not in steps:  # nothing to show but that it was passed
            return steps
        base = steps.get(ended.node) or _RUNNING
        status = "skipped" if self._skipped else "completed" if ended.failure is None else "failed"
        output = None if ended.stands or ended.failure is not None else ended.result
        attempts = ended.attempt or base.attempts
        return {
            **steps,
            ended.node: changed(base, status=status, output=output, error=ended.failure, attempts=attempts),
        }

    def first(self, rules: Iterable[Rule]) -> Rule | None:
        """Returns the first usable rule whose condition holds."""
        for rule in rules:
            if rule.max_uses is not None and self._uses.get(rule.id, 0) >= rule.max_uses:
                continue
            if rule.when is None or self._holds(rule, rule.when):
                return rule
        return None

    def all(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Returns all usable rules whose condition holds."""
        return tuple(rule for rule in rules if self.first((rule,)))

    @property
    def seen(self) -> Names:
        """The names that a fork's branches see again: those of the token, without the event."""
        return self._names if self._ended.event is None else self._names.without_event()

    def _holds(self, rule: Rule, when: Expression) -> bool:
        try:
            value = when.evaluate(self._names)
        except ExpressionError:
            if self._asks_for_what_is_not_there(when):
                return False
            raise
        if not isinstance(value, bool):
            raise ExpressionError(
                f"{rule.id}: the condition `{when.text}` gave {type(value).__name__}, not true or false",
                hint="compare it: `… == …`, or use has(…)",
            )
        return value

    def _asks_for_what_is_not_there(self, when: Expression) -> bool:
        """`error.type == …` after a result, `result.amount > …` after an error: no match, not a mistake.

        Nor is `event.amount > …` where no event has ended the wait.
        """
        failed = self._ended.failure is not None
        if "event" in when.names and self._ended.event is None:
            return failed or self._moment.graph.nodes[self._ended.node].wait is not None
        return (failed and "result" in when.names) or (not failed and when.reads_error)


def _follow(moment: Moment, token: Token, ended: Ended, rule: Rule, names: _Seen) -> Next:
    if rule.fail is not None:
        before = ended.failure
        message = before.message if before else f"{ended.node} ended with what {rule.id} calls {rule.fail}"
        return End(Status.FAILED, Failure(rule.fail, "step", message, step=ended.node, attempts=max(ended.attempt, 1)))
    if rule.to == END or rule.to is None:
        return _completed(moment.graph, token, ended)
    if rule.foreach is not None:
        return _forked(moment, token, moment.graph.nodes[ended.node], (rule,), names).next
    return _enter(moment, token, rule.to)


def after_join(moment: Moment, token: Token, fork: Fork, ended: Ended) -> Next:
    """Continues the parent at the join's node; without one, the parent ends with the fork."""
    if fork.is_awaited:
        return step_limit(moment, token, moment.graph.start) or Goto(moment.graph.start)
    return _enter(moment, token, fork.join) if fork.join else _completed(moment.graph, token, ended)


def _enter(moment: Moment, token: Token, target: str) -> Next:
    """Enters a node within bounds: a loop ends with `loop_limit`, an endless run with `step_limit`.

    A branch ends at the node of its fork's join; its parent continues there.
    """
    if token.branch is not None and target == token.branch.join:
        return End(Status.COMPLETED, at_join=True)
    most = moment.graph.nodes[target].max_visits
    here = not token.node and target == node_of(moment.graph, token)  # its first visit has no record yet
    if token.visits.get(target, int(here)) >= most:
        message = f"{target} was visited {most} times; raise its max_visits if that is meant"
        return End(Status.FAILED, Failure("loop_limit", "step", message, step=target))
    return step_limit(moment, token, target) or Goto(target)


def step_limit(moment: Moment, token: Token, name: str) -> End | None:
    """Ends a run that has reached its maximum number of records."""
    behind = token.began_slot if token.began_slot > 0 else 0  # a function has begun anew there
    if token.slot - behind < moment.max_steps:
        return None
    message = f"the run has {moment.max_steps} records; split the workflow, or end and start anew"
    return End(Status.FAILED, Failure("step_limit", "step", message, step=name))


def _completed(graph: Graph, token: Token, ended: Ended) -> End:
    """Completes the run with this node's result, or the previous one if this node's failure was skipped."""
    if token.branch is not None:
        return End(Status.COMPLETED)
    failure = output_refused(graph, ended.result if ended.failure is None else token.result, ended.node)
    return End(Status.COMPLETED) if failure is None else End(Status.FAILED, failure)


def output_refused(graph: Graph, result: Json, node: str = "") -> Failure | None:
    """Returns why the run's result is not one that its definition promises; None if it is."""
    if graph.output_schema is None or not (problems := graph.output_schema.problems(result)):
        return None
    message = f"the run's result violates output_schema: {violations(problems)}"
    return Failure("output_schema", "validation", message, step=node)


def violations(problems: Iterable[tuple[str, str]]) -> str:
    """Returns the violations of a schema, for people."""
    return "; ".join(f"{path or '/'} {why}" for path, why in problems)


def _no_match(node: str) -> Failure:
    message = f"no transition of {node} matched; give it a default: one without `when`, or `Default` in a Choice"
    return Failure("no_matching_transition", "step", message, step=node)
