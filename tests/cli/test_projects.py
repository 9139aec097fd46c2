"""`stepwell init`: each template is a project that runs, and an existing repository keeps its files."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.cli.folder.projects import Template
from stepwell.project import find_project, this_python

from .conftest import Cli, FakeApi, problem

TEMPLATES = [template.value for template in Template]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_passes_its_check_and_its_tests(cli: Cli, template: str) -> None:
    assert cli("init", "my shop", "--template", template).exit_code == 0
    checked = cli("check", "my shop/workflows", "--strict")
    assert checked.stdout.splitlines()[-1] == "2 workflows, 0 errors, 0 warnings"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd="my shop", capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


STARTED_BY_THE_FUNCTION = """
from workflows.reminder import payment_reminder

def test_a_function_is_started_as_a_service_does(stepwell):
    run = stepwell.client().start(payment_reminder, "A-1")
    stepwell.event("order.paid", key="A-1")
    assert run.result() == "paid"
"""


def test_a_test_or_a_service_of_a_new_project_imports_a_function_from_the_root(cli: Cli) -> None:
    cli("init", "shop")
    Path("shop/tests/test_service.py").write_text(STARTED_BY_THE_FUNCTION)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, "tests/test_service.py"]
    done = subprocess.run(command, cwd="shop", capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_has_a_package_with_steps_a_graph_a_durable_function_and_what_tools_need(
    cli: Cli, template: str
) -> None:
    cli("init", "corner", "--template", template)
    found = find_project(Path("corner"))
    assert found is not None
    assert (found.folder.name, found.packages, found.python) == ("workflows", (Path("corner"),), this_python())
    (graph,) = found.folder.glob("[!w]*.yaml")
    assert graph.read_text().startswith("# yaml-language-server: $schema=.schema.json\n")
    assert "\nnodes:\n" in graph.read_text()
    assert (found.folder / ".schema.json").read_text() == cli("schema").stdout  # written again, it is the same
    assert [file for file in found.folder.glob("*.py") if "@workflow" in file.read_text()]
    assert [file.name for file in (found.root / "corner").glob("*.py") if file.name != "__init__.py"]
    assert json.loads((found.root / "cdk.json").read_text())["app"] == "python -m stepwell.cdk"
    assert {".gitignore", ".github", "README.md", "tests"} <= {path.name for path in found.root.iterdir()}
    for file in found.root.rglob("*.py"):
        ast.parse(file.read_text(), str(file))


def test_the_next_commands_start_a_run_of_the_project(cli: Cli) -> None:
    result = cli("init", "my shop")
    *_, change, serve, run = [line.strip() for line in result.stdout.splitlines()]
    assert (change, serve) == ("cd 'my shop'", "stepwell dev")
    words = shlex.split(run)
    assert words[:3] == ["stepwell", "run", "order-review"]
    assert json.loads(words[4]) == {"order_id": "A-1", "amount": 120}
    assert run in Path("my shop/README.md").read_text()


@pytest.mark.parametrize("lacking", ["uvicorn", "pytest"])
def test_the_next_commands_install_what_the_project_needs_where_it_is_missing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """`pip install stepwell` alone has no server and no pytest."""
    assert "install" not in cli("init", "one").stdout
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == lacking else found(name))
    lines = [line.strip() for line in cli("init", "two").stdout.splitlines()]
    assert lines[-4:-1] == ["cd two", 'pip install "stepwell[dev]"', "stepwell dev"]
    assert json.loads(cli("init", "three", "--json").stdout)["next"][1] == 'pip install "stepwell[dev]"'


def test_the_next_commands_of_a_project_in_the_current_folder_change_to_no_other(cli: Cli) -> None:
    Path("shop").mkdir()
    os.chdir("shop")
    assert json.loads(cli("init", ".", "--json").stdout)["next"][0] == "stepwell dev"


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("my-shop", "my_shop"),
        ("test", "test_app"),
        ("json", "json_app"),
        ("class", "class_app"),
        ("2nd", "app_2nd"),
        ("pydantic", "pydantic_app"),
        ("Café Über", "cafe_uber"),
        ("日本", "app"),
    ],
)
def test_the_package_hides_no_module(cli: Cli, folder: str, package: str) -> None:
    cli("init", folder)
    assert (Path(folder) / package / "__init__.py").is_file()


def test_init_refuses_a_folder_with_something_in_it(cli: Cli) -> None:
    Path("here").mkdir()
    Path("here/a").touch()
    result = cli("init", "here")
    assert result.exit_code == 2
    assert "error: 'here' is not empty [folder_not_empty]" in result.stderr
    assert "stepwell init --here" in result.stderr
    assert [path.name for path in Path("here").iterdir()] == ["a"]
    assert "[not_a_folder]" in cli("init", "here/a").stderr
    assert json.loads(cli("init", "new", "--json").stdout)["next"][1] == "stepwell dev"


@pytest.mark.parametrize("arguments", [[], ["shop", "--here"]])
def test_init_takes_a_folder_or_here_and_not_both(cli: Cli, arguments: list[str]) -> None:
    result = cli("init", *arguments)
    assert result.exit_code == 2
    assert "give a folder, or --here for this one" in result.stderr


@pytest.mark.parametrize("name", [".gitignore", "pyproject.toml"])
def test_a_repository_whose_files_are_not_in_utf_8_is_refused_and_stays_as_it_is(cli: Cli, name: str) -> None:
    Path(name).write_bytes("# für alle\n".encode("latin-1"))
    result = cli("init", "--here")
    assert result.exit_code == 2
    assert f"error: {name} is not UTF-8: invalid start byte [bad_project]\n  hint: save it as UTF-8" in result.stderr
    assert [path.name for path in Path().iterdir()] == [name]


def test_an_existing_repository_keeps_its_files_and_gets_the_rest(cli: Cli) -> None:
    Path("pyproject.toml").write_text('[project]\nname = "old"\nversion = "3"\ndependencies = ["fastapi"]\n')
    Path("README.md").write_text("# Ours\n")
    Path(".gitignore").write_text("*.log\n.venv\n")
    for name in ("app/__init__.py", "app/main.py", "uv.lock"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    result = cli("init", "--here")
    assert result.exit_code == 0, result.stderr
    assert "kept README.md, which was there" in result.stdout
    assert Path("README.md").read_text() == "# Ours\n"
    document = tomllib.loads(Path("pyproject.toml").read_text())
    assert document["project"]["dependencies"] == ["fastapi"]
    assert document["tool"]["stepwell"]["workflows"] == "workflows"
    assert document["tool"]["stepwell"]["packages"][1:] == ["app"]  # its steps may import what is there
    assert Path(".gitignore").read_text() == "*.log\n.venv\n.stepwell/\n__pycache__/\ncdk.out/\n"
    assert not Path(".github").exists()
    assert "dependencies of this project: uv add stepwell" in result.stdout
    assert "pytest" not in document["tool"]
    assert cli("check", "--strict").exit_code == 0


def test_init_here_in_an_empty_folder_asks_for_no_dependency_that_it_wrote_itself(cli: Cli) -> None:
    result = cli("init", "--here")
    assert result.exit_code == 0, result.stderr
    assert "dependencies of this project" not in result.stdout
    assert tomllib.loads(Path("pyproject.toml").read_text())["project"]["requires-python"].endswith(",<3.15")


def test_a_repository_that_is_a_project_already_is_left_alone(cli: Cli) -> None:
    Path("pyproject.toml").write_text("[tool.stepwell]\n")
    result = cli("init", "--here")
    assert result.exit_code == 2
    assert "[already_a_project]" in result.stderr
    assert os.listdir() == ["pyproject.toml"]


def test_commands_find_the_projects_workflow_folder_from_below(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("init", "shop")
    text = Path("shop/pyproject.toml").read_text()
    Path("shop/pyproject.toml").write_text(text.replace('workflows = "workflows" ', 'workflows = "flows" '))
    Path("shop/workflows").rename("shop/flows")
    monkeypatch.chdir("shop/tests")
    assert cli("check").stdout.splitlines()[-1] == "2 workflows, 0 errors, 0 warnings"


def test_dev_starts_a_run_once_it_serves_and_a_refused_one_does_not_end_it(
    cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("init", "shop")
    served: list[Path] = []

    def serve(folder: Path, data: Path, port: int, *, then: Callable[[str], None], **_: object) -> int:
        served.append(folder)
        then(api.url)
        return 0

    monkeypatch.setattr("stepwell.local.dev.serve", serve)
    api.on("POST", "/workflows/order-review/runs", (201, {"run_id": "run_1", "status": "running"}))
    started = cli("dev", "shop", "--run", "order-review", "-i", '{"amount": 5}')
    assert (started.exit_code, served) == (0, [Path("shop/workflows")])
    assert api.calls[-1].body["input"] == {"amount": 5}
    assert "started run_1; follow it with: stepwell watch run_1" in started.stderr
    api.on("POST", "/workflows/nope/runs", problem(404, "unknown_workflow", "there is no workflow 'nope'"))
    refused = cli("dev", "shop", "--run", "nope")
    assert refused.exit_code == 0
    assert "[unknown_workflow]" in refused.stderr
