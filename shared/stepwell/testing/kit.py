"""The testing kit's main class: start runs, move the clock, answer approvals, send events, inspect results.

A run moves only when the test looks at it, so steps can be mocked after the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.api.runs.histories import read_history
from stepwell.api.runs.views import read_run
from stepwell.api.runs.waiting import Shown
from stepwell.definition.compiler import compile_definition
from stepwell.definition.durations import parse_duration
from stepwell.definition.event_names import is_own
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph, Json, Limit
from stepwell.engine.entries import entry_json
from stepwell.errors import DefinitionError, NotFound, Problem, UserError
from stepwell.limits import FORKS_KEPT, PAGE_ITEMS_MAX, SESSIONS_KEPT
from stepwell.local.replaying import Replayed, exported, read_exports
from stepwell.local.user_items import LocalTable
from stepwell.memory.inbox import Inbox
from stepwell.runtime.assembly import assemble
from stepwell.runtime.calls.links import Links
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.sharing import Sharing
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.deploys import tell_deployed
from stepwell.runtime.starts.starting import Start
from stepwell.testing.backend import Backend, in_memory
from stepwell.testing.borrowed import refuse_borrowed
from stepwell.testing.driver import MOST_MESSAGES, Driver
from stepwell.testing.frames import hidden
from stepwell.testing.mocks import Mock, MockedCatalog, MockedSteps, Takes
from stepwell.testing.names import Names, event_names, step_names
from stepwell.testing.replays import assert_all_replay, export_lines
from stepwell.testing.runs import Run
from stepwell.testing.starts import check_start
from stepwell.testing.webhooks import Webhooks

__all__ = ["URL", "Run", "Stepwell"]

if TYPE_CHECKING:
    from stepwell.client import AsyncClient, Client
    from stepwell.definition.models import WorkflowDef
    from stepwell.testing.transport import InProcess

URL = "https://stepwell.test"  # the base of a test's links; no server answers there
_logger = logging.getLogger("stepwell.testing")


@hidden
class Stepwell:
    """A whole Stepwell in memory: the production engine and API operations, on a clock that the test moves."""

    def __init__(self, folder: Path | str, backend: Backend | None = None, *, sessions: int = SESSIONS_KEPT) -> None:
        """`sessions`: how many durable functions stay in memory between operations; with 0, nothing stays in memory."""
        backend = backend or in_memory()
        self._folder, self._clock = Path(folder), backend.clock
        self._items: Any = backend.ports.log  # a local one holds users' items too
        self._links = Links(URL, lambda: [b"the key of the testing kit, for no other use"])
        self._calls = backend.calls
        self._steps = self._new_steps(sessions)
        self._graphs: dict[str, Graph] = {}
        self._deployed: dict[str, Graph] = {}  # by version: a run goes on with the one that it began with
        self._of_folder: set[str] = set()  # the other ones are defined by the test
        self._mocked: set[str] = set()
        self._numbers = count(1)
        self._parts = assemble(
            backend.ports,
            MockedCatalog(self._steps, self._folder),
            self._steps,
            compile_expression=compile_expression,
            new_id=lambda: f"{next(self._numbers):06d}",
            jitter=lambda: 0.5,
            links=self._links,
            forks_kept=FORKS_KEPT if sessions else 0,
            sharing=Sharing(step_ms=0),
        )
        self.service = self._parts.service
        self._driver = self._new_driver(backend.inbox)
        self._sources = self._load()

    def _new_steps(self, sessions: int) -> MockedSteps:
        return MockedSteps(self._folder, self._clock, self._links, sessions, self._calls)

    def _new_driver(self, inbox: Inbox) -> Driver:
        return Driver(self._parts, inbox, self._clock)

    def reload(self) -> None:
        """Deploys the folder's current code; runs in progress continue with it."""
        self.settle()
        self._steps.reload()
        self._sources = self._load()
        run_now(tell_deployed(self._parts.ports, f"reload{next(self._numbers)}"))

    def close(self) -> None:
        """Releases waiting durable functions, so that their `finally` blocks run now.

        Raises UserError for a mock whose name no step turned out to have.
        """
        self._steps.close()
        self._step_names().refuse_unmet(self._mocked, self._steps.met, "mock")

    def _load(self) -> Mapping[str, Json] | None:
        loaded = load_folder(self._folder)
        _refuse_errors(loaded.errors)
        found = {graph.name for graph in loaded.graphs}
        for gone in self._of_folder - found:
            self._graphs.pop(gone, None)
        self._of_folder = found
        self._deploy(loaded.graphs, loaded.limits)
        self._parts.catalog.prices, self._parts.catalog.functions = loaded.prices, {}
        return loaded.webhooks

    def webhooks(self, secrets: Mapping[str, str]) -> Webhooks:
        """Returns the folder's webhook sources, to call as their senders do; `secrets` are by variable."""
        return Webhooks(self._parts, self._sources, secrets)

    def client(self) -> Client:
        """Returns a client of this test's API, for code that takes one. Its calls never wait for the clock."""
        from stepwell.client import Client  # noqa: PLC0415 - httpx: only for tests that ask for it

        return Client(URL, transport=self._transport())

    def async_client(self) -> AsyncClient:
        """The same as `client`, for asyncio."""
        from stepwell.client import AsyncClient  # noqa: PLC0415 - as above

        return AsyncClient(URL, transport=self._transport())

    def _transport(self) -> InProcess:
        from stepwell.testing.transport import InProcess  # noqa: PLC0415 - as above

        return InProcess(self._parts, self.settle)

    def define(self, written: str | WorkflowDef) -> Graph:
        """Adds a workflow written in the test: YAML, JSON, or a model. Raises DefinitionError."""
        text = written if isinstance(written, str) else written.model_dump_json(exclude_unset=True)
        compiled = compile_definition(text)
        if compiled.graph is None:
            _refuse_errors(compiled.errors)
            raise DefinitionError("the definition holds no workflow")
        self._of_folder.discard(compiled.graph.name)
        self._deploy((compiled.graph,))
        return compiled.graph

    @refuse_borrowed
    def mock(
        self,
        name: str,
        *,
        returns: object = None,
        raises: BaseException | type[BaseException] | None = None,
        times_out: bool = False,
        times: int | None = None,
        takes: Takes = 0,
    ) -> Mock:
        """Replaces a step by its node's name, its function's name or its `run`, for `times` attempts or always.

        Child runs too, by their workflow's name; a run that the test starts is never replaced. `returns` may be a
        function of the input. `takes`: the virtual time of an attempt, such as "3s", or a function that tells it from
        the step's input.
        Raises UserError if no step can have the name. What only a durable function tells is checked by `close`.
        """
        if raises is not None and not _is_exception(raises):
            hint = f"raises=ValueError({raises!r}), or the class of an exception"
            raise UserError(f"mock: {raises!r} cannot be raised", code="bad_value", hint=hint)
        if self._graphs:  # else `define` comes later
            self._step_names().refuse([name], "mock")
        self._mocked.add(name)
        mock = Mock(returns, raises, times_out, times, takes)
        self._steps.add(name, mock)
        return mock

    def start(self, workflow: str, input: Json = None, **options: Any) -> Run:  # noqa: A002  the API's own word
        """Creates a run, which moves on first access. Options: run_id, key, tags, priority, start_at_ms."""
        check_start(input, options)
        if not self._graphs:
            hint = "put the test below the project, or name their folder: stepwell_folder of pytest's settings"
            told = f"there is no workflow {workflow!r}: {self._folder} has no workflows"
            raise NotFound(told, code="unknown_workflow", hint=hint)
        started = run_now(self.service.start(replace(Start(workflow, input), **options)))
        for sentence in started.warnings:
            _logger.warning("%s", sentence)
        return Run(self, started.header.run_id)

    def event(self, name: str, payload: Json = None, key: str | int = "", event_id: str = "") -> None:
        """Sends an event to the waits for its name and key, now or later.

        Raises UserError if nothing can wait for this name or be started by it.
        """
        if self._graphs and not is_own(name) and not self._steps.may_ask_for(name):
            event_names(self._folder, self._deployed.values()).refuse([name], "event")
        run_now(self.service.send_event(name, payload, key=str(key), event_id=event_id))

    def runs(self, workflow: str) -> list[Run]:
        """Returns at most 500 runs of a workflow, oldest first, including those of events and schedules.

        Raises NotFound for a workflow that is neither in the folder, defined nor mocked.
        """
        self.settle()
        page = run_now(self.service.runs(RunQuery(workflow, limit=PAGE_ITEMS_MAX)))
        if not page.headers and workflow not in self._mocked:
            self._parts.catalog.named(workflow)
        return [Run(self, header.run_id) for header in reversed(page.headers)]

    def callback(self, url: str, body: Json = None, error: str = "", message: str = "") -> None:
        """Posts a result, or an error of that type, to a callback's URL. Raises NotFound, Conflict."""
        self.settle()
        link = self._links.callback(url.rpartition("/")[2], self._clock.now_ms())
        if error:
            run_now(self.service.callbacks.fail(link, {"type": error, "message": message, "data": body}))
        else:
            run_now(self.service.callbacks.complete(link, body))

    def table(self, name: str) -> LocalTable:
        """Returns one of the user's tables, as `ctx.transact` writes it: `get`, `items`, and `put` for existing items.

        Local stores only; read an emulated table with its own client.
        """
        return LocalTable(name, self._items)

    def _step_names(self) -> Names:
        return step_names(self._folder, self._graphs.values())

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def advance(self, duration: str | float) -> None:
        """Moves the clock; timers and schedules on the way fire at their own times."""
        self._driver.advance(parse_duration(duration))

    def settle(self) -> None:
        """Handles every due message, and moves the clock past the steps under way. Raises EngineFault."""
        self._driver.settle()

    def view(self, run_id: str) -> Mapping[str, Any]:
        """The run as GET /runs/{id} shows it."""
        self.settle()
        return run_now(read_run(self.service, run_id, Shown(self._links)))

    def history(self, run_id: str, *, phases: bool = False) -> list[Mapping[str, Any]]:
        """The run's history entries, oldest first. `phases`: the changes of phase too."""
        self.settle()
        page = run_now(read_history(self.service, run_id, "", MOST_MESSAGES, phases=phases))
        return [entry_json(entry) for entry in page.entries]

    def export(self, run_id: str) -> list[Json]:
        """Returns the lines of a run's export."""
        self.settle()
        return run_now(export_lines(self.service, run_id))

    def replay(self, what: Run | Path | str) -> list[Replayed]:
        """Replays a run, an export file or a folder of exports against the folder's code.

        Raises AssertionError if they differ.
        """
        exports = [exported(what.export(), what.id)] if isinstance(what, Run) else read_exports(Path(what))
        return assert_all_replay(self._folder, exports)

    def _deploy(self, graphs: tuple[Graph, ...], limits: Mapping[str, Limit] | None = None) -> None:
        self._graphs.update({graph.name: graph for graph in graphs})
        self._deployed.update({graph.version: graph for graph in graphs})
        self._parts.catalog.replace(self._graphs.values(), limits)
        self._driver.ticker.tick()  # new schedules count from now


def _is_exception(value: object) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _refuse_errors(problems: tuple[Problem, ...]) -> None:
    if problems:
        raise DefinitionError("\n".join(str(problem) for problem in problems), problems=problems)
