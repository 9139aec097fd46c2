"""`stepwell check` tells relative imports that fail: modules at the top of the workflow folder are in no package."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path

STEP = "from stepwell import step\n@step\ndef charge(): ...\n"


def told(folder: Path, name: str, line: str) -> list[tuple[str, int, str]]:
    files = {"prices.py": "RATE = 3\n", "billing/__init__.py": "", "billing/rates.py": "EU = 1\n"}
    for file, text in (files | {name: f"{line}\n{STEP}"}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    return [(one.code, one.line, one.hint or "") for one in check_path(folder)[1] if one.code != "no_workflows"]


@pytest.mark.parametrize(
    ("name", "line", "hint"),
    [
        ("shop.py", "from . import prices", "import prices"),
        ("shop.py", "from .prices import RATE", "from prices import RATE"),
        ("shop.py", "def rate():\n    from .prices import RATE", "from prices import RATE"),
        ("billing/shop.py", "from .. import prices", "import prices"),
        ("billing/shop.py", "from .rates import UK", "known: EU"),
        ("billing/shop.py", "from . import rats", ""),
    ],
)
def test_a_relative_import_that_fails_is_told(tmp_path: Path, name: str, line: str, hint: str) -> None:
    at = line.count("\n") + 1
    assert told(tmp_path, name, line) == [("unknown_import", at, hint)]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("billing/shop.py", "from . import rates"),
        ("billing/shop.py", "from .rates import EU"),
        ("billing/deep/shop.py", "from ..rates import EU"),
        ("billing/deep/shop.py", "from .. import deep"),
        ("shop.py", "try:\n    from . import prices\nexcept ImportError:\n    import prices"),
        ("shop.py", "from prices import RATE"),
    ],
)
def test_a_relative_import_within_a_package_is_left_alone(tmp_path: Path, name: str, line: str) -> None:
    assert told(tmp_path, name, line) == []


def test_a_relative_import_fails_as_check_says(tmp_path: Path) -> None:
    from stepwell.runtime.steps.registry import Registry  # noqa: PLC0415 - for this test alone

    told(tmp_path, "shop.py", "from . import prices")
    with pytest.raises(ImportError, match="no known parent package"):
        Registry(tmp_path).function("python:shop.charge")
    told(tmp_path, "billing/shop.py", "from .rates import EU")
    assert callable(Registry(tmp_path).function("python:billing.shop.charge"))


def test_a_module_that_a_package_has_too_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.stepwell]\nworkflows = "shop/flows"\npackages = ["shop"]\n')
    flows = tmp_path / "shop" / "flows"
    flows.mkdir(parents=True)
    (tmp_path / "shop" / "mail.py").write_text("def notify(): ...\n")
    (flows / "steps.py").write_text(f"from ..mail import notify\n{STEP}")
    found = [one for one in check_path(flows)[1] if one.code == "unknown_import"]
    assert [(one.severity, one.hint) for one in found] == [("warning", "from mail import notify")]
