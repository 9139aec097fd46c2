"""Dependencies that are folders of this machine: a member of a workspace, a path dependency."""

from __future__ import annotations

import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging import bundling, folders, locking
from stepwell.cdk.packaging.trimming import UNREAD, remove
from stepwell.cdk.packaging.wheels import Wheels, needs_of
from stepwell.project import Project
from tests.infra.test_locking import HERE, LAMBDA, poetry_lock, project, uv_lock

# A build backend in the package itself, so that nothing is fetched: it packs the modules beside it.
BACKEND = """
import glob, tarfile, zipfile

def build_sdist(out, settings=None):
    with tarfile.open(f"{out}/till-1.0.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "backend.py", "till.py"):
            archive.add(name, f"till-1.0/{name}")
    return "till-1.0.tar.gz"

def build_wheel(out, settings=None, metadata=None):
    told = "till-1.0.dist-info"
    with zipfile.ZipFile(f"{out}/till-1.0-TAG.whl", "w") as archive:
        archive.write("till.py")
        headers = ("Metadata-Version: 2.1", "Name: till", "Version: 1.0", "Requires-Dist: iniconfig", "")
        archive.writestr(f"{told}/METADATA", "\\n".join(headers))
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: TAG\\n")
        archive.writestr(f"{told}/RECORD", f"till.py,,\\n{told}/METADATA,,\\n{told}/WHEEL,,\\n{told}/RECORD,,\\n")
    return "till-1.0-TAG.whl"
"""
PURE, COMPILED = "py3-none-any", "cp313-cp313-linux_x86_64"
SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
LOCKED = 'name = "iniconfig"\nversion = "1.0"\nsource = { registry = "https://pypi.org/simple" }'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a project beside that of a package `till`, in a path with a space."""
    make_till(tmp_path / "my libs" / "till")
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


def make_till(folder: Path, tag: str = PURE, *, needs: str = "iniconfig", more: str = "", name: str = "till") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1.0"\n\n{SYSTEM}\n{more}')
    (folder / "backend.py").write_text(BACKEND.replace("TAG", tag).replace("iniconfig", needs).replace("till", name))
    (folder / f"{name}.py").write_text("TAX = 0.21\n")


def till_in(file: Path) -> tuple[str, Path]:
    """The line for `till` of the pinned requirements, up to the wheel's folder, and that wheel."""
    (line,) = [line for line in file.read_text().splitlines() if line.startswith("till")]
    name, _, wheel = line.partition(" @ ")
    return name, Path(unquote(urlsplit(wheel.partition(" ;")[0]).path))


def assert_built(file: Path) -> None:
    name, wheel = till_in(file)
    assert name == "till"
    assert zipfile.ZipFile(wheel).read("till.py") == b"TAX = 0.21\n"


@pytest.mark.parametrize("kind", ["editable", "directory"])
def test_a_folder_in_uvs_lock_file_is_built_to_a_wheel(shop: Path, kind: str) -> None:
    """A member of the workspace, or a path dependency; what it needs is locked too."""
    locked = uv_lock("stepwell", "till")
    till = f'[[package]]\nname = "till"\nversion = "1.0"\nsource = {{ {kind} = "../my libs/till" }}\n'
    needs = 'dependencies = [\n    { name = "iniconfig" },\n]\n'
    out = locking.lock(project(shop, "stepwell", "till", uv_lock=f"{locked}\n{till}{needs}"), shop, LAMBDA)
    assert_built(out)
    assert "iniconfig==1.0" in out.read_text()


def test_a_folder_that_is_no_package_stays_out_as_uv_leaves_it_out(shop: Path) -> None:
    entry = '[[package]]\nname = "till"\nversion = "1.0"\nsource = { virtual = "../my libs/till" }\n'
    made = project(shop, "stepwell", "till", uv_lock=f"{uv_lock('stepwell', 'till')}\n{entry}")
    assert "till" not in locking.lock(made, shop, LAMBDA).read_text()


def test_a_repository_in_uvs_lock_file_is_refused(shop: Path) -> None:
    locked = uv_lock("stepwell", "iniconfig").replace(
        LOCKED, 'name = "iniconfig"\nversion = "1.0"\nsource = { git = "https://x.example/it#1" }'
    )
    with pytest.raises(BundlingError, match="iniconfig comes from the repository https://x") as refusal:
        locking.lock(project(shop, "stepwell", "iniconfig", uv_lock=locked), shop, LAMBDA)
    assert "a folder of this machine" in str(refusal.value.hint)


def test_a_folder_in_poetrys_lock_file_is_built_to_a_wheel(shop: Path) -> None:
    entry = '[[package]]\nname = "till"\nversion = "1.0"\nfiles = []\ndevelop = true\n'
    source = '\n[package.source]\ntype = "directory"\nurl = "../my libs/till"\n'
    made = project(shop, "stepwell", "till", poetry_lock=f"{poetry_lock()}\n{entry}{source}")
    assert_built(locking.lock(made, shop, LAMBDA))


def test_a_folder_in_requirements_is_built_to_a_wheel_with_what_it_needs(shop: Path) -> None:
    out = locking.lock(project(shop, requirements_txt="stepwell\n-e ../my libs/till\n"), shop, HERE)
    assert_built(out)
    assert f"iniconfig=={version('iniconfig')}" in out.read_text()


@pytest.mark.parametrize(
    ("line", "name", "marker"),
    [
        ("../my libs/till", "till", ""),
        ("till[fast] @ ../my libs/till", "till[fast]", ""),
        ("--editable=../my libs/till ; python_version > '3'  # ours", "till", " ; python_version > '3'"),
        ("../my libs/till[fast]; os_name == 'nt'", "till[fast]", " ; os_name == 'nt'"),
    ],
)
def test_a_line_of_a_folder_keeps_its_extras_and_its_marker(
    shop: Path, monkeypatch: pytest.MonkeyPatch, line: str, name: str, marker: str
) -> None:
    wheel = shop / f"till-1.0-{PURE}.whl"
    monkeypatch.setattr(Wheels, "_build", lambda *_: wheel)
    assert folders.with_wheels([line], [shop], Wheels(shop, HERE)) == [f"{name} @ {wheel.as_uri()}{marker}"]


@pytest.mark.parametrize("line", ["shop", "till>=1", "-r base.txt", "--index-url https://x", "https://x/y.whl", "-e ."])
def test_a_line_of_an_index_is_not_one_of_a_folder(shop: Path, line: str) -> None:
    (shop / "shop").mkdir()
    here = [] if line == "-e ." else [shop]  # where nothing is, uv says so
    assert folders.with_wheels([line], here, Wheels(shop, HERE)) == [line]


def test_a_path_of_uvs_sources_counts_without_a_lock_file(shop: Path) -> None:
    """Else the name would be looked for on an index, where somebody else may have it."""
    made = project(shop, "stepwell", "till")
    more = '[tool.uv.sources]\ntill = { path = "../my libs/till", editable = true }\n'
    made = project_with(made.root, more)
    assert_built(locking.lock(made, shop, HERE))


def test_a_path_of_poetrys_table_counts_without_a_lock_file(shop: Path) -> None:
    (shop / "pyproject.toml").write_text("[tool.stepwell]\n")
    more = '[tool.poetry.dependencies]\npython = "^3.11"\ntill = { path = "../my libs/till" }\n'
    assert_built(locking.lock(project_with(shop, more), shop, HERE))


def test_another_source_without_a_lock_file_is_refused(shop: Path) -> None:
    project(shop, "stepwell", "till")
    made = project_with(shop, "[tool.uv.sources]\ntill = { workspace = true }\n")
    with pytest.raises(BundlingError, match="till comes from a workspace") as refusal:
        locking.lock(made, shop, HERE)
    assert "uv lock" in str(refusal.value.hint)


@pytest.mark.parametrize(
    ("needs", "more"),
    [
        ("cash", '[tool.uv.sources]\ncash = { path = "../cash", editable = true }\n'),
        ("cash @ file:///gone/cash", '[tool.poetry.dependencies]\ncash = { path = "../cash", develop = true }\n'),
    ],
    ids=["uv", "poetry"],
)
def test_a_folder_that_a_folder_depends_on_is_built_too(shop: Path, needs: str, more: str) -> None:
    """The wheel has only its name, or with Poetry a path of the build: an index may have another `cash`."""
    till = shop.parent / "my libs" / "till"
    make_till(till, needs=needs, more=more)
    make_till(till.parent / "cash", name="cash")
    out = locking.lock(project(shop, requirements_txt="-e ../my libs/till\n"), shop, HERE)
    (cash,) = [line for line in out.read_text().splitlines() if line.startswith("cash")]
    assert cash.endswith(f"cash-1.0-{PURE}.whl")
    assert [*needs_of(till_in(out)[1])] == ["cash"]
    assert b"gone" not in zipfile.ZipFile(till_in(out)[1]).read("till-1.0.dist-info/METADATA")


def test_a_folder_whose_neighbour_cannot_be_found_is_refused(shop: Path) -> None:
    """Unless another line of the file is for that neighbour, as pip needs it."""
    till = shop.parent / "my libs" / "till"
    make_till(till, needs="cash", more="[tool.uv.sources]\ncash = { workspace = true }\n")
    make_till(till.parent / "cash", name="cash")
    with pytest.raises(BundlingError, match="cash comes from a workspace") as refusal:
        locking.lock(project(shop, requirements_txt="../my libs/till\n"), shop, HERE)
    assert "depend on its folder too" in str(refusal.value.hint)
    out = locking.lock(project(shop, requirements_txt="../my libs/till\n../my libs/cash\n"), shop, HERE)
    assert_built(out)


def test_a_dependency_may_need_stepwell(shop: Path) -> None:
    """A library of workflow helpers: Stepwell's own code comes with the command, not from an index."""
    make_till(shop.parent / "my libs" / "till", needs=f"stepwell=={version('stepwell')}")
    text = locking.lock(project(shop, requirements_txt="../my libs/till\n"), shop, HERE).read_text()
    assert "stepwell" not in "".join(line.partition(" @ ")[0] for line in text.splitlines())
    assert_built(shop / "locked.txt")


@pytest.mark.parametrize("line", ["-e ../my libs/stepwell", "./stepwell-9.9-py3-none-any.whl"])
def test_a_copy_of_stepwell_is_not_packed(shop: Path, line: str) -> None:
    copy = shop.parent / "my libs" / "stepwell"
    copy.mkdir()
    (copy / "pyproject.toml").write_text('[project]\nname = "stepwell"\n')
    (shop / "stepwell-9.9-py3-none-any.whl").touch()
    assert folders.without_stepwell([line, "stepwell[dev]", "till"], [shop]) == ["till"]


def test_a_folder_with_compiled_code_is_refused_for_lambda_and_taken_for_this_machine(shop: Path) -> None:
    make_till(shop.parent / "my libs" / "till", COMPILED)
    made = project(shop, requirements_txt="../my libs/till\n")
    with pytest.raises(
        BundlingError, match=rf"till-1.0-{COMPILED}.whl has compiled code, and no wheel for Lambda"
    ) as no:
        locking.lock(made, shop, LAMBDA)
    assert no.value.code == "no_wheel"


@pytest.mark.parametrize(
    ("text", "lacks"),
    [("", "it has no pyproject.toml"), ('[project]\nname = "box"\nversion = "1"\n', "has no [build-system]")],
)
def test_a_folder_without_a_build_system_is_refused_in_a_line(shop: Path, text: str, lacks: str) -> None:
    """`-e .` of a project that `init` made, for example: uv would have setuptools try, which says a page."""
    for name in ("one", "two"):
        (shop / name).mkdir()
        (shop / name / "__init__.py").touch()
    if text:
        (shop / "pyproject.toml").write_text(text)
    with pytest.raises(BundlingError, match="cannot be built to a wheel") as raised:
        Wheels(shop, HERE).of(shop)
    assert lacks in raised.value.message
    assert raised.value.message.count("\n") == 0
    assert "`packages` of [tool.stepwell]" in (raised.value.hint or "")


def test_what_a_build_says_is_in_the_error(shop: Path) -> None:
    (shop.parent / "my libs" / "till" / "backend.py").write_text("raise RuntimeError('the till is closed')\n")
    with pytest.raises(BundlingError, match="the till is closed"):
        locking.lock(project(shop, requirements_txt="../my libs/till\n"), shop, HERE)


def test_the_package_of_a_folder_is_the_same_in_every_build(shop: Path, tmp_path: Path) -> None:
    """The workers' package has no path and no time of this machine, so that nothing is deployed again."""
    made = project(shop, requirements_txt="../my libs/till\n")
    builds = []
    for into in (tmp_path / "one", tmp_path / "two"):
        into.mkdir()
        name, wheel = till_in(locking.lock(made, into, HERE))
        (into / "till.txt").write_text(f"{name} @ {wheel.as_uri()}\n")
        bundling.install(into / "worker", into / "till.txt", HERE)
        remove(into / "worker", UNREAD)
        files = [file for file in (into / "worker").rglob("*") if file.is_file()]
        builds.append({file.relative_to(into): file.read_bytes() for file in files})
    assert builds[0] == builds[1]
    assert len(builds[0]) > 1


def project_with(root: Path, more: str) -> Project:
    """The project of a folder, with more in its pyproject.toml."""
    file = root / "pyproject.toml"
    file.write_text(f"{file.read_text()}\n{more}")
    return Project(root, root, document=tomllib.loads(file.read_text()))
