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


def test_a_folder_without_workflows_is_an_error(folder: Path, cli: Cli) -> None:
    (folder / "order.yaml").unlink()
    (problem,) = found(cli, 1)
    assert problem["code"] == "no_workflows"
    assert "stepwell init" in problem["hint"]


def test_a_call_that_a_service_does_not_have_is_an_error_in_a_folder_and_in_a_file(folder: Path, cli: Cli) -> None:
    state = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:sqs:sendMesage", "End": True}
    (folder / "m.asl.json").write_text(json.dumps({"StartAt": "A", "States": {"A": state}}))
    for path in ((), (str(folder / "m.asl.json"),)):
        result = cli("check", "--json", *path)
        (problem,) = json.loads(result.stdout)
        assert (problem["code"], problem["hint"], problem["line"]) == (
            "unknown_action", "did you mean `sendMessage`?", 1)  # fmt: skip
