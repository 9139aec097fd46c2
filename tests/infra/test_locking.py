"""Which packages the functions get: from each kind of lock file, and without one."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging import locking
from stepwell.cdk.packaging.bundling import target_of
from stepwell.cdk.packaging.entries import COMMAND_ONLY
from stepwell.cdk.packaging.requirements import wanted_lines
from stepwell.errors import UserError
from stepwell.project import Project, find_project, name_of

HERE = target_of("local", "3.13")
LAMBDA = target_of("lambda", "3.13")
HASH = "sha256:" + "0" * 64
ENGINE = {name_of(one) for one in locking.engine_requirements()}
PROJECT = '[project]\nname = "shop"\nversion = "1"\ndependencies = [{0}]\n\n[tool.stepwell]\n'


def project(root: Path, *dependencies: str, **files: str) -> Project:
    """A project with these dependencies, and files whose names have `_` for a point."""
    listed = ", ".join(f'"{one}"' for one in dependencies)
    (root / "pyproject.toml").write_text(PROJECT.format(listed))
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    found = find_project(root)
    assert found is not None
    return found


def locked(project: Project, into: Path, **more: Any) -> dict[str, str]:
    """The versions that are packed, by name."""
    lines = locking.lock(project, into, HERE, **more).read_text().splitlines()
    pinned = (re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {name_of(one[1]): one[2] for one in pinned if one}


def uv_lock(*own: str, stepwell: str = version("stepwell")) -> str:
    """A lock file as uv writes it, of a project that needs these packages."""
    needs = "\n".join(f'    {{ name = "{name}" }},' for name in own)
    entries = [
        'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n',
        f'[[package]]\nname = "shop"\nversion = "1"\nsource = {{ virtual = "." }}\ndependencies = [\n{needs}\n]\n',
    ]
    engine = "".join(f'    {{ name = "{name}" }},\n' for name in sorted({*ENGINE, *COMMAND_ONLY}))
    for name in sorted({*ENGINE, *COMMAND_ONLY, "click", "iniconfig", "stepwell"}):
        more = {"stepwell": engine, "typer": '    { name = "click" },\n'}.get(name, "")
        number = stepwell if name == "stepwell" else "1.0"
        file = f"{name.replace('-', '_')}-{number}-py3-none-any.whl"
        wheel = f'{{ url = "https://files.example.org/{file}", hash = "{HASH}", size = 1 }}'
        entries.append(
            f'[[package]]\nname = "{name}"\nversion = "{number}"\nsource = {{ registry = "https://pypi.org/simple" }}\n'
            f"dependencies = [\n{more}]\nwheels = [\n    {wheel},\n]\n"
        )
    return "\n".join(entries)


def test_uvs_lock_file_decides_and_the_commands_packages_stay_out(tmp_path: Path) -> None:
    found = locked(project(tmp_path, "stepwell", "iniconfig", uv_lock=uv_lock("stepwell", "iniconfig")), tmp_path)
    assert found == dict.fromkeys({*ENGINE, "iniconfig"}, "1.0")


def test_what_a_project_itself_needs_is_packed_even_if_only_the_command_of_stepwell_needs_it_too(
    tmp_path: Path,
) -> None:
    found = locked(project(tmp_path, "stepwell", "typer", uv_lock=uv_lock("stepwell", "typer")), tmp_path)
    assert found == dict.fromkeys({*ENGINE, "typer", "click"}, "1.0")


def test_locked_packages_have_their_hashes(tmp_path: Path) -> None:
    out = locking.lock(project(tmp_path, "stepwell", uv_lock=uv_lock("stepwell")), tmp_path, HERE)
    assert out.read_text().count(f"--hash={HASH}") == len(ENGINE)


def test_a_lock_file_without_stepwell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundlingError, match=r"uv.lock has no stepwell among") as refusal:
        locked(project(tmp_path, "iniconfig", uv_lock=uv_lock("iniconfig")), tmp_path)
    assert (refusal.value.code, refusal.value.hint) == ("stepwell_not_locked", "uv add stepwell; uv lock")


def test_a_lock_file_with_another_stepwell_is_refused(tmp_path: Path) -> None:
    """Its functions would not fit the stack that this one makes."""
    with pytest.raises(BundlingError, match=r"uv.lock has stepwell 9.9") as refusal:
        locked(project(tmp_path, "stepwell", uv_lock=uv_lock("stepwell", stepwell="9.9")), tmp_path)
    assert refusal.value.code == "other_stepwell"


def test_a_lock_file_of_another_project_above_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(uv_lock("stepwell").replace('name = "shop"', 'name = "other"'))
    below = tmp_path / "shop"
    below.mkdir()
    assert locked(project(below, "stepwell", "iniconfig"), below)["iniconfig"] == version("iniconfig")


def poetry_lock() -> str:
    """A lock file as Poetry writes it: a package with an extra, one for Windows alone, and one of a group."""

    def entry(name: str, more: str = "", number: str = "1.0") -> str:
        file = json.dumps({"file": f"{name}-{number}.whl", "hash": HASH}).replace(": ", " = ").replace('"file"', "file")
        return (
            f'[[package]]\nname = "{name}"\nversion = "{number}"\noptional = false\n'
            f"files = [\n    {file.replace(chr(34) + 'hash' + chr(34), 'hash')},\n]\n{more}"
        )

    engine = "".join(f'{name} = "*"\n' for name in sorted({*ENGINE, *COMMAND_ONLY}))
    return "\n".join(
        [
            *(entry(name) for name in sorted({*ENGINE, *COMMAND_ONLY})),
            entry("stepwell", f"\n[package.dependencies]\n{engine}", version("stepwell")),
            entry(
                "Charge_It",
                '\n[package.dependencies]\ncolour = {version = "*", markers = "sys_platform == \'win32\'"}\n'
                'fast = {version = "*", optional = true}\n\n'
                '[package.extras]\nspeed = ["fast (>=1)"]\nother = ["rare"]\n',
            ),
            *(entry(name) for name in ("colour", "fast", "rare", "pytest")),
        ]
    )


def test_poetrys_lock_file_decides_with_its_extras_markers_and_hashes(tmp_path: Path) -> None:
    made = project(tmp_path, "stepwell", "charge-it[speed]", poetry_lock=poetry_lock())
    lines = locking.lock(made, tmp_path, HERE).read_text().splitlines()
    names = {name_of(line): line for line in lines}
    assert names.keys() == {*ENGINE, "charge-it", "colour", "fast"}
    assert names["colour"] == f"colour==1.0 ; (sys_platform == 'win32') --hash={HASH}"
    assert names["fast"] == f"fast==1.0 --hash={HASH}"


def test_poetrys_own_table_of_dependencies_is_read_too(tmp_path: Path) -> None:
    text = '[tool.stepwell]\n[tool.poetry.dependencies]\npython = "^3.11"\nstepwell = "*"\npytest = {version = "*"}\n'
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "poetry.lock").write_text(poetry_lock())
    found = find_project(tmp_path)
    assert found is not None
    assert locked(found, tmp_path).keys() == {*ENGINE, "pytest"}


def test_a_package_of_a_repository_in_poetrys_lock_file_is_refused(tmp_path: Path) -> None:
    text = poetry_lock().replace("[package.extras]", '[package.source]\ntype = "git"\nurl = "x"\n\n[package.extras]')
    with pytest.raises(BundlingError, match="Charge_It comes from git"):
        locked(project(tmp_path, "stepwell", "charge-it", poetry_lock=text), tmp_path)


def of_platform(number: str, marker: str) -> str:
    """An entry of numpy as Poetry 2 writes it, for one of several Pythons."""
    told = f'groups = ["main"]\nmarkers = "{marker}"\n' if marker else ""
    return f'[[package]]\nname = "numpy"\nversion = "{number}"\noptional = false\n{told}files = []\n'


def test_poetry_may_lock_a_version_for_each_of_several_pythons(tmp_path: Path) -> None:
    """pyproject.toml names numpy twice then, each time with a marker."""
    old, new = of_platform("2.2", "python_version < '3.12'"), of_platform("2.3", "python_version >= '3.12'")
    made = project(tmp_path, "stepwell", "numpy<2.3; python_version < '3.12'", "numpy; python_version >= '3.12'",
                   poetry_lock="\n".join((poetry_lock(), old, new)))  # fmt: skip
    lines = locking.lock(made, tmp_path, HERE).read_text().splitlines()
    found = [line for line in lines if line.startswith("numpy")]
    assert found == ["numpy==2.2 ; python_version < '3.12'", "numpy==2.3 ; python_version >= '3.12'"]


def test_a_lock_file_of_poetry_1_with_two_versions_of_a_package_is_refused(tmp_path: Path) -> None:
    text = "\n".join((poetry_lock(), of_platform("2.2", ""), of_platform("2.3", "")))
    with pytest.raises(BundlingError, match=r"poetry.lock has several versions of numpy") as refusal:
        locked(project(tmp_path, "stepwell", "numpy", poetry_lock=text), tmp_path)
    assert (refusal.value.code, refusal.value.hint) == ("bad_lock", "lock again with Poetry 2 or later: poetry lock")


def test_the_index_of_a_locked_package_is_named(tmp_path: Path) -> None:
    """A private package is on another index than PyPI, in uv's lock file and in Poetry's."""
    own = "https://packages.example.org/simple"
    text = uv_lock("stepwell", "iniconfig").replace("https://pypi.org/simple", own, 1)
    out = locking.lock(project(tmp_path, "stepwell", "iniconfig", uv_lock=text), tmp_path, HERE)
    assert out.read_text().splitlines()[0] == f"--extra-index-url {own}"
    (tmp_path / "uv.lock").unlink()
    source = f'[package.source]\ntype = "legacy"\nurl = "{own}"\n\n[package.extras]'
    text = poetry_lock().replace("[package.extras]", source)
    out = locking.lock(project(tmp_path, "stepwell", "charge-it", poetry_lock=text), tmp_path, HERE)
    assert out.read_text().splitlines()[0] == f"--extra-index-url {own}"


PINNED = """\
--index-url https://pypi.org/simple
iniconfig==2.1.0 \\
    --hash={hash}
    # via -r requirements.in
pygments==2.19.2 \\
    --hash={hash}
    # via rich
rich==14.1.0 \\
    --hash={hash}
    # via
    #   stepwell
    #   typer
stepwell==9.9 \\
    --hash={hash}
    # via -r requirements.in
typer==0.17.4 \\
    --hash={hash}
    # via {typer}
"""


def test_a_requirements_file_may_read_another(tmp_path: Path) -> None:
    """Stepwell is left out of that one too: its code is the command's, whatever an index has."""
    made = project(
        tmp_path, base_txt=f"stepwell==9.9\niniconfig=={version('iniconfig')}\n", requirements_txt="-r base.txt"
    )
    assert locked(made, tmp_path).keys() >= {*ENGINE, "iniconfig"}


def test_requirements_files_that_read_each_other_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("one\n-r more.txt\n")
    (tmp_path / "more.txt").write_text("-r requirements.txt\ntwo\n-r more.txt\n-r nowhere.txt\n")
    assert wanted_lines([tmp_path / "requirements.txt"]) == ["one", "two", "-r nowhere.txt"]


def test_a_requirements_file_may_begin_with_the_mark_of_windows(tmp_path: Path) -> None:
    text = f"\ufeffiniconfig=={version('iniconfig')}\nstepwell\n"
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    assert wanted_lines([tmp_path / "requirements.txt"]) == [f"iniconfig=={version('iniconfig')}"]
    assert Project(tmp_path, tmp_path).not_installed() == ()


def test_a_requirements_file_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    """As PowerShell's `>` writes it."""
    (tmp_path / "requirements.txt").write_text("iniconfig\n", encoding="utf-16")
    for read in (Project(tmp_path, tmp_path).dependencies, lambda: wanted_lines([tmp_path / "requirements.txt"])):
        with pytest.raises(UserError, match=r"requirements\.txt is not UTF-8") as refused:
            read()
        assert (refused.value.code, "Encoding utf8" in (refused.value.hint or "")) == ("bad_project", True)


def test_pinned_requirements_keep_their_hashes(tmp_path: Path) -> None:
    """uv would write those that the index has today."""
    out = locking.lock(project(tmp_path, requirements_txt=PINNED.format(hash=HASH, typer="stepwell")), tmp_path, HERE)
    assert f"iniconfig==2.1.0 --hash={HASH}" in out.read_text().splitlines()


def test_what_only_the_command_needs_is_left_out_of_pinned_requirements(tmp_path: Path) -> None:
    text = PINNED.format(hash=HASH, typer="stepwell")
    found = locked(project(tmp_path, requirements_txt=text), tmp_path)
    assert found.keys() >= {*ENGINE, "iniconfig"}
    assert not found.keys() & {"rich", "typer", "pygments", "stepwell"}


def test_what_the_project_asks_for_itself_stays_in_pinned_requirements(tmp_path: Path) -> None:
    text = PINNED.format(hash=HASH, typer="-r requirements.in")
    assert {"typer", "rich", "pygments"} <= locked(project(tmp_path, requirements_txt=text), tmp_path).keys()


def test_without_a_lock_file_what_is_installed_here_is_packed(tmp_path: Path) -> None:
    found = locked(project(tmp_path, "stepwell", "iniconfig"), tmp_path)
    assert ENGINE | {"iniconfig"} <= found.keys()
    assert not {*COMMAND_ONLY, "stepwell"} & found.keys()
    assert found == {name: version(name) for name in found}


def test_requirements_decide_against_what_is_installed_here(tmp_path: Path) -> None:
    """A project may pin an older pydantic than the one that is installed beside the command."""
    text = "stepwell==9.9 ; python_version > '3'\npydantic==2.12.*\n"
    found = locked(project(tmp_path, requirements_txt=text), tmp_path)
    assert found["pydantic"].startswith("2.12.")
    assert found["pydantic"] != version("pydantic")


def test_a_folder_alone_has_its_own_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"iniconfig=={version('iniconfig')}\n")
    assert "iniconfig" in locked(Project(tmp_path, tmp_path), tmp_path)


@pytest.mark.slow
def test_a_package_without_a_wheel_for_lambda_is_named(tmp_path: Path) -> None:
    """This one has wheels for Windows alone."""
    with pytest.raises(BundlingError, match=r"pywin32 308 has no wheel for Lambda \(arm64, Python 3.13\)") as refusal:
        locking.lock(project(tmp_path, "stepwell", "pywin32==308"), tmp_path, LAMBDA)
    assert refusal.value.code == "no_wheel"


def test_a_requirement_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundlingError, match=r"requirements.txt: (?s:.*)not-here"):
        locking.lock(project(tmp_path, requirements_txt="./not-here\n"), tmp_path, HERE)


def test_traces_need_one_package_more(tmp_path: Path) -> None:
    assert "aws-xray-sdk" not in locked(project(tmp_path, "stepwell"), tmp_path)
    assert "aws-xray-sdk" in locked(project(tmp_path, "stepwell"), tmp_path, asked=["tracing"])
    spans = locked(project(tmp_path, "stepwell"), tmp_path, asked=["otel"])
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= {*spans}


def test_a_lock_file_without_what_an_extra_brings_is_refused(tmp_path: Path) -> None:
    """It was packed without, and each run of a state machine with JSONata failed on Lambda."""
    assert "jsonatapy" in locked(project(tmp_path, "stepwell[asl]"), tmp_path, asked=["asl"])
    for name, text, add in (("uv.lock", uv_lock("stepwell"), "uv"), ("poetry.lock", poetry_lock(), "poetry")):
        (tmp_path / name).write_text(text)
        with pytest.raises(BundlingError, match=f"{name} has no jsonatapy, which the functions import") as refused:
            locking.lock(project(tmp_path, "stepwell"), tmp_path, HERE, asked=["asl"])
        assert refused.value.code == "stepwell_not_locked"
        assert (refused.value.hint or "").startswith(f'{add} add "stepwell[asl]"')
        (tmp_path / name).unlink()


def test_what_uv_locked_for_an_extra_is_packed(tmp_path: Path) -> None:
    head, typer, tail = uv_lock("stepwell").partition('[[package]]\nname = "typer"')
    needs = head.replace('{ name = "stepwell" }', '{ name = "stepwell", extra = ["asl"] }', 1)
    wheel = f'{{ url = "https://files.example.org/jsonatapy-2.3-py3-none-any.whl", hash = "{HASH}", size = 1 }}'
    brought = f'source = {{ registry = "https://pypi.org/simple" }}\nwheels = [\n    {wheel},\n]\n'
    extra = '[package.optional-dependencies]\nasl = [\n    { name = "jsonatapy" },\n]\n'
    entry = f'[[package]]\nname = "jsonatapy"\nversion = "2.3"\n{brought}'
    made = project(tmp_path, "stepwell[asl]", uv_lock="\n".join((needs, extra, entry, typer + tail)))
    assert locked(made, tmp_path, asked=["asl"])["jsonatapy"] == "2.3"
