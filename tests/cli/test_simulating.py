"""`stepwell simulate` in front of `stepwell.simulation`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stepwell.cli.main import app
from stepwell.prices import Prices
from stepwell.simulation import parse_assumptions
from stepwell.simulation.assumptions import UNKNOWN
from stepwell.simulation.history import assumed_from
from stepwell.testing.kit import Stepwell

from .conftest import Cli, FakeApi

FAULTS = Path(__file__).parents[2] / "examples" / "faults"

PRINTING = """
from stepwell import step, workflow

@step
def charge(): ...

@workflow
async def told(ctx):
    print("hello from the function")
    try:
        return await ctx.step(charge)
    except Exception as error:
        raise LookupError("no charge") from error
"""


def simulate(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *args, "--runs", "20"])


def test_a_contradiction_of_deadlines_is_told_and_is_the_exit_status() -> None:
    told = simulate("contract", str(FAULTS), "--wait", "sign=2d,50%")
    assert told.exit_code == 1, told.output
    assert "its time-out never comes [wait_outlives_run]" in told.stdout
    assert "never reached: remind" in told.stdout
    assert "p50" in told.stdout


def test_a_run_whose_time_is_over_in_a_sleep_names_no_step(tmp_path: Path) -> None:
    (tmp_path / "nap.yaml").write_text("workflow: nap\ntimeout: 1h\ntimeline: [{name: nap, sleep: 2h}]\n")
    assert "  100.0%  timed_out: workflow_timeout\n" in simulate("nap", str(tmp_path)).stdout


def test_the_limits_of_the_folder_hold(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("limits: {shop: {rate_limit: {limit: 1, per: 10s}}}\n")
    steps = ", ".join(f"{{name: {name}, run: 'python:x.f', throttle: shop}}" for name in "abc")
    (tmp_path / "w.yaml").write_text(f"workflow: w\ntimeline: [{steps}]\n")
    found = json.loads(
        simulate("w", str(tmp_path), "--step", "a=0s", "--step", "b=0s", "--step", "c=0s", "--json").stdout
    )
    assert (found["outcomes"][0]["status"], found["p50_seconds"]) == ("completed", 20)


def test_deadlines_that_fit_end_well_and_are_told_as_json() -> None:
    told = simulate("invoice", str(FAULTS), "--step", "charge=2s,10%", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["runs"], found["contradictions"], found["source"]) == (20, [], "given")
    assert found["p50_seconds"] == 4


def test_a_simulation_costs_what_the_table_of_prices_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text('{"as_of": "2027-01-31", "million_transitions": 50}')
    ours = json.loads(simulate("invoice", str(FAULTS), "--json").stdout)
    monkeypatch.setenv("STEPWELL_PRICES", str(table))
    theirs = json.loads(simulate("invoice", str(FAULTS), "--json").stdout)
    name = "step_functions_standard"
    assert theirs["usd_per_1000_runs"][name] > ours["usd_per_1000_runs"][name]
    assert (ours["prices_as_of"], theirs["prices_as_of"]) == (Prices().as_of, "2027-01-31")
    assert "prices as of 2027-01-31" in simulate("invoice", str(FAULTS)).stdout
    table.write_text("million_transitions: dear")
    assert "bad_prices" in simulate("invoice", str(FAULTS)).output


def test_a_file_of_assumptions_and_the_options_go_together(tmp_path: Path) -> None:
    assume = tmp_path / "assumptions.yaml"
    assume.write_text("default: {takes: 5s}\nsteps: {charge: {takes: 1h}}\n")
    told = simulate("invoice", str(FAULTS), "--assume", str(assume), "--step", "charge=1s", "--json")
    assert json.loads(told.stdout)["p50_seconds"] == 11


def test_assumptions_that_cannot_be_read_are_wrong_usage(tmp_path: Path) -> None:
    assume = tmp_path / "assumptions.yaml"
    assume.write_text("steps: {charge: {takes: soon}}")
    assert simulate("invoice", str(FAULTS), "--assume", str(assume)).exit_code == 2
    assert simulate("invoice", str(FAULTS), "--assume", str(tmp_path / "none.yaml")).exit_code == 2
    assert simulate("invoices", str(FAULTS)).exit_code == 2


@pytest.mark.parametrize(
    ("workflow", "given", "told"),
    [
        ("invoice", ["--step", "chrage=1s"], "steps: no step is called 'chrage' [no_such_name]"),
        ("contract", ["--wait", "sing=1d"], "waits: no wait is called 'sing' [no_such_name]"),
        ("contract", ["--step", "sign=1d"], "steps: no step is called 'sign' [no_such_name]"),
    ],
)
def test_a_name_that_the_workflow_does_not_have_is_refused(workflow: str, given: list[str], told: str) -> None:
    """It would change nothing."""
    found = simulate(workflow, str(FAULTS), *given)
    assert found.exit_code == 2
    assert told in found.stderr
    assert "hint: " in found.stderr


@pytest.mark.parametrize("kind", ["rules", "items"])
def test_a_rule_and_a_collection_that_there_are_not_are_refused(tmp_path: Path, kind: str) -> None:
    assume = tmp_path / "assumptions.yaml"
    assume.write_text(f"{kind}: {{nope: 1}}")
    found = simulate("contract", str(FAULTS), "--assume", str(assume))
    assert (found.exit_code, f"{kind}: no " in found.stderr) == (2, True)


FUNCTION = """
from stepwell import step, workflow

@step
def look(number):
    return number

@workflow
async def repair(ctx, count: int = 2):
    await ctx.step(look, 0, name=f"look-{count}")
    await ctx.approval("boss", timeout="1d")
"""


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (("--wait", "approve"), "for example --wait approve=2h"),
        (("--step", "fetch"), "for example --step charge=800ms,5%"),
    ],
)
def test_an_assumption_without_a_time_is_told_one_of_its_kind(given: tuple[str, str], hint: str) -> None:
    told = simulate("contract", str(FAULTS), *given)
    assert f"error: {given[1]!r} is not of the form name=value [bad_pair]\n  hint: {hint}\n" in told.output


@pytest.mark.parametrize("given", [("--step", "look-2=2s"), ("--step", "look=2s"), ("--wait", "boss=2s")])
def test_a_name_that_a_function_gives_while_it_runs_is_known(tmp_path: Path, given: tuple[str, str]) -> None:
    (tmp_path / "repair.py").write_text(FUNCTION)
    told = simulate("repair", str(tmp_path), *given)
    assert (told.exit_code, "100.0%  completed" in told.stdout) == (0, True), told.output


@pytest.mark.parametrize("asked", ['["ana", "leo"]', '["ana", "leo", "kim"], need=2', "None, need=2"])
def test_an_approval_of_a_function_is_answered_by_the_named_people(tmp_path: Path, asked: str) -> None:
    """As many of them as must agree; a rejection is one by as many as make that impossible."""
    (tmp_path / "repair.py").write_text(FUNCTION.replace('"boss", ', f'"boss", approvers={asked}, '))
    told = simulate("repair", str(tmp_path))
    assert (told.exit_code, "100.0%  completed" in told.stdout) == (0, True), told.output
    assume = tmp_path / "data" / "assume.yaml"
    assume.parent.mkdir()
    assume.write_text("waits: {boss: {rejects: 100%}}")
    refused = simulate("repair", str(tmp_path), "--assume", str(assume))
    assert "100.0%  failed: rejected in boss" in refused.stdout, refused.output


def test_a_wait_of_a_function_for_several_approvals_gets_each(tmp_path: Path) -> None:
    both = ', approvers=["ana"]), ctx.approval("head", approvers=["ana", "leo"], need=2)'
    text = FUNCTION.replace('ctx.approval("boss", timeout="1d")', f'ctx.all(ctx.approval("boss"{both})')
    (tmp_path / "repair.py").write_text(text)
    told = simulate("repair", str(tmp_path))
    assert (told.exit_code, "100.0%  completed" in told.stdout) == (0, True), told.output


def test_a_name_that_a_function_never_gave_is_refused(tmp_path: Path) -> None:
    (tmp_path / "repair.py").write_text(FUNCTION)
    told = simulate("repair", str(tmp_path), "--step", "look-3=2s")
    assert (told.exit_code, "no step is called 'look-3'" in told.stderr) == (2, True)


@pytest.mark.parametrize("text", ["steps:\n", "steps: [charge]\n", "waits: 3\n"])
def test_assumptions_of_the_wrong_type_are_refused_beside_options(tmp_path: Path, text: str) -> None:
    assume = tmp_path / "assume.yaml"
    assume.write_text(text)
    told = simulate("invoice", str(FAULTS), "--assume", str(assume), "--step", "charge=1s")
    assert (told.exit_code, "it is a mapping by name [bad_assumptions]" in told.output) == (2, True), told.output


def test_an_input_that_the_schema_refuses_is_not_simulated(tmp_path: Path) -> None:
    schema = "{type: object, required: [order_id]}"
    (tmp_path / "w.yaml").write_text(
        f"workflow: w\ninput_schema: {schema}\ntimeline: [{{name: a, run: 'python:x.f'}}]\n"
    )
    told = simulate("w", str(tmp_path), "-i", "{}")
    assert (told.exit_code, "lacks `order_id`" in told.output) == (2, True), told.output
    assert simulate("w", str(tmp_path), "-i", '{"order_id": "A-1"}').exit_code == 0
    assert simulate("w", str(tmp_path)).exit_code == 0


def test_a_function_that_always_fails_in_its_own_code_is_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "repair.py").write_text(FUNCTION.replace("ctx.approval(", "ctx.aproval("))
    told = simulate("repair", str(tmp_path))
    assert told.exit_code == 5, told.output
    assert "nothing is simulated: every run failed in repair itself, with AttributeError\n  hint: " in told.stdout
    quiet = simulate("repair", str(tmp_path), "--json")
    assert (quiet.exit_code, json.loads(quiet.stdout)["runs"]) == (5, 20)


def test_a_function_that_gets_no_input_says_to_give_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PRINTING.replace("told(ctx)", "told(ctx, order_id: str)"))
    told = simulate("told", str(tmp_path))
    assert told.exit_code == 5, told.output
    assert "every run failed in told itself, with step_input\n  hint: give the input that" in told.stdout
    assert simulate("told", str(tmp_path), "-i", '{"order_id": "A-1"}').exit_code == 0


def test_a_workflow_that_lacks_a_value_in_every_run_says_to_give_it(tmp_path: Path) -> None:
    """In its own nodes, or in those of a child."""
    (tmp_path / "nap.yaml").write_text('workflow: nap\ntimeline: [{name: nap, sleep: "{{ input.pause }}"}]\n')
    (tmp_path / "w.yaml").write_text("workflow: w\ntimeline: [{name: kid, run: 'workflow:nap'}]\n")
    for name in ("nap", "w"):
        told = simulate(name, str(tmp_path))
        assert told.exit_code == 5, told.output
        assert "assumed: node nap fails, because what it reads is not there: there is no key 'pause'" in told.stdout
        assert "  hint: give the input: -i FILE|JSON; " in told.stdout
        assert simulate(name, str(tmp_path), "-i", '{"pause": "2m"}').exit_code == 0


def test_a_traceback_is_shown_once_and_not_for_each_run(tmp_path: Path) -> None:
    """In a process of its own: here pytest takes what is logged."""
    (tmp_path / "repair.py").write_text(FUNCTION.replace("ctx.approval(", "ctx.aproval("))
    command = [sys.executable, "-c", "from stepwell.cli.main import main; main()", "simulate", "repair", str(tmp_path)]
    told = subprocess.run([*command, "--runs", "20"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert (told.returncode, told.stderr.count("Traceback")) == (5, 1), told.stderr


def test_what_a_function_prints_keeps_out_of_the_answer_and_comes_once(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PRINTING)
    told = simulate("told", str(tmp_path), "--json")
    assert (told.exit_code, json.loads(told.stdout)["runs"]) == (0, 20)
    assert told.stderr.count("hello from the function") == 1


def test_a_function_that_raises_an_error_of_its_own_for_a_step_that_always_fails_is_simulated(tmp_path: Path) -> None:
    """As it was asked to: the step's failures lead there."""
    (tmp_path / "shop.py").write_text(PRINTING)
    told = simulate("told", str(tmp_path), "--step", "charge=1s,100%")
    assert (told.exit_code, "100.0%  failed: LookupError in told" in told.stdout) == (0, True), told.output
    assert "nothing is simulated" not in told.output


def test_code_that_cannot_be_imported_is_not_simulated(tmp_path: Path) -> None:
    """A run would wait for other code, which nobody deploys."""
    (tmp_path / "shop.py").write_text("from stepwell import lacking\n" + PRINTING)
    told = simulate("told", str(tmp_path))
    assert told.exit_code == 2, told.output
    assert "the code of told cannot go on: ImportError: cannot import name 'lacking'" in told.stderr
    assert "[not_simulated]" in told.stderr


def test_a_function_whose_step_always_fails_is_simulated(tmp_path: Path) -> None:
    """As it was asked to."""
    (tmp_path / "repair.py").write_text(FUNCTION)
    told = simulate("repair", str(tmp_path), "--step", "look-2=1s,100%")
    assert (told.exit_code, "100.0%  failed: Transient in look-2" in told.stdout) == (0, True), told.output


def test_an_api_that_nothing_would_be_asked_of_is_refused(tmp_path: Path) -> None:
    """It was ignored, so that the figures looked like those of its runs."""
    (tmp_path / "w.yaml").write_text("workflow: w\ntimeline: [{name: nap, sleep: 1m}]\n")
    told = simulate("w", str(tmp_path), "--url", "http://127.0.0.1:9")
    assert (told.exit_code, "--from-history alone, which is not given" in told.stderr) == (2, True)


def test_times_failures_and_answers_come_from_runs_that_ended(tmp_path: Path, cli: Cli, api: FakeApi) -> None:
    (tmp_path / "w.yaml").write_text("""
workflow: w
timeline:
  - {name: a, run: python:x.a, timeout: 5m, retry_policy: {max_retries: 3, initial_delay: 1s}}
  - {name: ask, wait: {for: approval, timeout: 1d}}
""")
    kit, runs = Stepwell(tmp_path), []
    kit.mock("a", returns=5, takes="30s")
    for number in range(3):
        begun = kit.start("w", {"n": number})
        kit.advance("1h")
        if number:
            begun.approve()
        else:
            kit.advance("1d")
        runs.append(begun.view)
    assert [run["status"] for run in runs] == ["timed_out", "completed", "completed"]
    found = assumed_from(runs, parse_assumptions({}))
    assert set(found.steps["a"].takes.samples_ms) == {30_000}
    assert (found.steps["a"].fails, found.steps["a"].returns) == (0, 5)
    assert found.waits["ask"].never == 1 / 3
    assert set(found.waits["ask"].after.samples_ms) == {3_600_000}
    api.on("GET", "/runs", (200, {"items": [{"run_id": run["run_id"]} for run in runs], "next_cursor": None}))
    for run in runs:
        api.on("GET", f"/runs/{run['run_id']}", (200, run))
    told = cli("simulate", "w", str(tmp_path), "--from-history", "3", "--runs", "50", "--json")
    assert told.exit_code == 0, told.output
    made = json.loads(told.stdout)
    assert made["source"] == "times and failures of 3 runs"
    assert {one["status"] for one in made["outcomes"]} == {"completed", "timed_out"}


TOLERANT = """
workflow: w
nodes:
  begin:
    run: python:x.begin
    transitions: [{to: one, foreach: "{{ state.begin }}"}]
  one:
    run: python:x.one
    input: {number: "{{ branch.item }}"}
    transitions: [{to: last}]
  last:
    fan_in: {tolerate: {count: 1}}
    run: python:x.last
"""


def _fails_at_13(given: dict[str, int]) -> int:
    if given["number"] == 13:
        raise ValueError("thirteen")
    return given["number"]


def test_a_step_that_failed_in_one_of_thirty_branches_fails_so_often(tmp_path: Path, cli: Cli, api: FakeApi) -> None:
    """Its failure is of the category that it was, so that it is retried as it was."""
    (tmp_path / "w.yaml").write_text(TOLERANT)
    kit = Stepwell(tmp_path)
    kit.mock("begin", returns=list(range(30)))
    kit.mock("one", returns=_fails_at_13)
    kit.mock("last", returns=1)
    runs = [kit.start("w", {}).view for _ in range(3)]
    assert {run["status"] for run in runs} == {"completed"}
    found = assumed_from(runs, parse_assumptions({"default": {"takes": "2s"}})).steps["one"]
    assert (round(found.fails, 4), found.error, found.category) == (round(1 / 30, 4), "ValueError", "step")
    assert (found.returns, found.takes.fixed_ms) == (UNKNOWN, 2_000)
    api.on("GET", "/runs", (200, {"items": [{"run_id": run["run_id"]} for run in runs], "next_cursor": None}))
    for run in runs:
        api.on("GET", f"/runs/{run['run_id']}", (200, run))
    told = cli("simulate", "w", str(tmp_path), "--from-history", "3", "--runs", "200", "--json")
    counts = {one["status"]: one["count"] for one in json.loads(told.stdout)["outcomes"]}
    assert 120 < counts["completed"] < 170, told.output  # 74 % of the runs have one failure at most


@pytest.mark.parametrize(
    ("attempts", "fails"),
    [(12, 4 / 12), (0, 2 / 10)],  # each branch was read, and two attempts failed before a success; or none was
)
def test_failures_of_branches_are_counted_with_and_without_their_attempts(attempts: int, fails: float) -> None:
    counts = {"total": 11, "completed": 8, "failed": 2, "cancelled": 1}
    step = {"status": "failed", "output": None, "error": {"type": "event_timeout", "category": "timeout"},
            "attempts": attempts, "started_at": None, "ended_at": None, "branches": counts}  # fmt: skip
    found = assumed_from([{"steps": {"a": step}, "input": {}}], parse_assumptions({}))
    assert found.steps["a"].fails == fails
    assert found.waits["a"].never == 0.2


def test_a_step_that_was_tried_again_failed_once() -> None:
    step = {"status": "completed", "output": 1, "error": None, "attempts": 2, "started_at": None, "ended_at": None}
    found = assumed_from([{"steps": {"a": step}, "input": {}}], parse_assumptions({"steps": {"b": {"fails": 1}}}))
    assert (found.steps["a"].fails, found.steps["b"].fails) == (0.5, 1)


def test_attempts_that_were_tried_again_are_no_failures_of_a_kind_that_never_is() -> None:
    """Three branches failed with an error that is not retried; seven others failed once, and then completed."""
    counts = {"total": 100, "completed": 97, "failed": 3}
    error = {"type": "ValueError", "category": "step", "attempts": 1}
    step = {"status": "failed", "output": None, "error": error, "attempts": 107, "started_at": None, "ended_at": None,
            "branches": counts}  # fmt: skip
    found = assumed_from([{"steps": {"a": step}, "input": {}}], parse_assumptions({}))
    assert (found.steps["a"].fails, found.steps["a"].error) == (0.03, "ValueError")
