"""`stepwell check` on a folder: what a first run would trip over is told before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli

ORDER = """workflow: order
timeline:
  - {name: charge, run: "python:shop.charge", timeout: 1m}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "workflows"
    made.mkdir()
    (made / "order.yaml").write_text(ORDER)
    (made / "shop.py").write_text("import prices\n\ndef charge(): ...\n")
    (made / "prices.py").write_text("import decimal\n")
    return made


def found(cli: Cli, status: int) -> list[Any]:
    result = cli("check", "--json")
    assert result.exit_code == status, result.stdout
    problems = json.loads(result.stdout)
    assert isinstance(problems, list)
    return problems


def test_a_folder_whose_targets_and_imports_are_there_has_no_problem(folder: Path, cli: Cli) -> None:
    assert found(cli, 0) == []


def test_an_import_that_will_fail_is_an_error_at_its_line_also_in_what_is_imported(folder: Path, cli: Cli) -> None:
    (folder / "prices.py").write_text("import decimal\nfrom not_installed_here.rates import TAX\n")
    (problem,) = found(cli, 1)
    assert (problem["code"], Path(problem["file"]).name, problem["line"]) == ("unknown_import", "prices.py", 2)
    assert "not_installed_here" in problem["message"]
    assert "dependencies" in problem["hint"]


def test_a_name_that_a_module_of_the_project_lacks_is_an_error_where_it_is_imported(folder: Path, cli: Cli) -> None:
    (folder / "shop.py").write_text("from prices import RAET\n\ndef charge(): ...\n")
    (folder / "prices.py").write_text("RATE = 2\n")
    (problem,) = found(cli, 1)
    assert (problem["code"], problem["line"]) == ("unknown_import", 1)
    assert problem["message"] == "there is no 'RAET' in prices, so this import fails"
    assert problem["hint"] == "did you mean `RATE`?"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("from stepwell import step, timer", 1, "there is no 'timer' in stepwell, so this import fails",
         "it is an operation of a durable function: ctx.timer(…)"),
        ("from stepwell import Step", 1, "there is no 'Step' in stepwell, so this import fails",
         "did you mean `step`?"),
        ("from stepwell.errors import Transeint", 1, "there is no 'Transeint' in stepwell.errors, so this import fails",
         "did you mean `Transient`?"),
        ("import stepwell.durable", 1, "there is no module 'stepwell.durable', so this import fails", "import what"),
        ("from stepwell.steps import step", 1, "there is no module 'stepwell.steps', so this import fails",
         "import what"),
        ("import stepwell as sw\nraise sw.TransientError('x')", 2, "there is no 'TransientError' in stepwell",
         "did you mean `Transient`?"),
    ],
)  # fmt: skip
def test_a_name_that_stepwell_lacks_is_an_error_also_where_nothing_is_marked(
    folder: Path, cli: Cli, text: str, line: int, message: str, hint: str
) -> None:
    (folder / "other.py").write_text(f"{text}\n")
    (problem,) = found(cli, 1)
    assert (problem["code"], Path(problem["file"]).name, problem["line"]) == ("unknown_import", "other.py", line)
    assert problem["message"] == message
    assert problem["hint"].startswith(hint)


def test_what_stepwell_has_may_be_imported_and_read(folder: Path, cli: Cli) -> None:
    (folder / "other.py").write_text(
        "import stepwell\nimport stepwell.testing.kit\nfrom stepwell import *\nfrom stepwell import testing, Client\n"
        "from stepwell import WorkflowContext, __version__\nfrom stepwell.errors import Transient\n"
        "from stepwell.cdk import StepwellEngine\nfrom stepwell.definition.models import StepDef\n"
        "def f(): return stepwell.step, stepwell.errors.Transient, stepwell.__version__\n"
        "def g(stepwell): return stepwell.anything\n"
        "try:\n    from stepwell import older\nexcept ImportError:\n    older = None\n"
    )
    assert found(cli, 0) == []


def test_names_that_a_package_hands_on_are_there(folder: Path, cli: Cli) -> None:
    """By a relative import, by `*`, or by making them when they are asked for."""
    (folder / "bank").mkdir()
    (folder / "bank" / "__init__.py").write_text("from .cards import charge\n")
    (folder / "bank" / "cards.py").write_text("def charge(): ...\n")
    (folder / "order.yaml").write_text(ORDER.replace("shop.charge", "bank.charge"))
    (folder / "more.yaml").write_text(ORDER.replace("order", "more"))
    (folder / "shop.py").write_text("from bank import charge, cards\nfrom prices import TAX\nfrom late import RATE\n")
    (folder / "prices.py").write_text("from bank.cards import *\n")
    (folder / "late.py").write_text("def __getattr__(name): ...\n")
    assert found(cli, 0) == []


def test_a_module_with_a_long_chain_of_cases_is_checked(folder: Path, cli: Cli) -> None:
    """Each `elif` is nested in the one before it."""
    cases = "".join(f"    elif order == {number}: return {number}\n" for number in range(1_500))
    (folder / "prices.py").write_text(f"def price(order):\n    if not order: return 0\n{cases}import not_here\n")
    (problem,) = found(cli, 1)
    assert (problem["code"], problem["line"]) == ("unknown_import", 1_503)


def test_an_import_that_may_fail_or_that_nobody_needs_is_none(folder: Path, cli: Cli) -> None:
    (folder / "prices.py").write_text(
        "from typing import TYPE_CHECKING\ntry:\n    import not_here\nexcept ImportError:\n    not_here = None\n"
        "if TYPE_CHECKING:\n    from not_here import Price\n"
    )
    (folder / "script.py").write_text("import not_here\n")  # no step, no workflow, and nobody imports it
    assert found(cli, 0) == []


def test_a_dependency_of_the_project_that_is_not_installed_is_a_warning(folder: Path, cli: Cli) -> None:
    (folder.parent / "pyproject.toml").write_text(
        '[project]\nname = "shop"\ndependencies = ["not-installed-here>=2"]\n[tool.stepwell]\n'
    )
    (problem,) = found(cli, 0)
    assert (problem["code"], problem["severity"]) == ("dependency_not_installed", "warning")
    assert cli("check", "--strict").exit_code == 1


@pytest.fixture
def project(folder: Path) -> Path:
    """A project whose steps import a package of its own, which `packages` leaves out."""
    root = folder.parent
    (root / "pyproject.toml").write_text('[project]\nname = "shop"\n[tool.stepwell]\npackages = []\n')
    (root / "src" / "till_of_ours").mkdir(parents=True)
    (root / "src" / "till_of_ours" / "__init__.py").write_text("")
    (folder / "prices.py").write_text("import till_of_ours\nimport decimal\n")
    return root


def test_a_module_that_packages_leaves_out_is_named_where_it_is_not_found(project: Path, cli: Cli) -> None:
    (problem,) = found(cli, 1)
    assert (problem["code"], problem["hint"]) == (
        "unknown_import", 'add "src/till_of_ours" to `packages` of [tool.stepwell]')  # fmt: skip


def test_a_mistake_in_a_package_of_the_project_has_its_path_from_here(project: Path, cli: Cli) -> None:
    (project / "pyproject.toml").write_text('[tool.stepwell]\npackages = ["till"]\n')
    (project / "till").mkdir()
    (project / "till" / "__init__.py").write_text("import striped\n")
    (project / "workflows" / "prices.py").write_text("import till\n")
    files = {one["file"] for one in found(cli, 1) if "striped" in one["message"]}
    assert files == {str(Path("till", "__init__.py"))}


def test_a_module_that_is_found_here_because_the_project_is_installed_is_not_on_lambda(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `uv sync` installs it: check and tests find it, and Lambda gets `packages` alone."""
    monkeypatch.syspath_prepend(str(project / "src"))
    (problem,) = found(cli, 0)
    assert (problem["code"], problem["severity"]) == ("not_in_packages", "warning")
    assert Path(problem["file"]).name == "prices.py"
    assert problem["hint"] == 'add "src/till_of_ours" to `packages` of [tool.stepwell]'
    (project / "pyproject.toml").write_text('[tool.stepwell]\npackages = ["src/till_of_ours"]\n')
    assert found(cli, 0) == []
    (project / "pyproject.toml").write_text("[tool.stepwell]\n")
    assert found(cli, 0) == []
    (project / "pyproject.toml").write_text("[tool.stepwell]\npackages = []\n")
    (project / "requirements.txt").write_text("-e .\n")  # which packs the project as a wheel
    assert found(cli, 0) == []


def test_a_folder_without_workflows_is_an_error(folder: Path, cli: Cli) -> None:
    (folder / "order.yaml").unlink()
    (problem,) = found(cli, 1)
    assert problem["code"] == "no_workflows"
    assert "stepwell init" in problem["hint"]


def many_untimed(count: int) -> str:
    steps = "".join(f"  - {{name: s{number}, run: 'python:shop.charge'}}\n" for number in range(count))
    return f"workflow: many\ntimeline:\n{steps}"


def test_a_warning_that_a_file_gives_many_times_is_printed_once_with_the_number_of_the_others(
    folder: Path, cli: Cli
) -> None:
    """JSON, for programs, has each of them."""
    (folder / "many.yaml").write_text(many_untimed(100))
    printed = [line for line in cli("check").stdout.splitlines() if "no timeout" in line]
    assert [line.partition("warning ")[2] for line in printed] == [
        "the step `s0` has no timeout, and 99 others like it (lines 4, 5, 6, …) [step_without_timeout]"
    ]
    assert "1 error" not in cli("check").stdout
    assert cli("check").stdout.splitlines()[-1] == "2 workflows, 0 errors, 101 warnings"
    assert [one["code"] for one in found(cli, 0)].count("step_without_timeout") == 100


def test_up_to_three_warnings_of_a_kind_and_all_errors_are_printed_one_by_one(folder: Path, cli: Cli) -> None:
    (folder / "many.yaml").write_text(many_untimed(3))
    assert cli("check").stdout.count("no timeout") == 3
    (folder / "many.yaml").write_text(many_untimed(5).replace("shop.charge", "shop.missing"))
    assert cli("check").stdout.count("[unknown_function]") == 5


def test_a_call_that_a_service_does_not_have_is_an_error_in_a_folder_and_in_a_file(folder: Path, cli: Cli) -> None:
    state = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:sqs:sendMesage", "End": True}
    (folder / "m.asl.json").write_text(json.dumps({"StartAt": "A", "States": {"A": state}}))
    for path in ((), (str(folder / "m.asl.json"),)):
        result = cli("check", "--json", *path)
        (problem,) = json.loads(result.stdout)
        assert (problem["code"], problem["hint"], problem["line"]) == (
            "unknown_action", "did you mean `sendMessage`?", 1)  # fmt: skip


def test_a_missing_limit_is_an_error_at_its_line_in_a_folder_and_in_a_file(folder: Path, cli: Cli) -> None:
    (folder.parent / "pyproject.toml").write_text("[tool.stepwell]\n")
    (folder / "limits.yaml").write_text("limits: {stripe: {concurrency: 5}}\n")
    texts = {
        "order.yaml": (ORDER.replace("timeout", "throttle: strip, timeout"), 3),
        "graph.yaml": ("workflow: graph\nnodes:\n  pay:\n    run: python:shop.charge\n    timeout: 1m\n"
                       "    throttle: {limit: strip}\n", 6),
        "inside.yaml": ("kind: Workflow\nmetadata: {name: inside}\nspec:\n  steps:\n"
                        "  - name: pay\n    run: python:shop.charge\n    timeout: 1m\n    throttle: strip\n", 8),
    }  # fmt: skip
    for name, (text, line) in texts.items():
        (folder / name).write_text(text)
        for path in ((), (f"workflows/{name}",)):
            problems = json.loads(cli("check", "--json", *path).stdout)
            told = {(one["code"], one["severity"], one["line"]) for one in problems if one["file"].endswith(name)}
            assert told == {("unknown_limit", "error", line)}, (path, problems)


def test_a_name_that_two_files_give_is_told_at_its_line(folder: Path, cli: Cli) -> None:
    (folder / "other.yaml").write_text(f"description: the same name\n{ORDER}")
    (problem,) = found(cli, 1)
    assert (problem["code"], Path(problem["file"]).name, problem["line"]) == ("duplicate_workflow", "other.yaml", 2)


@pytest.mark.parametrize(
    ("code", "target", "shop", "file", "line"),
    [
        ("unknown_function", "shop.chrage", "", "order.yaml", 3),
        ("unknown_module", "shops.charge", "", "order.yaml", 3),
        ("bad_arguments", 'shop.charge", input: {a: 1}, pool: "default', "def charge(amount): ...\n", "order.yaml", 3),
        ("unknown_import", "shop.charge", "import not_here\ndef charge(): ...\n", "shop.py", 1),
        ("unknown_import", "shop.charge", "import bank\ndef charge(): ...\n", "bank.py", 1),
        ("bad_syntax", "shop.charge", "def charge(: ...\n", "shop.py", 1),
    ],
)
def test_one_file_of_a_project_is_checked_with_its_targets_as_the_project_is(
    folder: Path, cli: Cli, code: str, target: str, shop: str, file: str, line: int
) -> None:
    if code != "unknown_module":  # for which the default folder is as good
        (folder.parent / "pyproject.toml").write_text("[tool.stepwell]\n")
    (folder / "order.yaml").write_text(ORDER.replace("shop.charge", target))
    (folder / "bank.py").write_text("import not_here_either\n")
    if shop:
        (folder / "shop.py").write_text(shop)
    of_project, of_file = (json.loads(cli("check", "--json", *path).stdout) for path in ((), ("workflows/order.yaml",)))
    places = [(one["code"], one["severity"], Path(one["file"]).name, one["line"]) for one in of_file]
    assert places == [(code, "error", file, line)]
    assert places == [(one["code"], one["severity"], Path(one["file"]).name, one["line"]) for one in of_project]


def test_one_file_runs_no_code_and_tells_nothing_of_code_that_it_does_not_name(folder: Path, cli: Cli) -> None:
    (folder / "shop.py").write_text("def charge(): ...\nraise SystemExit\n")
    (folder / "other.py").write_text("from stepwell import step\nimport not_here\n@step\ndef f(): ...\n")
    result = cli("check", "workflows/order.yaml")
    assert (result.exit_code, result.stdout) == (0, "1 workflow, 0 errors, 0 warnings\n")
    assert found(cli, 1)[0]["code"] == "unknown_import"


def test_a_module_that_one_file_lacks_is_a_warning_where_the_workflow_folder_is_not_known(
    folder: Path, cli: Cli
) -> None:
    (folder / "billing").mkdir()
    (folder / "order.yaml").rename(folder / "billing" / "order.yaml")
    result = cli("check", "workflows/billing/order.yaml")
    assert result.exit_code == 0
    assert "warning there is no module 'shop' [unknown_module]" in result.stdout
    assert "it may be in a folder above; check the whole folder" in result.stdout
    assert found(cli, 0) == []
