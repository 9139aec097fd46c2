"""Simulated runs: the real engine in virtual time, with steps that only let time pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph, Json, Limit
from stepwell.errors import UserError
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.folder.loading import load_folder
from stepwell.simulation import Simulation, parse_assumptions, simulate
from stepwell.simulation.summary import percentile


def graph(text: str) -> Graph:
    made = compile_definition(text)
    assert made.graph is not None, made.problems
    return made.graph


def simulated(text: str, given: Json = None, **more: Any) -> Simulation:
    return simulate(graph(f"workflow: w\n{text}"), parse_assumptions(given or {}), **{"runs": 200, **more})


def counts(found: Simulation) -> dict[str, int]:
    return {one.status: one.count for one in found.outcomes}


CHAIN = """
timeline:
  - {name: a, run: python:x.a, timeout: 1m}
  - {name: b, run: python:x.b, timeout: 1m, retry_policy: {max_retries: 1, initial_delay: 10s}}
"""


def test_times_add_up_and_no_code_is_looked_for() -> None:
    found = simulated(CHAIN, {"steps": {"a": {"takes": "2s"}, "b": {"takes": "3s"}}})
    assert counts(found) == {"completed": 200}
    assert (found.p50_seconds, found.p95_seconds, found.max_seconds) == (5, 5, 5)


CALLING = """
StartAt: a
States:
  a: {Type: Task, Resource: "arn:aws:states:::sqs:sendMessage", End: true}
"""


def test_a_call_of_a_service_takes_its_time_and_calls_nothing() -> None:
    found = simulated(CALLING, {"steps": {"a": {"takes": "2s"}}}, runs=5)
    assert (counts(found), found.p50_seconds) == ({"completed": 5}, 2)


READING = """
StartAt: A
States:
  A:
    Type: Map
    ItemReader:
      Resource: arn:aws:states:::s3:getObject
      ReaderConfig: {InputType: JSON}
      Parameters: {Bucket: b, Key: k}
    ItemProcessor:
      ProcessorConfig: {Mode: DISTRIBUTED}
      StartAt: b
      States: {b: {Type: Task, Resource: "arn:aws:states:::sqs:sendMessage", End: true}}
    Catch: [{ErrorEquals: [States.ItemReaderFailed], Next: Z}]
    End: true
  Z: {Type: Wait, Seconds: 100, End: true}
"""


def test_items_that_are_read_are_guessed_or_given_under_the_name_of_their_state() -> None:
    found = simulated(READING, {"steps": {"A": {"takes": "2s"}, "b": {"takes": "3s"}}}, runs=5)
    assert (counts(found), found.p50_seconds, found.per_run["steps"]) == ({"completed": 5}, 5, 4)
    assert found.assumed["items A"].startswith("3,")
    assert simulated(READING, {"items": {"A": 9}}, runs=5).per_run["steps"] == 10
    assert simulated(READING, {"steps": {"A": {"returns": "[1, 2]"}}}, runs=5).per_run["steps"] == 3
    failing: Json = {"steps": {"A": {"takes": "2s", "fails": "100%"}}}
    assert simulated(READING, failing, runs=5).p50_seconds == 102


def test_results_that_are_written_take_the_time_of_their_step() -> None:
    writer = '    ResultWriter: {Resource: "arn:aws:states:::s3:putObject", Parameters: {Bucket: b}}\n    Catch'
    given: Json = {"steps": {"A": {"takes": "2s"}, "b": {"takes": "3s"}}}
    found = simulated(READING.replace("    Catch", writer), given, runs=5)
    assert (counts(found), found.p50_seconds, found.per_run["steps"]) == ({"completed": 5}, 7, 5)


def test_a_map_that_catches_errors_has_items_even_if_they_are_not_known() -> None:
    text = """
StartAt: A
States:
  A: {Type: Task, Resource: "arn:aws:states:::sqs:sendMessage", Next: E}
  E:
    Type: Map
    ItemsPath: $.none
    ItemProcessor: {StartAt: b, States: {b: {Type: Pass, End: true}}}
    Catch: [{ErrorEquals: [States.ALL], Next: Z}]
    End: true
  Z: {Type: Fail}
"""
    found = simulated(text, runs=5)
    assert (counts(found), found.assumed["items E"][:2]) == ({"completed": 5}, "3,")


THROTTLED = """
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ [1, 2, 3, 4] }}", as: item}]}
  work: {run: python:x.work, throttle: shop, transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""


def test_a_limit_holds_the_steps_of_a_run_back_and_one_that_is_not_known_does_not() -> None:
    given = {"steps": {"work": {"takes": "2s"}}}
    for limits, seconds in (({"shop": Limit(concurrency=1)}, 8), ({"shop": Limit(concurrency=2)}, 4), (None, 2)):
        found = simulated(THROTTLED, given, limits=limits, runs=5)
        assert (counts(found), found.p50_seconds) == ({"completed": 5}, seconds)


def test_a_step_that_fails_is_retried_as_the_definition_says() -> None:
    found = simulated(CHAIN, {"steps": {"b": {"takes": 0, "fails": "50%"}, "a": {"takes": 0}}}, runs=1_000)
    assert 200 < counts(found)["failed"] < 300  # a quarter: both tries fail
    assert next(one for one in found.outcomes if one.error).step == "b"
    assert found.p95_seconds == 10  # the pause before the second try


def test_a_step_beyond_its_time_limit_times_out() -> None:
    found = simulated(CHAIN, {"steps": {"a": {"takes": "5m"}}})
    (only,) = found.outcomes
    assert (only.status, only.error, only.step) == ("failed", "step_timeout", "a")
    assert found.p50_seconds == 60


def test_the_same_seed_gives_the_same_runs_and_another_one_others() -> None:
    given = {"default": {"takes": {"p50": "1s", "p95": "9s"}, "fails": 0.1}}
    first, again, other = (simulated(CHAIN, given, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.outcomes != other.outcomes or first.p95_seconds != other.p95_seconds


def test_a_run_does_not_depend_on_how_many_are_simulated() -> None:
    given = {"default": {"takes": {"p50": "1s", "p95": "9s"}}}
    assert simulated(CHAIN, given, runs=1).max_seconds in {
        simulated(CHAIN, given, runs=2).max_seconds, simulated(CHAIN, given, runs=2).p50_seconds
    }  # fmt: skip


def test_a_percentile_is_the_time_that_so_many_percent_do_not_exceed() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert (percentile(hundred, 50), percentile(hundred, 95)) == (50, 95)
    assert [percentile([1.0, 9.0], percent) for percent in (50, 51, 95)] == [1, 9, 9]
    assert (percentile([7.0], 50), percentile([], 50)) == (7, None)


def test_percentiles_are_those_that_were_given() -> None:
    text = "timeline:\n  - {name: a, run: python:x.a, timeout: 10h}\n"
    found = simulated(text, {"steps": {"a": {"takes": {"p50": "10s", "p95": "40s"}}}}, runs=2_000)
    assert found.p50_seconds == pytest.approx(10, rel=0.1)
    assert found.p95_seconds == pytest.approx(40, rel=0.15)


WAITS = """
timeout: 10d
timeline:
  - {name: ask, wait: {for: approval, timeout: 2d, on_reject: fail}}
  - {name: paid, wait: {for: event, name: paid, key: "{{ input.id }}", match: "event.amount > 5", timeout: 1d}}
  - {name: both, wait: {all: [{for: response}, {for: event, name: x}], timeout: 1d}}
"""


def test_waits_are_answered_after_their_time_or_never() -> None:
    given = {"waits": {"ask": {"after": "1h", "rejects": "20%"}, "paid": {"after": "2h", "never": "30%"}}}
    found = simulated(WAITS, given, runs=500)
    told = {(one.status, one.error) for one in found.outcomes}
    assert told == {("completed", ""), ("failed", "rejected"), ("timed_out", "event_timeout")}
    assert counts(found)["completed"] == pytest.approx(500 * 0.8 * 0.7, abs=45)
    assert found.assumed["wait both"] == "answered after 1 minute, always"
    assert found.p50_seconds == pytest.approx(3 * 3_600 + 60)


TOKENS = """
StartAt: A
resources: {ask.waitForTaskToken: python:x.ask}
States:
  A: {Type: Task, Resource: ask.waitForTaskToken, TimeoutSecondsPath: $.none, HeartbeatSeconds: 5, End: true}
"""


def test_a_task_with_a_token_takes_its_time_and_is_answered_or_never() -> None:
    given: Json = {"steps": {"A": {"takes": "2s"}}, "waits": {"A": {"after": "1h", "data": 7}}}
    found = simulated(TOKENS, given)
    assert (counts(found), found.p50_seconds) == ({"completed": 200}, 3602)
    found = simulated(TOKENS.replace("TimeoutSecondsPath: $.none", "TimeoutSeconds: 60"),
                      {"waits": {"A": {"never": "100%"}}})  # fmt: skip
    assert (counts(found), found.p50_seconds) == ({"failed": 200}, 60)


def test_a_condition_over_what_is_given_is_evaluated() -> None:
    text = """
timeline:
  - {name: a, run: python:x.a, timeout: 1m, branch: [{when: "result.amount > 100", skip_to: end}]}
  - {name: b, run: python:x.b, timeout: 1m}
"""
    small = simulated(text, {"steps": {"a": {"returns": {"amount": 5}}}})
    assert (small.never_reached, small.never_taken) == ((), ("a.branch[0]",))
    assert not any(name.startswith("rule") for name in small.assumed)
    large = simulated(text, {"steps": {"a": {"returns": {"amount": 500}}}})
    assert (large.never_reached, large.never_taken) == (("b",), ())


def test_a_condition_over_what_is_not_given_is_a_matter_of_chance_and_that_is_said() -> None:
    text = """
start: a
nodes:
  a: {run: "python:x.a", transitions: [{when: "result.ok", to: b}, {when: "result.bad", to: c}]}
  b: {}
  c: {}
"""
    found = simulated(text)
    assert counts(found) == {"completed": 200}  # never neither
    assert (found.never_reached, found.never_taken) == ((), ())
    assert "50%" in found.assumed["rule a.transitions[0]"]
    given = simulated(text, {"rules": {"a.transitions[0]": "100%"}})
    assert (given.never_reached, given.never_taken) == (("c",), ("a.transitions[1]",))


def test_a_fork_takes_as_long_as_its_slowest_branch() -> None:
    text = """
start: a
nodes:
  a: {transitions: [{foreach: "{{ input.orders }}", to: work}]}
  work: {run: "python:x.work", transitions: [{to: all}]}
  all: {fan_in: {policy: all}}
"""
    found = simulated(text, {"items": {"a": 20}, "steps": {"work": {"takes": "7s"}}}, runs=20)
    assert counts(found) == {"completed": 20}, found
    assert found.p50_seconds == 7
    assert found.per_run["steps"] == 20
    assert simulated(text, runs=20).assumed["items a"].startswith("3,")


def test_a_dag_takes_its_longest_path_and_is_undone_when_a_step_fails() -> None:
    text = """
steps:
  - {name: a, run: python:x.a, on_failure: compensate}
  - {name: b, run: python:x.b, depends_on: [a]}
  - {name: c, run: python:x.c, depends_on: [a], on_failure: compensate, retry_policy: {max_retries: 0}}
compensation:
  - {step: a, run: python:x.undo}
"""
    steps = {"a": {"takes": "1s"}, "b": {"takes": "2s"}, "c": {"takes": "9s"}}
    assert simulated(text, {"steps": steps}).p50_seconds == 10
    failing = {**steps, "c": {"takes": "1s", "fails": 1, "error": "Full"}}
    assert counts(simulated(text, {"steps": failing})) == {"compensated": 200}


def test_child_runs_are_simulated_where_their_workflow_is_known_and_else_as_a_step() -> None:
    text = "timeline:\n  - {name: call, run: 'workflow:child', timeout: 1h}\n"
    child = graph("workflow: child\ntimeline:\n  - {name: s, run: python:x.s, timeout: 1h}\n")
    known = simulated(text, {"steps": {"s": {"takes": "5m"}}}, others=[child])
    assert known.p50_seconds == 300
    assert simulated(text, {"steps": {"call": {"takes": "7m"}}}).p50_seconds == 420


PARENT = """
timeline:
  - {name: get, run: python:x.get}
  - {name: kid, run: "workflow:kid", input: {lines: "{{ state.get.lines }}"}}
"""
KID = """
StartAt: Pack
States:
  Pack:
    Type: Map
    ItemsPath: $.lines
    ItemSelector: {"sku.$": "$$.Map.Item.Value.sku"}
    ItemProcessor: {StartAt: Look, States: {Look: {Type: Pass, Parameters: {"looked.$": "$.sku"}, End: true}}}
    End: true
"""


def test_a_child_gets_the_input_that_what_is_given_makes() -> None:
    """Its Map has the given lines, and else lines of unknown content."""
    others = [graph(f"workflow: kid{KID}")]
    given: Json = {"steps": {"get": {"returns": {"lines": [{"sku": "a"}, {"sku": "b"}]}}}}
    found = simulated(PARENT, given, runs=5, others=others)
    assert (counts(found), found.assumed) == ({"completed": 5}, {})
    unknown = simulated(PARENT, runs=5, others=others)
    assert (counts(unknown), unknown.assumed["items Pack"][:2]) == ({"completed": 5}, "3,")
    assert "state Look" in unknown.assumed


def test_a_machine_without_an_input_does_not_fail_and_says_what_it_lacks() -> None:
    found = simulated(KID, runs=5)
    assert (counts(found), "state Look" in found.assumed) == ({"completed": 5}, True)
    known = simulated(KID, {"input": {"lines": [{"size": 3}]}}, runs=5)
    assert counts(known) == {"failed": 5}


def test_a_durable_function_runs_its_own_code_and_none_of_its_steps(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text("""
from stepwell import step, workflow

@step(timeout="1m")
def call(n: int) -> int:
    raise AssertionError("the step's code ran")

@workflow
async def durable(ctx):
    total = sum([await ctx.step(call, n) for n in range(3)])
    await ctx.sleep("1h")
    return total
""")
    (made,) = load_folder(tmp_path).graphs
    given = parse_assumptions({"steps": {"call": {"takes": "20s", "returns": 2}}})
    found = simulate(made, given, runs=5, functions=lambda: FunctionSteps(tmp_path, VirtualClock()))
    assert counts(found) == {"completed": 5}, found
    assert found.p50_seconds == 3_660


def test_the_cost_is_that_of_the_ledger_and_grows_with_the_steps() -> None:
    one = simulated("timeline:\n  - {name: a, run: python:x.a, timeout: 1m}\n", runs=5)
    ten = "".join(f"  - {{name: s{n}, run: python:x.s, timeout: 1m}}\n" for n in range(10))
    many = simulated(f"timeline:\n{ten}", runs=5)
    assert (one.per_run["steps"], many.per_run["steps"]) == (1, 10)
    assert many.per_run["write_units"] - one.per_run["write_units"] == 9
    assert 0 < one.usd_per_1000_runs["stepwell"] < many.usd_per_1000_runs["stepwell"]
    assert many.usd_per_1000_runs["stepwell"] < many.usd_per_1000_runs["step_functions_standard"]


WIDE = """
nodes:
  a: {transitions: [{foreach: "{{ input.orders }}", to: work}]}
  work: {run: python:x.work, timeout: 1m, transitions: [{to: all}]}
  all: {fan_in: {policy: all}}
"""


LOOP = """
nodes:
  a: {run: python:x.a, timeout: 1m, transitions: [{to: end, when: input.stops, priority: 1}, {to: a, priority: 2}]}
"""


@pytest.mark.parametrize("width", [1_600, 2_600])
def test_a_wide_fork_is_played_to_its_end(width: int) -> None:
    """It stayed open: its join was too large for the log, or its branches took too many moves."""
    found = simulated(WIDE, {"input": {"orders": [*range(width)]}, "steps": {"work": {"takes": "2s"}}}, runs=1)
    assert (counts(found), found.max_seconds, found.per_run["steps"]) == ({"completed": 1}, 2, width)


def test_a_run_with_more_moves_than_its_branches_need_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.simulation.playing.MOST_MOVES", 100)
    assert counts(simulated(LOOP, {"input": {"stops": False}}, runs=1)) == {"open": 1}


def test_the_time_for_it_is_bounded() -> None:
    found = simulated(CHAIN, runs=1_000, seconds=0)
    assert (found.runs, found.outcomes, found.p50_seconds) == (0, (), None)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"steps": {"a": {"fails": 2}}}, "steps.a.fails"),
        ({"steps": {"a": {"takes": {"p50": "2s", "p95": "1s"}}}}, "steps.a.takes"),
        ({"steps": {"a": {"take": 1}}}, "steps.a"),
        ({"steps": {"a": {"takes": "soon"}}}, "steps.a.takes"),
        ({"waits": {"a": {"never": "x%"}}}, "waits.a.never"),
        ({"rules": {"a": True}}, "rules.a"),
        ({"items": {"a": 1.5}}, "items.a"),
        ({"stepz": {}}, "assumptions"),
        ([], "assumptions"),
    ],
)
def test_bad_assumptions_are_refused_with_their_place(given: Json, place: str) -> None:
    with pytest.raises(UserError, match=place):
        parse_assumptions(given)
