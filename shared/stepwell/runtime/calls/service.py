"""The service: starts, queries, ends and approves runs, and sends events. Answers are definite; wakes follow.

Everything that comes in is checked here, once, for every caller: a refusal is a UserError, and nothing was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import NoReturn

from stepwell.definition.built_in import BATCH
from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import Refuse
from stepwell.engine.forks.branches import has_abandoning, split_fork_id
from stepwell.engine.inputs import Cancelled, Terminated
from stepwell.engine.inputs import Started as StartAsked
from stepwell.engine.records import ROOT, Failure, Fork, Kind, Record, Resumption, Topic
from stepwell.engine.token import NEW
from stepwell.engine.waits import event_topic, run_topic
from stepwell.engine.writing import TERMINATED
from stepwell.errors import Conflict, DefinitionError, EngineFault, NotFound
from stepwell.limits import LOCK_OWNERS
from stepwell.runtime.calls.approvals import Approvals, answered, refused
from stepwell.runtime.calls.batching import Batch, check_batch
from stepwell.runtime.calls.branches import branches_from
from stepwell.runtime.calls.callbacks import Callbacks
from stepwell.runtime.calls.gathering import Gatherer
from stepwell.runtime.calls.givens import Givens
from stepwell.runtime.calls.kin import tell_original
from stepwell.runtime.calls.ledger import Cost, Ledger
from stepwell.runtime.calls.links import ApprovalLink
from stepwell.runtime.calls.logs import Logs
from stepwell.runtime.calls.narration import Narrator
from stepwell.runtime.calls.polling import poll
from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.calls.run_forks import RunForker
from stepwell.runtime.calls.starts import Starts
from stepwell.runtime.calls.survey import Surveyed, Surveyor
from stepwell.runtime.calls.updates import Answered, Updates
from stepwell.runtime.log.door import Answer, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.shown_nodes import shown_nodes
from stepwell.runtime.log.standing import Standing, run_info
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Pause, PauseUntil, Ports
from stepwell.runtime.ports.headers import RERUN, Header, RunPage, RunQuery
from stepwell.runtime.starts.admission import check_event_key, check_event_name, check_json, check_run_id
from stepwell.runtime.starts.starting import Start, Started, Starter
from stepwell.runtime.starts.versions import PIN, asked_of
from stepwell.runtime.steps.output import Emitted, read_output
from stepwell.runtime.steps.port import Steps
from stepwell.runtime.waits.sending import Sent

SHOWN_WITHIN_MS = 5_000  # a run's header has its end, after the log has it


class Service:
    """The operations behind the API, the CLI and the testing kit."""

    def __init__(
        self,
        ports: Ports,
        logbook: Logbook,
        performer: Performer,
        coordinator: Coordinator,
        door: Door,
        advance: Advance,
        starter: Starter,
        new_id: Callable[[], str],
        steps: Steps,
        updates: Updates,
        pausing: Pausing,
        pause_until: PauseUntil | None = None,
        copies_at_once: int = 1,
    ) -> None:
        self.ports, self._starter, self._new_id, self._steps, self._updates = ports, starter, new_id, steps, updates
        self._logbook, self._performer, self._coordinator = logbook, performer, coordinator
        self._door, self._advance, self._pausing = door, advance, pausing
        self._pause_until = pause_until or (lambda run_id: ports.clock.sleep_ms)
        self.prices = starter.prices
        self._approvals = Approvals(advance, self._standing, logbook.with_branches, performer.permits)
        self.callbacks = Callbacks(ports, logbook, coordinator, door)
        self._redriver = Redriver(ports, logbook, starter, door, advance, performer.forking, copies_at_once)
        gatherer = Gatherer(ports, logbook, starter, door, advance, new_id)
        self._starts = Starts(ports, starter, gatherer, performer.sending, new_id)
        self.forker = RunForker(ports, logbook, starter, self._redriver)

    # -- starting

    async def start(self, request: Start, own: str = "") -> Started:
        """Creates a run and wakes it. Raises NotFound, InvalidInput, Conflict (the key or id with another body).

        `own`: the version that PIN means.
        """
        graph = await self._starter.versions.graph(request.workflow, request.version, own)
        if graph.internal:
            raise Conflict(f"{graph.name} is internal: only another run can start it", code="internal_workflow",
                           hint=f"start a workflow that has `run: workflow:{graph.name}`")  # fmt: skip
        started = await self._starts.start(graph, request)
        return replace(started, warnings=self._starter.warnings(graph, request.input))

    async def batch(self, batch: Batch, key: str = "") -> Started:
        """Starts a run that acts on all runs of a filter. Raises InvalidInput, Conflict (key with another body)."""
        check_batch(batch)
        return await self._starts.start(self._starter.named(BATCH), Start(BATCH, asdict(batch), key=key))

    async def start_idle(self, run_id: str, who: str = "") -> Header:
        """Starts a run that was only created. Raises NotFound, Conflict."""
        at = await self._standing(run_id)
        if at.token.last is None or at.token.last.kind is not Kind.STARTED:
            by = f"start:{run_id}"
            answer = await self._door.put(at, StartAsked(who), by)
            if not answer.is_mine:
                raise Conflict(f"the run is {at.header.status}, not idle", code="not_idle")
            await self._advance.settle(answer.at, by)
        await self._starter.set_going(at.header)  # also when repeated: the first call may have died before this
        return await self.header(run_id)

    async def redrive(self, run_id: str, since: str = "", version: str = "", who: str = "") -> Started:
        """Goes on from where an ended run failed, as a new run. Raises NotFound, Conflict, InvalidInput.

        `since`: the step to go on from, instead. `version`: of the definition; else the one deployed now, or the run's
        own if it is pinned.
        """
        check_json([since, version, who], "redrive")
        return await self._redriver.redrive(await self._header_at_end(run_id), since, version, who)

    async def redrive_foretold(self, run_id: str, since: str = "", version: str = "") -> dict[str, Json]:
        """Returns what a redrive would keep and where it would go on. Writes nothing. Raises as `redrive`."""
        check_json([since, version], "redrive")
        return await self._redriver.foretold(await self._header_at_end(run_id), since, version)

    async def rerun(self, run_id: str, key: str = "", version: str = "") -> Started:
        """Starts a run anew: the same workflow, input, tags and priority. Raises NotFound, InvalidInput, Conflict.

        `version`: as for a redrive.
        """
        old = await self.header(run_id)
        given = (await self._standing(run_id)).run.input
        asked = PIN if asked_of(old, version) == PIN else version
        again = Start(old.workflow, given, key=key, tags=old.tags, priority=old.priority, version=asked,
                      origin=f"{RERUN}:{run_id}")  # fmt: skip
        started = await self.start(again, old.version)
        await tell_original(self.ports, old, started.header.run_id)
        return started

    # -- asking

    async def header(self, run_id: str) -> Header:
        """Returns the run's header. Raises NotFound."""
        check_run_id(run_id)
        header = await self.ports.runs.get_run(run_id)
        if header is None:
            raise NotFound(f"there is no run {run_id!r}", code="unknown_run", hint="stepwell runs lists them")
        return header

    async def graph_of(self, header: Header) -> Graph:
        """Returns the definition that the run follows."""
        return await self._starter.pinned(header)

    async def standing(self, run_id: str) -> Standing:
        """Returns the run's root token as its log has it now, with what is needed to show it. Raises NotFound.

        That is the steps of a DAG, the branches of a fork of one page, the holders of locks and permits that they wait
        for, and the rollback of a run that is being undone.
        """
        return await self._to_show(await self._standing(run_id))

    async def begun(self, started: Started) -> Standing:
        """Returns the run of a start, as `standing` does: a new one as it was created, which takes no read."""
        header, run = started.header, run_info(started.header)
        if not started.created or run.gathers:
            return await self.standing(header.run_id)
        return await self._to_show(Standing(header, run, await self.graph_of(header), NEW, -1, read=()))

    async def _to_show(self, at: Standing) -> Standing:
        at = await self._logbook.with_branches(at)
        at = await self._performer.permits.with_reason(await self._performer.locks.with_owners(at, LOCK_OWNERS))
        at = await self._performer.throttling.with_holders(at, LOCK_OWNERS)
        return replace(at, rollback=await self._performer.rollback.plan(at))

    async def survey(self, at: Standing) -> tuple[Surveyed, ...]:
        """Returns the run's forks with their branches, to show what ran in them."""
        return await Surveyor(Logs(self._logbook, self.ports.log, at)).survey(at)

    async def surveyed_with_cost(self, at: Standing) -> tuple[tuple[Surveyed, ...], Cost]:
        """Returns the survey, and what the run has cost. Each log is read once for both."""
        logs = Logs(self._logbook, self.ports.log, at)
        return await Surveyor(logs).survey(at), await Ledger(logs).cost(at)

    async def branches(self, run_id: str, fork: str, first: int, limit: int) -> list[Standing]:
        """Returns a fork's branches, by index from `first` on; one query per hundred. Raises NotFound.

        `fork`: its id, `<token>/<slot>`; "" for the fork that the run is at, with no branches if it is at none.
        """
        at = await self._standing(run_id)
        if not fork and (at.token.last is None or not isinstance(at.token.last.next, Fork)):
            return []
        parent, slot = split_fork_id(fork) if fork else (at.token.id, at.token.slot)
        found = await self._logbook.fork(run_id, parent, slot)
        if found is None:
            raise NotFound(f"run {run_id} has no fork {fork}", code="unknown_fork")
        return await branches_from(self._logbook, self.ports.log, found, first, limit)

    async def runs(self, query: RunQuery) -> RunPage:
        return await self.ports.runs.list_runs(query)

    async def narrator(self, run_id: str) -> Narrator:
        """Returns a reader of the run's history. Raises NotFound."""
        return replace(await self.whole_narrator(run_id), givens=None)

    async def whole_narrator(self, run_id: str) -> Narrator:
        """Returns a reader that adds the inputs of steps, if it can read the definition. Raises NotFound."""
        header = await self.header(run_id)
        run = run_info(header)
        try:
            graph = await self.graph_of(header)
        except (EngineFault, DefinitionError):
            return Narrator(self._logbook, run)
        run = (await self._standing(run_id)).run if run.gathers else run  # only its log has the input
        return Narrator(self._logbook, run, Givens(graph, run), shown_nodes(graph), has_abandoning(graph))

    async def node_narrator(self, run_id: str) -> Narrator:
        """Returns a reader that names the nodes as the log does, also those that were added. Raises NotFound."""
        return replace(await self.whole_narrator(run_id), shown=None)

    def narrator_of(self, at: Standing) -> Narrator:
        """Returns a reader of the history of a run that has been loaded."""
        shown = shown_nodes(at.graph)
        return Narrator(self._logbook, at.run, shown=shown, abandons=has_abandoning(at.graph), read=at.read)

    async def records(self, run_id: str, after: int = -1, limit: int | None = None) -> tuple[Record, ...]:
        """Returns the root token's records, oldest first. Raises NotFound."""
        await self.header(run_id)
        return tuple(await self._logbook.history(run_id, ROOT, after, limit))

    async def query(self, run_id: str, name: str) -> Json:
        """Returns the answer of the run's function to a query. Writes nothing. Raises NotFound, Conflict."""
        at = await self._standing(run_id)
        if not at.graph.replays:
            raise Conflict(f"{at.run.workflow} is a graph, which answers no queries", code="not_a_function",
                           hint="GET /runs/{id} shows its state")  # fmt: skip
        if at.token.last is None and not at.header.started_ms:
            raise Conflict("the run has not begun", code="not_begun")
        return await self._steps.answered(at, self._logbook, name)

    async def update(self, run_id: str, name: str, given: Json = None, update_id: str = "") -> str:
        """Sends an update to the run's function. Returns its id. Raises NotFound, Conflict, InvalidInput."""
        update_id = update_id or f"upd_{self._new_id()}"
        await self._updates.send(await self._standing(run_id), name, given, update_id)
        return update_id

    async def update_answer(self, run_id: str, update_id: str, limit_ms: int = 0) -> Answered | None:
        """Waits for the result of an update; None if it is pending after `limit_ms`. Raises NotFound, Conflict."""

        async def look() -> Answered | None:
            return await self._updates.answer(await self._standing(run_id), update_id)

        clock = self.ports.clock
        return await poll(look, lambda found: found is not None, limit_ms, clock, clock.sleep_ms)

    async def output(self, run_id: str, after: str, limit: int) -> Sequence[Emitted]:
        """Returns what the run's steps emitted in the last hour after a cursor. Raises NotFound, InvalidInput."""
        await self.header(run_id)
        return await read_output(self.ports, run_id, after, limit)

    async def wait_for_end(self, run_id: str, limit_ms: int) -> Header:
        """Returns the header once the run has ended, or as it is after `limit_ms`."""
        pause, look = self._pause_until(run_id), partial(self.header, run_id)
        return await poll(look, lambda header: header.status.terminal, limit_ms, self.ports.clock, pause)

    async def _header_at_end(self, run_id: str) -> Header:
        """Returns the header; after a moment, if the run's log has its end and the header does not yet."""
        header = await self.header(run_id)
        if not header.status.terminal and (await self._standing(run_id)).token.ended:
            header = await self.wait_for_end(run_id, SHOWN_WITHIN_MS)
        return header

    # -- ending

    async def cancel(self, run_id: str, reason: str = "", who: str = "") -> bool:
        """Cancels the run. Returns False if it had ended already. Raises NotFound, Conflict while it compensates."""
        check_json([reason, who], "reason")
        answer = await self._ended(run_id, Cancelled(reason, who), "cancel")
        if isinstance(answer.action, Refuse):
            raise refused(answer.action)
        return answer.is_mine

    async def terminate(self, run_id: str, reason: str = "", who: str = "") -> bool:
        """Fails the run now, without compensation. Returns False if it had ended already. Raises NotFound."""
        check_json([reason, who], "reason")
        failure = Failure(TERMINATED, "governance", reason or "the run was terminated")
        return (await self._ended(run_id, Terminated(failure, reason, who), "terminate")).is_mine

    async def _ended(self, run_id: str, given: Cancelled | Terminated, verb: str) -> Answer:
        check_run_id(run_id)
        answer = await self._coordinator.end(run_id, given, f"{verb}:{self._new_id()}")
        return answer or await self._not_found(run_id)

    async def pause(self, run_id: str, reason: str = "", who: str = "") -> bool:
        """Stops the run before its next step. Returns whether it was paused before; then that pause stays.

        Raises NotFound, Conflict if it has ended or is being undone.
        """
        check_json([reason, who], "reason")
        at = await self._standing(run_id)
        if refusal := await self._pausing.pause(at, Pause(who, reason)):
            raise refused(refusal)
        return at.run.is_paused and not at.header.pause_of

    async def unpause(self, run_id: str) -> None:
        """Resumes a paused run. Raises NotFound, Conflict if it is not paused."""
        if refusal := await self._pausing.unpause(await self._standing(run_id)):
            raise refused(refusal)

    # -- approvals and events

    async def approve(self, run_id: str, data: Json = None, who: str = "", wait: str = "", named: str = "") -> None:
        """Grants the approval that the run, or its branch, waits for. Raises NotFound, Conflict.

        `wait`: the node, to be sure of it; the id of a branch, or the step of a DAG, to answer there. Of several
        approvals in one wait, `hold/approval_2` is the second at the node `hold`.
        """
        await self._approvals.answer(run_id, answered("approved", {"data": data}, who, named), wait)

    async def reject(self, run_id: str, reason: str = "", who: str = "", wait: str = "", named: str = "") -> None:
        """Rejects the approval; otherwise as `approve`. Raises NotFound, Conflict."""
        resumption = answered("rejected", {"data": None, "reason": reason}, who, named)
        await self._approvals.answer(run_id, resumption, wait)

    async def delegate(self, run_id: str, by: str, to: str, wait: str = "") -> None:
        """Asks `to` for an approval in place of `by`. Raises NotFound, InvalidInput, Conflict."""
        check_event_key(to, "an approver")
        check_json([by, to], "delegation")
        await self._approvals.delegate(run_id, by, to, wait)

    async def answer_link(self, link: ApprovalLink, resumption: Resumption) -> None:
        """Takes the answer of a link's holder, to that link's wait alone. Raises NotFound, Conflict."""
        check_json([resumption.payload, resumption.by], "answer")
        where = f"{link.token}/{link.approval}" if link.approval else link.token
        await self._approvals.answer(link.run_id, resumption, where, link.slot)

    async def waiting(self, run_id: str, wait: str = "") -> Standing:
        """Returns the token that `wait` names, as for `approve`. Raises NotFound, Conflict."""
        return await self._approvals.find(run_id, wait)

    async def send_event(self, name: str, payload: Json, *, key: str = "", run_id: str = "", event_id: str = "") -> str:
        """Sends an event, as `send` does. Returns the event's id."""
        return (await self.send(name, payload, key=key, run_id=run_id, event_id=event_id)).id

    async def send(
        self, name: str, payload: Json, *, key: str = "", run_id: str = "", event_id: str = "", counts: bool = False
    ) -> Sent:
        """Sends an event to one run, or to the waits for this name and key. `counts` the waits that there are for it.

        Raises NotFound (the run), Conflict (the run has ended), InvalidInput.
        """
        check_event_name(name)
        check_event_key(key)
        check_event_key(event_id)
        check_json(payload, "payload")
        if run_id:
            await self._performer.sending.check_reaches(await self.header(run_id), run_id, name, payload)
        topic = run_topic(name, run_id) if run_id else event_topic(name, key)
        waits = await self._performer.sending.waits_for(topic) if counts else 0  # before it is sent: a read may fail
        return replace(await self.publish(topic, event_id or f"evt_{self._new_id()}", payload), waits=waits)

    async def publish(self, topic: Topic, event_id: str, payload: Json) -> Sent:
        """Publishes an event under the topic. Raises Conflict `too_many_pending`."""
        return await self._performer.sending.publish(topic, event_id, payload)

    async def _standing(self, run_id: str, token: str = ROOT) -> Standing:
        check_run_id(run_id)
        if token != ROOT:  # a fork that is kept outlives its run
            await self.header(run_id)
        at = await self._logbook.load(run_id, token)
        if at is None and token != ROOT:
            raise NotFound(f"run {run_id} has no branch {token}", code="unknown_branch")
        return at or await self._not_found(run_id)

    async def _not_found(self, run_id: str) -> NoReturn:
        await self.header(run_id)
        raise NotFound(f"run {run_id!r} is just being created", code="unknown_run", hint="ask again in a moment")
