"""Golden logs: what runs of every format leave in the store, kept for each format number.

`python -m tests.engine.golden_logs` writes those of today's number anew. Those of an older number are frozen: they are
what older code has written, and no code can write them again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import Json
from stepwell.engine.records import Topic
from stepwell.engine.stored.codec import failure_to_json
from stepwell.engine.stored.formats import FORMAT
from stepwell.engine.token import StepView, Token
from stepwell.errors import Transient
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import (
    DeadLetter,
    Deadline,
    EndRun,
    Message,
    Publish,
    Scheduled,
    Shut,
    Timer,
    Update,
    Wake,
    to_json,
)
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event, Ports, Schedule
from stepwell.runtime.ports.headers import Header
from stepwell.testing.backend import in_memory, ports_of
from stepwell.testing.kit import Run, Stepwell

GOLDEN = Path(__file__).parent / "golden"
WORKFLOWS = GOLDEN / "workflows"

CALLEE = "{workflow: callee, timeline: [{name: work, run: 'python:golden.note', input: {n: '{{ input.n }}'}}]}"
GATHERED = "{workflow: gathered, batch: {max_size: 2, max_delay: 1h}, timeline: [{name: nap, sleep: 1m}]}"
TIMELINE = """
workflow: timeline
timeline:
  - {name: charge, run: python:golden.note, retry: {max_retries: 3}}
  - {name: ship, run: python:golden.ship}
  - name: approve
    wait: {for: approval, timeout: 1h, on_timeout: retry, max_retries: 1,
           timeout_actions: [{run: python:golden.note, input: {n: "{{ error.attempts }}"}}]}
  - {name: papers, wait: {for: document, key: t1, documents: [cv, id]}}
  - {name: passed, run: python:golden.breaks, on_failure: skip}
  - {name: asked, run: python:golden.ask}
  - {name: nap, sleep: 30m}
  - {name: paid, wait: {for: event, name: paid, key: k}}
"""
NODES = """
workflow: nodes
failure_policy: compensate
nodes:
  reserve:
    run: python:golden.note
    retry: {max_retries: 2}
    compensate: {run: python:golden.note, retry: {max_retries: 3}}
    input: {n: "{{ input.n }}"}
    transitions: [{to: each, foreach: "{{ input.items }}", max_concurrency: 2}]
  each: {run: python:golden.note, lock: oven, compensate: {run: python:golden.note}, transitions: [{to: join}]}
  join: {fan_in: {merge: append, target: all}, transitions: [{to: both}]}
  both:
    fan_out: all
    transitions: [{to: quick}, {to: slow}]
  quick: {run: python:golden.note, transitions: [{to: first}]}
  slow: {wait: {for: approval}, transitions: [{to: first}]}
  first: {fan_in: {policy: any}, transitions: [{to: call}]}
  call: {run: "workflow:callee", input: {n: "{{ state.reserve.n }}"}, transitions: [{to: again}]}
  again:
    run: python:golden.note
    input: {n: "{{ has(state.again) ? 2 : 1 }}"}
    transitions: [{to: again, when: "state.again.n < 2"}, {to: breaks}]
  breaks: {run: python:golden.breaks}
"""
STEPS = """
workflow: steps
steps:
  - {name: a, run: python:golden.note}
  - {name: b, run: python:golden.note, depends_on: [a], input: {of: "{{ steps.a.output }}"}}
  - {name: c, wait: {for: approval}, depends_on: [a]}
  - {name: d, run: python:golden.breaks, depends_on: [b, c], on_failure: skip}
"""
ACTIONS = """
agent: actions
history_window: 3
actions:
  - {id: greet, actionType: send_message, parameters: {message: "Hello {{ name }}"}}
  - id: answer
    actionType: wait_for_response
    parameters:
      threadId: "{{ thread }}"
      expectedFrom: "{{ who }}"
      onTimeout: continue
      timeoutActions: [{actionType: send_message, parameters: {message: "Still there?"}}]
  - {id: bye, actionType: send_message, parameters: {message: "Bye {{ name }}: {{ lastResponse }}"}}
"""
MACHINE = """
workflow: machine
StartAt: Note
States:
  Note: {Type: Task, Resource: note, ResultPath: $.noted, Assign: {who.$: $.n}, Next: Each, Retry: [
    {ErrorEquals: [Never]}, {ErrorEquals: [States.TaskFailed], IntervalSeconds: 5}]}
  Each:
    {Type: Map, ItemsPath: $.items, MaxConcurrency: 1, ItemProcessor: {StartAt: Item, States: {
      Item: {Type: Pass, Parameters: {at.$: $$.Map.Item.Index, of.$: $who}, End: true}}},
     ResultPath: $.each, Next: Both}
  Both:
    {Type: Parallel, Retry: [{ErrorEquals: [ValueError], MaxAttempts: 1}], Branches: [
      {StartAt: Breaks, States: {Breaks: {Type: Task, Resource: breaks, End: true}}},
      {StartAt: Nap, States: {Nap: {Type: Wait, Seconds: 60, End: true}}}],
     Catch: [{ErrorEquals: [States.ALL], ResultPath: $.error, Next: Done}], End: true}
  Done: {Type: Succeed}
resources: {note: python:golden.note, breaks: python:golden.breaks}
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Runs of one definition format, and what happens to them."""

    format: str
    about: str
    play: Callable[[Stepwell], Run]


def _timeline(kit: Stepwell) -> Run:
    kit.mock("charge", raises=Transient("the bank is away"), times=1)
    kit.define(TIMELINE)
    run = kit.start("timeline", {"order": 7}, create_only=True)
    run_now(kit.service.start_idle(run.id, "kim"))
    kit.advance("61m")
    run.approve({"ok": True}, "ann")
    for document in ("cv", "id"):
        kit.event("DOCUMENT_UPLOADED", {"document": document, "url": f"s3://{document}"}, key="t1")
    kit.settle()
    run.reject("not now", "boss")
    return run


def _waits(kit: Stepwell) -> Run:
    kit.define(TIMELINE.replace("ship, run", "shipped, run"))
    run = kit.start("timeline", {"order": 8})
    kit.advance("3h")
    return run


def _nodes(kit: Stepwell) -> Run:
    kit.mock("reserve", raises=Transient("away"), times=1)
    kit.define(CALLEE)
    kit.define(NODES)
    run = kit.start("nodes", {"items": ["a", {"b": 1.5}, None], "n": 4})
    kit.advance("1h")
    return run


def _steps(kit: Stepwell) -> Run:
    kit.define(STEPS)
    run = kit.start("steps", {"x": 1})
    run.approve("yes", wait="0/0.2")
    return run


def _actions(kit: Stepwell) -> Run:
    for name in ("greet", "bye"):
        kit.mock(name, returns="sent")
    kit.define(ACTIONS)
    run = kit.start("actions", {"name": "Ana", "thread": "t", "who": "ana"})
    kit.event("MESSAGE_RECEIVED", {"from": "ana", "message": "hi"}, key="t")
    return run


def _durable(kit: Stepwell) -> Run:
    kit.define(CALLEE)
    run = kit.start("durable", {"room": "r1"})
    kit.advance("1h")
    run.update("add", {"item": "tea"}, "u1")
    for name in ("packed", "paid"):
        kit.event(name, {"by": name}, key="r1")
    run.approve(by="ann")
    run.approve(by="bob")
    kit.advance("1h")
    return run


def _machine(kit: Stepwell) -> Run:
    kit.mock("Note", raises=ValueError("again"), times=2)
    kit.define(MACHINE)
    run = kit.start("machine", {"n": 7, "items": ["a", "b"]})
    kit.advance("1m")
    return run


def _tasks(kit: Stepwell) -> Run:
    run = kit.start("tasks")
    kit.advance("1h")
    kit.event("paid", 7, key="k")
    kit.settle()
    return run


def _tidy(kit: Stepwell) -> Run:
    run = kit.start("tidy")
    run.cancel("enough", "kim")
    return run


def _empty(kit: Stepwell) -> Run:
    kit.define(CALLEE)
    kit.define(NODES)
    return kit.start("nodes", {"items": [], "n": 1})


def _terminated(kit: Stepwell) -> Run:
    kit.define(TIMELINE)
    run = kit.start("timeline", {"order": 9})
    run.terminate("now", "kim")
    return run


def _redriven(kit: Stepwell) -> Run:
    kit.mock("ship", raises=ValueError("no luck"), times=1)
    kit.define(TIMELINE)
    return kit.start("timeline", {"order": 10}).redrive(by="kim")


def _gathered(kit: Stepwell) -> Run:
    kit.define(GATHERED)
    kit.start("gathered", {"n": 1})
    return kit.start("gathered", {"n": 2})


def _reopened(kit: Stepwell) -> Run:
    kit.mock("d", raises=ValueError("no luck"), times=1)
    kit.define(STEPS.replace(", on_failure: skip", ""))
    run = kit.start("steps", {"x": 2})
    run.approve("yes", wait="0/0.2")
    return run.redrive(by="kim")


_EVENT = Event(Topic("paid", "k"), "e1", {"amount": 12.5, "naïve": "ünïcode"}, 1_700_000_000_000, 1_700_000_900_000)
_SCHEDULE = Schedule(
    "nightly", "flow", "cron(0 3 * * ? *)", "Europe/Berlin", {"n": 1}, "skip", 60_000, 1_700_000_000_000
)
MESSAGES: tuple[Message, ...] = (
    Wake("run_1", -1),
    Wake("run_1", 7, "0/3.10", "gpu", 2, 10),
    Timer("run_1", 4, "0/3.1"),
    Deadline("run_1"),
    Publish(_EVENT),
    Publish(_EVENT, kept=True),
    DeadLetter(Wake("run_1", 7, "0/3.1", "gpu")),
    Update("run_1", "u1"),
    Update("run_1", "u1", 3),
    Shut("run_1", "0", 3, 1),
    EndRun("run_2", "run_1", "0", 4),
    Scheduled("nightly"),
    Scheduled("nightly", 1_700_000_000_000, _SCHEDULE),
)

SCENARIOS = {
    "timeline": Scenario("timeline", "retry, at_most_once, reminder, documents, a pause", _timeline),
    "waits": Scenario("timeline", "a wait whose time is up after its reminder", _waits),
    "nodes": Scenario("nodes", "forks, locks, a child, a loop, a branch that is closed, a rollback", _nodes),
    "empty": Scenario("nodes", "a fork without branches", _empty),
    "terminated": Scenario("timeline", "a run that a person ends while it waits", _terminated),
    "redriven": Scenario("timeline", "a run that goes on from where another failed", _redriven),
    "gathered": Scenario("timeline", "a run that two starts have made", _gathered),
    "reopened": Scenario("steps", "a DAG that goes on from where another failed", _reopened),
    "steps": Scenario("steps", "a DAG with an approval and a failure that is passed over", _steps),
    "machine": Scenario("States", "retriers, variables, a map, branches that are tried again and caught", _machine),
    "actions": Scenario("actions", "a conversation with one answer", _actions),
    "durable": Scenario("durable", "a new life, lock, update, transaction, votes, child, branches", _durable),
    "tasks": Scenario("durable", "tasks: what they begin and cancel, a timer, and ends in another order", _tasks),
    "tidy": Scenario("durable", "a cancel that lets the function clean up", _tidy),
}


def recorded(scenario: Scenario) -> dict[str, Json]:
    """The scenario's runs as they stand in the store afterwards."""
    backend = in_memory()
    store = backend.ports.log
    assert isinstance(store, MemoryStore)
    kit = Stepwell(WORKFLOWS, backend)
    scenario.play(kit)
    kit.settle()
    kit.close()
    runs = {run_id: _run(store, run_id) for run_id in store._runs}
    golden: dict[str, Json] = {"about": scenario.about, "format": scenario.format,
                               "definitions": dict(store._definitions), "runs": runs}  # fmt: skip
    return {**golden, "tokens": folded(golden)}


def _run(store: MemoryStore, run_id: str) -> dict[str, Json]:
    header = store._runs[run_id]
    logs = {token: log for (of_run, token), log in sorted(store._logs.items()) if of_run == run_id and log.slots}
    origin: dict[str, Json] = {"origin": header.origin} if header.origin else {}
    return {
        "header": {"workflow": header.workflow, "version": header.version, "input": json.loads(header.input),
                   "created_ms": header.created_ms, "idle": header.idle, "started_ms": header.started_ms, **origin},
        "logs": {token: [json.loads(one.body) for one in log.after(-1, None)] for token, log in logs.items()},
    }  # fmt: skip


def stored(golden: Mapping[str, Any]) -> Ports:
    """A store that holds the runs of a golden file."""
    store, clock = MemoryStore(), VirtualClock(0)
    for version, body in golden["definitions"].items():
        run_now(store.put_definition(version, body))
    for run_id, run in golden["runs"].items():
        run_now(store.create_run(Header(run_id, **run["header"])))
        for token, records in run["logs"].items():
            for record in records:
                run_now(store.append(run_id, token, record["slot"], json.dumps(record)))
    return ports_of(store, MemoryQueue(clock), clock)


def folded(golden: Mapping[str, Any]) -> dict[str, dict[str, Json]]:
    """What today's code makes of a golden file: each token of each run."""
    ports = stored(golden)
    logbook = Logbook(ports, Catalog(partial(compile_document, trusted=True)))
    return {run_id: {token: shown(_token(logbook, run_id, token)) for token in run["logs"]}
            for run_id, run in golden["runs"].items()}  # fmt: skip


def _token(logbook: Logbook, run_id: str, token: str) -> Token:
    found = run_now(logbook.load(run_id, token))
    assert found is not None, f"{run_id} has no token {token}"
    return found.token


def shown(token: Token) -> dict[str, Json]:
    """What must never change about a token that was stored: in words of its own, whatever the fields are called."""
    parked, end = token.parked, token.end
    return {
        "slot": token.slot,
        "phase": token.phase.value,
        "node": token.node,
        "attempt": token.attempt,
        "state": dict(token.scope),
        "steps": {name: _step(view) for name, view in token.steps.items()},
        "result": token.result,
        "error": failure_to_json(token.error),
        "visits": dict(token.visits),
        "rule_uses": dict(token.rule_uses),
        "calls": token.calls,
        "seen": {topic: list(events) for topic, events in token.seen.items()},
        "wait": parked
        and {"kind": parked.kind, "until_ms": parked.until_ms, "arms": [arm.kind for arm in parked.arms]},
        "came": [one.payload for one in token.received],
        "locks": token.locks and {"names": list(token.locks.names), "held": token.locks.held},
        "undone": list(token.undoing.undone) if token.undoing else None,
        "end": end and {"status": end.status.value, "error": failure_to_json(end.error), "at_join": end.at_join},
    }


def _step(view: StepView) -> dict[str, Json]:
    return {"status": view.status, "output": view.output, "error": failure_to_json(view.error),
            "attempts": view.attempts, "started_ms": view.started_ms, "ended_ms": view.ended_ms}  # fmt: skip


def main() -> int:
    folder = GOLDEN / str(FORMAT)
    folder.mkdir(exist_ok=True)
    for name, scenario in SCENARIOS.items():
        text = json.dumps(recorded(scenario), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    bodies = [to_json(message) for message in MESSAGES]
    (folder / "messages.json").write_text(json.dumps(bodies, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
