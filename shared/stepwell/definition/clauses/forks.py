"""Finds the join of each fork, and reports bad forks and joins, by walking every token through the graph.

A branch walks from its fork's targets to the first fan-in node, where its parent continues. A fork inside a branch is
walked the same way, and the branch continues from that fork's join. Each fork is walked once.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from stepwell.definition.checks import taken
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import END, Node
from stepwell.definition.state_names import writes_any, written_by

ROOT = ""  # the walk of the root token; any other walk has the name of its forking node
SHOWN_NODES = 8  # of a path in a message
_NONE = frozenset[str]()


@dataclass(slots=True)
class Walk:
    """The nodes and joins that the tokens of one fork, or the root token, reach, each with the node before it."""

    before: dict[str, str] = field(default_factory=dict)
    joins: dict[str, str] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)
    parents: list[str] = field(default_factory=list)  # the walks that reach this fork and continue from its joins


def check_forks(context: Context, nodes: Mapping[str, Node], start: str, paths: Mapping[str, str]) -> dict[str, Node]:
    """Checks forks, and returns the nodes with the join of each fork. Call it when all targets exist."""
    walks = walk_forks(nodes, start)
    _check_joins(context, walks, paths)
    _check_branch_read(context, walks, paths)
    _check_own_output(context, nodes, walks, paths)
    _check_left_in_branch(context, nodes, walks, paths)
    return {
        name: replace(node, join=next(iter(walks[name].joins), "")) if name in walks else node
        for name, node in nodes.items()
    }


def _check_joins(context: Context, walks: Mapping[str, Walk], paths: Mapping[str, str]) -> None:
    for join in walks[ROOT].joins:
        message = f"a token outside any fork can reach the join `{join}` ({_way(walks, ROOT, join)})"
        hint = "only branches may reach a join: route this path around it, or remove `fan_in`"
        context.add("join_without_fork", message, f"{paths[join]}/fan_in", hint)
    for name, walk in walks.items():
        if name == ROOT:
            continue
        if len(walk.joins) > 1:
            ways = [f"`{join}` ({_way(walks, name, join)})" for join in list(walk.joins)[:2]]
            message = f"branches of `{name}` can reach two joins: {' and '.join(ways)}"
            context.add("two_joins", message, paths[name], "route all its branches to one join, or to the end")
        # One walk both ends at this join and continues from it, as a branch and as an inner fork's parent.
        for join in [join for join in walk.joins if join in walk.before]:
            inner = walk.before[join]
            message = f"branches of `{name}` fork again at `{inner}`, and both forks join at `{join}`"
            hint = f"give the inner fork its own join, and route that to `{join}`"
            context.add("shared_join", message, paths[inner], hint)


def walk_forks(nodes: Mapping[str, Node], start: str) -> dict[str, Walk]:
    """Returns every walk of a graph by the name of its fork."""
    following = {name: _targets(node) for name, node in nodes.items()}
    order = {name: at for at, name in enumerate(nodes)}
    walks = {ROOT: Walk(entered={start})}
    steps: deque[tuple[str, str, str, bool]] = deque([(ROOT, start, "", True)])

    def lead(walk: str, targets: frozenset[str], before: str) -> None:
        """Enters these nodes in the order of the definition, each once."""
        new = targets - walks[walk].entered
        walks[walk].entered |= new
        steps.extend((walk, target, before, True) for target in sorted(new, key=order.__getitem__))

    while steps:
        name, at, before, enters = steps.popleft()
        walk = walks[name]
        if enters and nodes[at].fan_in is not None:
            walk.joins[at] = before
            steps.extend((parent, at, name, False) for parent in walk.parents)
        elif at not in walk.before:
            walk.before[at] = before
            on, branches = following[at]
            lead(name, on, at)
            if branches is not None:
                if at not in walks:
                    walks[at] = Walk()
                    lead(at, branches, "")
                walks[at].parents.append(name)
                steps.extend((name, join, at, False) for join in walks[at].joins)
    return walks


def _targets(node: Node) -> tuple[frozenset[str], frozenset[str] | None]:
    """Returns where the node's token continues, and where its branches begin (None if it does not fork)."""
    on: set[str | None] = set()
    branches: set[str | None] | None = None
    for rule in taken(node):
        if node.fan_out != "all" and rule.foreach is None:
            on.add(rule.to)
        elif branches is None:
            branches = {rule.to}
        else:
            branches.add(rule.to)
    return _nodes(on), None if branches is None else _nodes(branches | {node.join or None})


def _nodes(targets: set[str | None]) -> frozenset[str]:
    return frozenset(target for target in targets if target is not None and target != END)


def _way(walks: Mapping[str, Walk], name: str, join: str) -> str:
    walk = walks[name]
    way = [join, walk.joins[join]]
    while way[-1]:
        way.append(walk.before[way[-1]])
    shown = [node for node in (*way, name) if node][::-1]
    if len(shown) > SHOWN_NODES:
        shown[SHOWN_NODES // 2 : -SHOWN_NODES // 2] = ["…"]
    return " -> ".join(shown)


def _check_branch_read(context: Context, walks: Mapping[str, Walk], paths: Mapping[str, str]) -> None:
    """Reports `branch` in nodes that no branch can reach."""
    inside = {at for name, walk in walks.items() if name != ROOT for at in walk.before}
    outside = {path: name for name, path in paths.items() if name not in inside}
    for path in context.branch_read:
        if (name := outside.get("/".join(path.split("/")[:3]))) is not None:
            hint = "`branch` exists between a fork and its join; elsewhere read state or result"
            context.add("no_branch", f"`branch` is read in `{name}`, which is outside any fork", path, hint)


def _check_own_output(
    context: Context, nodes: Mapping[str, Node], walks: Mapping[str, Walk], paths: Mapping[str, str]
) -> None:
    """Warns about `state.x` in a branch for a value that only the branch writes, as `branch.output.x`."""
    places = {path: name for name, path in paths.items()}
    written: dict[str, set[str]] = {}  # the nodes that write each name

    @cache
    def reached(reader: str) -> tuple[set[str], set[str]]:
        """Returns the nodes of the walks that reach this node, and those of the other walks."""
        own = [walk.before.keys() for walk in walks.values() if reader in walk.before]
        others = [walk.before.keys() for walk in walks.values() if reader not in walk.before]
        return set().union(*own), set().union(*others)

    for node in nodes.values():
        for name in _written(node):
            written.setdefault(name, set()).add(node.name)
    for name, path in context.state_read:
        reader = places.get("/".join(path.split("/", 3)[:3]), "")
        if not reader or reader in walks[ROOT].before:
            continue
        own, others = reached(reader)
        writers = written.get(name, _NONE)
        if name in _item_names(nodes, walks, reader):
            continue
        if not writers.isdisjoint(own) and writers.isdisjoint(others):
            message = f"`state.{name}` is read in a branch, at `{reader}`, but only the branch itself writes it"
            hint = f"write branch.output.{name}: in a branch, `state` is the state before the fork"
            context.add("own_output", message, path, hint, severity="warning")


def _check_left_in_branch(
    context: Context, nodes: Mapping[str, Node], walks: Mapping[str, Walk], paths: Mapping[str, str]
) -> None:
    """Warns of `state.x` and `steps.x` outside of any fork, where only branches write `x`: a join takes it away."""
    root = walks[ROOT].before
    if context.trusted or any(writes_any(node) for node in nodes.values()):
        return
    places = {path: name for name, path in paths.items()}
    writers: dict[str, set[str]] = {}
    for node in nodes.values():
        for name in written_by(node):
            writers.setdefault(name, set()).add(node.name)
    read = [("state", name, writers.get(name, set()), path) for name, path in context.state_read]
    read += [("steps", name, {name}, path) for name, path in context.steps_read]
    for kind, name, by, path in read:
        reader = places.get("/".join(path.split("/", 3)[:3]), "")
        walk = next((walk for walk in walks.values() if not by.isdisjoint(walk.before)), None)
        if reader in root and walk is not None and by.isdisjoint(root):
            message = f"`{kind}.{name}` is read at `{reader}`, and only branches write it"
            context.add("left_in_branch", message, path, _joined(nodes, walk, name), severity="warning")


def _joined(nodes: Mapping[str, Node], walk: Walk, name: str) -> str:
    """Returns where to find what the branches of a fork have written."""
    for join in walk.joins:
        if (fan_in := nodes[join].fan_in) is not None:
            target = fan_in.target or join
            return f"the join `{join}` puts what the branches wrote into `state.{target}`: read it there"
    return f"give the fork a join: it puts what the branches wrote, such as `{name}`, into the state"


def _item_names(nodes: Mapping[str, Node], walks: Mapping[str, Walk], reader: str) -> set[str]:
    """Returns the names under which the state has items where a branch reads it: of its fork, and of those around."""
    forks = [name for name, walk in walks.items() if name != ROOT and reader in walk.before]
    for name in forks:  # it grows
        forks += [one for one in walks[name].parents if one != ROOT and one not in forks]
    return {rule.item_name or "item" for name in forks for rule in nodes[name].rules if rule.foreach is not None}


def _written(node: Node) -> set[str]:
    """Returns the names in its scope that a node may write, as far as the definition shows."""
    output = node.step.output if node.step else None
    joined = {node.fan_in.target or node.name} if node.fan_in else set[str]()
    try:
        named = json.loads(output.text) if output else None
    except ValueError:  # the output is a single template
        named = None
    return joined | (set(named) if isinstance(named, dict) else {node.name})
