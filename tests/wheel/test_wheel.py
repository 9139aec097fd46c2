"""What a person does who has Python and nothing else: install the wheel, make a project, check, test, serve, deploy."""

from __future__ import annotations

import json
import signal
import subprocess
import tomllib
import urllib.request
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from stepwell.api.console import is_built
from stepwell.extras import MODULES
from tests.wheel.conftest import ROOT, Installed, clean

HANDLERS = ("api", "authorizer", "coordinator", "sender", "stream", "sweeper", "webhooks", "worker")
WHEEL_BYTES = 4_940_000  # unpacked


def test_the_wheel_has_the_construct_the_handlers_and_the_templates(content: Mapping[str, int]) -> None:
    for name in (*(f"functions/{one}.py" for one in HANDLERS), "cdk/engine.py", "cdk/__main__.py", "py.typed",
                 "cli/templates/order/workflows/order-review.yaml.tmpl"):  # fmt: skip
        assert f"stepwell/{name}" in content
    assert {name.partition("/")[0] for name in content} == {"stepwell", f"stepwell-{version('stepwell')}.dist-info"}
    assert sum(content.values()) < WHEEL_BYTES


@pytest.mark.skipif(not is_built(), reason="npm's registry is out of reach, so the console is not built")
def test_the_wheel_has_the_console(content: Mapping[str, int]) -> None:
    for name in ("index.html", "console.js", "console.css", "icon.svg"):
        assert f"stepwell/console/{name}" in content


def test_the_version_of_the_package_is_that_of_the_project(light: Installed, place: Path) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    told = light.done(place, "python", "-c", "import stepwell; print(stepwell.__version__)")
    assert (told.strip(), light.done(place, "stepwell", "--version").strip()) == (wanted, wanted)


# -- without extras


@pytest.fixture(scope="module")
def shop(light: Installed, place: Path) -> Path:
    light.done(place, "stepwell", "init", "a shop")
    return place / "a shop"


def test_the_light_installation_has_no_cdk_no_server_and_no_emulator(light: Installed, place: Path) -> None:
    code = "import importlib.util as u; print([m for m in %r if u.find_spec(m)])"
    heavy = sorted({module.partition(".")[0] for modules in MODULES.values() for module in modules})
    assert light.done(place, "python", "-c", code % heavy) == "[]\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["doctor"],
        ["check", "--strict"],
        ["graph", "workflows/order-review.yaml"],
        ["schema"],
        ["webhook", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_that_needs_no_extra_works_without_one(light: Installed, shop: Path, words: list[str]) -> None:
    assert light.done(shop, "stepwell", *words)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["dev"], "dev"),
        (["deploy", "--dry-run"], "deploy"),
        (["dev", "--aws"], "emulator"),
    ],
    ids=["dev", "deploy", "emulator"],
)
def test_a_command_without_its_extra_names_it_in_two_lines(
    light: Installed, shop: Path, words: list[str], extra: str
) -> None:
    told = light.run(shop, "stepwell", *words)
    assert told.returncode == 2
    error, hint = told.stderr.splitlines()
    assert error.endswith("which is not installed [not_installed]")
    assert hint == f'  hint: pip install "stepwell[{extra}]"'


@pytest.mark.parametrize("words", [["-m", "stepwell.cdk"], ["-c", "from stepwell.cdk import StepwellEngine"]])
def test_the_construct_without_its_extra_names_it(light: Installed, shop: Path, words: list[str]) -> None:
    told = light.run(shop, "python", *words)
    assert told.returncode == 1
    assert 'pip install "stepwell[deploy]"' in told.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["runs", "alarms"])
def test_a_call_to_aws_without_boto3_says_what_to_install(light: Installed, shop: Path, command: str) -> None:
    told = light.run(shop, "stepwell", command, STEPWELL_URL="https://a.execute-api.eu-west-1.amazonaws.com")
    assert told.returncode == 2
    assert "hint: pip install boto3" in told.stderr


# -- with them


def test_a_new_project_is_checked_tested_and_served(full: Installed, place: Path) -> None:
    full.done(place, "stepwell", "init", "first project")
    project = place / "first project"
    assert full.done(project, "stepwell", "check", "--strict").splitlines()[-1].startswith("2 workflows, 0 errors")
    assert "5 passed" in full.done(project, "python", "-m", "pytest", "-p", "no:cacheprovider")
    command = [full.program("stepwell"), "dev", "--port", "0"]
    with subprocess.Popen(command, cwd=project, env=clean(), stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("ready http://127.0.0.1:")
            url = line.removeprefix("ready ").strip()
            full.done(project, "stepwell", "run", "order-review", "-i", '{"order_id": "A-1", "amount": 10}', "--watch",
                      "--url", url)  # fmt: skip
            with urllib.request.urlopen(f"{url}/runs") as reply:  # noqa: S310 - our own server
                (run,) = json.load(reply)["items"]
            assert run["status"] == "completed"
        finally:
            server.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def deployed(full: Installed, place: Path) -> tuple[str, Path]:
    """A project whose template was made, with what the command said."""
    full.done(place, "stepwell", "init", "second project", "--template", "webhook")
    project = place / "second project"
    return full.done(project, "stepwell", "deploy", "--dry-run"), project


def test_a_dry_run_tells_the_size_of_the_packages(deployed: tuple[str, Path]) -> None:
    said, project = deployed
    size, where = said.splitlines()
    assert size.startswith("the workers' package has ")
    assert "; largest: " in size
    assert where == f"the template is in {project / 'cdk.out'}"


def test_a_dry_run_packs_the_project_for_the_projects_python(deployed: tuple[str, Path]) -> None:
    _, project = deployed
    python = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["stepwell"]["python"]
    (file,) = (project / "cdk.out").glob("*.template.json")
    resources = json.loads(file.read_text())["Resources"].values()
    functions = [one["Properties"] for one in resources if one["Type"] == "AWS::Lambda::Function"]
    handlers = {str(one.get("Handler")): one for one in functions if "stepwell" in str(one.get("Handler"))}
    wanted = {f"stepwell.functions.{name}.handler" for name in HANDLERS if name not in {"sender", "authorizer"}}
    assert handlers.keys() == wanted
    assert {one["Runtime"] for one in handlers.values()} == {f"python{python}"}
    assert handlers["stepwell.functions.worker.handler"]["MemorySize"] == 512
    (worker,) = (place for place in (project / "cdk.out").glob("asset.*") if (place / "project").is_dir())
    assert {path.name for path in (worker / "project").iterdir()} == {"second_project", "workflows"}
    assert (worker / "stepwell" / "functions" / "worker.py").is_file()


def test_cdk_json_runs_the_same_app(full: Installed, deployed: tuple[str, Path]) -> None:
    """As `cdk synth` does, with `python` of the environment first on the path."""
    _, project = deployed
    app = json.loads((project / "cdk.json").read_text())["app"]
    context = json.dumps({"bundle": False, "stack_name": "Other"})
    path = f"{full.folder / 'bin'}:{clean()['PATH']}"
    done = full.run(project, *app.split(), CDK_OUTDIR=str(project / "other.out"), CDK_CONTEXT_JSON=context, PATH=path)
    assert done.returncode == 0, done.stderr
    assert (project / "other.out" / "Other.template.json").is_file()


@pytest.mark.slow
def test_a_project_works_on_the_lowest_versions_that_are_allowed(lowest: Installed, place: Path) -> None:
    lowest.done(place, "stepwell", "init", "low project")
    project = place / "low project"
    assert lowest.done(project, "stepwell", "check", "--strict").startswith("2 workflows, 0 errors")
    assert "5 passed" in lowest.done(project, "python", "-m", "pytest", "-p", "no:cacheprovider")
    assert "the template is in" in lowest.done(project, "stepwell", "deploy", "--dry-run")
    refused = lowest.run(project, "stepwell", "runs", "--json", STEPWELL_URL="http://127.0.0.1:9")
    assert (refused.returncode, json.loads(refused.stdout)["code"]) == (4, "unreachable")
