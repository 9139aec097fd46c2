"""Price tables: the `prices.yaml` of a workflow folder, and the files of `--prices` and STEPWELL_PRICES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.side_files import SideFile, check_side_file
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import UserError
from stepwell.prices import Prices
from stepwell.runtime.folder.reading import only_side_file, read_text

FILES = ("prices.yaml", "prices.yml", "prices.json")
_TEXTS = ("as_of", "source")
_NAMES = tuple(one.name for one in fields(Prices))
_EXAMPLE = 'as_of: "2027-01-31", and any of ' + ", ".join(name for name in _NAMES if name != "as_of")


def check_prices(text: str, file: str = "") -> SideFile:
    """Checks a price table, YAML or JSON; never raises. Prices that it does not name are the built-in ones."""
    found = check_side_file(text, file, _prices)
    return replace(found, problems=tuple(replace(problem, code="bad_prices") for problem in found.problems))


def _prices(context: Context, data: Json) -> Mapping[str, Json]:
    if not isinstance(data, dict):
        context.add("bad_prices", "the file must be a mapping of names and prices", "", _EXAMPLE)
        return {}
    if "as_of" not in data:
        context.add("bad_prices", "the table of prices does not say of when it is", "", _EXAMPLE)
    for name, value in data.items():
        _check(context, str(name), value)
    return data


def _check(context: Context, name: str, value: Json) -> None:
    path = f"/{pointer_part(name)}"
    if name not in _NAMES:
        context.add("bad_prices", f"there is no price `{name}`", path, closest(name, _NAMES) or _EXAMPLE)
    elif name in _TEXTS:
        if not isinstance(value, str) or not value:
            context.add("bad_prices", f"`{name}` must be text", path, 'quote it: as_of: "2027-01-31"')
    elif not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        context.add(
            "bad_prices", f"`{name}` must be a price in USD, of 0 or more", path, f"ours: {getattr(Prices(), name)}"
        )


def prices_of(document: Mapping[str, Json]) -> Prices:
    """Returns the prices of a table that was checked."""
    return replace(Prices(), **{**({"source": "your table of prices"} if document else {}), **document})


def load_prices(folder: Path) -> SideFile:
    """Reads and checks the folder's price table."""
    return only_side_file(folder, FILES, check_prices)


def read_prices(file: Path) -> Prices:
    """Reads the price table in this file. Raises UserError `bad_prices`."""
    text, problems = read_text(file)
    return _usable(SideFile({}, problems) if text is None else check_prices(text, str(file)))


def prices_for(named: Path | None, folder: Path) -> Prices:
    """Returns the prices of the named file, or else those of the folder. Raises UserError `bad_prices`."""
    return _usable(load_prices(folder)) if named is None else read_prices(named)


def _usable(table: SideFile) -> Prices:
    if table.problems:
        first = table.problems[0]
        place = f"{first.file}:{first.line}" if first.line else first.file
        message = f"the table of prices {place} cannot be used: {first.message}"
        raise UserError(message, code="bad_prices", hint=first.hint)
    return prices_of(table.document)
