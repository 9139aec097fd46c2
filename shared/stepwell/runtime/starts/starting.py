"""Starting: creates a run's header, and then sets the run going. Both may be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from stepwell.definition.graph import EventSettings, Graph, Json
from stepwell.engine.copying import changed
from stepwell.engine.gathering import alone
from stepwell.engine.limits.permits import pace_of, share_of
from stepwell.engine.records import RunInfo, Status
from stepwell.engine.routing import violations
from stepwell.engine.starts import BATCH, ITEMS
from stepwell.engine.token import NEW
from stepwell.engine.writing import deadline_ms
from stepwell.errors import ExpressionError, InvalidInput, Problem
from stepwell.prices import Prices
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.messages import Deadline, Wake
from stepwell.runtime.log.standing import pool_at, run_info
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.admission import check_event_key, check_event_name, check_json, check_run_id, check_tags
from stepwell.runtime.starts.versions import Versions
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """An event for a run: with its start, or while it runs."""

    name: str
    payload: Json = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """A request for a run. `key` is the caller's idempotency key; `run_id` serves as one too.

    `event`: for the run with this id, whether it runs already or is started by this request.
    """

    workflow: str
    input: Json = None
    run_id: str = ""
    key: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    priority: int | None = None
    version: str = ""  # its hash, an alias, LATEST, or PIN (the deployed one, for good); "": LATEST
    start_at_ms: int = 0
    create_only: bool = False
    origin: str = ""  # the `origin` of the run's header
    event: Signal | None = None
    trace: str = ""  # the caller's `traceparent`; a repeated start may have another


@dataclass(frozen=True, slots=True)
class Started:
    """The run, and whether this call made it; a repeated call gets the first one's.

    `folded`: the start became part of a run that another start had made. `warnings`: sentences for whoever started it.
    `dropped`: of a redriven function, what had completed after the failure, and is not kept.
    """

    header: Header
    created: bool
    folded: bool = False
    warnings: tuple[str, ...] = ()
    dropped: Sequence[dict[str, Json]] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """The run that started this one, and the place in its log. Stored as text in the header's `parent`."""

    run_id: str
    token: str
    slot: int
    index: int  # among the children of that wait; -1: nobody waits for this run
    depth: int  # how many runs are above it

    def __str__(self) -> str:
        return f"{self.run_id}|{self.token}|{self.slot}|{self.index}|{self.depth}"

    @classmethod
    def of(cls, header: Header) -> Caller | None:
        """Returns the caller of a run; None if no other run started it."""
        if header.parent is None:
            return None
        run_id, token, slot, index, depth = header.parent.split("|")
        return cls(run_id, token, int(slot), int(index), int(depth))


def check_start(request: Start) -> None:
    """Raises InvalidInput for errors that can be seen without a store or a definition."""
    if request.event is not None:
        if not request.run_id:
            raise InvalidInput("a start with an event has a run_id", code="no_run_id",
                               hint="it names the run that gets the event, or that is started")  # fmt: skip
        check_event_name(request.event.name)
        check_event_key(request.event.id)
        check_json(request.event.payload, "payload")
    if request.key and request.run_id:
        raise InvalidInput("a start has either a run_id or an Idempotency-Key", code="two_keys",
                           hint="each makes the start repeatable; send one")  # fmt: skip
    if request.run_id:
        check_run_id(request.run_id)
    check_json(request.input, "input")
    check_tags(request.tags)


class Starter:
    """Creates runs, for callers and for other runs."""

    def __init__(self, ports: Ports, catalog: Catalog, alarms: Alarms) -> None:
        self._ports, self._catalog, self._alarms = ports, catalog, alarms
        self.versions = Versions(ports, catalog)

    def named(self, workflow: str) -> Graph:
        """Returns the definition for new runs of this workflow. Raises NotFound."""
        return self._catalog.named(workflow)

    def prices(self) -> Prices:
        """Returns the prices for computing costs."""
        return self._catalog.prices

    async def called(self, workflow: str, parent: Header, run_id: str) -> Graph:
        """Returns the definition for a child run: its parent's, if that is pinned and of the same workflow."""
        is_own = parent.pinned and workflow == parent.workflow
        return await self.pinned(parent) if is_own else self._catalog.called(workflow, run_id)

    def check(self, graph: Graph, header: Header) -> None:
        """Raises InvalidInput for an invalid input of a whole run, which may be a batch's."""
        check_whole(graph, header.input)
        self._catalog.check_arguments(graph, header.input)
        check_keys(graph, run_info(header))

    def check_one(self, graph: Graph, header: Header) -> None:
        """Raises InvalidInput for an invalid input of a single start, whose own the header has."""
        check_input(graph, header.input)
        given = alone(graph, header.input)
        self._catalog.check_arguments(graph, given)
        check_keys(graph, run_info(replace(header, input=given)))

    def check_arguments(self, graph: Graph, given: Json) -> None:
        """Raises InvalidInput for an input without a parameter that the durable function deployed now must have."""
        self._catalog.check_arguments(graph, given)

    def warnings(self, graph: Graph, given: Json) -> tuple[str, ...]:
        """Returns sentences about an input that is valid, and may not be what its sender meant."""
        whole = alone(graph, given)
        catalog = self._catalog
        return (*catalog.left_out(graph, whole), *catalog.not_filled(graph, whole), *catalog.not_taken(graph, whole))

    def event_settings(self, name: str) -> EventSettings:
        """Returns the settings for events of this name."""
        return self._catalog.event_settings(name)

    def triggered(self, name: str) -> list[str]:
        """Returns the workflows of which an event of this name may start a run."""
        found = self._catalog.current.values()
        return [graph.name for graph in found if any(one.event == name for one in graph.event_triggers)]

    async def pinned(self, header: Header) -> Graph:
        """Returns the definition that this run follows."""
        return await self._catalog.pinned(header.version, self._ports.notes)

    async def create(self, graph: Graph, header: Header) -> Header | None:
        """Creates the run. Returns None, or the header of the run that has its id already."""
        await self._catalog.keep(graph, self._ports.notes)
        return await self._ports.runs.create_run(header)

    async def set_going(self, header: Header, wake_ms: int = 0) -> None:
        """Arms the run's deadline, then the wake that makes it run, not before `wake_ms`. A second one is harmless."""
        graph = await self.pinned(header)
        token = NEW if not header.idle else changed(NEW, started_ms=self._ports.clock.now_ms())
        limit_ms = deadline_ms(graph, run_info(header), token)
        if limit_ms is not None:
            await self._alarms.arm(Lane.RESUME, Deadline(header.run_id), limit_ms, header.created_ms)
        slot = 0 if header.idle else -1
        wake = Wake(header.run_id, slot, pool=pool_at(graph, graph.start), yields=True)
        await self._alarms.arm(Lane.WORK, wake, max(header.start_at_ms, wake_ms), header.created_ms)

    def child(
        self,
        graph: Graph,
        run_id: str,
        given: Json,
        caller: Caller,
        parent: Header,
        called_ms: int = 0,
        trace: str = "",
    ) -> Header:
        """Returns the header of a child run, no older than `called_ms`. Raises InvalidInput for an invalid input."""
        now_ms = max(self._ports.clock.now_ms(), called_ms)
        made = Header(run_id, graph.name, graph.version, given, now_ms, Status.PENDING, priority=parent.priority,
                      parent=str(caller), changed_ms=now_ms, trace=trace, pinned=parent.pinned)  # fmt: skip
        self.check_one(graph, made)
        return replace(made, input=alone(graph, given))


def check_input(graph: Graph, given: Json) -> None:
    """Raises InvalidInput for an input that the definition's `input_schema` refuses."""
    if graph.input_schema is not None and (found := graph.input_schema.problems(given)):
        problems = tuple(Problem("input_schema", why, path=f"/input{path}") for path, why in found)
        hint = f"give it what input_schema of {graph.name} asks for, as `input` or with -i FILE|JSON"
        raise InvalidInput(f"the input violates input_schema: {violations(found)}", problems=problems, hint=hint)


def check_keys(graph: Graph, run: RunInfo) -> None:
    """Raises InvalidInput if a key of the workflow's limits cannot be computed: the run would fail before its start."""
    try:
        share_of(graph, run)
        pace_of(graph, run)
    except ExpressionError as error:
        hint = "the start's input must have what the key reads"
        raise InvalidInput(error.message, code="bad_key", hint=hint) from error


def check_whole(graph: Graph, given: Json) -> None:
    """Raises InvalidInput for an invalid input of a whole run, which may be a batch's."""
    if graph.gathering is None or graph.gathering.mode != BATCH:
        check_input(graph, given)
        return
    items = given.get(ITEMS) if isinstance(given, dict) else None
    if not isinstance(items, list):
        raise InvalidInput(f"the input of a batch has `{ITEMS}`, a list", code="bad_input",
                           hint=f"write {{{ITEMS}: [...]}}")  # fmt: skip
    for item in items:
        check_input(graph, item)
