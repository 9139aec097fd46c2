"""Compiles the format `timeline`: entries in order, with diverge and branch rules."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from stepwell.definition.formats.common import Context, check_name, check_start
from stepwell.definition.formats.places import node_of
from stepwell.definition.graph import END, Json, Node, Rule
from stepwell.definition.text import closest

WAYS = ("back_to", "skip_to", "fail", "continue")


def compile_timeline(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    entries = [(at, entry) for at, entry in enumerate(document.get("timeline", ())) if entry is not None]
    order: dict[str, int] = {}
    for at, entry in entries:
        check_name(context, entry["name"], f"/timeline/{at}/name", "node")
        if entry["name"] in order:
            message = f"two entries are named `{entry['name']}`"
            context.add(
                "duplicate_name", message, f"/timeline/{at}/name", "rename one, because results are stored by name"
            )
        order.setdefault(entry["name"], at)
    following = dict(pairwise([*order, END]))
    nodes: dict[str, Node] = {}
    for at, entry in entries:
        path = f"/timeline/{at}"
        rules = (
            *_rules(context, order, entry, at, "diverge"),
            *_rules(context, order, entry, at, "branch"),
            Rule(f"{entry['name']}.next", "next", to=following[entry["name"]]),
        )
        nodes.setdefault(entry["name"], node_of(context, entry["name"], entry, path, rules))
    check_start(context, document, "a timeline starts at its first entry; `start` is auto or manual")
    return nodes


def _rules(context: Context, order: Mapping[str, int], entry: Mapping[str, Json], at: int, stage: str) -> list[Rule]:
    rules = []
    for number, rule in enumerate(entry.get(stage, ())):
        if rule is None:
            continue
        path = f"/timeline/{at}/{stage}/{number}"
        rules.append(
            Rule(
                id=f"{entry['name']}.{stage}[{number}]",
                stage=stage,
                when=context.condition(rule, "when", path),
                to=_target(context, order, rule, at, path),
                fail=rule.get("fail"),
                max_uses=rule.get("max"),
            )
        )
    return rules


def _target(context: Context, order: Mapping[str, int], rule: Mapping[str, Json], at: int, path: str) -> str | None:
    ways = [way for way in WAYS if way in rule]
    if len(ways) != 1:
        message = f"a rule has one of {', '.join(WAYS)}" + (f", not {' and '.join(ways)}" if ways else "")
        context.add("bad_rule", message, path, "split it into several rules" if ways else "add one of them")
        return None
    way = ways[0]
    if way == "continue" and rule["continue"] is not True:
        context.add("bad_value", "`continue` can only be true", f"{path}/continue", "remove the rule")
    if way == "fail" and not rule["fail"].strip():
        context.add("bad_value", "`fail` is empty", f"{path}/fail", "name the error: fail: card_declined")
    if way in ("fail", "continue"):
        return None
    target: str = rule[way]
    _check_target(context, order, way, target, at, f"{path}/{way}")
    return target


def _check_target(context: Context, order: Mapping[str, int], way: str, target: str, at: int, path: str) -> None:
    if target == END:
        if way == "back_to":
            context.add("bad_target", "`end` is not an earlier entry", path, "write skip_to: end")
    elif target not in order:
        context.add("unknown_target", f"`{way}` names `{target}`, which does not exist", path, closest(target, order))
    elif way == "back_to" and order[target] > at:
        context.add("bad_target", f"`{target}` is a later entry", path, f"write skip_to: {target}")
    elif way == "skip_to" and order[target] <= at:
        hint = f"write back_to: {target}"
        context.add("bad_target", f"`{target}` is not a later entry", path, hint)
