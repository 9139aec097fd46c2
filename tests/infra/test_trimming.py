"""What is left out of the packages: nothing that a function needs, whatever it is asked to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cdk.packaging import bundling, trimming
from stepwell.project import Project
from tests.functions.kit import environment_of
from tests.infra.kit import ORDER, ROOT

HANDLERS = ("api", "authorizer", "coordinator", "live", "sender", "stream", "sweeper", "webhooks", "worker")
PLACE = {"url": "https://sqs.eu-west-1.amazonaws.com/123456789012/q", "arn": "arn:aws:sqs:eu-west-1:123456789012:q"}
LOADS = "import sys; sys.path[:0] = ['.']; import stepwell.functions.{0}; print(*sorted(sys.modules))"
# One for each function of CEL and of its extensions for text and numbers, and one for each kind of macro.
EXPRESSIONS = {
    "size('abc') + size([1])": 4,
    "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')": True,
    "'a1'.matches('^[a-z][0-9]$')": True,
    "string(int('7') + int(double('2.5'))) + string(bool('true'))": "9true",
    "type(1) == int": True,
    "timestamp('2030-01-31T09:00:00Z').getFullYear()": 2030,
    "timestamp('2030-01-31T09:00:00Z').getHours('+02:00')": 11,
    "duration('90s').getMinutes()": 1,
    "[1, 2, 3].filter(x, x > 1).map(x, x * 2)": [4, 6],
    "[1, 2].exists(x, x == 2) && [1, 2].all(x, x > 0) && [1, 2].exists_one(x, x == 1)": True,
    "has(result.a) && 'a' in result": True,
    "'abc'.charAt(1) + 'abc'.substring(1, 2)": "bb",
    "'abab'.indexOf('b') + 'abab'.lastIndexOf('b')": 4,
    "['a', 'b'].join('-') + 'x,y'.split(',')[1]": "a-by",
    "' A '.trim().lowerAscii() + 'b'.upperAscii() + 'cd'.reverse()": "aBdc",
    "'abc'.replace('b', 'x')": "axc",
    "'%s is %d and %.1f'.format(['a', 1, 2.5])": "a is 1 and 2.5",
    "strings.quote('a\"b')": '"a\\"b"',
    "math.greatest(1, 3, 2) + math.least([4, 2])": 5,
    "math.ceil(1.2) + math.floor(1.8) + math.round(1.5) + math.trunc(1.9)": 6.0,
    "math.abs(-2) + math.sign(-3)": 1,
    "math.isNaN(0.5) || math.isInf(0.5) || !math.isFinite(0.5)": False,
    "math.bitOr(4, 1) + math.bitAnd(6, 2) + math.bitXor(3, 1) + math.bitNot(0)": 8,
    "math.bitShiftLeft(1, 3) + math.bitShiftRight(8, 2)": 10,
    "math.sqrt(9.0)": 3.0,
}
EVALUATES = """
import json, sys
sys.path[:0] = ["."]
from stepwell.definition.expressions import compile_expression
names = {"result": {"a": 1}}
print(json.dumps([compile_expression(one).evaluate(names) for one in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> bundling.Bundles:
    """The packages for this machine's processor, whose compiled code is cut as the functions' is."""
    folder, into = ROOT / ORDER, tmp_path_factory.mktemp("built")
    return bundling.build(Project(folder, folder), into, pools={"default"}, platform="local")


@pytest.fixture(scope="module")
def engine(bundles: bundling.Bundles) -> Path:
    return bundles.engine


def ran(package: Path, script: str, given: str = "") -> str:
    """The output of a process that finds modules in the package and the standard library only."""
    places = {"resume": PLACE, "work": {"default": PLACE}}
    more = {"STEPWELL_NOTIFICATIONS": PLACE["url"], "STEPWELL_DEAD_NOTIFICATIONS": PLACE["url"],
            "STEPWELL_BUS": "bus", "STEPWELL_LIVE_TABLE": "live"}  # fmt: skip
    environment = {"PATH": os.environ["PATH"], **environment_of(places), **more}
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-S", "-c", script],
        cwd=package, env=environment, input=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("handler", HANDLERS)
def test_every_handler_is_loaded_from_its_package_alone(bundles: bundling.Bundles, handler: str) -> None:
    package = bundles.worker if handler == "worker" else bundles.engine
    assert f"stepwell.functions.{handler}" in ran(package, LOADS.format(handler)).split()


def test_every_function_of_cel_is_computed_by_what_is_packed(engine: Path) -> None:
    assert not (engine / "cel_expr_python").exists()  # it checks definitions where they are written
    assert json.loads(ran(engine, EVALUATES, json.dumps(list(EXPRESSIONS)))) == list(EXPRESSIONS.values())


def test_compiled_code_of_ours_ends_where_its_last_segment_does(engine: Path) -> None:
    files = [*(engine / "re2").rglob("*.so"), *(engine / "yaml").rglob("*.so")]
    assert len(files) == 2
    for file in files:
        assert trimming.loaded_part(file.read_bytes()) == file.read_bytes(), file


def test_what_is_no_elf_file_stays_as_it_is() -> None:
    assert trimming.loaded_part(b"\xcf\xfa\xed\xfe of a Mac") == b"\xcf\xfa\xed\xfe of a Mac"


def test_the_installers_own_copy_is_not_cut(tmp_path: Path) -> None:
    """uv links the files of its cache into the package."""
    cached, packed = tmp_path / "re2.so", tmp_path / "tree" / "re2" / "re2.so"
    header = bytearray(64)
    header[:6], header[54] = b"\x7fELF\x02\x01", 56  # of segments it has none
    cached.write_bytes(bytes(header) + b"symbols")
    packed.parent.mkdir(parents=True)
    os.link(cached, packed)
    trimming.trim_compiled(tmp_path / "tree")
    assert (len(packed.read_bytes()), len(cached.read_bytes())) == (64, 71)
    assert [path.name for path in packed.parent.iterdir()] == ["re2.so"]


def test_the_installers_own_copy_keeps_its_mode(tmp_path: Path) -> None:
    cached, packed = tmp_path / "m.py", tmp_path / "tree" / "bag" / "m.py"
    cached.write_text("X = 1")
    cached.chmod(0o700)
    packed.parent.mkdir(parents=True, mode=0o700)
    os.link(cached, packed)
    trimming.open_to_all(tmp_path / "tree")
    assert [path.stat().st_mode & 0o777 for path in (packed.parent, packed, cached)] == [0o755, 0o755, 0o700]
    assert [path.name for path in packed.parent.iterdir()] == ["m.py"]


def test_a_stub_that_its_module_reads_when_it_is_imported_stays(tmp_path: Path) -> None:
    """As scikit-image does, by lazy_loader: without the file it cannot be imported."""
    for name, text in {
        "image/__init__.py": "import lazy_loader\nnames = lazy_loader.attach_stub(__name__, __file__)\n",
        "image/__init__.pyi": "from .io import imread\n",
        "image/io.py": "def imread(): ...\n",
        "image/io.pyi": "def imread() -> None: ...\n",
        "image/_core.pyi": "",  # of compiled code
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    trimming.remove_stubs(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.py*")) == ["__init__.py", "__init__.pyi", "io.py"]
