"""`stepwell gate` replays the histories of open runs against code before it is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.deploying.gate import _FEW, asked_of, gate_runs, print_gated
from stepwell.definition.checks import taken
from stepwell.engine.records import Status
from stepwell.local import gating
from stepwell.local.gating import Gated, Verdict
from stepwell.local.gating import gated as verdict_of
from stepwell.local.replaying import exported
from stepwell.runtime.calls.batching import Batch
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell

from .conftest import Cli, FakeApi, problem

CODE = """
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n

@workflow
async def order(ctx, n: int):
    await ctx.step(charge, n)
    await ctx.event("paid")
    await ctx.step(charge, n)

def refund(): ...
def notify(): ...
"""
GRAPH = """
workflow: refunds
timeline:
  - {name: first, run: python:gated.notify, timeout: 1m}
  - {name: approve, wait: {for: approval}}
  - {name: last, run: python:gated.refund, timeout: 1m}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "flows", CODE)


def written(folder: Path, code: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "gated.py").write_text(code)
    (folder / "refunds.yaml").write_text(GRAPH)
    return folder


@pytest.fixture
def runs(folder: Path, api: FakeApi) -> list[Run]:
    """Two open runs, which the API has."""
    kit = Stepwell(folder)
    runs = [kit.start("order", {"n": 1}, run_id="r1"), kit.start("refunds", run_id="r2")]
    listed = [{"run_id": run.id, "workflow": run.view["workflow"]} for run in runs]
    api.on("GET", "/runs", (200, {"items": listed, "next_cursor": None}))
    for run in runs:
        api.on("GET", f"/runs/{run.id}/export", (200, {"items": kit.export(run.id), "next_cursor": None}))
    return runs


def gated(cli: Cli, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    result = cli("gate", str(folder), "--json", *more)
    return result.exit_code, {one["run_id"]: one for one in json.loads(result.stdout)}


def test_what_users_code_prints_and_raises_stays_out_of_the_answer(
    cli: Cli, runs: list[Run], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`--json` is read by a program; and the verdict tells why the code cannot be imported."""
    caplog.clear()
    code, found = gated(cli, written(tmp_path / "new", "print('imported')\nraise LookupError('no key')"))
    assert (code, found["r1"]["verdict"]) == (1, "lacks code")
    assert "LookupError: no key" in found["r1"]["why"]
    assert [one for one in caplog.records if one.name != "httpx"] == []  # which tells of its calls where INFO is shown


@pytest.mark.usefixtures("cli")
def test_the_count_of_several_runs_is_followed_by_a_plural(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = (Verdict.KEEPS, Verdict.KEEPS, Verdict.PATCH)
    print_gated([Gated(f"r{number}", "order", one, "") for number, one in enumerate(verdicts)])
    assert capsys.readouterr().out.endswith("3 open runs: 2 keep their definitions, 1 needs a patch\n")


def test_the_code_that_runs_began_with_is_compatible(cli: Cli, api: FakeApi, runs: list[Run], folder: Path) -> None:
    result = cli("gate", str(folder))
    assert (result.exit_code, result.stdout) == (0, "2 open runs: 1 compatible, 1 keeps its definition\n")
    assert api.calls[0].query["status"] == [one.value for one in Status if not one.terminal]


@pytest.mark.parametrize("command", [["gate", "no"], ["replay", "run_1", "-f", "no"]])
def test_a_folder_that_is_not_there_proves_nothing(cli: Cli, api: FakeApi, runs: list[Run], command: list[str]) -> None:
    result = cli(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no folder 'no' [no_such_folder]" in result.stderr


@pytest.mark.parametrize(
    ("before", "after", "expected", "came", "line"),
    [
        ('ctx.event("paid")', 'ctx.event("settled")', "event paid", "event settled", 11),
        ("await ctx.step(charge, n)\n    await ctx.event", "await ctx.event", "step charge", "event paid", 10),
        ("await ctx.step(charge, n)\n    await ctx.event", "await ctx.step(charge, n + 1)\n    await ctx.event",
         "step charge", "step charge with other arguments", 10),
    ],
)  # fmt: skip
def test_a_run_that_needs_a_patch_is_named_with_the_place_and_both_sides(
    cli: Cli, runs: list[Run], tmp_path: Path, before: str, after: str, expected: str, came: str, line: int
) -> None:
    status, found = gated(cli, written(tmp_path / "new", CODE.replace(before, after)))
    assert status == 1
    assert found["r1"]["verdict"] == "needs a patch"
    where = found["r1"]["where"]
    assert (where["expected"], where["came"], where["at"]) == (expected, came, f"gated.py:{line}")
    assert found["r2"]["verdict"] == "keeps its definition"


def test_a_patch_makes_it_compatible(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    patched = CODE.replace(
        'await ctx.event("paid")', 'await ctx.event("settled" if ctx.patched("settled") else "paid")'
    )
    status, found = gated(cli, written(tmp_path / "new", patched))
    assert (status, found["r1"]["verdict"]) == (0, "compatible")


def test_what_a_run_did_before_it_began_anew_needs_no_patch(tmp_path: Path) -> None:
    """Nothing replays it again: the life that the run is in alone decides."""
    code = """
import asyncio
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n

@workflow
async def order(ctx, n: int = 0):
    await ctx.step(charge, n)
    await asyncio.gather(ctx.step(charge, n), ctx.sleep("1d"))
    return ctx.continue_as(order, n + 1)
"""
    kit = Stepwell(written(tmp_path / "flows", code))
    run = kit.start("order")
    kit.advance("1d")
    kit.advance("1h")
    export = exported(run.export(), run.id)
    assert verdict_of(export, tmp_path / "flows").verdict is Verdict.COMPATIBLE
    later = written(tmp_path / "later", code.replace("    return ctx", '    await ctx.event("paid")\n    return ctx'))
    assert verdict_of(export, later).verdict is Verdict.COMPATIBLE
    other = written(tmp_path / "other", code.replace('ctx.sleep("1d")', 'ctx.event("paid")'))
    found = verdict_of(export, other)
    assert (found.verdict, found.where and found.where.slot) == (Verdict.PATCH, 6)


def test_a_change_that_no_run_has_come_to_is_compatible(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    later = CODE.replace('("paid")\n    await ctx.step(charge, n)', '("paid")\n    await ctx.sleep("1h")')
    assert gated(cli, written(tmp_path / "new", later))[0] == 0


def test_a_run_lacks_code_that_it_may_still_come_to(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    status, found = gated(cli, written(tmp_path / "new", CODE.replace("def refund", "def give_back")))
    assert (status, found["r2"]["verdict"]) == (1, "lacks code")
    assert found["r2"]["why"].count("python:gated.refund") == 1
    assert "UnknownStepError" not in found["r2"]["why"]
    gone = CODE.replace("async def order", "async def orders")
    result = cli("gate", str(written(tmp_path / "newer", gone)))
    assert result.exit_code == 1
    assert result.stdout.startswith("r1 (order) lacks code: ")


def test_a_run_that_has_not_begun_lacks_the_code_that_it_will_begin_with(
    cli: Cli, api: FakeApi, folder: Path, tmp_path: Path
) -> None:
    """It was not looked at, and stood still when its time came."""
    kit = Stepwell(folder)
    runs = [kit.start(name, {"n": 1}, start_at_ms=4_000_000_000_000) for name in ("order", "refunds")]
    assert [run.status for run in runs] == ["pending", "pending"]
    files = [tmp_path / f"{run.id}.jsonl" for run in runs]
    for file, run in zip(files, runs, strict=True):
        file.write_text("\n".join(json.dumps(line) for line in kit.export(run.id)))
    given = ("--against", *map(str, files))
    assert cli("gate", str(folder), *given).stdout == "2 open runs: 1 compatible, 1 keeps its definition\n"
    status, found = gated(cli, written(tmp_path / "new", "def other(): ..."), *given)
    assert (status, {one["verdict"] for one in found.values()}) == (1, {"lacks code"})


def test_a_new_parameter_without_a_default_is_told_as_that(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    """It was told as an operation that needs a patch, which cannot help."""
    folder = written(tmp_path / "new", CODE.replace("order(ctx, n: int)", "order(ctx, n: int, place: str)"))
    status, found = gated(cli, folder)
    assert (status, found["r1"]["verdict"]) == (1, "refuses its input")
    assert "place is missing" in found["r1"]["why"]
    assert found["r1"]["why"].endswith("give what is new among its parameters a default")
    told = cli("gate", str(folder)).stdout
    assert "1 refuses its input" in told
    assert "ctx.patched" not in told


def test_code_that_a_run_has_passed_may_go(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    assert gated(cli, written(tmp_path / "new", CODE.replace("def notify(): ...", "")))[0] == 0


def test_a_run_that_cannot_be_read_counts_as_one_that_would_stick(
    cli: Cli, api: FakeApi, runs: list[Run], folder: Path
) -> None:
    api.on("GET", "/runs/r1/export", problem(500, "broken_log", "it cannot be read"))
    status, found = gated(cli, folder)
    assert (status, found["r1"]["verdict"]) == (1, "not checked")
    assert "it cannot be read" in found["r1"]["why"]


def test_exports_on_disk_are_checked_and_many_by_several_processes(
    runs: list[Run], folder: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    text = "\n".join(json.dumps(line) for line in runs[0]._kit.export("r1"))
    for number in range(_FEW + 1):
        (kept / f"{number}.jsonl").write_text(text)
    found = list(gate_runs(asked_of([str(kept)], 1), folder, 2))
    assert [one.verdict.value for one in found] == ["compatible"] * (_FEW + 1)


def test_against_takes_several_places(cli: Cli, runs: list[Run], folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{run.id}.jsonl" for run in runs]
    for file, run in zip(files, runs, strict=True):
        file.write_text("\n".join(json.dumps(line) for line in run._kit.export(run.id)))
    places = [str(file) for file in files]
    for given in (["--against", *places], ["--against", places[0], f"--against={places[1]}"]):
        assert gated(cli, folder, *given, "--jobs", "1")[1].keys() == {"r1", "r2"}
        result = cli("gate", *given, "--jobs", "1", str(folder))
        assert result.stdout == "2 open runs: 1 compatible, 1 keeps its definition\n"
    assert "requires an argument" in cli("gate", str(folder), "--against").stderr


def test_exports_of_runs_that_have_ended_are_no_open_runs(
    cli: Cli, runs: list[Run], folder: Path, tmp_path: Path
) -> None:
    """They were counted as open ones, and those that are open as failed ones."""
    kept = tmp_path / "kept"
    kept.mkdir()
    for run in runs:
        (kept / f"{run.id}.jsonl").write_text("\n".join(json.dumps(line) for line in run._kit.export(run.id)))
    runs[1].reject()
    assert runs[1].status == "failed"
    (kept / "r2.jsonl").write_text("\n".join(json.dumps(line) for line in runs[1]._kit.export("r2")))
    result = cli("gate", str(folder), "--against", str(kept))
    assert (result.exit_code, result.stdout) == (0, "1 open run: 1 compatible\n")
    assert result.stderr == "left out 1 export of runs that had ended; --redrives checks those that failed\n"
    result = cli("gate", str(folder), "--against", str(kept), "--redrives")
    assert (result.exit_code, result.stdout) == (0, "1 failed run: 1 can be redriven\n")
    assert result.stderr == "left out 1 export of runs that did not fail\n"


def test_no_more_runs_are_read_than_asked_for(cli: Cli, api: FakeApi, runs: list[Run], folder: Path) -> None:
    result = cli("gate", str(folder), "--most", "1")
    assert result.stdout == "1 open run: 1 compatible\n"
    assert "the newest 1 runs are checked" in result.stderr


def test_a_batch_under_way_is_in_no_deployments_way(folder: Path) -> None:
    """Its code is Stepwell's own, and not the folder's."""
    kit = Stepwell(folder)
    kit.define("workflow: fails\ntimeline: [{name: work, run: python:gone.away}]")
    kit.mock("work", raises=ValueError("no luck"))
    assert {kit.start("fails").status for _ in range(3)} == {"failed"}
    started = run_now(kit.service.batch(Batch("redrive", "fails", rate=0.01)))
    job = Run(kit, started.header.run_id)
    assert job.status == "waiting"
    assert verdict_of(exported(job.export(), job.id), folder).verdict is Verdict.KEEPS


@pytest.fixture
def failed(tmp_path: Path, api: FakeApi) -> None:
    """A graph's run that failed at its last step, and one that failed at its first."""
    kit = Stepwell(written(tmp_path / "old", CODE))
    kit.mock("refund", raises=ValueError("no luck"))
    first = kit.start("refunds", run_id="r1")
    first.approve()
    kit.mock("notify", raises=ValueError("no luck"))
    runs = [first, kit.start("refunds", run_id="r2")]
    assert [run.status for run in runs] == ["failed", "failed"]
    api.on("GET", "/runs", (200, {"items": [{"run_id": run.id, "workflow": "refunds"} for run in runs]}))
    for run in runs:
        api.on("GET", f"/runs/{run.id}/export", (200, {"items": kit.export(run.id), "next_cursor": None}))


@pytest.mark.usefixtures("failed")
def test_failed_runs_can_be_redriven_on_a_definition_that_has_their_steps(
    cli: Cli, api: FakeApi, tmp_path: Path
) -> None:
    result = cli("gate", str(written(tmp_path / "new", CODE)), "--redrives")
    assert (result.exit_code, result.stdout) == (0, "2 failed runs: 2 can be redriven\n")
    assert api.calls[0].query["status"] == ["failed", "timed_out"]


@pytest.mark.usefixtures("failed")
def test_a_redrive_needs_the_step_that_failed_and_its_code(cli: Cli, tmp_path: Path) -> None:
    changed = written(tmp_path / "new", CODE)
    (changed / "refunds.yaml").write_text(GRAPH.replace("name: last", "name: give_back"))
    status, found = gated(cli, changed, "--redrives")
    assert (status, found["r1"]["verdict"], found["r2"]["verdict"]) == (1, "lacks its step", "can be redriven")
    assert "last, at which it failed" in found["r1"]["why"]
    status, found = gated(cli, written(tmp_path / "newer", CODE.replace("def refund", "def back")), "--redrives")
    assert (status, found["r1"]["verdict"], found["r2"]["verdict"]) == (1, "lacks code", "lacks code")
    (changed / "refunds.yaml").write_text(GRAPH.replace("workflow: refunds", "workflow: others"))
    assert "no workflow refunds" in gated(cli, changed, "--redrives")[1]["r2"]["why"]


def test_a_call_of_a_service_is_no_code_that_a_run_could_lack(tmp_path: Path) -> None:
    send = {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "End": True}
    machine = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 60, "Next": "S"}, "S": send}}
    (tmp_path / "m.asl.json").write_text(json.dumps(machine))
    kit = Stepwell(tmp_path)
    run = kit.start("m", {})
    assert run.status == "waiting"
    assert verdict_of(exported(run.export(), run.id), tmp_path).verdict is Verdict.KEEPS


def test_a_graph_is_gone_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand runs of a graph of hundreds of nodes are checked before a deployment."""
    nodes = "".join(f"  - {{name: n{number}, sleep: 1h}}\n" for number in range(50))
    (tmp_path / "long.yaml").write_text(f"workflow: long\ntimeline:\n{nodes}")
    run, seen = Stepwell(tmp_path).start("long", {}), []
    monkeypatch.setattr(gating, "taken", lambda node: seen.append(node.name) or taken(node))
    assert verdict_of(exported(run.export(), run.id), tmp_path).verdict is Verdict.KEEPS
    assert len(seen) == len(set(seen)) >= 50
