"""Redriving: a new run goes on from where an ended one failed.

    header ── the records that it keeps ── REDRIVEN: from here on it is a run like any other ── a wake

Each call is safe to repeat. The new run's id is computed from the old one's, so a run is redriven once, by whoever
asks first; the record REDRIVEN is written last, and nobody moves or shows the run before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from stepwell.definition.graph import Graph
from stepwell.engine.codec import encode_record
from stepwell.engine.forks import branch_id, fork_id
from stepwell.engine.inputs import Redriven
from stepwell.engine.records import ROOT, End, Failure, Fork, Kind, Record, Status
from stepwell.engine.redriving import kept_of
from stepwell.errors import Conflict, EngineFault, NotFound
from stepwell.limits import REDRIVE_RECORDS
from stepwell.runtime.log.claims import stow
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook, Standing, run_info
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.ports import REDRIVE, Header, Ports
from stepwell.runtime.starts.starting import Started, Starter


class Redriver:
    """Redrives runs."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter, door: Door, advance: Advance) -> None:
        self._ports, self._logbook, self._starter = ports, logbook, starter
        self._door, self._advance = door, advance

    async def redrive(self, old: Header, since: str, version: str, who: str) -> Started:
        """Makes the run that goes on, or finds the one that an earlier call made.

        Raises Conflict, InvalidInput, NotFound (the workflow, or the version).
        """
        run_id, by = redriven_id(old.run_id), f"{REDRIVE}:{old.run_id}"
        asked = _fingerprint(since, version)
        there = await self._ports.runs.get_run(run_id)
        _check_same(there, asked, old)
        at = None if there is None else await self._logbook.load(run_id)
        if there is None or at is None:
            at = await self._made(old, there, asked, since, version, who)
        if at.token.last is not None and at.token.last.kind is Kind.REDRIVEN:
            await self._advance.push(at, by)  # also again: the first call may have died before it
        return Started(at.header, there is None)

    async def _made(
        self, old: Header, there: Header | None, asked: str, since: str, version: str, who: str
    ) -> Standing:
        records = await self._logbook.history(old.run_id, ROOT, -1, None)
        if not old.status.terminal or not records:
            raise Conflict("the run has not ended", code="not_ended", hint="cancel or terminate it first")
        kept = kept_of(old.run_id, records, since)
        log = await self._with_branches(old.run_id, kept.records)
        graph = await self._graph(old, there, version)
        _check_fits(await self._starter.pinned(old), graph, kept.node)
        header = there or await self._created(graph, old, records[-1], asked)
        for token, record in log:
            await self._write(header.run_id, token, record)
        at = Standing(header, run_info(header), await self._starter.pinned(header), kept.token, -1)
        first_ms = kept.first_ms or max(old.created_ms, old.start_at_ms, kept.token.started_ms)
        given = Redriven(
            old.run_id,
            kept.first_run,
            first_ms,
            kept.node,
            _error_of(records[-1]),
            kept.keyed_by,
            who,
        )
        return (await self._door.put(at, given, f"{REDRIVE}:{old.run_id}")).at

    async def _graph(self, old: Header, there: Header | None, version: str) -> Graph:
        """The version that was asked for, else the one deployed now. Raises NotFound."""
        if there is not None:
            return await self._starter.pinned(there)
        if not version:
            return self._starter.named(old.workflow)
        try:
            graph = await self._starter.pinned(replace(old, version=version))
        except EngineFault as fault:
            raise NotFound(f"no version {version!r} is stored", code="unknown_version") from fault
        if graph.name != old.workflow:
            raise NotFound(f"{version!r} is a version of {graph.name}", code="unknown_version")
        return graph

    async def _created(self, graph: Graph, old: Header, last: Record, asked: str) -> Header:
        now_ms = max(self._ports.clock.now_ms(), last.at_ms + 1)  # what it keeps is older than the run
        header = Header(
            run_id=redriven_id(old.run_id),
            workflow=graph.name,
            version=graph.version,
            input=old.input,
            created_ms=now_ms,
            status=Status.PENDING,
            fingerprint=asked,
            priority=old.priority,
            tags=dict(old.tags),
            origin=f"{REDRIVE}:{old.run_id}",
            trace=old.trace,
            changed_ms=now_ms,
        )
        there = await self._starter.create(graph, header)
        _check_same(there, asked, old)
        return there or header

    async def _with_branches(self, run_id: str, records: Sequence[Record]) -> list[tuple[str, Record]]:
        """These records of the root, and all of the branches that they lead to. Raises Conflict if they are many."""
        found = [(ROOT, record) for record in records]
        for token, record in found:  # grows as it is read
            if len(found) > REDRIVE_RECORDS:
                raise Conflict(f"a redrive keeps at most {REDRIVE_RECORDS} records of the run and its branches",
                               code="log_too_long", hint="redrive it `from` an earlier step, or rerun it")  # fmt: skip
            if not isinstance(record.next, Fork):
                continue
            for page in record.next.pages:
                names = [branch_id(fork_id(token, record.slot), index) for index in record.next.page_indexes(page)]
                logs = await self._logbook.logs_of(run_id, names)
                found += [(name, one) for name, log in logs.items() for one in log]
        return found

    async def _write(self, run_id: str, token: str, record: Record) -> None:
        body = await stow(encode_record(record), self._ports.blobs, run_id)
        await self._ports.log.append(run_id, token, record.slot, body)


def redriven_id(run_id: str) -> str:
    """Returns the id of the run that goes on from this one."""
    return "run_" + hashlib.sha256(json.dumps([REDRIVE, run_id]).encode()).hexdigest()[:26]


def _fingerprint(since: str, version: str) -> str:
    return hashlib.sha256(json.dumps([since, version]).encode()).hexdigest()


def _check_same(there: Header | None, asked: str, old: Header) -> None:
    if there is not None and there.fingerprint != asked:
        raise Conflict(f"{old.run_id} is redriven already, otherwise, as {there.run_id}", code="already_redriven",
                       hint="redrive that run, if it failed in its turn")  # fmt: skip


def _check_fits(old: Graph, graph: Graph, node: str) -> None:
    """Raises Conflict for a version that cannot go on from there."""
    has_code, had_code = graph.first.durable is not None, old.first.durable is not None
    if has_code != had_code or not (has_code or not node or node in graph.nodes):
        raise Conflict(f"version {graph.version} of {graph.name} has no step {node!r} to go on from", code="step_gone",
                       hint="name a `version` that has it, or a step to go on `from`")  # fmt: skip


def _error_of(last: Record) -> Failure | None:
    return last.error or (last.next.error if isinstance(last.next, End) else None)
