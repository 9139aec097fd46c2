"""Definitions to graphs: the entry points. Reads the text, checks it, compiles it, and reports everything it found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.called import Called
from stepwell.definition.checks import check_events_read, check_graph, check_members_read, check_steps_read, lint
from stepwell.definition.clauses.compensation import check_listed, compensate_on, lint_compensation
from stepwell.definition.clauses.events import Setting, events_of, settings_at
from stepwell.definition.clauses.flow import concurrency_of, durability_of, gathering_of, max_cost_of, rate_limit_of
from stepwell.definition.clauses.forks import check_forks
from stepwell.definition.clauses.locks import lock_of
from stepwell.definition.clauses.triggers import triggers_of
from stepwell.definition.durable import FoundFunction, compile_function, lint_function
from stepwell.definition.event_names import AGENT_ENDED
from stepwell.definition.formats.agent import compile_actions
from stepwell.definition.formats.common import MODES, Context, check_name, retry_of
from stepwell.definition.formats.dag import check_dag, compile_steps, dag_of, start_node
from stepwell.definition.formats.nodes import compile_nodes, start_of
from stepwell.definition.formats.timeline import compile_timeline
from stepwell.definition.graph import Graph, Json, Node
from stepwell.definition.guidelines import lint_guidelines
from stepwell.definition.input_names import check_input_read
from stepwell.definition.plain_texts import lint_texts
from stepwell.definition.state_names import check_state_read, properties_of
from stepwell.definition.states_language import named_by, with_resources
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import DefinitionError, Problem
from stepwell.limits import DEFINITION_NODES, ID_HELD_MS, RETENTION_MS
from stepwell.values import dataclass

MOST_PROBLEMS = 500  # of one definition: more than anybody reads


def _compile_states(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    from stepwell.definition.asl.machine import compile_machine  # noqa: PLC0415 - most folders have no state machine

    return compile_machine(context, document)


FORMATS = ("nodes", "timeline", "steps", "actions", "function", "States")
COMPILERS = {
    "timeline": compile_timeline,
    "nodes": compile_nodes,
    "steps": compile_steps,
    "actions": compile_actions,
    "function": compile_function,
    "States": _compile_states,
}
_WITH_STATE = frozenset({"nodes", "timeline", "steps"})  # an agent's variables may come from anywhere
_OF_ONE_FORMAT = {  # keys that the other formats do not have
    "StartAt": ("States", "write `start` in `nodes`; else a run begins at the first"),
    "resources": ("States", "write at each step what it runs"),
    "Comment": ("States", "write description"),
    "QueryLanguage": ("States", "remove it: expressions are CEL"),
    "TimeoutSeconds": ("States", "write timeout"),
    "Version": ("States", "remove it"),
    "compensation": ("steps", "write compensate: {run: python:module.undo} at the node itself"),
    "history_window": ("actions", "remove it; the other formats keep no conversation"),
    "cleanup": ("function", "write compensate_on: [cancel]"),
}
ENVELOPE = ("apiVersion", "kind", "metadata", "spec")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled definition: the graph if there are no errors, the problems, and what the folder has to judge.

    That is: the workflows it calls, and what it says of events.
    """

    graph: Graph | None
    problems: tuple[Problem, ...]
    called: tuple[Called, ...] = ()
    settings: tuple[Setting, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


@dataclass(frozen=True, slots=True)
class _Opened:
    """A document without its envelope."""

    body: Mapping[str, Json]
    prefix: str
    name: str | None


def compile_definition(text: str, file: str = "", resources: Mapping[str, Json] | None = None) -> Compiled:
    """Compiles YAML or JSON. Never raises for what the user wrote: it is all in `problems`, each with its place.

    `resources`: the checked `resources.yaml` of the folder, for state machines.
    """
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms: not for stored documents

    loaded, name = load_document(text, file), named_by(file)
    if loaded.problems:
        return Compiled(None, loaded.problems)
    data, unknown = with_resources(loaded.data, resources or {})
    written = _compile_written(data, name)
    written = replace(written, problems=(*unknown, *written.problems), graph=None if unknown else written.graph)
    placed = sorted((loaded.placed(problem, file) for problem in written.problems), key=_order)
    called = (replace(one, unknown=loaded.placed(one.unknown, file)) for one in written.called)
    settings = (replace(one, differs=loaded.placed(one.differs, file)) for one in written.settings)
    return Compiled(written.graph, tuple(placed[:MOST_PROBLEMS]), tuple(called), tuple(settings))


def compile_found(found: FoundFunction, file: str) -> Compiled:
    """Compiles a durable function that a scan found. A problem of an option is placed at the option."""
    made = _compile_written(found.document, None)
    return replace(made, problems=tuple(_in_code(one, found, file) for one in made.problems))


def _in_code(problem: Problem, found: FoundFunction, file: str) -> Problem:
    line, column = found.place(problem.path)
    return replace(problem, path="", file=file, line=line, column=column)


def compile_document(document: Mapping[str, Json], *, trusted: bool = False) -> Graph:
    """Compiles plain data. `trusted`: a graph's document, whose shape was checked before it was stored."""
    if trusted:
        context = Context(trusted=True)
        made = Compiled(_compile(context, document), tuple(context.problems))
    else:
        made = _compile_written(document, None)
    if made.graph is None:
        first, *others = made.errors
        more = f", and {len(others)} more" if others else ""
        raise DefinitionError(first.message + more, hint=first.hint or None, problems=made.errors)
    return made.graph


def version_of(document: Mapping[str, Json]) -> str:
    """The hash of the document. The order of nodes counts, for the first is the start; that of other keys does not."""
    canonical = json.dumps([document, list(document.get("nodes", ()))], sort_keys=True, ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _compile_written(data: Json, default_name: str | None) -> Compiled:
    from stepwell.definition.shape import as_written, check_shape  # noqa: PLC0415 - pydantic: 100 ms, only for new ones

    opening, context = Context(), Context()
    opened = _open(opening, data)
    if opened is None:
        return Compiled(None, tuple(opening.problems))
    shape = check_shape(opened.body, opened.prefix)
    if "workflow" not in shape.document and (name := opened.name or default_name) is not None:
        shape.document = {"workflow": name, **shape.document}
    graph = _compile(context, shape.document, flawed=bool(shape.problems or opening.problems))

    if graph is not None and graph.format != "States":  # whose paths and error names are its own
        lint_texts(context, shape.document)
        check_input_read(context, shape.document)

    def placed(problem: Problem) -> Problem:
        return replace(problem, path=as_written(problem.path, shape.written))

    name = str(shape.document.get("workflow", ""))
    found = (*opening.problems, *shape.problems, *(placed(one) for one in context.problems))
    problems = tuple(replace(one, workflow=name) for one in found)
    called = (replace(one, unknown=placed(one.unknown)) for one in context.called)
    settings = settings_at(graph.events) if graph is not None else ()
    return Compiled(
        graph, problems, tuple(called), tuple(replace(one, differs=placed(one.differs)) for one in settings)
    )


_DATA = "data belongs in a sub-folder of the workflow folder"


def _open(context: Context, data: Json) -> _Opened | None:
    if not isinstance(data, dict):
        context.add(
            "wrong_type",
            "a definition is a mapping",
            "",
            f"write `workflow: name` and `timeline:`, `nodes:`, `steps:` or `actions:`; {_DATA}",
        )
        return None
    opened = _Opened(data, "", None)
    if "spec" in data and not any(name in data for name in COMPILERS):
        opened = _unwrap(context, data)
    written = [name for name in FORMATS if name in opened.body]
    if not written:
        close = [key for key in opened.body if closest(key, COMPILERS).startswith("did you mean")]
        hint = closest(close[0], COMPILERS) if close else "write `timeline:`, `nodes:`, `steps:` or `actions:`"
        if not close and "workflow" not in opened.body:  # an input, say, that was saved beside the definitions
            hint += f"; {_DATA}"
        context.add("no_format", "the definition has no nodes", opened.prefix, hint)
    elif len(written) > 1:
        place = f"{opened.prefix}/{written[1]}"
        context.add("ambiguous_format", f"the definition has {' and '.join(written)}", place, "keep one of them")
    return opened


def _unwrap(context: Context, data: Mapping[str, Json]) -> _Opened:
    """The envelope: apiVersion, kind, metadata.name, spec."""
    for key in data:
        if key not in ENVELOPE:
            context.add("unknown_key", f"unknown key `{key}`", f"/{pointer_part(key)}", closest(key, ENVELOPE))
    metadata = data.get("metadata", {})
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not (name is None or isinstance(name, str)):
        context.add(
            "wrong_type", "`metadata` is a mapping whose `name` is text", "/metadata", "metadata: {name: my-flow}"
        )
    if not isinstance(data["spec"], dict):
        context.add("wrong_type", "`spec` is a mapping", "/spec", "put the definition under it")
        return _Opened({}, "/spec", None)
    return _Opened(data["spec"], "/spec", name if isinstance(name, str) else None)


def _compile(context: Context, document: Mapping[str, Json], flawed: bool = False) -> Graph | None:
    """The graph, unless there are errors. `flawed`: parts were cut out, so the whole cannot be judged."""
    _check_workflow_name(context, document)
    written_as = _format(document)
    context.inputs = frozenset(properties_of(document, "input_schema"))
    if "retry" in document:
        context.default_retry = retry_of(context, document["retry"], "/retry")
    nodes = COMPILERS[written_as](context, document)
    for key, (only, hint) in _OF_ONE_FORMAT.items():
        if key in document and written_as != only:
            context.add("misplaced_key", f"`{key}` is for the format `{only}`", f"/{key}", hint)
    start = start_of(context, document) if written_as == "nodes" else next(iter(nodes), "")
    _check_count(context, document, nodes)
    made = _graph(context, document, nodes, start)
    if context.failed or flawed:
        return None
    paths = _paths(context, document, nodes)
    check_steps_read(context, nodes)
    check_members_read(context, nodes)
    check_events_read(context)
    if written_as == "function":
        lint_function(context, document)
        return made
    if written_as == "steps":
        check_dag(context, made.first.members, paths)
        check_listed(context, document, nodes)
    else:
        check_graph(context, nodes, start, paths)
    made = replace(made, nodes={**made.nodes, **check_forks(context, nodes, start, paths)})
    if context.failed:
        return None
    if written_as in _WITH_STATE:
        check_state_read(context, nodes, document)
    if written_as != "States":
        lint(context, nodes, paths)
        lint_compensation(context, made, paths)
        lint_guidelines(context, made, paths)
    return made


def _check_workflow_name(context: Context, document: Mapping[str, Json]) -> None:
    name = document.get("workflow")
    if name is None:
        context.add("missing_key", "`workflow` is missing", "", "name it: workflow: order-review")
    elif not context.trusted:
        check_name(context, name, "/workflow", "workflow")


def _graph(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node], start: str) -> Graph:
    mode = document.get("start")
    entry = start_node(dag_of(document)) if "steps" in document else {}
    retention_ms = context.duration_ms(document, "retention", "")
    if retention_ms is not None and retention_ms < ID_HELD_MS:
        message = f"`retention` of {document['retention']} is less than an hour: an ended run is kept for an hour"
        context.add("short_retention", message, "/retention", "write 1h or more", severity="warning")
    event_triggers, schedules = triggers_of(context, document)
    return Graph(
        name=document.get("workflow", ""),
        version=version_of(document),
        format=_format(document),
        start=start,
        nodes={**nodes, **entry},
        document=document,
        description=document.get("description", ""),
        input_schema=context.schema(document, "input_schema"),
        output_schema=context.schema(document, "output_schema"),
        state_schema=context.schema(document, "state_schema"),
        timeout_ms=_timeout_ms(context, document),
        retention_ms=RETENTION_MS if retention_ms is None else retention_ms,
        priority=document.get("priority", 0),
        start_mode=mode if mode in MODES and mode != start else "auto",
        snapshot=document.get("snapshot", "none"),
        failure_policy=document.get("failure_policy", "fail"),
        compensate_on=compensate_on(context, document),
        announces=AGENT_ENDED if "actions" in document else "",
        internal=document.get("internal", False),
        events=events_of(context, document),
        event_triggers=event_triggers,
        schedules=schedules,
        lock=lock_of(context, document, nodes),
        concurrency=concurrency_of(context, document),
        rate_limit=rate_limit_of(context, document),
        gathering=gathering_of(context, document),
        max_cost_usd=max_cost_of(context, document),
        durability=durability_of(context, document, nodes),
        in_order="timeline" in document,
    )


def _timeout_ms(context: Context, document: Mapping[str, Json]) -> int | None:
    """The time limit of a run; a state machine may give it in its own words."""
    if "TimeoutSeconds" in document and "timeout" not in document:
        return int(document["TimeoutSeconds"] * 1000)
    return context.limit_ms(document, "timeout", "")


def _check_count(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> None:
    key = _format(document)
    if key in document and not document[key]:
        context.add("no_nodes", f"`{key}` is empty", f"/{key}", "a workflow has at least one node")
    if len(nodes) > DEFINITION_NODES:
        hint = f"at most {DEFINITION_NODES}: split the workflow"
        context.add("too_many_nodes", f"the workflow has {len(nodes)} nodes", f"/{key}", hint)


def _paths(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> dict[str, str]:
    written_as = _format(document)
    if written_as == "nodes":
        return {name: f"/nodes/{pointer_part(name)}" for name in nodes}
    if written_as == "States":
        return context.places
    return {name: f"/{written_as}/{at}" for at, name in enumerate(nodes)}


def _format(document: Mapping[str, Json]) -> str:
    return next((name for name in COMPILERS if name in document), "nodes")


def _order(problem: Problem) -> tuple[int, int, str]:
    return problem.line, problem.column, problem.code
