"""`prices.yaml`: the table that replaces the built-in prices, and what is reported of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import DefinitionError
from stepwell.prices import Prices
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.folder.pack import pack_folder
from stepwell.runtime.folder.pricing import check_prices
from stepwell.runtime.folder.unpack import unpack_prices

TABLE = 'as_of: "2027-01-31"\nmillion_write_units: 0.7\n'
FLOW = "workflow: flow\ntimeline:\n  - {name: charge, run: python:m.charge}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path


def test_a_folder_without_a_table_has_the_built_in_prices(folder: Path) -> None:
    assert load_folder(folder).prices == Prices()
    assert unpack_prices(pack_folder(folder)) == Prices()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.yaml", TABLE),
        ("prices.yml", TABLE.replace('"', "")),
        ("prices.json", '{"as_of": "2027-01-31", "million_write_units": 0.7}'),
    ],
)
def test_a_folder_has_the_prices_of_its_file_and_packs_them(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    loaded = load_folder(folder)
    assert (loaded.errors, loaded.count) == ((), 1)  # it is no definition
    assert (loaded.prices.as_of, loaded.prices.million_write_units) == ("2027-01-31", 0.7)
    assert loaded.prices.million_read_units == Prices().million_read_units
    assert loaded.prices.source == "your table of prices"  # not AWS's pages
    assert unpack_prices(pack_folder(folder)) == loaded.prices


def test_what_an_earlier_version_packed_has_the_built_in_prices() -> None:
    assert unpack_prices({}) == Prices()


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[", 1, "not readable as YAML"),
        ("7", 1, "must be a mapping"),
        ("million_objects: 5", 1, "of when it is"),
        (TABLE + "million_gold: 5", 3, "there is no price `million_gold`"),
        (TABLE + "gb_second: cheap", 3, "`gb_second` must be a price"),
        (TABLE + "gb_second: -1", 3, "`gb_second` must be a price"),
        (TABLE + "gb_second: true", 3, "`gb_second` must be a price"),
        ("as_of: 2027", 1, "`as_of` must be text"),
        (TABLE + "source:", 3, "`source` must be text"),
    ],
)
def test_a_table_that_cannot_be_is_reported_at_its_line(folder: Path, text: str, line: int, told: str) -> None:
    (problem,) = check_prices(text, "prices.yaml").problems
    assert (problem.code, problem.line) == ("bad_prices", line)
    assert told in problem.message
    (folder / "prices.yaml").write_text(text)
    (found,) = load_folder(folder).errors
    assert (found.code, found.file) == ("bad_prices", str(folder / "prices.yaml"))
    assert load_folder(folder).prices == Prices()
    with pytest.raises(DefinitionError):
        pack_folder(folder)


def test_two_tables_are_one_too_many(folder: Path) -> None:
    (folder / "prices.yaml").write_text(TABLE)
    (folder / "prices.json").write_text('{"as_of": "2027-01-31"}')
    assert [problem.code for problem in load_folder(folder).errors] == ["duplicate_file"]
