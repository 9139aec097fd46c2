"""Compiles `fan_in:` of a node: the join of a fork."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.formats.common import Context, check_name
from stepwell.definition.graph import FanIn, Json

_AS_WRITTEN = ("merge", "on_early_complete", "on_branch_failure", "first_failure")
_POLICIES = {"first_successful": "any"}  # other names


def fan_in_of(context: Context, name: str, data: Mapping[str, Json], path: str) -> FanIn:
    """Compiles the join of the node `name`; missing keys get the documented defaults."""
    policy = data.get("policy", "all")
    given = {key: data[key] for key in _AS_WRITTEN if key in data}
    if "target" in data:
        check_name(context, data["target"], f"{path}/target", "target")
    tolerate = _tolerate(context, data, path)
    if "first_failure" in data and policy == "all":
        context.add("misplaced_key", "`first_failure` is for `any` and `m_of_n`", f"{path}/first_failure",
                    "a failed branch fails a join of all; `tolerate` says how many may")  # fmt: skip
    return FanIn(
        policy=_POLICIES.get(policy, policy) if isinstance(policy, str) else "m_of_n",
        need=0 if isinstance(policy, str) else policy["m_of_n"],
        target=data.get("target", name),
        tolerate_count=tolerate.get("count"),
        tolerate_percent=float(tolerate["percent"]) if "percent" in tolerate else None,
        **given,
    )


def _tolerate(context: Context, data: Mapping[str, Json], path: str) -> Mapping[str, Json]:
    if "tolerate" not in data:
        return {}
    tolerate: Mapping[str, Json] = data["tolerate"]
    place, hint = f"{path}/tolerate", "one of them: {count: 3} or {percent: 10}"
    if not tolerate:
        context.add("missing_key", "`tolerate` is empty", place, hint)
    elif len(tolerate) > 1:
        context.add("conflict", "`tolerate` has count and percent", place, hint)
    if data.get("on_branch_failure") == "collect":
        context.add("conflict", "`on_branch_failure: collect` tolerates every failure", place, "remove one of the two")
    if 0 < (percent := tolerate.get("percent", 0)) < 1:
        message = f"`percent: {percent:g}` is less than one in a hundred"
        hint = f"write percent: {percent * 100:g} if you mean {percent * 100:g} of 100"
        context.add("tiny_percent", message, f"{place}/percent", hint, severity="warning")
    return tolerate
