"""The workflows that can be started, and the versions that runs are pinned to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from stepwell.definition.built_in import BUILT_IN
from stepwell.definition.durable import UNKNOWN, FunctionFacts, fields_missing, lacking, not_taken, parameters_of
from stepwell.definition.graph import EventSettings, Graph, Json, Limit
from stepwell.definition.text import closest
from stepwell.engine.waits.code import DEPLOYED
from stepwell.errors import EngineFault, InvalidInput, NotFound, Problem
from stepwell.prices import Prices
from stepwell.runtime.ports import Notes

_BY_DEFAULT = EventSettings()
_OWN = {DEPLOYED: EventSettings(consume_on_read=False, delivery="broadcast")}


class Catalog:
    """Graphs by name (the version deployed now) and by version (any that a run was started with)."""

    def __init__(
        self,
        compile_document: Callable[[Mapping[str, Json]], Graph],
        graphs: Iterable[Graph] = (),
        limits: Mapping[str, Limit] | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._compile = compile_document
        self.limits: Mapping[str, Limit] = limits or {}
        """The named limits deployed now, which apply to runs of all versions."""
        self.prices = prices or Prices()
        """The prices for computing costs, also those of runs that ended before."""
        self.flawed: Mapping[str, Problem] = {}
        """Why a workflow is not deployed, by its name; "": what is wrong with a file that does not tell the name.

        A deployment on AWS has none of these.
        """
        self.functions: Mapping[str, FunctionFacts] = {}
        """What callers of a durable function need to know, by its path."""
        self._current: dict[str, Graph] = {}
        self._versions: dict[str, Graph] = {}
        self._own: dict[str, Graph] = {}
        self._kept: set[str] = set()
        self.replace(graphs)

    def replace(
        self, graphs: Iterable[Graph], limits: Mapping[str, Limit] | None = None, prices: Prices | None = None
    ) -> None:
        """Deploys another set of workflows; runs under way keep their versions.

        `limits`, `prices`: None for the same.
        """
        self.limits = self.limits if limits is None else limits
        self.prices = prices or self.prices
        self._current = {graph.name: graph for graph in graphs}
        self._events = _OWN | {name: one for graph in self._current.values() for name, one in graph.events.items()}
        self._versions = {**self._versions, **{graph.version: graph for graph in self._current.values()}}

    @property
    def current(self) -> Mapping[str, Graph]:
        return self._current

    def named(self, name: str) -> Graph:
        """Returns the version deployed now. Raises NotFound."""
        graph = self._current.get(name) or self._built_in(name)
        if graph is None:
            if (flaw := self.flawed.get(name)) is not None:
                message = f"the workflow {name!r} has an error: {flaw.place}: {flaw.message} ({flaw.code})"
                raise NotFound(message, code="unknown_workflow", hint=flaw.hint or None)
            near = closest(name, self._current)
            hint = near if near.endswith("?") else f"deployed: {', '.join(sorted(self._current)) or 'none'}"
            if (flaw := self.flawed.get("")) is not None:
                hint += f"; a file with an error may define it: {flaw.place}: {flaw.message} ({flaw.code})"
            raise NotFound(f"there is no workflow {name!r}", code="unknown_workflow", hint=hint)
        return graph

    def called(self, name: str, run_id: str) -> Graph:
        """Returns the version deployed now, for a child run with this id. Raises NotFound. A test replaces it."""
        return self.named(name)

    def _built_in(self, name: str) -> Graph | None:
        """Returns one of Stepwell's own workflows, compiled on first use; None if there is none of this name."""
        if name in BUILT_IN and name not in self._own:
            self._own[name] = graph = self._compile(BUILT_IN[name])
            self._versions[graph.version] = graph
        return self._own.get(name)

    def event_settings(self, name: str) -> EventSettings:
        """Returns the settings for events of this name, from the definitions deployed now."""
        return self._events.get(name, _BY_DEFAULT)

    def check_arguments(self, graph: Graph, given: Json) -> None:
        """Raises InvalidInput for an input without a parameter that the durable function must have."""
        facts = self.functions.get(graph.code)
        if facts is not None and (needed := lacking(facts, given)):
            what = f"has {', '.join(sorted(given)) or 'nothing'}" if isinstance(given, dict) else "is no object"
            missing = f"{', '.join(needed)} {'is' if len(needed) == 1 else 'are'} missing"
            raise InvalidInput(f"the input does not fit {graph.name}: {missing}", code="step_input",
                               hint=f"it takes each parameter by name; this one {what}")  # fmt: skip

    def left_out(self, graph: Graph, given: Json) -> list[str]:
        """Tells of each name in the input that no parameter of the durable function takes."""
        names = parameters_of(self.functions.get(graph.code, UNKNOWN))
        if names is None or not isinstance(given, dict):
            return []
        return [_left_out(graph.name, one, names) for one in given if one not in names]

    def not_filled(self, graph: Graph, given: Json) -> list[str]:
        """Tells of the fields that the input has not, of a model that takes the whole input."""
        model, names = fields_missing(self.functions.get(graph.code, UNKNOWN), given)
        if not names:
            return []
        what = f"{', '.join(f'`{name}`' for name in names)}, which {model} needs"
        return [f"the input has no {what}: the run may fail at its start."]

    def not_taken(self, graph: Graph, given: Json) -> list[str]:
        """Tells of values in the input of types that the durable function most likely refuses."""
        return [
            f"{place or 'the input'} is {what}, where {graph.name} takes {taken}: the run may fail at its start."
            for place, what, taken in not_taken(self.functions.get(graph.code, UNKNOWN), given)
        ]

    async def save(self, notes: Notes) -> None:
        """Stores every current definition under its hash, before any run is pinned to it."""
        for graph in self._current.values():
            await self.keep(graph, notes)

    async def keep(self, graph: Graph, notes: Notes) -> None:
        """Stores the definition once for each process, as JSON text: the order of its nodes is part of it."""
        if graph.version not in self._kept:
            await notes.put_definition(graph.version, json.dumps(graph.document))
            self._kept.add(graph.version)

    async def pinned(self, version: str, notes: Notes) -> Graph:
        """Returns the graph of a version, from memory or from the store. Raises EngineFault if it is not stored."""
        graph = self._versions.get(version)
        if graph is None:
            body = await notes.get_definition(version)
            if body is None:
                raise EngineFault(f"version {version} of a workflow is not stored", code="version_lost")
            graph = self._versions[version] = self._compile(json.loads(body))
        return graph


def _left_out(workflow: str, name: str, parameters: Sequence[str]) -> str:
    near = closest(name, parameters)
    meant = f": {near}" if near.endswith("?") else "."
    takes = ", ".join(parameters) or "no input"
    return f"{workflow} has no parameter `{name}`, so it was left out{meant} It takes {takes}."
