"""Programs of answered steps: whoever has the token answers early, late, twice, with an error or never.

n1 runs ── a client's answer, which may come while it runs ── n1's pause ── its result, its error, or another visit
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.definition.graph import END, FanIn, Graph, Node, Retry, Rule, Step, Wait
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.calls.callbacks import step_callback
from tests.sim import lock_programs as parts
from tests.sim.actors import Envelope
from tests.sim.answering import Answer
from tests.sim.fork_programs import items
from tests.sim.programs import Program, Simple
from tests.sim.snags import HELD, Snag

if TYPE_CHECKING:
    from tests.sim.world import World

ANSWERED = "n1"  # the node of the answered step
BUSY, DECLINED = "Busy", "Declined"
_TAKES_MS = (0, 0, 1_000, 2_000)
_WHEN_MS = (0, 0, 0, 500, 1_000, 2_500, 9_000, 70_000)
_FAILED = frozenset({"error"})
_MOST_VISITS = 3  # retries by rules: each has another token
_MAY_RUN = 40  # times, of one step, before nobody answers any more


def _is_busy(names: Any) -> bool:
    return names["error"] is not None and names["error"]["type"] != DECLINED


def _is_error(names: Any) -> bool:
    return names["error"] is not None


@dataclass(frozen=True)
class Answered(Program):
    """A workflow with an answered step, and how often that fails by itself."""

    fails: float = 0.0
    most_answers: int = 2
    takes: tuple[int, ...] = _TAKES_MS
    when_ms: tuple[int, ...] = _WHEN_MS

    @property
    def takes_time(self) -> bool:
        return any(self.takes)

    def duration_ms(self, call: Any) -> int:
        rng = random.Random(f"{call.token} {call.key} {call.attempt}")
        return rng.choice(self.takes) if call.node == ANSWERED else 0

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        made = super().outcome(call, now_ms, seen)
        if call.node != ANSWERED:
            return made
        calls = seen.answering.calls[call.key, call.attempt]
        is_failing = random.Random(f"{call.key} {call.attempt}").random() < self.fails
        if is_failing or (len(calls) > 1 and len(calls) % 2 == 0):  # its token has been used, it may be told
            return Outcome(failure=Failure(BUSY, "step", "by itself", call.node, call.attempt), started_ms=calls[-1])
        return Outcome(value="dropped", started_ms=calls[-1])


def make_answered(rng: random.Random) -> Program:
    """A chain, or a fork of a few branches, in which a step is answered. Half of them have snags, the others chaos."""
    limit_ms = rng.choice((None, 3_000, 8_000, 60_000))
    beat_ms = rng.choice((None, None, 2_500, 30_000)) if limit_ms != 3_000 else None
    wait = Wait("callback", timeout_ms=limit_ms, heartbeat_ms=beat_ms)
    retry = Retry(rng.randint(1, 2), "constant", 1_000, 1_000, "none", frozenset({"step"}))
    step = Step(f"python:sim.{ANSWERED}", callback=wait, at_most_once=rng.random() < 0.3,
                retry=retry if rng.random() < 0.2 else None)  # fmt: skip
    is_fork = rng.random() < 0.35
    graph = _fork(rng, step) if is_fork else _chain(rng, step)
    calls = (("cancel", rng.choice((0, 1, 5, 60))),) * (rng.random() < 0.1)
    given = {"key": "k", "n0": list(range(rng.randint(2, 3)))}
    return Answered(graph, {}, {}, frozenset(), (), calls, input=given, snags=_snags(rng) if rng.random() < 0.6 else (),
                    fails=rng.choice((0, 0.3, 0.6, 1)), most_answers=rng.choice((1, 2, 3)),
                    takes=_TAKES_MS if rng.random() < 0.6 else (0,))  # fmt: skip


def _chain(rng: random.Random, step: Step) -> Graph:
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=parts._next("n0", ANSWERED)),
        **_answered(rng, step, "n2"),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=parts._next("n2", END)),
    }
    return parts._graph("sim", nodes)


def _fork(rng: random.Random, step: Step) -> Graph:
    over = Rule("n0.next", "next", to=ANSWERED, foreach=items("n0"), max_concurrency=rng.choice((None, None, 1)))
    fan_in = FanIn(merge="results", on_branch_failure=rng.choice(("fail", "collect")))
    nodes = {
        "n0": Node("n0", rules=(over,), join="n2"),
        **_answered(rng, step, "n2"),
        "n2": Node("n2", fan_in=fan_in, rules=parts._next("n2", END)),
    }
    return Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})


def _answered(rng: random.Random, step: Step, following: str) -> dict[str, Node]:
    """The step's node, and the pause before another visit, as a state machine's retriers make them."""
    tried = Rule("n1.again", "transition", Simple("busy", _is_busy, _FAILED, True), to="r1", max_uses=_MOST_VISITS)
    caught = Rule("n1.caught", "transition", Simple("error", _is_error, _FAILED, True), to=following)
    rules = (*(tried,) * (rng.random() < 0.7), *(caught,) * (rng.random() < 0.5), *parts._next(ANSWERED, following))
    rests = Wait("sleep", timeout_ms=rng.choice((1_000, 4_000)))
    return {
        ANSWERED: Node(ANSWERED, step=step, rules=rules, max_visits=9),
        "r1": Node("r1", wait=rests, rules=parts._next("r1", ANSWERED), max_visits=9),
    }


def _snags(rng: random.Random) -> tuple[Snag, ...]:
    """A worker dies around the record of its step, or is held up as it registers the wait; a client, as it answers."""
    dies = Snag("wake", "append", "append", rng.random() < 0.6, lets=rng.randint(0, 4), most=rng.choice((1, 2)),
                held_ms=(1, 1_500))  # fmt: skip
    registers = Snag("wake", rng.choice(("pending_events", "put_waiter", "change_status", "consume", "send")),
                     rng.choice(("", "", "put_waiter", "consume")), most=2, held_ms=(1, 1_500))  # fmt: skip
    who, call = rng.choice(("post", "post", "fail")), rng.choice(("get_event", "put_event", "send", "consume", "load"))
    answers = Snag(who, call, rng.choice(("", call, "put_event")), lets=rng.randint(0, 1), most=2, held_ms=(1, 1_500))
    return tuple(rng.sample((dies, registers, answers), rng.randint(1, 2)))


def make_beaten(rng: random.Random) -> Program:
    """A wait behind a join, whose worker is held up as it registers it, and dies; then there is a heartbeat."""
    beaten = Wait("callback", heartbeat_ms=30_000, timeout_ms=rng.choice((60_000, 3_600_000)), on_timeout="continue")
    nodes = {
        "n0": Node("n0", rules=(Rule("n0.next", "next", to="n1", foreach=items("n0")),), join="n2"),
        "n1": Node("n1", step=Step("python:sim.n1"), rules=parts._next("n1", "n2")),
        "n2": Node("n2", fan_in=FanIn(merge="results"), rules=parts._next("n2", "n3")),
        "n3": Node("n3", wait=beaten, rules=parts._next("n3", END)),
    }
    registers = Snag("wake", "put_waiter", "put_waiter", True, most=rng.choice((1, 2)), held_ms=(1, 1_500))
    asks = tuple({"type": word, "phase": HELD, "after_s": rng.choice((0, 1))} for word in ("beat", "post"))
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})
    return Program(graph, {}, {}, frozenset(), (), (("beat", 0),), input={"key": "k", "n0": [0, 1]}, asks=asks,
                   snags=(registers,))  # fmt: skip


def post_answers(world: World, call: Any) -> None:
    """As an answered step begins, its clients get the token."""
    program = world.main
    if not isinstance(program, Answered) or call.node != ANSWERED:
        return
    answering = world.seen_of[call.run_id].answering
    calls = answering.calls.setdefault((call.key, call.attempt), [])
    calls.append(world.now_ms)
    runs = sum(map(len, answering.calls.values()))
    if runs > _MAY_RUN or (len(calls) > 1 and world.rng.random() < 0.5):
        return
    link = step_callback(call.run_id, call.token, call.key)
    for _ in range(world.rng.randint(0, program.most_answers)):
        world.tempted += 1
        word = world.rng.choices(("post", "fail", "beat"), (6, 3, 2))[0]
        body = {"type": word, "link": link, "n": world.tempted, "error": world.rng.choice((BUSY, DECLINED))}
        after_ms = world.rng.choice(program.when_ms)
        world.post(Envelope("client", body, world.now_ms + after_ms))
        if not after_ms and world.rng.random() < 0.5:
            world.urgent.append(world.envelopes[-1])


def failure_of(body: Any) -> dict[str, Any]:
    """What a client sends that fails a step."""
    return {"type": body["error"], "message": "no", "data": {"n": body["n"]}}


def note_answer(world: World, run_id: str, operation: str, body: Any, answer: Any) -> None:
    """What a client that ends a callback was told."""
    if operation in {"post", "fail"} and "n" in body and world.current is not None:
        again = world.current.envelope.deliveries > 1
        made = Answer(body["link"], body["n"], operation == "fail", answer, again)
        world.seen_of[run_id].answering.answers.append(made)
