"""Modules that import each other: `stepwell check` warns where such an import fails, and Python agrees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.runtime.folder.code import check_folder_code

STEP = "from stepwell import step\n"
G = "\n@step\ndef g(n): return n\n"
F = "\n@step\ndef f(n): return n\n"


def warned(folder: Path, modules: dict[str, str]) -> list[tuple[str, int]]:
    for name, text in modules.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    found = [one for one in check_folder_code(folder) if one.code == "circular_import"]
    assert all(one.severity == "warning" and one.hint for one in found)
    return sorted((str(Path(one.file).relative_to(folder)), one.line) for one in found)


def imports(folder: Path, module: str) -> bool:
    """Python imports the module in a new process."""
    module = module.removesuffix("/__init__").replace("/", ".")
    run = [sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}"]
    return subprocess.run(run, capture_output=True, check=False).returncode == 0  # noqa: S603 - this Python


FAILING = {
    "each wants what the other defines": (
        {"ma": f"{STEP}from mb import g\n{F}", "mb": f"{STEP}from ma import f\n{G}"}, [("ma.py", 2), ("mb.py", 2)],
    ),
    "only from one of the two": (
        {"ma": f"{STEP}{F}\nfrom mb import g\n", "mb": f"{STEP}from ma import f\n{G}"}, [("ma.py", 6)],
    ),
    "over a third module": (
        {"ma": f"{STEP}import mc\n{F}", "mb": "from ma import f\n", "mc": "from mb import f\n"}, [("mb.py", 1)],
    ),
    "in a package": (
        {"shop/__init__": f"{STEP}from .legs import leg\n{F}", "shop/legs": "from . import f\nleg = f\n"},
        [("shop/legs.py", 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("modules", "places"), FAILING.values(), ids=FAILING)
def test_an_import_that_fails_is_warned_of(
    tmp_path: Path, modules: dict[str, str], places: list[tuple[str, int]]
) -> None:
    assert warned(tmp_path, modules) == places
    assert not all(imports(tmp_path, name) for name in modules)


WORKING = {
    "in a function": {"ma": f"{STEP}from mb import g\n{F}", "mb": f"{STEP}{G}\ndef h(n):\n    from ma import f\n"},
    "for types alone": {
        "ma": f"{STEP}from mb import g\n{F}",
        "mb": f"from __future__ import annotations\nfrom typing import TYPE_CHECKING\n{STEP}"
        f"if TYPE_CHECKING:\n    from ma import f\n{G}",
    },
    "in a try": {
        "ma": f"{STEP}from mb import g\n{F}",
        "mb": f"{STEP}try:\n    from ma import f\nexcept ImportError:\n    f = None\n{G}",
    },
    "the module itself": {"ma": f"{STEP}import mb\n{F}", "mb": f"{STEP}import ma\n{G}"},
    "both define first": {"ma": f"{STEP}{F}\nfrom mb import g\n", "mb": f"{STEP}{G}\nfrom ma import f\n"},
    "a module of a package": {
        "shop/__init__": "from . import legs\n",
        "shop/legs": f"{STEP}from . import more\n{F}",
        "shop/more": f"{STEP}import shop.legs\n{G}",
    },
    "made when it is asked for": {
        "ma": f"{STEP}def __getattr__(name): return 1\nfrom mb import g\nlater = 1\n",
        "mb": f"{STEP}{G}\nfrom ma import later\n",
    },
    "two modules with a name": {
        "ma": f"{STEP}from mb import g\n{F}",
        "mb": f"{STEP}from mc import f\n{G}\ndef h(n):\n    from ma import f\n",
        "mc": "def f(n): return n\n",
    },
    "a star before": {
        "ma": f"{STEP}from mc import *\nfrom mb import g\n{F}",
        "mb": f"{STEP}{G}\nfrom ma import f\n",
        "mc": "def f(n): return n\n",
    },
    "in no circle": {"ma": f"{STEP}from mb import g\n{F}", "mb": f"{STEP}{G}"},
}


@pytest.mark.parametrize("modules", WORKING.values(), ids=WORKING)
def test_a_circle_that_python_takes_is_left_alone(tmp_path: Path, modules: dict[str, str]) -> None:
    assert warned(tmp_path, modules) == []
    assert all(imports(tmp_path, name) for name in modules)
