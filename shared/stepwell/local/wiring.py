"""Assembles the local adapters over a data folder and a workflow folder."""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from stepwell.api.runs.views import view_of
from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph, Limit
from stepwell.definition.targets import parse_hosts
from stepwell.errors import PortError
from stepwell.extras import require
from stepwell.limits import SECOND_MS
from stepwell.local.bell import Bell, RingingQueue
from stepwell.local.blobs import FolderBlobs
from stepwell.local.database import Database
from stepwell.local.dead import SqliteDeadQueue
from stepwell.local.ends import Ends
from stepwell.local.folder import PRIVATE_FOLDER, link_key
from stepwell.local.lines import RunLines
from stepwell.local.live import LiveFeed
from stepwell.local.log_files import LocalRunLogs, LogFile
from stepwell.local.outgoing import Outgoing, TellingStore
from stepwell.local.run_logs import LoggedSteps
from stepwell.local.snapshotting import FolderFiles
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sweeping import LocalSweeper
from stepwell.memory.inbox import Inbox
from stepwell.prices import Prices
from stepwell.project import project_of
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.calls.links import Links
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.snapshots import Snapshots
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import Pause, block, run_now
from stepwell.runtime.loop.sharing import Sharing
from stepwell.runtime.notify.sender import Sender
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.ids import new_id
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind
from stepwell.runtime.steps.services import Services, ServiceSteps
from stepwell.runtime.stores.blobs import of_run
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import DEFAULT_URL, OTEL_ENDPOINT, environment
from stepwell.values import dataclass

DATABASE_FILE = "stepwell.db"
NOTIFICATIONS_FILE = "letters.db"  # the name of release 0.1, whose queue goes on
BLOBS_FOLDER = "blobs"


@dataclass(frozen=True, slots=True)
class Local:
    """All parts of one Stepwell on this machine."""

    parts: Assembly
    inbox: Inbox
    bell: Bell
    steps: FunctionSteps
    sweeper: LocalSweeper
    outgoing: Outgoing
    stopping: threading.Event
    live: LiveFeed
    repeated: Callable[[], AbstractContextManager[None]]  # a message of the inbox is handled within
    forget_lines: Callable[[], None]  # what deleted runs have logged
    purge: Callable[[int], int]  # deletes runs whose retention is over at this time; returns their number
    close: Callable[[], None]

    def deploy(
        self, graphs: tuple[Graph, ...], limits: Mapping[str, Limit] | None = None, prices: Prices | None = None
    ) -> None:
        """Deploys these workflows, named limits and prices; runs in progress keep their versions. None: the same."""
        self.parts.catalog.replace(graphs, limits, prices)
        run_now(self.parts.catalog.save(self.parts.ports.notes))


def _keeping(service: Service, snapshots: Snapshots) -> Callable[[Header], Awaitable[object]]:
    """What happens after a change of a run's status: its snapshot, and its traces if somebody wants them."""
    if not environment().get(OTEL_ENDPOINT):
        return snapshots.write_if_due
    require("otel", "the export of traces")
    from stepwell.otel import Background, open_traces  # noqa: PLC0415 - the SDK, only where it is asked for

    traces = Background(open_traces(service))

    async def keep(header: Header) -> None:
        await traces(header)
        await snapshots.write_if_due(header)

    return keep


# Another message costs next to nothing here, and what a message takes is mostly its wait for the processor.
SHARING = Sharing(message_ms=SECOND_MS, step_ms=5)
COPIES_AT_ONCE = 32  # of a redrive's writes: those that wait for the disk are one commit
KEPT_MS = 40  # a pause that is over at any moment keeps its thread so long: to give it back would take longer
KEPT_THREADS = 32  # of the gateway's, so that others are left for other calls


class StoppableClock(RealClock):
    """The machine's clock. A sleeping call holds no thread but for a moment, and ends when the server stops."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping, self._keeping = stopping, threading.Semaphore(KEPT_THREADS)

    async def sleep_ms(self, duration_ms: int, until: Future[None] | None = None) -> None:
        pause = Pause(max(duration_ms, 0), until)
        if until is None or duration_ms > KEPT_MS or not self._keeping.acquire(blocking=False):
            await pause
        else:
            try:
                block(pause)
            finally:
                self._keeping.release()
        if self._stopping.is_set():
            raise PortError("the server is stopping", hint="retry when it is back")


def _purging(store: TellingStore, inbox: SqliteQueue, blobs: FolderBlobs, outgoing: Outgoing) -> Callable[[int], int]:
    """Returns what removes whatever is kept no longer, and tells how many runs that were."""

    def purge(now_ms: int) -> int:
        inbox.purge(now_ms)
        blobs.expire(now_ms)
        purged = store.purge(now_ms, lambda run_id: run_now(blobs.drop(of_run(run_id))))
        store.forget_lines()  # also those of a worker that outlived a deleted run
        outgoing.scrub()  # also of what was still to be sent when its run was deleted
        return purged

    return purge


def open_local(
    data: Path,
    folder: Path,
    graphs: tuple[Graph, ...] = (),
    http_hosts: tuple[str, ...] = (),
    url: str = DEFAULT_URL,
    *,
    limits: Mapping[str, Limit] | None = None,
    prices: Prices | None = None,
    lane: int = 0,
    lines: LogFile | None = None,
    services: Services | None = None,
) -> Local:
    """Opens the data folder (which the caller has claimed) for these workflows. Raises PortError, UserError.

    `http_hosts` are those that HTTP steps and outgoing webhooks may call. `url` is the API's address.
    `lane`: so many branches of a new fork share a log; 0: none do. `lines`: where the lines of its runs are written.
    `services`: those of AWS that steps may call.
    """
    data.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    stopping, bell = threading.Event(), Bell()
    clock = StoppableClock(stopping)
    ends = Ends(clock)
    database = Database(data / DATABASE_FILE)
    blobs = FolderBlobs(data / BLOBS_FOLDER)
    store, inbox = TellingStore(database, blobs, ends), SqliteQueue(database, clock)
    queue = RingingQueue(inbox, inbox, bell)
    hosts, secrets = parse_hosts(http_hosts), SecretsByKind({"env": EnvironmentSecrets(environment())})
    keys = [link_key(data)]
    links = Links(url, lambda: keys)
    paths = project_of(folder).paths
    calls = Calls(HttpSteps(hosts, secrets), services=ServiceSteps(services))
    steps = FunctionSteps(folder, clock, calls, links, paths=paths)
    catalog, files = Catalog(partial(compile_document, trusted=True)), FolderFiles(data)
    parts = assemble(
        Ports(store, store, store, store, store, store, queue, queue, blobs, clock),
        catalog,
        LoggedSteps(steps),
        compile_expression=compile_expression,
        new_id=new_id,
        jitter=random.random,
        links=links,
        sharing=SHARING,
        pause_until=ends.pause_until,
        files=files,
        dead=SqliteDeadQueue(database, clock),
        run_logs=LocalRunLogs(data),
        lane=lane,
        copies_at_once=COPIES_AT_ONCE,
    )
    store.keep = _keeping(parts.service, Snapshots(parts.service, files, view_of))
    store.seen = RunLines(parts.service)
    store.teller.graph_of = parts.service.graph_of
    store.live = live = LiveFeed()
    store.lines = lines or LogFile(data)
    store.outgoing = outgoing = Outgoing(data / NOTIFICATIONS_FILE, Sender({}, secrets, hosts, clock), clock, stopping)

    sweeper = LocalSweeper(parts.ports, catalog, database, parts.stopping)

    def close() -> None:
        outgoing.close()
        database.close()

    local = Local(parts, inbox, bell, steps, sweeper, outgoing, stopping, live, database.repeated,
                  store.forget_lines, _purging(store, inbox, blobs, outgoing), close)  # fmt: skip
    local.deploy(graphs, limits, prices)
    return local
