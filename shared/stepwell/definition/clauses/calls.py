"""Compiles child runs, `run: workflow:name` and `children:`, to the graph's Call."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.called import called_at
from stepwell.definition.child_names import child_names
from stepwell.definition.clauses.waits import timeout_of
from stepwell.definition.formats.common import Context, check_name, retry_of
from stepwell.definition.graph import Call, Child, Json, Step
from stepwell.limits import CHILDREN

SCHEME = "workflow:"
_OF_THE_CHILD = (
    "propagate",
    "isolate",
    "return",
)  # values of `on_failure` that define the effect of a failed child on its node


def runs_workflow(data: Mapping[str, Json]) -> bool:
    """Returns whether `run` names a workflow instead of a function."""
    return "run" in data and data["run"].startswith(SCHEME)


def call_of(context: Context, name: str, data: Mapping[str, Json], path: str) -> Call | None:
    """Compiles the child runs that the node `name` starts and waits for; None if it starts none."""
    single = runs_workflow(data)
    if not single and "children" not in data:
        return None
    children = (_child(context, data, path),) if single else _children(context, name, data["children"], path)
    timeout, timeout_ms = timeout_of(context, data, "timeout", path, "workflow" if single else "children")
    on_failure = data.get("on_failure", "abort")
    return Call(
        children=children,
        single=single,
        timeout=timeout,
        timeout_ms=timeout_ms,
        output=context.template(data, "output", path),
        retry=retry_of(context, data["retry"], f"{path}/retry") if "retry" in data else None,
        on_failure="abort" if on_failure in _OF_THE_CHILD else on_failure,
        failed_child=on_failure if on_failure in _OF_THE_CHILD else "propagate",
        siblings=data.get("siblings", "cancel"),
        parent_close=data.get("parent_close", "cancel"),
    )


def detached_of(context: Context, data: Mapping[str, Json], path: str) -> Step:
    """Compiles the step that starts an independent run without waiting for it."""
    child = _child(context, data, path)
    if data.get("on_failure") in _OF_THE_CHILD:
        message = f"`on_failure: {data['on_failure']}` has no effect on a detached run: no run sees its failure"
        context.add("misplaced_key", message, f"{path}/on_failure", "write abort, skip or compensate, or remove it")
    return Step(
        run=data["run"],
        input=child.input,
        output=context.template(data, "output", path),
        retry=retry_of(context, data["retry"], f"{path}/retry") if "retry" in data else None,
        on_failure=data.get("on_failure", "abort"),
    )


def check_step_failure(context: Context, data: Mapping[str, Json], path: str) -> None:
    """Checks `on_failure` of a node that runs a function."""
    if data.get("on_failure") in _OF_THE_CHILD:
        message = f"`on_failure: {data['on_failure']}` is for child runs"
        context.add("misplaced_key", message, f"{path}/on_failure", "write abort, skip or compensate")


def _child(context: Context, data: Mapping[str, Json], path: str) -> Child:
    workflow: str = data["run"].removeprefix(SCHEME)
    check_workflow(context, workflow, f"{path}/run")
    return Child(workflow, workflow, context.template(data, "input", path))


def _children(context: Context, name: str, written: Json, path: str) -> tuple[Child, ...]:
    place = f"{path}/children"
    if not written:
        context.add("missing_key", "`children` is empty", place, "list the workflows: children: [{workflow: fraud}]")
    if len(written) > CHILDREN:
        message = f"`{name}` starts {len(written)} child runs"
        hint = f"at most {CHILDREN}; for more, use `foreach` with a node that calls one workflow"
        context.add("too_many_children", message, place, hint)
        return ()
    listed = [(f"{place}/{at}", one) for at, one in enumerate(written) if one is not None]
    names = child_names([(one["workflow"], one.get("name")) for _, one in listed])
    children: dict[str, Child] = {}
    for child, (at, one) in zip(names, listed, strict=True):
        if check_workflow(context, one["workflow"], f"{at}/workflow") or "name" in one:
            check_name(context, child, f"{at}/name" if "name" in one else f"{at}/workflow", "child")
        if child in children:
            context.add("duplicate_name", f"two children are named `{child}`", f"{at}/name", "rename one")
        children[child] = Child(child, one["workflow"], context.template(one, "input", at))
    return tuple(children.values())


def check_workflow(context: Context, workflow: str, path: str) -> bool:
    """Returns whether the name is valid, and records the call; the folder check finds unknown workflows."""
    if not check_name(context, workflow, path, "workflow"):
        return False
    context.called.append(called_at(workflow, path))
    return True
