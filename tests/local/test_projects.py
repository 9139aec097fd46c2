"""A project around a workflow folder: what is scanned, what is imported from where, and what is followed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.cdk.packaging.bundling import copy_project
from stepwell.cli.folders import chosen_folder, data_folder
from stepwell.errors import UserError
from stepwell.local.wiring import DATABASE_FILE
from stepwell.project import find_project, project_of, this_python
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.steps.registry import Registry, UnknownStepError
from stepwell.testing.kit import Stepwell
from stepwell.testing.plugin import workflow_folder

TABLE = '[tool.stepwell]\nworkflows = "flows"\n'
FLOW = "workflow: {name}\ntimeline: [{{name: a, run: 'python:{run}', timeout: 9s}}]\n"
LATER = "from stepwell import workflow\n\n@workflow\nasync def later(ctx): return 'deep'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a package beside its workflow folder, and sub-folders in both."""
    files = {
        "pyproject.toml": TABLE,
        "flows/top.yaml": FLOW.format(name="top", run="till.prices.total"),
        "flows/billing/refund.yaml": FLOW.format(name="refund", run="billing.money.back"),
        "flows/billing/money.py": "from till.prices import RATE\n\ndef back(): return RATE\n",
        "flows/billing/deep/later.py": LATER,
        "till/__init__.py": "",
        "till/prices.py": "RATE = 2\n\ndef total(): return RATE * 10\n",
        "tests/__init__.py": "",
    }
    ours = tmp_path / "ours"
    for name, text in files.items():
        (ours / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / name).write_text(text)
    return ours


def test_a_folder_is_scanned_to_the_bottom(root: Path) -> None:
    loaded = load_folder(root / "flows")
    assert loaded.problems == ()
    assert sorted(graph.name for graph in loaded.graphs) == ["later", "refund", "top"]


@pytest.mark.parametrize("name", [".git", "__pycache__", "node_modules", "cdk.out", "tests", "env"])
def test_generated_folders_tests_and_environments_are_left_alone(root: Path, name: str) -> None:
    place = root / "flows" / name
    place.mkdir()
    (place / "broken.yaml").write_text("workflow: {")
    (place / "broken.py").write_text("def (")
    (root / "flows" / "env").mkdir(exist_ok=True)
    (root / "flows" / "env" / "pyvenv.cfg").write_text("home = x")
    assert load_folder(root / "flows").problems == ()


@pytest.mark.parametrize("to", [".", ".."])
def test_a_link_back_to_a_folder_that_it_is_in_is_not_followed(root: Path, tmp_path: Path, to: str) -> None:
    (root / "flows" / "back").symlink_to(to)
    loaded = load_folder(root / "flows")
    assert loaded.problems == ()
    assert sorted(graph.name for graph in loaded.graphs) == ["later", "refund", "top"]
    copy_project(project_of(root / "flows"), tmp_path / "built")
    assert not list((tmp_path / "built").rglob("back"))


def test_data_in_a_sub_folder_is_no_definition_and_a_misspelt_definition_is_one(root: Path) -> None:
    below = root / "flows" / "events"
    below.mkdir()
    (below / "order.json").write_text('{"order_id": "A-1"}')
    (below / "button.json").write_text('{"type": "block_actions", "actions": []}')
    (below / "deployment.json").write_text('{"workflow": null, "deployment": {}}')
    (below / "cut.json").write_text('{"workflow": ')
    (below / "rows.yaml").write_text("- 1\n- 2\n")
    (below / "service.yaml").write_text("apiVersion: v1\nkind: Service\nspec: {ports: []}\n")
    assert load_folder(root / "flows").problems == ()
    (below / "late.yaml").write_text("wrokflow: late\ntimeline: [{name: a}]\n")
    (below / "kept.yaml").write_text("apiVersion: v1\nspec: {workflow: kept, timeline: [{name: a}]}\n")
    loaded = load_folder(root / "flows")
    assert [problem.code for problem in loaded.errors] == ["unknown_key"]
    assert "kept" in {graph.name for graph in loaded.graphs}


def test_steps_import_the_projects_packages_and_modules_of_sub_folders(root: Path) -> None:
    kit = Stepwell(root / "flows")
    assert kit.start("top").result == 20
    assert kit.start("refund").result == 2
    assert kit.start("later").result == "deep"


def test_a_reload_takes_up_a_change_in_a_package_of_the_project(root: Path) -> None:
    registry = Registry(root / "flows", project_of(root / "flows").paths)
    assert registry.function("python:till.prices.total")() == 20
    (root / "till" / "prices.py").write_text("def total(): return 'changed'\n")
    registry.reload()
    assert registry.function("python:till.prices.total")() == "changed"


def test_two_projects_in_one_process_do_not_take_each_others_modules(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "till").mkdir(parents=True)
    (other / "flows").mkdir()
    (other / "pyproject.toml").write_text(TABLE)
    (other / "till" / "__init__.py").write_text("")
    (other / "till" / "prices.py").write_text("def total(): return 'theirs'\n")
    for place, expected in ((root, 20), (other, "theirs"), (root, 20)):
        registry = Registry(place / "flows", project_of(place / "flows").paths)
        assert registry.function("python:till.prices.total")() == expected


@pytest.fixture(params=["alone", "on the path of the process"])
def two(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Registry, Registry]:
    """Two workflow folders that have modules, packages and packages without an `__init__` of the same names."""
    for name in ("one", "two"):
        folder = tmp_path / name
        for package in ("billing", "billing/deep", "bare", "bare/inner"):
            (folder / package).mkdir(parents=True)
            (folder / package / "rates.py").write_text(f"RATE = {name!r}\n")
        (folder / "billing" / "__init__.py").write_text("from billing.rates import RATE\n")
        (folder / "billing" / "deep" / "__init__.py").write_text("")
        (folder / "rates.py").write_text(f"RATE = {name!r}\n")
        (folder / "m.py").write_text(STEPS_THAT_IMPORT)
    if request.param != "alone":
        monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two"), *sys.path])
    return Registry(tmp_path / "one"), Registry(tmp_path / "two")


STEPS_THAT_IMPORT = """
import rates, billing
from bare import rates as bare
from bare.inner import rates as inner
from billing.deep import rates as deep

def early(): return {rates.RATE, billing.RATE, bare.RATE, inner.RATE, deep.RATE}

def late():
    import billing.rates, bare.inner.rates, rates
    from bare import rates as bare_rates
    return {billing.rates.RATE, bare.inner.rates.RATE, rates.RATE, bare_rates.RATE}
"""


def test_two_folders_have_modules_of_their_own_also_of_the_same_names(two: tuple[Registry, Registry]) -> None:
    """Whichever was asked last, and also for what a step imports when it runs."""
    for function in ("early", "late", "early", "late"):
        for registry, own in zip(two, ({"one"}, {"two"}), strict=True):
            assert registry.function(f"python:m.{function}")() == own


def test_a_module_is_imported_once_while_two_folders_take_turns(two: tuple[Registry, Registry]) -> None:
    """Its state, such as a connection, is kept; also for a later test of the same folder."""
    one, other = two
    function = one.function("python:m.early")
    assert other.function("python:m.early") is not function
    assert one.function("python:m.late").__globals__ is function.__globals__
    assert Registry(one._folder).function("python:m.early") is function


def test_a_reload_of_one_folder_leaves_the_others_modules_as_they_are(two: tuple[Registry, Registry]) -> None:
    one, other = two
    assert (one.function("python:m.early")(), other.function("python:m.early")()) == ({"one"}, {"two"})
    for package in ("", "billing", "billing/deep", "bare", "bare/inner"):
        (one._folder / package / "rates.py").write_text("RATE = 'changed'\n")
    one.reload()
    for name in ("early", "late"):
        assert other.function(f"python:m.{name}")() == {"two"}
        assert one.function(f"python:m.{name}")() == {"changed"}


def test_a_folder_does_not_find_a_module_that_only_another_has(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "only.py").write_text("def f(): return 'one'\n")
    (tmp_path / "two" / "m.py").write_text("def f():\n    import only\n")
    one, other = Registry(tmp_path / "one"), Registry(tmp_path / "two")
    assert one.function("python:only.f")() == "one"
    with pytest.raises(UnknownStepError, match="no module 'only'"):
        other.function("python:only.f")
    step = other.function("python:m.f")
    with pytest.raises(ModuleNotFoundError):
        step()


def test_a_module_that_is_nowhere_is_told_with_the_places_that_were_searched(root: Path) -> None:
    registry = Registry(root / "flows", project_of(root / "flows").paths)
    with pytest.raises(UnknownStepError, match="no module 'tll'") as told:
        registry.function("python:tll.total")
    assert told.value.hint == f"modules are imported from flows/, {root.name}/"


def test_a_bare_name_is_found_in_a_sub_folder(root: Path) -> None:
    (root / "flows" / "billing" / "marked.py").write_text(
        "from stepwell import step\n\n@step(name='hold')\ndef f(): ...\n"
    )
    assert Registry(root / "flows").function("hold").__name__ == "f"


# -- [tool.stepwell]


def test_the_packages_of_the_root_are_the_projects_unless_it_says_so(root: Path) -> None:
    found = find_project(root / "flows" / "billing")
    assert found is not None
    assert (found.root, found.folder) == (root, root / "flows")
    assert found.packages == (Path("till"),)
    assert found.sources == (root / "flows", root / "till")
    assert found.python == this_python()


def test_a_package_below_src_is_imported_by_its_own_name(root: Path) -> None:
    (root / "src").mkdir()
    (root / "till").rename(root / "src" / "till")
    (root / "pyproject.toml").write_text(TABLE + 'packages = ["src/till"]\npython = "3.12"\nauth = "api_key"\n')
    found = find_project(root)
    assert found is not None
    assert found.paths == (root / "flows", root, root / "src")
    assert (found.python, found.properties["auth"]) == ("3.12", "api_key")
    assert Stepwell(root / "flows").start("top").result == 20


def test_the_packages_below_src_are_the_projects_too(root: Path) -> None:
    (root / "src" / "billing").mkdir(parents=True)
    (root / "src" / "billing" / "__init__.py").touch()
    found = find_project(root)
    assert found is not None
    assert found.packages == (Path("till"), Path("src/billing"))
    (root / "src" / "__init__.py").touch()  # now src itself is the package
    found = find_project(root)
    assert found is not None
    assert found.packages == (Path("src"), Path("till"))


def test_a_folder_without_a_project_stands_alone(tmp_path: Path) -> None:
    assert find_project(tmp_path) is None
    assert project_of(tmp_path).paths == (tmp_path,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.stepwell]\nworkflows = 3\n", "workflows: 3 is not text"),
        ('[tool.stepwell]\npython = "3.9"\n', "python: '3.9' is not one of 3.11, 3.12, 3.13, 3.14"),
        ('[tool.stepwell]\npackages = "till"\n', "packages is not a list of folders"),
        ('[tool.stepwell]\npackages = ["tlil"]\n', "packages: there is no tlil"),
        ("[tool]\nstepwell = 1\n", "[tool.stepwell] is not a table"),
        ("[tool.stepwell\n", "pyproject.toml: "),
    ],
)
def test_a_table_that_cannot_be_is_told(root: Path, text: str, told: str) -> None:
    (root / "pyproject.toml").write_text(text)
    with pytest.raises(UserError) as refusal:
        find_project(root)
    assert told in refusal.value.message
    assert refusal.value.code == "bad_project"


def test_what_a_project_needs_and_is_not_installed_is_named(root: Path) -> None:
    (root / "requirements.txt").write_text(
        "# ours\npytest>=1\nnot-here==1\nelsewhere ; sys_platform == 'win32'\n-r x.txt\nlibs/till\n"
    )
    assert project_of(root / "flows").not_installed() == ("not-here",)


def test_a_test_uses_the_workflow_folder_of_its_project(root: Path) -> None:
    assert workflow_folder(root / "tests" / "test_a.py", root, "") == root / "flows"
    assert workflow_folder(root / "tests" / "test_a.py", root, "flows/billing") == root / "flows" / "billing"


@pytest.fixture(autouse=True)
def _forget_their_modules(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"till", "billing", "flows", "bare", "rates", "m", "only"}:
            del sys.modules[name]


def test_the_root_of_a_project_stands_for_its_workflow_folder(root: Path) -> None:
    assert chosen_folder(root) == root / "flows"
    assert chosen_folder(root / "flows" / "billing") == root / "flows" / "billing"
    assert chosen_folder(root / "nowhere") == root / "nowhere"


def test_a_workflow_folder_that_the_project_names_and_that_is_not_there_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder `workflows` beside it is not what it means."""
    (root / "pyproject.toml").write_text('[tool.stepwell]\nworkflows = "flwos"\n')
    (root / "workflows").mkdir()
    monkeypatch.chdir(root)
    for given in (None, root):
        with pytest.raises(UserError, match=r"pyproject\.toml: workflows: there is no folder flwos") as caught:
            chosen_folder(given)
        assert caught.value.code == "bad_project"
    (root / "pyproject.toml").write_text("[tool.stepwell]\n")
    (root / "workflows").rmdir()
    assert chosen_folder(None) == Path()


def test_the_runs_of_a_project_are_found_from_each_of_its_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert data_folder(chosen_folder(None)) == Path(".stepwell")
    monkeypatch.chdir(root / "till")
    assert data_folder(chosen_folder(None)) == root / ".stepwell"
    monkeypatch.chdir(root.parent)
    assert data_folder(chosen_folder(Path("ours"))) == Path("ours/.stepwell")


def test_data_in_the_current_folder_and_a_folder_without_a_project_keep_their_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "till" / ".stepwell").mkdir()  # of a step, say
    monkeypatch.chdir(root / "till")
    assert data_folder(chosen_folder(None)) == root / ".stepwell"
    Path(".stepwell", DATABASE_FILE).touch()
    assert data_folder(chosen_folder(None)) == Path(".stepwell")
    monkeypatch.chdir(root.parent)
    assert data_folder(root.parent) == Path(".stepwell")


def test_the_home_folder_is_not_searched_for_workflows_unless_somebody_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there are no workflows in") as caught:
        chosen_folder(None)
    assert caught.value.code == "no_workflows"
    assert chosen_folder(tmp_path) == tmp_path
    (tmp_path / "order.yaml").write_text(FLOW.format(name="order", run="m.f"))
    assert chosen_folder(None) == Path()


def test_an_unknown_function_is_told_with_the_modules_own_functions_alone(tmp_path: Path) -> None:
    """What it imports, and its classes, are no steps of it. A package has those of its modules."""
    (tmp_path / "shop.py").write_text(
        "from pathlib import Path\nfrom json import dumps\nfrom stepwell import step\n"
        "class Order: ...\n@step\ndef charge(): ...\ndef ship(): ...\n"
    )
    (tmp_path / "till").mkdir()
    (tmp_path / "till" / "__init__.py").write_text("from till.pay import pay\nfrom json import dumps\n")
    (tmp_path / "till" / "pay.py").write_text("def pay(): ...\n")
    registry = Registry(tmp_path)
    for run, hint in (("python:shop.chrage", "shop has charge, ship"), ("python:till.py", "till has pay")):
        with pytest.raises(UnknownStepError) as told:
            registry.function(run)
        assert told.value.hint == hint
