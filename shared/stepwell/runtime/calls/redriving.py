"""Redriving: a new run goes on from where an ended one failed.

    header ── the records that it keeps, and where branches arrived ── REDRIVEN: from here on it is a run like any other

Each call is safe to repeat. The new run's id is computed from the old one's, so a run is redriven once, by the first
caller; the record REDRIVEN is written last, and nobody moves or shows the run before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import Write
from stepwell.engine.copying import changed
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.forks.join import fan_in_of, must_tell, packed
from stepwell.engine.forks.marks import is_one_set
from stepwell.engine.forks.members import tally_of
from stepwell.engine.inputs import Redriven
from stepwell.engine.records import ROOT, End, Failure, Finished, Fork, Goto, Kind, Record, Status
from stepwell.engine.redriving import Kept, kept_of, visits_of
from stepwell.engine.starts import with_input
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.token import Token
from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.calls.keeping import Arrivals, Keeper, Part, Plan, dropped, going_on, kept_steps
from stepwell.runtime.calls.resending import Resender
from stepwell.runtime.calls.tolerated import check_completed
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log.claims import stow
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing, run_info
from stepwell.runtime.loop.advance import Advance, can_move
from stepwell.runtime.loop.together import for_all
from stepwell.runtime.ports import Joined, Ports
from stepwell.runtime.ports.headers import REDRIVE, Header, check_held
from stepwell.runtime.starts.ids import redriven_id
from stepwell.runtime.starts.starting import Started, Starter
from stepwell.runtime.starts.versions import PIN, asked_of


class Redriver:
    """Redrives runs."""

    def __init__(
        self,
        ports: Ports,
        logbook: Logbook,
        starter: Starter,
        door: Door,
        advance: Advance,
        forking: Forking,
        at_once: int = 1,
    ) -> None:
        """`at_once`: how many of a run's records are written at once, each in a thread, if the ports are slow."""
        self._ports, self._logbook, self._starter = ports, logbook, starter
        self._door, self._advance, self.forking, self._at_once = door, advance, forking, at_once
        self._resender = Resender(ports)

    async def redrive(self, old: Header, since: str, version: str, who: str) -> Started:
        """Creates the run that goes on, or returns the one that an earlier call created, without what that dropped.

        Raises Conflict, InvalidInput, NotFound (the workflow, or the version).
        """
        run_id, by = redriven_id(old.run_id), f"{REDRIVE}:{old.run_id}"
        asked = _fingerprint(since, version)
        there = await self._ports.runs.get_run(run_id)
        _check_same(there, asked, old)
        at, left = None if there is None else await self._logbook.load(run_id), list[Part]()
        if there is None or at is None:
            at, left = await self._redrive(old, there, asked, since, version, who)
        if at.token.last is not None and at.token.last.kind is Kind.REDRIVEN:
            await self.push(at, by)  # also when repeated: the first call may have died before this
        return Started(at.header, there is None, dropped=[asdict(one) for one in left])

    async def foretold(self, old: Header, since: str, version: str) -> dict[str, Json]:
        """Returns what the new run would keep, and where it would go on. Writes nothing. Raises as `redrive` does.

        For a run that is redriven already, returns what that call would have done; `refused` tells whether this call
        would be refused.
        """
        there = await self._ports.runs.get_run(redriven_id(old.run_id))
        is_same = there is not None and there.fingerprint == _fingerprint(since, version)
        graph, plan, records = await self._plan(old, there if is_same else None, since, version, is_dry=True)
        if there is None:
            new = self._header(graph, old, max(records[-1].at_ms, plan.last_ms), _fingerprint(since, version), version)
            check_held(new, await self._ports.erasure.held_until_ms(new.run_id))
        return {
            "run_id": old.run_id,
            "workflow": graph.name,
            "version": graph.version,
            "redriven_as": None if there is None else there.run_id,
            "refused": None if there is None or is_same else REDRIVEN,
            "kept_records": len(plan.logs),
            "kept": [asdict(one) for one in kept_steps(plan)],
            "again": [asdict(one) for one in going_on(plan, since)],
            "dropped": [asdict(one) for one in dropped(plan, records)],
            "sent_again": [
                one.told()
                for one in await self._resender.due(old.run_id, redriven_id(old.run_id), plan, records, since)
            ],
        }

    async def _plan(
        self, old: Header, there: Header | None, since: str, version: str, *, is_dry: bool = False
    ) -> tuple[Graph, Plan, list[Record]]:
        """Returns the version, the plan of what is kept, and the records of the failed run."""
        records = await self._logbook.history(old.run_id, ROOT, -1, None)
        if not old.status.terminal or not records:
            raise Conflict("the run has not ended", code="not_ended", hint="cancel or terminate it first")
        keeper = Keeper(self._logbook, self.forking, old.run_id, is_dry=is_dry)
        was = await self._starter.pinned(old)
        check_completed(was, old.run_id, records)
        if since and all(node != since for _, node in visits_of(records)):
            _check_since(was, records, since, await keeper.holder_of(records, since))
        plan = await keeper.plan(kept_of(old.run_id, records, since))
        graph = await self.graph_for(old, there, version)
        for kept in (plan.root, *plan.branches):
            check_fits(was, graph, kept)
        if there is None:
            self._check_arguments(graph, old, records)
        return graph, plan, list(records)

    def _check_arguments(self, graph: Graph, old: Header, records: Sequence[Record]) -> None:
        """Raises InvalidInput if the function deployed now does not take the input: it could not be replayed."""
        if any(record.kind is Kind.RETURNED and isinstance(record.next, Goto) for record in records):
            return  # its last life has an input of its own
        try:
            self._starter.check_arguments(graph, _input(old, records))
        except InvalidInput as error:
            hint = "give what is new among its parameters a default, and deploy that; or fork the run in slot 0 with "
            raise InvalidInput(error.message, code=error.code, hint=f"{hint}another `input`") from error

    async def _redrive(
        self, old: Header, there: Header | None, asked: str, since: str, version: str, who: str
    ) -> tuple[Standing, list[Part]]:
        """Makes the run. Returns it, and what it does not keep."""
        graph, plan, records = await self._plan(old, there, since, version)
        header = there or await self._created(
            graph, replace(old, input=_input(old, records)), max(records[-1].at_ms, plan.last_ms), asked, version
        )
        await self.copy(header.run_id, plan)
        for one in await self._resender.due(old.run_id, header.run_id, plan, records, since):
            await self._resender.send(header.run_id, one)

        async def go_on(kept: Kept) -> None:
            await self._go_on(header, graph, kept, records[-1], old, who)

        await for_all(plan.branches, go_on, self._at_once)
        await self._arrive(header.run_id, graph, plan)
        pinned = await self._starter.pinned(header)
        at = await self._go_on(header, pinned, plan.root, records[-1], old, who, tuple(plan.finished))
        return at, dropped(plan, records)

    async def _go_on(
        self,
        header: Header,
        graph: Graph,
        kept: Kept,
        last: Record,
        old: Header,
        who: str,
        finished: tuple[Finished, ...] = (),
    ) -> Standing:
        """Writes REDRIVEN into the log of the run or of a branch."""
        at = Standing(header, run_info(header), graph, kept.token, -1)
        first_ms = kept.first_ms or max(old.created_ms, old.start_at_ms, kept.token.started_ms)
        error = _error_of(last)
        given = Redriven(
            old.run_id,
            kept.first_run,
            first_ms,
            kept.node,
            error,
            kept.keyed_by,
            who,
            kept.reopens,
            kept.evaluator,
            finished=finished,
        )
        return await self.mark(at, given, f"{REDRIVE}:{old.run_id}")

    async def copy(self, run_id: str, plan: Plan) -> None:
        """Writes the records that a run keeps, each into a free slot, in no order: nobody reads them yet."""

        async def write(kept: tuple[str, Record]) -> None:
            await self._write(run_id, *kept)

        await for_all(plan.logs, write, self._at_once)

    async def mark_all(self, many: Sequence[Standing], given: Redriven, by: str) -> None:
        """Records that these branches go on."""

        async def mark(at: Standing) -> None:
            await self.mark(at, given, by)

        await for_all(many, mark, self._at_once)

    async def mark(self, at: Standing, given: Redriven, by: str) -> Standing:
        """Records that the run, or a branch, goes on here. Returns it as it then is."""
        return (await self._door.put(at, given, by)).at

    def begun(self, at: Standing, given: Redriven, by: str) -> Standing:
        """Returns what `mark` would return, and writes nothing."""
        action = self._door.decide(at, given, by)
        return at.after(action.record) if isinstance(action, Write) else at

    async def push(self, at: Standing, by: str) -> None:
        """Has a worker go on with the run, unless one has taken it up: a repeated call may be late."""
        if can_move(at.token):
            await self._advance.wake(at, yields=True)
        else:
            await self._advance.push(at, by)

    async def _arrive(self, run_id: str, graph: Graph, plan: Plan) -> None:
        """Has the branches that are kept arrive at the joins of the new run."""
        forks = {
            fork_id(kept.token.id, len(kept.records) + 1): kept.reopens
            for kept in (plan.root, *plan.branches)
            if kept.reopens is not None
        }

        async def arrive(one: Arrivals) -> None:
            fork, joined = forks[one.fork_id], Joined()
            page = 0 if is_one_set(fork) else one.page
            for member in one.members:
                joined = await self._ports.log.arrive(run_id, f"{one.fork_id}@{page}", member, in_order=fork.by_arrival)
            tally = tally_of(joined.members)
            if not is_one_set(fork) and must_tell(fan_in_of(graph, fork), fork, page, tally, is_failed=False):
                await self._ports.log.report(run_id, one.fork_id, page, packed(tally))

        await for_all(plan.arrivals, arrive, self._at_once, stretch=1)

    async def graph_for(self, old: Header, there: Header | None, version: str) -> Graph:
        """Returns the version asked for, else the one deployed now, or a pinned run's own. Raises NotFound."""
        if there is not None:
            return await self._starter.pinned(there)
        return await self._starter.versions.graph(old.workflow, asked_of(old, version), old.version)

    async def _created(self, graph: Graph, old: Header, last_ms: int, asked: str, version: str) -> Header:
        header = self._header(graph, old, last_ms, asked, version)
        there = await self._starter.create(graph, header)
        _check_same(there, asked, old)
        return there or header

    def _header(self, graph: Graph, old: Header, last_ms: int, asked: str, version: str) -> Header:
        now_ms = max(self._ports.clock.now_ms(), last_ms + 1)  # the records that it keeps are older than the run
        return Header(
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
            pinned=asked_of(old, version) == PIN,
            changed_ms=now_ms,
        )

    async def _write(self, run_id: str, token: str, record: Record) -> None:
        body = await stow(encode_record(changed(record, together=0)), self._ports.blobs, run_id)
        await self._ports.log.append(run_id, token, record.slot, body)


REDRIVEN = "already_redriven"  # the error code if the run was redriven with other options


def _input(old: Header, records: Sequence[Record]) -> Json:
    """Returns the run's input, also if it ended before it began."""
    return with_input(run_info(old), fold(records, Token())).input


def _fingerprint(since: str, version: str) -> str:
    return hashlib.sha256(json.dumps([since, version]).encode()).hexdigest()


def _check_same(there: Header | None, asked: str, old: Header) -> None:
    if there is not None and there.fingerprint != asked:
        raise Conflict(f"{old.run_id} is redriven already, otherwise, as {there.run_id}", code=REDRIVEN,
                       hint="redrive that run, if it failed in its turn")  # fmt: skip


def _check_since(graph: Graph, records: Sequence[Record], since: str, holder: str) -> None:
    """Raises Conflict for a step that only branches can have come to: a run goes on from a step of its own.

    `holder`: the step or operation whose branches came to it, if the run can be redriven from that.
    """
    if holder:
        raise Conflict(f"{since} is a step of a fork's branches, those of {holder}", code="failed_in_fork",
                       hint=f"redrive it `from` {holder}, which runs again with all its branches; or leave out `from`, "
                       "and it goes on where it failed")  # fmt: skip
    if since in graph.nodes and any(isinstance(record.next, Fork) for record in records):
        raise Conflict(f"{since} is a step of a fork's branches", code="failed_in_fork",
                       hint="leave out `from`: each branch that did not complete goes on where it failed; or redrive "
                       "it `from` a step before the fork, or rerun it")  # fmt: skip


def check_fits(old: Graph, graph: Graph, kept: Kept) -> None:
    """Raises Conflict if this version cannot go on from there."""
    if graph.replays != old.replays or (kept.node and graph.place(kept.node) is None):
        raise Conflict(f"version {graph.version} of {graph.name} has no step {kept.node!r} to go on from",
                       code="step_gone", hint="name a `version` that has it, or a step to go on `from`")  # fmt: skip
    fork, node = kept.reopens, kept.token.node
    if fork is None or fork.is_awaited or _branching(old, node, fork) == _branching(graph, node, fork):
        return
    raise Conflict(f"version {graph.version} of {graph.name} forks otherwise, where the run failed in a fork",
                   code="step_gone", hint="name a `version` that forks alike, or a step to go on `from`")  # fmt: skip


def _branching(graph: Graph, node: str, fork: Fork) -> Json:
    """Returns what the branches of a fork depend on: where they begin and meet, and their inputs."""
    if fork.needs:
        return list(graph.first.members)
    there = graph.nodes.get(node)
    rules = {rule.id: [rule.to, rule.foreach and rule.foreach.text] for rule in there.rules} if there else {}
    groups = [[group.node in graph.nodes, rules.get(group.rule)] for group in fork.groups]
    return [groups, fork.join in graph.nodes]


def _error_of(last: Record) -> Failure | None:
    return last.error or (last.next.error if isinstance(last.next, End) else None)
