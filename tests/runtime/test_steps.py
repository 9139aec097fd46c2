"""The step executor: input by name, results as JSON, errors as data. Whatever a step does, there is an outcome."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition.graph import Step
from stepwell.engine.records import Failure
from tests.runtime.kit import Folder

Make = Callable[..., Folder]

BINDING = """
from __future__ import annotations
import datetime, decimal, enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from typing_extensions import TypedDict
from pydantic import BaseModel, Field
if TYPE_CHECKING:
    from somewhere import Context, Receipt

class Order(BaseModel):
    id: str
    total: decimal.Decimal = decimal.Decimal(0)

@dataclass
class Place:
    street: str
    number: int

class Colour(enum.Enum):
    RED = "red"

class Shape(TypedDict):
    sides: int

def plain(a, b=2): return [a, b]
def typed(n: int, when: datetime.datetime, price: decimal.Decimal, colour: Colour):
    return [n + 1, when.year, str(price + 1), colour.name]
def whole_model(order: Order): return [order.id, str(order.total)]
def whole_class(place: Place): return [place.street, place.number]
def whole_dict(data: dict): return sorted(data)
def whole_shape(shape: Shape): return shape["sides"]
def two(order: Order, n: int = 0): return order.id
def rest(a, **others): return [a, others]
def all_(**everything): return everything
def context(ctx: Context, n: int) -> Receipt:
    return [ctx.run_id, ctx.step, ctx.attempt, ctx.idempotency_key, ctx.timeout_seconds, ctx.state, ctx.resumed, n]
def bounded(n: Annotated[int, Field(gt=0)]): return n
def whole_bounded(order: Annotated[Order, Field(description="x")]): return order.id
def stranger(x: object, y: "Missing" = None): return 1
class Plain: pass
def unknown_type(x: Plain): return 1
def handler(event, context): return event
def positional(a, /): return a
def star(*args): return args
class Callable_:
    def __call__(self, n: int): return n
instance = Callable_()
def nothing(): return None
def returns_all():
    return {"d": datetime.date(2030, 1, 2), "p": decimal.Decimal("1.50"), "c": Colour.RED, "o": Order(id="7"),
            "s": Place("a", 1), "t": (1, 2)}
"""


@pytest.fixture
def m(folder: Make) -> Folder:
    return folder(m=BINDING)


def failed(run: Folder, *args: Any, **named: Any) -> Failure:
    outcome = run.run(*args, **named)
    assert outcome.failure is not None, outcome
    return outcome.failure


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("plain", {"a": 1, "unknown": 9}, [1, 2]),
        ("plain", {"b": 3, "a": None}, [None, 3]),
        ("typed", {"n": "4", "when": "2030-01-02T03:04:05Z", "price": "1.5", "colour": "red"}, [5, 2030, "2.5", "RED"]),
        ("whole_model", {"id": "7", "total": "2.50"}, ["7", "2.50"]),
        ("whole_model", {"order": {"id": "7"}, "id": "8"}, ["7", "0"]),
        ("whole_class", {"street": "a", "number": "3"}, ["a", 3]),
        ("whole_dict", {"x": 1, "y": 2}, ["x", "y"]),
        ("whole_dict", {"data": {"z": 1}, "y": 2}, ["z"]),
        ("whole_shape", {"sides": 3}, 3),
        ("whole_bounded", {"id": "7"}, "7"),
        ("two", {"order": {"id": "7"}}, "7"),
        ("rest", {"a": 1, "b": 2, "c": 3}, [1, {"b": 2, "c": 3}]),
        ("all_", {"a": 1}, {"a": 1}),
        ("bounded", {"n": 1}, 1),
        ("bounded", 5, 5),
        ("instance", {"n": 5}, 5),
        ("nothing", None, None),
        ("nothing", {"a": 1}, None),
    ],
)
def test_input_is_given_by_name_and_converted_by_type(m: Folder, name: str, given: Any, made: Any) -> None:
    assert m.run(f"m.{name}", given).value == made


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("plain", {}, "a is missing"),
        ("plain", None, "a is missing"),
        ("plain", [1], "takes named values"),
        ("two", {"id": "7"}, "order is missing"),
        ("two", {"ordr": {"id": "7"}}, "ordr: did you mean `order`?"),
        ("handler", {"id": "7"}, "a handler of Lambda is to be (event: dict, ctx)"),
        ("typed", {"n": "x", "when": 1, "price": 1, "colour": "blue"}, "colour"),
        ("whole_model", {"total": 1}, "order.id"),
        ("bounded", {"n": 0}, "greater than 0"),
        ("unknown_type", {"x": 1}, "unknown_type"),
        ("stranger", {"x": 1}, "Missing"),
        ("positional", {"a": 1}, "cannot be given by name"),
        ("star", {"a": 1}, "cannot be given by name"),
    ],
)
def test_input_that_does_not_fit_is_a_validation_error_that_names_the_parameter(
    m: Folder, name: str, given: Any, says: str
) -> None:
    failure = failed(m, f"m.{name}", given)
    assert failure.category == "validation"
    assert says in failure.message


def test_ctx_gets_the_context_and_its_type_may_be_known_to_the_type_checker_alone(m: Folder) -> None:
    outcome = m.run("m.context", {"n": 5}, read_state=lambda: {"s": 1}, resumed={"kind": "timer"}, attempt=3)
    assert outcome.value == ["r1", "n", 3, "r1:0:0", 5.0, {"s": 1}, {"kind": "timer"}, 5]


def test_results_become_plain_json(m: Folder) -> None:
    made = m.run("m.returns_all").value
    assert made == {"d": "2030-01-02", "p": "1.50", "c": "red", "o": {"id": "7", "total": "0"},
                    "s": {"street": "a", "number": 1}, "t": [1, 2]}  # fmt: skip
    json.dumps(made, allow_nan=False)


def test_a_step_that_changes_its_input_or_state_changes_neither_the_token_nor_the_definition(folder: Make) -> None:
    """Law 8: what a step did to its arguments is in no record, so it must not be in the token either."""
    steps = folder(m="def f(order, ctx):\n order['lines'].append(9)\n ctx.state['s']['t'] = 9\n return order")
    given, state = {"order": {"lines": [1]}}, {"s": {"t": 1}}
    assert steps.run("m.f", given, read_state=lambda: state).value == {"lines": [1, 9]}
    assert (given, state) == ({"order": {"lines": [1]}}, {"s": {"t": 1}})


OUTPUTS = """
import collections, io, sys
class Odd(Exception):
    def __str__(self): raise RuntimeError("no text either")
def nan(): return {"x": [float("nan")]}
def infinite(): return float("inf")
def thing(): return object()
def raw(): return b"\\xff"
def huge_number(): return 2**64
def circle():
    x = []; x.append(x); return x
def deep():
    x = []
    for _ in range(200): x = [x]
    return x
def half(): return "\\udc80"
def sets(): return {1}
def text_bytes(): return b"ab"
def gen():
    yield 1
    yield 2
async def agen():
    yield 1
def keys(): return {1: "a"}
def pairs(): return [{(1, 2): "a"}]
def named_pairs(): return {collections.namedtuple("Place", "x")(1): "a"}
def same_keys(): return {"n": {1: "a", "1": "b"}}
def opened(): return {"f": io.StringIO("a")}
def opened_in_set(): return [{io.StringIO("a")}]
def sets_as_keys(): return {frozenset({1}): "a"}
def none_as_key(): return [{None: 1}]
def iterator(): return {"rows": map(str, [1])}
def generator(): return [(n for n in [1])]
def whole_iterator(): return map(str, [1])
def leaves(): sys.exit(3)
def interrupts(): raise KeyboardInterrupt
def recursion(): return recursion()
def odd(): raise Odd()
def half_message(): raise ValueError("\\udc80")
def long_message(): raise ValueError("x" * 100_000)
def connection(): raise ConnectionResetError("gone")
def slow(): raise TimeoutError("socket")
def group(): raise ExceptionGroup("many", [ValueError("a")])
def silent(): raise ValueError
class Throttled(Exception):
    response = {"Error": {"Code": "SlowDown"}}
def throttled(): raise Throttled()
class Weird(Exception):
    response = {"Error": "text"}
def weird(): raise Weird("w")
"""


@pytest.mark.parametrize(
    "name", ["nan", "infinite", "thing", "raw", "huge_number", "circle", "deep", "half", "agen",
             "pairs", "named_pairs", "same_keys", "opened", "opened_in_set", "sets_as_keys",
             "none_as_key", "iterator", "generator"],
)  # fmt: skip
def test_an_output_that_cannot_be_stored_is_a_failed_step(folder: Make, name: str) -> None:
    failure = failed(folder(m=OUTPUTS), f"m.{name}")
    assert (failure.type, failure.category) == ("bad_output", "step")


@pytest.mark.parametrize(
    ("name", "made"),
    [("sets", [1]), ("text_bytes", "ab"), ("gen", [1, 2]), ("whole_iterator", ["1"]), ("keys", {"1": "a"})],
)
def test_what_has_an_obvious_form_in_json_gets_it(folder: Make, name: str, made: Any) -> None:
    assert folder(m=OUTPUTS).run(f"m.{name}").value == made


@pytest.mark.parametrize(
    ("name", "kind", "category"),
    [
        ("leaves", "SystemExit", "step"),
        ("interrupts", "KeyboardInterrupt", "step"),
        ("recursion", "RecursionError", "step"),
        ("odd", "Odd", "step"),
        ("connection", "ConnectionResetError", "transient"),
        ("slow", "TimeoutError", "transient"),
        ("throttled", "Throttled", "transient"),
        ("weird", "Weird", "step"),
        ("group", "ExceptionGroup", "step"),
    ],
)
def test_whatever_a_step_raises_is_a_failure_by_its_class_name(
    folder: Make, name: str, kind: str, category: str
) -> None:
    failure = failed(folder(m=OUTPUTS), f"m.{name}", attempt=2)
    assert (failure.type, failure.category, failure.step, failure.attempts) == (kind, category, "n", 2)


def test_the_message_of_a_failure_can_always_be_stored_and_is_bounded(
    folder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("stepwell.worker"), "disabled", True)  # pytest cannot hand such a text on
    steps = folder(m=OUTPUTS)
    failed(steps, "m.half_message").message.encode()
    assert len(failed(steps, "m.long_message").message) == 2_000
    assert failed(steps, "m.silent").message == "ValueError"


OURS = """
import stepwell
def transient(): raise stepwell.Transient("later")
def external(): raise stepwell.External("them", data={"code": 502})
def blocked(): raise stepwell.Blocked("ask ana", data=object())
def invalid(): raise stepwell.Invalid("wrong")
class Declined(stepwell.StepError): pass
def own(): raise Declined("no", data=[1])
def directed(): return stepwell.fail("not today", type="closed", data={"till": 9})
def told(): return stepwell.fail("no answer of https://app:hunter2@db/x", data={"api_key": "hunter2", "till": 9})
def sleeps(): return stepwell.sleep("5s", {"n": 1})
def asks(): return stepwell.wait_for_approval("boss", {"x": 1}, "1h", then="again")
def waits(): return stepwell.wait_for_event("paid", "7", "2h")
def bad_data(): return stepwell.wait_for_approval("boss", object())
def bad_sleep(): return stepwell.sleep("2 fortnights")
"""


@pytest.mark.parametrize(
    ("name", "kind", "category", "data"),
    [
        ("transient", "Transient", "transient", None),
        ("external", "External", "external", {"code": 502}),
        ("invalid", "Invalid", "validation", None),
        ("own", "Declined", "step", [1]),
        ("directed", "closed", "step", {"till": 9}),
    ],
)
def test_a_step_chooses_its_category(folder: Make, name: str, kind: str, category: str, data: Any) -> None:
    failure = failed(folder(m=OURS), f"m.{name}")
    assert (failure.type, failure.category, failure.data) == (kind, category, data)


def test_a_failure_that_a_step_returns_has_no_password_as_one_that_it_raises(folder: Make) -> None:
    failure = failed(folder(m=OURS), "m.told")
    assert failure.message == "no answer of https://app:[secret]@db/x"
    assert failure.data == {"api_key": "[secret]", "till": 9}


def test_data_of_an_error_that_is_no_json_is_shown_as_text(folder: Make) -> None:
    failure = failed(folder(m=OURS), "m.blocked")
    assert failure.category == "governance"
    assert failure.data.startswith("<object object")


def test_directives_become_pauses(folder: Make) -> None:
    steps = folder(m=OURS)
    pauses = [steps.run(f"m.{name}").pause for name in ("sleeps", "asks", "waits")]
    assert [(p.kind, p.name, p.key, p.data, p.timeout_ms, p.result, p.then) for p in pauses if p] == [
        ("sleep", "", "", None, 5_000, {"n": 1}, "next"),
        ("approval", "", "", {"x": 1, "type": "boss"}, 3_600_000, None, "again"),
        ("event", "paid", "7", None, 7_200_000, None, "next"),
    ]
    assert failed(steps, "m.bad_data").type == "bad_output"
    assert failed(steps, "m.bad_sleep").category == "validation"


def test_a_step_that_returns_what_it_did_not_await_is_told_to(folder: Make) -> None:
    text = "async def fetch(): return 1\nasync def forgets(): return fetch()\ndef hands_on(): return fetch()\n"
    steps = folder(m=text)
    assert failed(steps, "m.forgets").message == "the step returned fetch(…), which it did not await: return await …"
    assert steps.run("m.hands_on").value == 1


MARKED = """
from stepwell import Retry, step
@step(name="send_message", timeout="9s", retry=Retry(2, on=("step",)), at_most_once=True)
def anything(to): return to
@step
def bare(): return "bare"
"""


def test_a_step_is_found_by_the_name_its_decorator_gives_it(folder: Make) -> None:
    steps = folder(m=MARKED)
    assert steps.run_named("send_message", {"to": "ana"}).value == "ana"
    assert steps.run_named("bare").value == "bare"
    nobody = steps.run_named("nobody").failure
    assert nobody is not None
    assert (nobody.type, nobody.category) == ("unknown_step", "validation")


def test_the_decorator_s_options_are_defaults_that_the_definition_overrides(folder: Make) -> None:
    steps = folder(m=MARKED).steps
    own = steps.policy(Step("send_message"))
    assert (own.timeout_ms, own.at_most_once, own.retry and own.retry.max_retries) == (9_000, True, 2)
    assert steps.policy(Step("send_message", timeout_ms=1, at_most_once=False)).timeout_ms == 1
