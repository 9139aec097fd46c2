"""The dev server: API, workers, timers and sweeper of one machine in one process, on a data folder of its own.

Everything that matters is on disk before it is acknowledged: after a kill every run goes on from where it stood.
"""

from __future__ import annotations

import errno
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvicorn

from stepwell.api.console import NOT_BUILT, console_routes, is_built
from stepwell.api.live import own_address, stream_routes
from stepwell.api.routes import create_app
from stepwell.api.webhooks.replay import delivery_routes
from stepwell.api.webhooks.route import webhook_routes
from stepwell.collector import relax_collector
from stepwell.cors import cors_origins
from stepwell.definition.graph import Json
from stepwell.errors import PortError, Problem, UserError
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.local.folder import Claim, claim_folder
from stepwell.local.gateway import Gateway
from stepwell.local.log_files import logging_runs
from stepwell.local.once import HoldsFailures
from stepwell.local.protocol import Protocol
from stepwell.local.pump import Pump
from stepwell.local.reloading import Reloader, code_facts, code_problems, knows_webhooks, stamps, tell_problems
from stepwell.local.run_logs import Lines
from stepwell.local.signals import end_at_once, on_signals, say
from stepwell.local.ticker import Ticker
from stepwell.local.webhooks import LocalWebhooks
from stepwell.local.wiring import Local, open_local
from stepwell.project import Project, project_of
from stepwell.runtime.folder.loading import Folder, load_folder
from stepwell.runtime.folder.pricing import read_prices
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.sweeper import UNREADABLE
from stepwell.runtime.steps.services import Services
from stepwell.settings import environment, read_settings

log = logging.getLogger("stepwell.dev")

HOST = "127.0.0.1"
STOP_SECONDS = 1.0  # for requests under way, then for steps under way half of it
SWEEP_STILL_MS = MINUTE_MS


def serve(
    folder: Path,
    data: Path,
    port: int,
    *,
    reload: bool = True,
    then: Callable[[str], None] | None = None,
    services: Services | None = None,
) -> int:
    """Serves until it is told to stop, and calls `then` with its URL once it serves. Returns the exit status.

    `services`: those of AWS that steps may call.

    Raises StepwellError if it cannot serve at all.
    """
    log_to_stderr()
    settings = read_settings()
    prices = read_prices(settings.prices) if settings.prices else None
    with on_signals(end_at_once), claim_folder(data) as claim, logging_runs(data) as lines:
        listening = listen(port)
        seen = stamps(folder) if reload else None
        loaded = load_folder(folder)
        found = (*loaded.problems, *code_problems(folder))
        tell_problems(found)
        if not loaded.graphs and not loaded.errors:
            log.warning("there are no workflows in %s; write one there, or give the folder that has them", folder)
        _tell_missing(project_of(folder))
        local = open_local(
            data,
            folder,
            loaded.graphs,
            settings.http_hosts,
            url_of(listening),
            limits=loaded.limits,
            prices=prices or loaded.prices,
            lane=settings.lane,
            lines=lines,
            services=services,
        )
        local.parts.catalog.flawed = loaded.flawed
        local.parts.catalog.functions = code_facts(folder)
        try:
            return _serve(local, claim, folder, loaded, listening, told=found, seen=seen, then=then)
        finally:
            local.close()


def _tell_missing(project: Project) -> None:
    for name in project.not_installed():
        log.warning("the project needs %s, which is not installed here; install its dependencies", name)


def _serve(
    local: Local,
    claim: Claim,
    folder: Path,
    loaded: Folder,
    listening: socket.socket,
    *,
    told: Iterable[Problem],
    seen: Mapping[Path, int] | None,
    then: Callable[[str], None] | None,
) -> int:
    """Starts the parts in the order in which they need each other, and stops them the other way round.

    `told`: the problems of the folder. `seen`: its files, whose changes are followed; None: they are not.
    """
    webhooks = LocalWebhooks(environment())

    def serve_webhooks(document: Mapping[str, Json] | None) -> None:
        webhooks.replace(document)
        local.outgoing.replace(document)

    if knows_webhooks(loaded, folder):
        serve_webhooks(loaded.webhooks)  # before the first run moves: its endpoints are told of it
    again = local.inbox.reclaim()
    if again:
        were = "message was" if again == 1 else "messages were"
        log.info("%d %s under way when the last server ended, and will be delivered again", again, were)
    _guarded(local.forget_lines)  # of a deletion that the last server did not end
    _guarded(partial(_sweep, local, 0))
    pump, gateway = Pump(local), _gateway(local, folder, webhooks)
    server = Server(gateway, local.stopping, then, let_go=local.live.close)
    try:  # a signal may end it before it serves
        pump.start()
        _every(local, SWEEP_STILL_MS, partial(_sweep, local, SWEEP_STILL_MS))
        _every(local, HOUR_MS, partial(_purge, local))
        _every(local, SECOND_MS, Ticker(local.parts).tick)
        if seen is not None:
            Reloader(local, folder, serve_webhooks, told, seen).start()
        _every(local, SECOND_MS, partial(_end_if_lost, claim, server))
        relax_collector()
        server.run(sockets=[listening])
    finally:
        left = pump.stop(STOP_SECONDS / 2)
        gateway.close()
        if left:
            were = "1 step was under way; it runs" if left == 1 else f"{left} steps were under way; they run"
            log.info("%s again at the next start", were)
    if not claim.holds():
        raise UserError(f"the data folder {claim.path} was removed while the server ran, and its runs with it",
                        code="data_folder_lost", hint="end `stepwell dev` before you remove its data")  # fmt: skip
    return 0 if server.started else 1


def _gateway(local: Local, folder: Path, webhooks: LocalWebhooks) -> Gateway:
    more = (
        *webhook_routes(lambda: webhooks.sources),
        *delivery_routes(lambda: webhooks.sources),
        *stream_routes(own_address),
        *console_routes(),
    )
    if not is_built():
        log.warning(NOT_BUILT)
    origins = cors_origins(project_of(folder).properties)
    watch = partial(local.live.serve, local.parts.service)
    return Gateway(create_app(local.parts, more), origins=origins, watch=watch)


class Server(uvicorn.Server):
    """Says on stdout when it serves, and stops on a signal without raising it again."""

    def __init__(
        self,
        gateway: Gateway,
        stopping: threading.Event,
        then: Callable[[str], None] | None = None,
        path: str = "",
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        """`then` is called with the address once it serves. `path` goes behind the address that it prints.

        `let_go` ends what is open, because the server stops.
        """
        super().__init__(
            uvicorn.Config(
                gateway,
                lifespan="off",
                http=Protocol,
                ws="wsproto",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=int(STOP_SECONDS),
            )
        )
        self._stopping, self._then, self._path, self._let_go = stopping, then, path, let_go
        self._ended_by = "its caller"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            url = url_of(sockets[0])
            say(f"ready {url}{self._path}")
            if self._then:
                threading.Thread(target=self._then, args=(url,), name="stepwell-then", daemon=True).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Says why it stops, first."""
        log.info("stopped by %s", self._ended_by)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal stops the server, and wakes the calls that wait."""
        with on_signals(self._stop):
            yield

    def _stop(self, kind: signal.Signals) -> None:
        self.stop(kind.name)

    def stop(self, why: str) -> None:
        """Has the server stop, and say that it was stopped by this."""
        self._ended_by = why
        self._stopping.set()
        self._let_go()
        self.should_exit = True


def _end_if_lost(claim: Claim, server: Server) -> None:
    """A server whose data folder is gone would serve on, and acknowledge what no disk holds."""
    if not claim.holds():
        server.stop("the removal of its data folder")


def url_of(listening: socket.socket) -> str:
    """What this machine's programs reach the socket by."""
    return f"http://{HOST}:{listening.getsockname()[1]}"


def listen(port: int) -> socket.socket:
    """A socket on this machine's own address. Raises UserError `port_in_use`, `bad_port`."""
    # Without the protocol, asyncio leaves Nagle's algorithm on: each answer waits 40 ms until its head is acknowledged.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            message = f"cannot listen on port {port}: another program does, perhaps another `stepwell dev`"
            hint = "end that one, or take a free port: stepwell dev --port 0"
            raise UserError(message, code="port_in_use", hint=hint) from error
        message, hint = f"cannot listen on port {port}: {error}", "take a free port: stepwell dev --port 0"
        raise UserError(message, code="bad_port", hint=hint) from error
    return listening


def _sweep(local: Local, still_ms: int) -> None:
    for found in run_now(local.sweeper.sweep(still_ms)):
        if found.why == UNREADABLE:
            log.warning("run %s cannot be read, and stands still; others go on (stepwell recover)", found.run_id)
        else:
            log.info("run %s stood still (%s); it was woken", found.run_id, found.why)


def _purge(local: Local) -> None:
    purged = local.purge(local.parts.ports.clock.now_ms())
    if purged:
        log.info("%d ended runs were dropped: their retention is over", purged)


def _every(local: Local, interval_ms: int, task: Callable[[], None]) -> None:
    def loop() -> None:
        while not local.stopping.wait(interval_ms / SECOND_MS):
            _guarded(task)

    threading.Thread(target=loop, name="stepwell-periodic", daemon=True).start()


def _guarded(task: Callable[[], None]) -> None:
    """One run that cannot be read must not keep the others from being served."""
    try:
        task()
    except PortError as error:
        log.warning("housekeeping: %s; it is tried again later", error)
    except Exception:
        log.exception("housekeeping failed; it is tried again later")


def log_to_stderr() -> None:
    """Short lines for a person; what a step logs is among them, with its run."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    handler.addFilter(HoldsFailures(handler))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # Its word for the calls that it gives up as it stops, which the gateway has answered.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not str(record.msg).startswith("Cancel "))
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
