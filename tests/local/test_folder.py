"""A workflow folder: which files are read, and what is wrong with them."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest

from stepwell.definition.compiler import compile_document
from stepwell.errors import NotFound
from stepwell.limits import DEFINITION_BYTES
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.folder.loading import load_folder

GOOD = "workflow: {name}\nnodes:\n  a: {{}}\n"


def codes(path: Path) -> list[str]:
    return [problem.code for problem in load_folder(path).errors]


def test_yaml_and_json_are_read_and_everything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.format(name="a"))
    (tmp_path / "b.yml").write_text(GOOD.format(name="b"))
    (tmp_path / "c.json").write_text('{"workflow": "c", "nodes": {"a": {}}}')
    for other in (".hidden.yaml", "package.json", "readme.md", "test_steps.py"):
        (tmp_path / other).write_text("{")
    (tmp_path / "steps.py").write_text("raise SystemExit")  # modules are read, not run
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "d.yaml").write_text("{")
    folder = load_folder(tmp_path)
    assert [graph.name for graph in folder.graphs] == ["a", "b", "c"]
    assert folder.errors == ()


def test_two_files_for_one_workflow_are_a_problem_and_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.format(name="same"))
    (tmp_path / "b.yaml").write_text(GOOD.format(name="same"))
    assert codes(tmp_path) == ["duplicate_workflow"]
    assert len(load_folder(tmp_path).graphs) == 1


def test_files_that_cannot_be_read_are_problems_not_crashes(tmp_path: Path) -> None:
    (tmp_path / "a.asl.json").write_text("[]")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.yaml").write_text("#" * (DEFINITION_BYTES + 1))
    (tmp_path / "d.yaml").write_text("{")
    found = load_folder(tmp_path).problems
    assert [problem.code for problem in found][:3] == ["wrong_type", "bad_encoding", "definition_too_large"]
    assert {Path(problem.file).name for problem in found} == {"a.asl.json", "b.yaml", "c.yaml", "d.yaml"}


@pytest.mark.parametrize("text", [GOOD.format(name="a"), json.dumps({"workflow": "a", "nodes": {"b": {}}})])
def test_files_of_windows_are_read(tmp_path: Path, text: str) -> None:
    """They begin with a mark of UTF-8, which JSON and Python's parser do not take as text, and have other line ends."""
    (tmp_path / ("a.json" if text.startswith("{") else "a.yaml")).write_bytes(codecs.BOM_UTF8 + text.encode())
    code = "from stepwell import workflow\r\n\r\n@workflow\r\nasync def b(ctx):\r\n    return 1\r\n"
    (tmp_path / "b.py").write_bytes(codecs.BOM_UTF8 + code.encode())
    folder = load_folder(tmp_path)
    assert ([graph.name for graph in folder.graphs], folder.errors) == (["a", "b"], ())


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_folder(tmp_path / "nope")


@pytest.mark.parametrize("text", ["workflow: gr\nnodes: {", "- a list", "#" * (DEFINITION_BYTES + 1)])
def test_a_workflow_that_is_not_there_may_be_in_a_broken_file(tmp_path: Path, text: str) -> None:
    """A file that cannot be parsed does not tell which workflow it has."""
    (tmp_path / "good.yaml").write_text(GOOD.format(name="good"))
    (tmp_path / "gr.yaml").write_text(text)
    loaded = load_folder(tmp_path)
    catalog = Catalog(compile_document, loaded.graphs)
    catalog.flawed = loaded.flawed
    with pytest.raises(NotFound) as error:
        catalog.named("gr")
    assert error.value.code == "unknown_workflow"
    assert "deployed: good" in str(error.value.hint) or "gr.yaml" in error.value.message
    assert str(tmp_path / "gr.yaml") in f"{error.value.message} {error.value.hint}"


def test_a_schedule_whose_year_is_over_is_a_warning(tmp_path: Path) -> None:
    """The definition was good once, and goes on to be deployed."""
    text = "workflow: {0}\ntriggers: [{{schedule: cron(0 9 ? * MON {1})}}]\nnodes: {{a: {{}}}}\n"
    for name, year in (("old", "2020"), ("good", "*")):
        (tmp_path / f"{name}.yaml").write_text(text.format(name, year))
    loaded = load_folder(tmp_path)
    (problem,) = loaded.problems
    assert (problem.code, problem.severity, problem.workflow) == ("bad_schedule", "warning", "old")
    assert problem.file == str(tmp_path / "old.yaml")
    assert len(loaded.graphs) == 2


CALLER = """workflow: caller
timeline:
  - {name: a, children: [{workflow: %s}]}
  - {name: b, run: "workflow:caller"}
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", ["bad_key"]),  # the event alone
        (", input: {page: 1.5}", ["bad_key"]),
        (', input: {page: "{{ event.scheduled_at }}"}', []),
        (', input: {page: "{{ event.unheard_of }}"}', []),  # told when it fires
    ],
)
def test_a_schedule_whose_starts_cannot_be_gathered_is_an_error(tmp_path: Path, given: str, told: list[str]) -> None:
    """Each of its firings would be refused."""
    gathers = "debounce: {period: 1m, key: '{{ input.page }}'}"
    (tmp_path / "a.yaml").write_text(f"workflow: a\ntriggers:\n  - {{schedule: rate(5 minutes){given}}}\n{gathers}\n"
                                     "timeline: [{name: a, sleep: 1s}]\n")  # fmt: skip
    folder = load_folder(tmp_path)
    assert [one.code for one in folder.errors] == told
    assert [graph.name for graph in folder.graphs] == ([] if told else ["a"])
    assert list(folder.flawed) == (["a"] if told else [])
    if told:
        assert folder.errors[0].message.startswith("no firing of the schedule rate(5 minutes) starts a run: ")


@pytest.mark.parametrize(
    ("given", "is_refused"), [("", True), (', input: {day: "{{ event.scheduled_at.substring(0, 10) }}"}', False)]
)
def test_a_schedule_whose_input_the_schema_refuses_is_warned_of(tmp_path: Path, given: str, is_refused: bool) -> None:
    """Each firing would start nothing, which is only logged."""
    (tmp_path / "a.yaml").write_text(f"workflow: a\ntriggers:\n  - {{schedule: 0 2 * * *{given}}}\n"
                                     "input_schema: {type: object, required: [day]}\n"
                                     "timeline: [{name: a, sleep: 1s}]\n")  # fmt: skip
    folder = load_folder(tmp_path)
    assert [graph.name for graph in folder.graphs] == ["a"]
    found = [(one.code, one.severity, one.line) for one in folder.problems]
    assert found == ([("unfit_schedule", "warning", 2)] if is_refused else [])


def test_a_workflow_may_call_those_of_the_folder_and_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CALLER % "fraud")
    (tmp_path / "b.yaml").write_text(GOOD.format(name="fraud"))
    folder = load_folder(tmp_path)
    assert folder.problems == ()
    assert [graph.name for graph in folder.graphs] == ["caller", "fraud"]


def test_a_call_of_a_workflow_that_no_file_defines_is_an_error_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CALLER % "frod")
    (tmp_path / "b.yaml").write_text(GOOD.format(name="fraud"))
    folder = load_folder(tmp_path)
    (problem,) = folder.errors
    assert (problem.code, problem.file, problem.line) == ("unknown_workflow", str(tmp_path / "a.yaml"), 3)
    assert "`frod`" in problem.message
    assert "`fraud`" in problem.hint
    assert [graph.name for graph in folder.graphs] == ["fraud"]


def test_a_name_may_be_that_of_a_broken_definition(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CALLER % "fraud")
    (tmp_path / "b.yaml").write_text("workflow: fraud\nnodes: {a: {run: 5}}\n")
    assert codes(tmp_path) == ["wrong_type"]


EVENTS = """workflow: {name}
events:
  paid: {paid}
  sent: {{max_pending: 5}}
timeline: [{{name: a}}]
"""


def test_two_workflows_that_say_the_same_of_an_event_go_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(EVENTS.format(name="one", paid="{delivery: broadcast}"))
    (tmp_path / "b.yaml").write_text(EVENTS.format(name="two", paid="{delivery: broadcast, consumeOnRead: false}"))
    (tmp_path / "c.yaml").write_text("workflow: three\ntimeline: [{name: a}]\n")
    folder = load_folder(tmp_path)
    assert folder.problems == ()
    assert [len(graph.events) for graph in folder.graphs] == [2, 2, 0]


def test_two_workflows_that_differ_on_an_event_are_both_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(EVENTS.format(name="one", paid="{delivery: broadcast}"))
    (tmp_path / "b.yaml").write_text(EVENTS.format(name="two", paid="{delivery: first}"))
    folder = load_folder(tmp_path)
    assert folder.graphs == ()
    assert [(problem.code, problem.file, problem.line) for problem in folder.errors] == [
        ("event_settings_differ", str(tmp_path / "a.yaml"), 3),
        ("event_settings_differ", str(tmp_path / "b.yaml"), 3),
    ]
    assert [problem.message.rpartition(" ")[2] for problem in folder.errors] == ["`two`", "`one`"]
