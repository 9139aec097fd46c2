"""Checks of the compiled graph as a whole, and the lint, which only warns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from stepwell.definition.clauses.calls import SCHEME
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import END, Node, Rule
from stepwell.definition.text import closest, pointer_part

MANY_STEPS = 10
_OF_STEPS = ("output", "status", "attempts", "error")
_OF_RUN = ("id", "workflow", "started_at", "tags")
UNTIMED = "step_without_timeout"
_WITH_EVENT = ("match", "output", "when", "next_when")  # the keys that may read `event`


def check_graph(context: Context, nodes: Mapping[str, Node], start: str, paths: Mapping[str, str]) -> None:
    """Reports unreachable nodes and loops without an exit. Call it only for a graph whose targets exist."""
    following = {name: _following(node) for name, node in nodes.items()}
    reached = _reached(following, [start])
    for name in nodes:
        if name not in reached:
            hint = f"add a rule that leads to it, or remove it; the run starts at `{nodes[start].part_of or start}`"
            context.add("unreachable", f"no rule leads to `{name}`", paths[name], hint)
    _check_way_out(context, nodes, following, reached, paths)


def check_steps_read(context: Context, nodes: Mapping[str, Node]) -> None:
    """Reports expressions that read unknown nodes, in any format."""
    for name, path in context.steps_read:
        if name not in nodes:
            context.add("unknown_step", f"`steps.{name}` names no node", path, closest(name, nodes))


def check_members_read(context: Context, nodes: Mapping[str, Node]) -> None:
    """Reports members that `run` and the steps never have. A definition that is deployed is left as it is."""
    for (owner, *inner), path in () if context.trusted else context.members_read:
        name = inner[-1]
        if owner == "run" and name not in _OF_RUN:
            context.add("unknown_name", f"`run` has no `{name}`", path, closest(name, _OF_RUN))
        elif owner == "steps" and inner[0] in nodes and name not in _OF_STEPS:
            step = f"steps.{inner[0]}" if inner[0].isidentifier() else f"steps['{inner[0]}']"
            hint = f"write {step}.output.{name}; a step has {', '.join(_OF_STEPS)}"
            context.add("unknown_name", f"`{step}` has no `{name}`", path, hint)


def check_events_read(context: Context) -> None:
    """Reports `event` where it never has a value. A definition that is deployed already reads null there."""
    for path in () if context.trusted else context.event_read:
        if not path.startswith("/triggers/") and path.rpartition("/")[2] not in _WITH_EVENT:
            hint = (
                "`event` exists in `match`, and in the output and the rules of a wait; elsewhere read state or result"
            )
            context.add("no_event", f"`event` is read in `{path.rpartition('/')[2]}`, where there is none", path, hint)


def _check_way_out(
    context: Context,
    nodes: Mapping[str, Node],
    following: Mapping[str, set[str]],
    reached: set[str],
    paths: Mapping[str, str],
) -> None:
    ends = [name for name, node in nodes.items() if _may_end(node)]
    leading: dict[str, set[str]] = {name: set() for name in nodes}
    for name, targets in following.items():
        for target in targets & leading.keys():
            leading[target].add(name)
    free = _reached(leading, ends)
    caught = [name for name in nodes if name in reached and name not in free]
    if caught:
        seen = [*dict.fromkeys(nodes[name].part_of or name for name in caught)]
        message = f"a run that reaches {', '.join(f'`{name}`' for name in seen[:5])} can never end"
        context.add("no_way_out", message, paths[caught[0]], "add a rule that leaves the loop")


def taken(node: Node) -> list[Rule]:
    """Returns the rules that can be taken: those after an always-taken rule count only if a `continue` skips it."""
    if node.fan_out == "all":
        return list(node.rules)
    rules: list[Rule] = []
    for _, stage in groupby(node.rules, key=lambda rule: rule.stage):
        leads_on = True
        for rule in stage:
            rules.append(rule)
            if _always(rule):
                leads_on = any(before.to is None and before.fail is None for before in rules)
                break
        if not leads_on:
            break
    return rules


def _always(rule: Rule) -> bool:
    return rule.when is None and rule.max_uses is None and (rule.to is not None or rule.fail is not None)


def _following(node: Node) -> set[str]:
    to = {rule.to for rule in taken(node) if rule.to is not None and rule.to != END}
    return to | {node.join} if node.join else to


def _may_end(node: Node) -> bool:
    return not node.rules or any(rule.to == END or rule.fail is not None for rule in taken(node))


def _reached(edges: Mapping[str, set[str]], starts: list[str]) -> set[str]:
    reached = set(starts)
    waiting = list(starts)
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def untimed(name: str) -> str:
    """Returns the message about a step without a time limit. Its function may have one: whoever reads code tells."""
    return f"the step `{name}` has no timeout"


def lint(context: Context, nodes: Mapping[str, Node], paths: Mapping[str, str]) -> None:
    steps = [node for node in nodes.values() if node.step is not None]
    for node in steps:
        step = node.step
        if step is not None and step.timeout_ms is None and not step.limits and not step.run.startswith(SCHEME):
            hint = "add timeout: 30s; the default is the function's own, or 5 minutes"
            _warn(context, UNTIMED, untimed(node.name), paths[node.name], hint)
    if len(steps) > MANY_STEPS:
        message = f"{len(steps)} steps in one workflow"
        _warn(context, "many_steps", message, "", f"more than {MANY_STEPS} are hard to follow: split it")
    for node in nodes.values():
        _lint_rules(context, node, paths[node.name])


def _lint_rules(context: Context, node: Node, path: str) -> None:
    transitions = [rule for rule in node.rules if rule.stage == "transition"]
    if transitions and not any(_always(rule) for rule in transitions):
        hint = "add a last transition without `when`, or the run fails with no_matching_transition"
        _warn(context, "no_default_transition", f"`{node.name}` has no default transition", path, hint)
    reachable = {rule.id for rule in taken(node)}
    for rule in node.rules:
        if rule.stage != "next" and rule.id not in reachable:
            _warn(
                context,
                "rule_never_taken",
                f"{rule.id} is never taken: an earlier rule always applies",
                _place(rule, path),
            )


def _place(rule: Rule, path: str) -> str:
    """Finds a rule's place: `charge.branch[2]` is at `…/branch/2`, `…transitions[0]` at `…/transitions/0`."""
    stage, _, number = rule.id.rpartition(".")[2].rstrip("]").partition("[")
    return f"{path}/{pointer_part(stage)}/{number}"


def _warn(context: Context, code: str, message: str, path: str, hint: str = "") -> None:
    context.add(code, message, path, hint, severity="warning")
