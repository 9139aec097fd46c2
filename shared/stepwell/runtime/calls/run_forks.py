"""Forking runs: a new run keeps another's records up to a slot, and goes on from there with something changed.

    header ── the records that it keeps ── REDRIVEN, with what is changed ── a wake

The original may be under way: records in a log do not change. A repeated call returns the same run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace

from stepwell.definition.graph import Graph, Json
from stepwell.engine.copying import changed
from stepwell.engine.fold import fold
from stepwell.engine.foretelling import ends_as, foretell
from stepwell.engine.inputs import Change, Redriven
from stepwell.engine.names import shown_scope
from stepwell.engine.records import ROOT, Kind, Record, Status
from stepwell.engine.redriving import Kept
from stepwell.engine.routing import violations
from stepwell.engine.run_forks import kept_before
from stepwell.engine.starts import with_input
from stepwell.engine.token import Token
from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.calls.keeping import Keeper, Plan
from stepwell.runtime.calls.kin import tell_original
from stepwell.runtime.calls.redriving import Redriver, check_fits
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing, run_info
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import FORK, Header, check_held
from stepwell.runtime.starts.admission import check_json
from stepwell.runtime.starts.starting import Started, Starter
from stepwell.runtime.starts.versions import PIN, asked_of
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class RunFork:
    """A fork request. `input` and `result` hold one value, or none if nothing is changed."""

    at: int
    input: tuple[Json, ...] = ()
    state: Mapping[str, Json] = field(default_factory=dict)
    result: tuple[Json, ...] = ()
    workflow: str = ""  # another deployed workflow
    version: str = ""
    key: str = ""  # the idempotency key; without one, the same request finds the same run
    who: str = ""


class RunForker:
    """Forks runs."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter, redriver: Redriver) -> None:
        self._ports, self._logbook, self._starter, self._redriver = ports, logbook, starter, redriver

    async def fork(self, old: Header, asked: RunFork) -> Started:
        """Creates the run, or returns the one that the same call created. Raises Conflict, InvalidInput, NotFound."""
        check_json([*asked.input, asked.state, *asked.result, asked.workflow, asked.version, asked.who], "fork")
        print_ = _fingerprint(asked)
        run_id, by = forked_id(old.run_id, asked.key or print_), f"{FORK}:{old.run_id}"
        there = await self._ports.runs.get_run(run_id)
        if there is not None and there.fingerprint != print_:
            raise Conflict("the key was used with another body", code="key_reused",
                           hint="send another Idempotency-Key")  # fmt: skip
        at = None if there is None else await self._logbook.load(run_id)
        if at is None:
            at = await self._fork_run(old, there, run_id, asked)
        if at.token.last is not None and at.token.last.kind is Kind.REDRIVEN:
            await self._redriver.push(at, by)  # also when repeated: the first call may have died before this
        await tell_original(self._ports, old, run_id)
        return Started(at.header, there is None)

    async def foretold(self, old: Header, asked: RunFork) -> dict[str, Json]:
        """Returns the way the new run would take, as far as this run's log has the results. Writes nothing."""
        graph, records, kept = await self._kept(old, asked, None)
        await self._plan(old, kept, is_dry=True)
        given = replace(old, input=_input(old, records, asked))
        header = self._header(graph, given, old.run_id, kept.token.last_ms, asked)
        run_id = forked_id(old.run_id, asked.key or _fingerprint(asked))
        check_held(replace(header, run_id=run_id), await self._ports.erasure.held_until_ms(run_id))
        at = Standing(header, run_info(header), graph, kept.token, -1)
        moment = self._logbook.moment(at, f"{FORK}:{old.run_id}")
        begun = self._redriver.begun(at, self._given(old, kept, asked), moment.by)
        way = foretell(moment, begun.token, records)
        return {
            "run_id": old.run_id,
            "workflow": graph.name,
            "version": graph.version,
            "at": len(kept.records),
            "kept": len(kept.records),
            "steps": [asdict(one) for one in way.records],
            "stops": way.stops,
            "stops_at": way.step or None,
            "status": ends_as(way) or None,
            "state": shown_scope(way.token.scope),
        }

    async def _fork_run(self, old: Header, there: Header | None, run_id: str, asked: RunFork) -> Standing:
        graph, records, kept = await self._kept(old, asked, there)
        plan = await self._plan(old, kept)
        given = replace(old, input=_input(old, records, asked))
        header = there or await self._created(graph, given, run_id, plan, asked)
        await self._redriver.copy(header.run_id, plan)
        at = Standing(header, run_info(header), await self._starter.pinned(header), kept.token, -1)
        mark, by = self._given(old, kept, asked), f"{FORK}:{old.run_id}"
        begun = [changed(at, token=branch.token) for branch in plan.branches]  # open operations of a function's tasks
        await self._redriver.mark_all(begun, replace(mark, change=Change()), by)
        return await self._redriver.mark(at, mark, by)

    async def _plan(self, old: Header, kept: Kept, *, is_dry: bool = False) -> Plan:
        """Returns what the new run starts out with. Raises Conflict for too many records."""
        keeper = Keeper(self._logbook, self._redriver.forking, old.run_id, is_fork=True, is_dry=is_dry)
        return await keeper.plan(kept)

    async def _kept(self, old: Header, asked: RunFork, there: Header | None) -> tuple[Graph, tuple[Record, ...], Kept]:
        is_own = asked.workflow in ("", old.workflow)
        named = old if is_own else replace(old, workflow=asked.workflow, pinned=False)
        graph = await self._redriver.graph_for(named, there, asked.version)
        records = tuple(await self._logbook.history(old.run_id, ROOT, -1, None))
        kept = kept_before(old.run_id, records, asked.at)
        check_fits(await self._starter.pinned(old), graph, replace(kept, node=kept.token.node))
        _check_change(graph, kept, records, asked)
        if asked.input or not is_own:  # its own workflow took its input once
            given = _input(old, records, asked)
            self._starter.check(graph, replace(old, workflow=graph.name, input=given, origin=""))
        return graph, records, kept

    def _given(self, old: Header, kept: Kept, asked: RunFork) -> Redriven:
        first_ms = kept.first_ms or max(old.created_ms, old.start_at_ms, kept.token.started_ms)
        change = Change(asked.state, asked.result)
        return Redriven(old.run_id, kept.first_run, first_ms, who=asked.who, change=change)

    async def _created(self, graph: Graph, old: Header, run_id: str, plan: Plan, asked: RunFork) -> Header:
        header = self._header(graph, old, run_id, plan.last_ms, asked)
        return await self._starter.create(graph, header) or header

    def _header(self, graph: Graph, old: Header, run_id: str, last_ms: int, asked: RunFork) -> Header:
        """Returns the new run. Its time-out counts from now on."""
        now_ms = max(self._ports.clock.now_ms(), last_ms + 1)  # the records that it keeps are older than the run
        return Header(
            run_id=run_id,
            workflow=graph.name,
            version=graph.version,
            input=old.input,
            created_ms=now_ms,
            status=Status.PENDING,
            fingerprint=_fingerprint(asked),
            priority=old.priority,
            tags=dict(old.tags),
            origin=f"{FORK}:{old.run_id}",
            pinned=graph.name == old.workflow and asked_of(old, asked.version) == PIN,
            changed_ms=now_ms,
        )


def forked_id(run_id: str, key: str) -> str:
    """Returns the id of the run that a fork of this run with this key creates."""
    return "run_" + hashlib.sha256(json.dumps([FORK, run_id, key]).encode()).hexdigest()[:26]


def _input(old: Header, records: Sequence[Record], asked: RunFork) -> Json:
    return asked.input[0] if asked.input else with_input(run_info(old), fold(records, Token())).input


def _fingerprint(asked: RunFork) -> str:
    choices = [asked.at, asked.input, asked.state, asked.result, asked.workflow, asked.version]
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()


def _check_change(graph: Graph, kept: Kept, records: tuple[Record, ...], asked: RunFork) -> None:
    """Raises InvalidInput for a change that has no effect there."""
    if asked.state and graph.replays:
        raise InvalidInput("the state of a durable function is what its code makes of its journal", code="no_state",
                           hint="fork it with another `input`, or a `result`")  # fmt: skip
    schema = graph.state_schema
    if asked.state and schema is not None and (found := schema.problems({**kept.token.scope, **asked.state})):
        raise InvalidInput(f"the state violates state_schema: {violations(found)}", code="state_schema")
    if not asked.result:
        return
    slot = len(kept.records)
    node = graph.nodes.get(kept.token.node or graph.first.name)
    is_step = slot < len(records) and records[slot].kind in {Kind.STEP, Kind.BEGAN}
    if not (is_step if graph.replays else node is not None and node.step is not None):
        raise InvalidInput(f"no step begins in slot {slot}, whose result could be another", code="no_step",
                           hint="give the slot of a step.started entry as `at`")  # fmt: skip
