"""A ledger folds no records that led to nothing, and encodes none whose size does not matter: it counts the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import Graph, Limit
from stepwell.engine.effects import effects
from stepwell.engine.fold import apply
from stepwell.engine.records import ROOT, Goto, Kind, Record
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.formats import FORMAT
from stepwell.engine.token import Token
from stepwell.limits import HOUR_MS
from stepwell.runtime.calls.quiet import KILOBYTE, Folding, is_small
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.driving import run_now
from tests.engine.golden_logs import stored
from tests.engine.test_golden import files, golden
from tests.runtime.kit import World, fails

LOGS = [
    pytest.param(path, run_id, id=f"{path.stem}-{place}")
    for path in files(FORMAT)
    for place, run_id in enumerate(golden(path)["runs"])
]
KEY_BYTES = 60


STEPS = "{name: b, run: python:m.b}, {name: more, run: python:m.more}, {name: c, run: python:m.c}]"
HOLDING = {  # and how many of its records are quiet all the same
    "a lock": (f"workflow: flow\nlock: oven\ntimeline: [{{name: a, run: python:m.a}}, {STEPS}", 0),
    "a permit of a step": (
        f"workflow: flow\ntimeline: [{{name: a, run: python:m.a, throttle: stripe}}, {STEPS}", 2),
    "a share that is given back": (f"""
workflow: flow
concurrency: {{limit: 1, while_waiting: release}}
timeline: [{{name: a, run: python:m.a}}, {{name: nap, sleep: 1m}}, {STEPS}""", 1),
    "an undone run": (f"""
workflow: flow
timeline: [{{name: a, run: python:m.a, compensate: {{run: python:m.undo}}}}, {STEPS}""", 3),
    "a step's lock": ("""
workflow: flow
nodes:
  a: {run: python:m.a, lock: oven, transitions: [{to: b}]}
  b: {run: python:m.b, transitions: [{to: more}]}
  more: {run: python:m.more, transitions: [{to: c}]}
  c: {run: python:m.c}
""", 2),
}  # fmt: skip


def ask_at_each(graph: Graph, known: Token, records: Iterable[Record]) -> int:
    """Asks for the token after each record that is not quiet. Returns how many records were."""
    folding, token, quiet = Folding(Token(), known), Token(), 0
    for record in records:
        token = apply(token, record)
        if folding.passes(record):
            assert not effects(graph, token)
            quiet += 1
        else:
            assert folding.after(record) == token
    return quiet


@pytest.mark.parametrize(("path", "run_id"), LOGS)
def test_a_quiet_record_has_no_effects_and_the_token_is_folded_when_it_is_asked_for(path: Path, run_id: str) -> None:
    logbook = Logbook(stored(golden(path)), Catalog(partial(compile_document, trusted=True)))
    at = run_now(logbook.load(run_id))
    assert at is not None
    raw = golden(path)["runs"][run_id]["logs"][ROOT]
    ask_at_each(at.graph, at.token, [decode_record(json.dumps(record)) for record in raw])


@pytest.mark.parametrize(("text", "quiet"), HOLDING.values(), ids=HOLDING)
def test_a_record_with_which_something_is_given_back_is_not_quiet(text: str, quiet: int) -> None:
    world = World(text)
    world.catalog.limits = {"stripe": Limit(1)}
    world.steps.of["c"] = lambda _: fails()
    run_id = world.start()
    world.pass_time(HOUR_MS)
    at = run_now(world.service.standing(run_id))
    assert at.token.ended
    logbook = run_now(world.service.narrator(run_id)).logbook
    assert ask_at_each(at.graph, at.token, run_now(logbook.lanes.token(run_id, ROOT, -1, None))) == quiet


TEXTS = some.text(max_size=60)


@given(TEXTS, TEXTS, some.lists(TEXTS, max_size=3), some.recursive(TEXTS | some.integers(), some.lists))
def test_a_small_record_is_below_a_kilobyte(name: str, by: str, rules: list[str], output: object) -> None:
    long = 2**40
    record = Record(long, Kind.STEP, by, long, name, long, long, output, rules=tuple(rules), next=Goto(name),
                    arguments=long, task=name, taken=by, together=long)  # fmt: skip
    names = 30 + 2 * len(name)
    if is_small(record, names):
        assert len(encode_record(record).encode()) + KEY_BYTES + names <= KILOBYTE


def test_a_step_with_a_small_output_is_small_and_one_with_a_large_output_is_not() -> None:
    step = partial(Record, 7, Kind.STEP, "wake:0:6", 1_800_000_000_000, "charge", 1, next=Goto("ship"))
    assert is_small(step(output={"order": "A-1", "paid": True}), 32)
    assert not is_small(step(output="x" * 900), 32)
