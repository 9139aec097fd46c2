"""Puts the parts together over any ports: the worker, the coordinator and the service of one Stepwell."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.definition.built_in import BATCH
from stepwell.definition.compiled import Expression
from stepwell.limits import FORKS_KEPT, LONG_LOG_RECORDS, RUN_STEPS, SNAPSHOT_RECORDS
from stepwell.runtime.calls.batching import Batches
from stepwell.runtime.calls.dead import DeadQueue, NoDeadQueue
from stepwell.runtime.calls.erasing import Eraser, Files
from stepwell.runtime.calls.links import Links
from stepwell.runtime.calls.recovery import Recovery
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.spending import Spending
from stepwell.runtime.calls.task_tokens import TaskTokens
from stepwell.runtime.calls.updates import Updates
from stepwell.runtime.calls.workflow_pauses import WorkflowPauses
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.attempts import Attempts
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.pauses import Pauses
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.loop.resting import Resting
from stepwell.runtime.loop.sharing import SHARING, Sharing
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.loop.sweeper import Sweeper
from stepwell.runtime.loop.worker import Worker
from stepwell.runtime.ports import PauseUntil, Ports, Schedules
from stepwell.runtime.starts.schedules import Scheduling
from stepwell.runtime.starts.starting import Starter
from stepwell.runtime.starts.triggers import Triggers
from stepwell.runtime.steps.own import OwnSteps
from stepwell.runtime.steps.port import Steps
from stepwell.runtime.stores.log_lines import NoRunLogs, RunLogs
from stepwell.runtime.waits.mailbox import Mailbox
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything that handles a message or a call."""

    ports: Ports
    catalog: Catalog
    logbook: Logbook
    door: Door
    advance: Advance
    alarms: Alarms
    worker: Worker
    coordinator: Coordinator
    service: Service
    sweeper: Sweeper
    scheduling: Scheduling
    triggers: Triggers
    updates: Updates
    pausing: Pausing
    stopping: Stopping
    workflow_pauses: WorkflowPauses
    eraser: Eraser
    dead: DeadQueue
    recovery: Recovery
    run_logs: RunLogs
    links: Links | None = None


def assemble(
    ports: Ports,
    catalog: Catalog,
    steps: Steps,
    *,
    compile_expression: Callable[[str], Expression],
    new_id: Callable[[], str],
    jitter: Callable[[], float],
    snapshot_records: int = SNAPSHOT_RECORDS,
    max_steps: int = RUN_STEPS,
    pool: str | None = None,
    forks_kept: int = FORKS_KEPT,
    long_log_records: int = LONG_LOG_RECORDS,
    sharing: Sharing = SHARING,
    schedules: Schedules | None = None,
    links: Links | None = None,
    pause_until: PauseUntil | None = None,
    files: Files | None = None,
    dead: DeadQueue | None = None,
    run_logs: RunLogs | None = None,
    lane: int = 0,
    sweeps_at_once: int = 1,
    copies_at_once: int = 1,
) -> Assembly:
    """Builds all parts over these ports. `new_id` and `jitter` are the only randomness; both are passed in.

    `pool`: the pool whose steps this worker runs; None: all pools. `forks_kept`: 0 for a process that is always cold.
    `long_log_records`: from so many on, it reads on where it has read a token's log last. `schedules`: fires callers'
    schedules; None: a ticker of this process does. `sharing`: how long branches share a message. `pause_until`:
    shortens the pauses of calls that wait for a run. `files`: the store of snapshots. `dead`: the dead-letter queues.
    `run_logs`: the store of lines that runs' code logs. `lane`: how many branches of a new fork share a log; 0: none
    do. `sweeps_at_once`: how many runs the sweeper looks at in parallel; 1 for ports that answer at once.
    `copies_at_once`: likewise, how many records a redrive or a fork writes.
    """
    logbook = Logbook(ports, catalog, snapshot_records, max_steps, forks_kept, lane, long_log_records)
    alarms = Alarms(ports)
    starter = Starter(ports, catalog, alarms)
    door = Door(logbook, jitter)
    performer = Performer(ports, logbook, starter, Mailbox(ports, logbook, catalog, compile_expression), door)
    advance = Advance(ports, logbook, door, performer)
    pauses = Pauses(ports.notes, ports.clock)
    resting = Resting(ports, logbook)
    pausing = Pausing(ports, logbook, door, advance, pauses, resting)
    stopping = Stopping(ports, logbook, pausing, pauses)
    coordinator = Coordinator(ports, logbook, door, advance, performer, catalog)
    updates = Updates(ports, logbook, door, advance, steps)
    service = Service(ports, logbook, performer, coordinator, door, advance, starter, new_id, steps, updates, pausing,
                      pause_until, copies_at_once)  # fmt: skip
    eraser = Eraser(ports, logbook, service.terminate, performer.forking.shut, files)
    own = OwnSteps(steps, {BATCH: Batches(service, eraser, ports.clock).run})
    scheduling = Scheduling(ports, catalog, schedules)
    sweeper = Sweeper(ports, logbook, stopping, at_once=sweeps_at_once)
    attempts = Attempts(ports, logbook, performer, own, pool, TaskTokens(links).put_in)
    worker = Worker(ports, logbook, door, advance, performer, stopping, resting, own, pool, sharing,
                    Spending(logbook, ports.log, ports.clock, catalog).spent, attempts)  # fmt: skip
    return Assembly(
        ports, catalog, logbook, door, advance, alarms, worker, coordinator, service, sweeper, scheduling,
        Triggers(ports, catalog, scheduling, service.start), updates, pausing, stopping,
        WorkflowPauses(ports, catalog, pauses, stopping), eraser, dead or NoDeadQueue(),
        Recovery(ports, logbook, sweeper, starter, scheduling), run_logs or NoRunLogs(), links,
    )  # fmt: skip
