"""A workflow folder as one checked JSON document, which a deployed function reads instead of the files: see unpack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from stepwell.definition.clauses.http_steps import calls_of
from stepwell.definition.graph import DEFAULT_POOL, Graph, Json, ScheduleTrigger, Step
from stepwell.definition.targets import Hosts, parse_url
from stepwell.definition.timetable import parse_schedule
from stepwell.errors import DefinitionError, Problem
from stepwell.runtime.folder.loading import Folder, load_folder, load_limits
from stepwell.runtime.folder.pricing import load_prices
from stepwell.runtime.log.messages import Scheduled, to_json
from stepwell.runtime.notify.endpoints import endpoints_of

FORMAT = 1


def pack_folder(folder: Path, hosts: Hosts | None = None) -> Mapping[str, Json]:
    """Returns the folder's definitions, webhook sources, limits, prices, schedules, pools, and their calls.

    `calls` are what each pool's steps call; the stack makes the schedules. `hosts`: those that HTTP steps and webhooks
    may call; None: any. Raises NotFound; DefinitionError if a definition has errors.
    """
    loaded = load_folder(folder)
    here_only = () if hosts is None else tuple(_not_deployable(loaded, hosts))
    if errors := (*loaded.errors, *here_only):
        hint = None if loaded.errors else "stepwell check knows neither your deployment's hosts nor its secrets"
        raise DefinitionError(f"the definitions in {folder} have errors", hint=hint, problems=errors)
    return {
        "format": FORMAT,
        "pools": sorted({DEFAULT_POOL, *(_pool(step) for _, step in _steps(loaded.graphs))}),
        "calls": _calls(loaded.graphs),
        "definitions": [graph.document for graph in loaded.graphs],
        "webhooks": loaded.webhooks,
        "limits": load_limits(folder).document,
        "prices": load_prices(folder).document,
        "schedules": [_schedule(one) for graph in loaded.graphs for one in graph.schedules],
    }


def _schedule(trigger: ScheduleTrigger) -> Mapping[str, Json]:
    """Returns a schedule as EventBridge Scheduler takes it, with the message to send."""
    return {
        "name": trigger.name,
        "expression": parse_schedule(trigger.expression, trigger.timezone).aws,
        "timezone": trigger.timezone,
        "message": to_json(Scheduled(trigger.name)),
    }


def _steps(graphs: Iterable[Graph]) -> Iterator[tuple[str, Step]]:
    """Yields (`workflow: node`, step) of each step, compensation and time-out action."""
    for graph in graphs:
        for node in graph.nodes.values():
            waiting = node.wait or node.call
            for step in (node.step, node.compensate, *(waiting.timeout_actions if waiting else ())):
                if step is not None:
                    yield f"{graph.name}: {node.name}", step


def _pool(step: Step) -> str:
    return step.pool or DEFAULT_POOL


def _calls(graphs: Iterable[Graph]) -> Mapping[str, Json]:
    """Returns, by pool and kind, the Lambda functions, HTTP origins and secrets that its steps name."""
    found: dict[str, dict[str, set[str]]] = {}
    for _, step in _steps(graphs):
        for kind, name in calls_of(step):
            found.setdefault(_pool(step), {}).setdefault(kind, set()).add(name)
    return {pool: {kind: sorted(names) for kind, names in sorted(kinds.items())} for pool, kinds in found.items()}


def _not_deployable(loaded: Folder, hosts: Hosts) -> Iterator[Problem]:
    """Yields problems of steps and webhook endpoints that can work only on a person's machine."""
    called = [(place, name) for place, step in _steps(loaded.graphs) for kind, name in calls_of(step) if kind == "http"]
    endpoints = endpoints_of(loaded.webhooks).values()
    called += [(f"the endpoint {one.name}", parse_url(one.url).origin) for one in endpoints]
    for one in endpoints:
        if all(reference.startswith("env:") for reference in one.references):
            message = f"the endpoint {one.name} has no secret that the deployed sender can read"
            yield Problem("secret_missing", message, hint="list one by secretsmanager: or ssm: too")
    for place, name in called:
        if not hosts.allow(parse_url(name)):
            message = f"{place} calls {name}, which is not among the hosts that may be called"
            if name.startswith("https://"):
                yield Problem("http_host", message, hint=f"add {name.removeprefix('https://')} to http_hosts")
            else:
                yield Problem("http_host", message, hint="give its https address: a deployed step calls no other")
