"""The commands for writing workflows: check, graph, schema, init, dev."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stepwell.aws.services.calls import ServiceCalls
from stepwell.cli.exits import NOT_REACHED
from stepwell.cli.folder import checking
from stepwell.errors import Problem

from .conftest import Cli, FakeApi, problem

GOOD = "workflow: good\ntimeline:\n  - {name: a, run: python:m.a}\n  - {name: b, run: python:m.b}\n"
BAD = "workflow: bad\ntimeline:\n  - {name: a, rnu: python:m.a}\n"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("command", "status"), [("check", 1), ("graph", 2)])
@pytest.mark.parametrize("place", [0, 150, 299])
def test_of_a_definition_in_one_long_line_only_what_is_around_the_place_is_shown(
    cli: Cli, tmp_path: Path, command: str, status: int, place: int
) -> None:
    steps = [{"name": f"s{number}", "run": "python:m.f", "timeout": "1m"} for number in range(300)]
    steps[place]["rnu"] = "python:m.g"
    (tmp_path / "long.json").write_text(json.dumps({"workflow": "long", "timeline": steps}))
    (tmp_path / "m.py").write_text("def f(): ...\n")
    result = cli(command, str(tmp_path / "long.json"))
    line, caret = next(
        pair for pair in pairwise((result.stdout + result.stderr).splitlines()) if pair[0].startswith("    1 | ")
    )
    assert result.exit_code == status
    assert line[caret.index("^") :].startswith('"rnu"')
    assert len(line) < 180


def test_check_shows_the_line_with_a_caret_and_a_hint_and_exits_with_1(cli: Cli) -> None:
    Path("bad.yaml").write_text(BAD)
    result = cli("check", "bad.yaml")
    assert result.exit_code == 1
    place, line, caret, hint, *_ = result.stdout.splitlines()
    assert place == "bad.yaml:3:15: error unknown key `rnu` [unknown_key]"
    assert line == "    3 |   - {name: a, rnu: python:m.a}"
    assert line[caret.index("^") :].startswith("rnu")
    assert hint.startswith("  hint: ")
    summary, again = result.stdout.splitlines()[-2:]
    assert summary.startswith("1 workflow, ")
    assert again == "mend them, then: stepwell check bad.yaml"


def test_check_of_good_files_exits_with_0(cli: Cli) -> None:
    Path("good.yaml").write_text(GOOD)
    result = cli("check", "good.yaml", "good.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("2 workflows, 0 errors, ")


DURABLE = """
from stepwell import workflow

@workflow
async def one(ctx): pass

@workflow(name="two", timeout="2 fortnights")
async def other(ctx): pass
"""


def test_check_counts_durable_functions_and_tells_of_their_options(cli: Cli) -> None:
    Path("mixed").mkdir()
    Path("mixed/good.yaml").write_text(GOOD)
    Path("mixed/m.py").write_text("def a(): ...\ndef b(): ...\n")
    Path("mixed/durable.py").write_text(DURABLE.replace("2 fortnights", "2h"))
    assert cli("check", "mixed").stdout.splitlines()[-1].startswith("3 workflows, 0 errors, ")
    assert cli("check", "mixed/durable.py").stdout.splitlines()[-1] == "2 workflows, 0 errors, 0 warnings"
    Path("mixed/durable.py").write_text(DURABLE)
    alone = cli("check", "mixed/durable.py")
    assert (alone.exit_code, alone.stdout.splitlines()[0][:26]) == (1, "mixed/durable.py:7:23: err")


def test_check_of_one_file_warns_of_a_workflow_that_another_file_may_hold(cli: Cli) -> None:
    Path("caller.yaml").write_text("workflow: caller\ntimeline:\n  - {name: a, run: 'workflow:fraud'}\n")
    alone = cli("check", "caller.yaml")
    assert alone.exit_code == 0
    assert alone.stdout.splitlines()[0] == "caller.yaml:3:15: warning there is no workflow `fraud` [unknown_workflow]"
    assert "check the whole folder" in alone.stdout
    assert cli("check", ".").exit_code == 1


def test_check_without_a_path_takes_the_folder_workflows(cli: Cli) -> None:
    Path("workflows").mkdir()
    Path("workflows/bad.yaml").write_text(BAD)
    result = cli("check", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)
    assert (problems[0]["file"], problems[0]["line"], problems[0]["severity"]) == ("workflows/bad.yaml", 3, "error")


def test_strict_makes_warnings_fail(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    warning = Problem("no_timeout", "the step has no timeout", file="gone.yaml", line=3, severity="warning")
    monkeypatch.setattr(checking, "check_path", lambda path: (1, [warning]))
    assert cli("check", "x").exit_code == 0
    result = cli("check", "x", "--strict")
    assert result.exit_code == 1
    assert "gone.yaml:3: warning the step has no timeout [no_timeout]" in result.stdout
    assert "1 workflow, 0 errors, 1 warning" in result.stdout


def test_graph_draws_a_file(cli: Cli) -> None:
    Path("good.yaml").write_text(GOOD)
    assert cli("graph", "good.yaml").stdout.startswith("flowchart TD\n")
    assert cli("graph", "good.yaml", "--format", "dot").stdout.startswith('digraph "good" {')
    assert json.loads(cli("graph", "good.yaml", "--json").stdout)["workflow"] == "good"
    assert cli("graph", "good.yaml", "--format", "svg", "-o", "good.svg").stdout == ""
    assert ElementTree.parse("good.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own

    refused = cli("graph", "good.yaml", "-o", "other.svg")
    assert (refused.exit_code, Path("other.svg").exists()) == (2, False)
    assert "hint: add --format svg" in refused.stderr
    refused = cli("graph", "good.yaml", "-o", "other.png")
    assert (refused.exit_code, Path("other.png").exists()) == (2, False)
    assert "a graph cannot be written as .png [bad_usage]\n  hint: --format svg -o other.svg" in refused.stderr


def test_graph_of_a_bad_file_tells_why_on_stderr(cli: Cli) -> None:
    Path("bad.yaml").write_text(BAD)
    result = cli("graph", "bad.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unknown key `rnu`" in result.stderr
    assert "[bad_definition]" in result.stderr


def test_graph_draws_what_is_deployed(api: FakeApi, cli: Cli) -> None:
    document = {"workflow": "good", "timeline": [{"name": "a", "run": "python:m.a"}]}
    api.on("GET", "/workflows/good", (200, {"name": "good", "document": document}))
    assert "python#58;m.a" in cli("graph", "good").stdout


def test_graph_of_a_run_is_the_apis(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs/r1/graph", (200, "<svg/>"))
    assert cli("graph", "--run", "r1", "--format", "svg").stdout == "<svg/>\n"
    assert api.calls[0].query == {"format": ["svg"]}


def test_graph_of_a_name_that_is_no_workflow_is_that_of_the_run(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/workflows/r1", problem(404, "unknown_workflow", "there is no workflow r1"))
    api.on("GET", "/runs/r1/graph", (200, "flowchart TD"))
    assert cli("graph", "r1").stdout == "flowchart TD\n"
    api.on("GET", "/runs/r1/graph", problem(404, "unknown_run", "there is no run r1"))
    assert "there is no workflow and no run 'r1' [unknown_run]" in cli("graph", "r1").stderr


@pytest.mark.parametrize("words", [["run_9"], ["--run", "run_9"]], ids=" ".join)
def test_graph_of_an_unknown_run_speaks_of_runs(api: FakeApi, cli: Cli, words: list[str]) -> None:
    api.on("GET", "/workflows/run_9", problem(404, "unknown_workflow", "there is no workflow 'run_9'"))
    api.on("GET", "/runs/run_9/graph", problem(404, "unknown_run", "there is no run 'run_9'"))
    told = cli("graph", *words)
    assert told.exit_code == 3
    assert told.stderr.splitlines()[0].endswith("there is no run 'run_9' [unknown_run]")


def test_graph_into_a_folder_that_is_not_there_is_told(cli: Cli) -> None:
    Path("good.yaml").write_text(GOOD)
    result = cli("graph", "good.yaml", "-o", "no/where.mmd")
    assert result.exit_code == 2
    assert "[unwritable]" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-o x.json", "x.json would not be JSON, but mermaid"),
        ("--json -o x.svg", "x.svg would be JSON"),
        ("-o x.svg", "x.svg would not be svg, but mermaid"),
        ("-o x.png", "a graph cannot be written as .png"),
    ],
)
def test_a_graph_is_not_written_into_a_file_that_says_it_is_another(cli: Cli, words: str, told: str) -> None:
    Path("good.yaml").write_text(GOOD)
    result = cli("graph", "good.yaml", *words.split())
    assert (result.exit_code, told in result.output) == (2, True)
    assert not Path(words.rpartition(" ")[2]).exists()


def test_schema_prints_a_json_schema(cli: Cli) -> None:
    assert "properties" in json.loads(cli("schema").stdout)


def test_dev_serves_the_folder_and_exits_as_the_server_says(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[object] = []

    def serve(folder: Path, data: Path, port: int, *, reload: bool, then: object, services: object) -> int:
        assert then is None  # no run is to start
        assert isinstance(services, ServiceCalls)
        served.extend([folder, data, port, reload])
        return 0

    fake = types.ModuleType("stepwell.local.dev")
    fake.serve = serve  # type: ignore[attr-defined]  # a module takes any name
    monkeypatch.setitem(sys.modules, "stepwell.local.dev", fake)
    Path("workflows").mkdir()
    assert cli("dev").exit_code == 0
    assert cli("dev", ".", "--data", "d", "--port", "0", "--no-reload").exit_code == 0
    assert served == [Path("workflows"), Path(".stepwell"), 8787, True, Path(), Path("d"), 0, False]


@pytest.mark.parametrize("given", ["", " "])
def test_dev_with_an_empty_data_folder_is_wrong_usage_and_writes_nothing(cli: Cli, given: str) -> None:
    """A variable of the shell that is not set: the files of the server would be among those of the project."""
    before = {*Path().iterdir()}
    result = cli("dev", ".", "--data", given, "--port", "0")
    assert result.exit_code == 2
    assert "--data is empty: it names no folder [bad_usage]" in result.stderr
    assert {*Path().iterdir()} == before


def test_dev_without_its_packages_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "stepwell.local.dev", raising=False)
    result = cli("dev")
    assert result.exit_code == 2
    assert 'hint: pip install "stepwell[dev]"' in result.stderr


def test_help_loads_nothing_that_is_slow(cli: Cli) -> None:
    code = (
        "import sys; from stepwell.cli import main; "
        "print([m for m in ('rich', 'httpx', 'uvicorn', 'pydantic', 'yaml') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert output.stdout == "[]\n"
    assert "terminate" in cli("--help").stdout
    assert cli("--version").exit_code == 0


def test_a_call_loads_no_other_program_s_command_line() -> None:
    """httpx imports its own, with click and pygments, wherever those are installed."""
    code = (
        "import sys; from stepwell.cli.main import main\n"
        "try: main()\n"
        "finally: print([m for m in ('httpx', 'click', 'pygments') if m in sys.modules], file=sys.stderr)"
    )
    words = ["runs", "--json", "--url", "http://127.0.0.1:9"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (NOT_REACHED, "['httpx']\n")
