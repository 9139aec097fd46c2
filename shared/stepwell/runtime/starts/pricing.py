"""Tables of prices: the `prices.yaml` of a workflow folder, and what `--prices` and STEPWELL_PRICES name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from stepwell.definition.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem, UserError
from stepwell.prices import Prices
from stepwell.runtime.starts.reading import only_file, read_text

FILES = ("prices.yaml", "prices.yml", "prices.json")
_TEXTS = ("as_of", "source")
_NAMES = tuple(one.name for one in fields(Prices))
_EXAMPLE = 'as_of: "2027-01-31", and any of ' + ", ".join(name for name in _NAMES if name != "as_of")


@dataclass(frozen=True, slots=True)
class PriceTable:
    """A file's problems and, without errors, what it says. An empty one says nothing: the built-in prices hold."""

    document: Mapping[str, Json]
    problems: tuple[Problem, ...] = ()


def check_prices(text: str, file: str = "") -> PriceTable:
    """Checks a table of prices, YAML or JSON; never raises. What it does not name has the built-in price."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    loaded = load_document(text, file)
    if loaded.problems:
        return PriceTable({}, tuple(replace(problem, code="bad_prices") for problem in loaded.problems))
    context, given = Context(), loaded.data
    if not isinstance(given, dict):
        context.add("bad_prices", "the file must be a mapping of names and prices", "", _EXAMPLE)
        given = {}
    elif "as_of" not in given:
        context.add("bad_prices", "the table of prices does not say of when it is", "", _EXAMPLE)
    for name, value in given.items():
        _check(context, str(name), value)
    problems = tuple(loaded.placed(problem, file) for problem in context.problems)
    return PriceTable({} if context.failed else given, problems)


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


def load_prices(folder: Path) -> PriceTable:
    """The folder's table of prices."""
    file, problems = only_file(folder, FILES)
    return PriceTable({}, problems) if file is None else _table(file)


def read_prices(file: Path) -> Prices:
    """Reads the table that somebody named. Raises UserError `bad_prices`."""
    table = _table(file)
    if table.problems:
        first = table.problems[0]
        place = f"{file}:{first.line}" if first.line else str(file)
        raise UserError(
            f"the table of prices {place} cannot be used: {first.message}", code="bad_prices", hint=first.hint
        )
    return prices_of(table.document)


def prices_for(named: Path | None, folder: Path) -> Prices:
    """The prices of the named file, or else those of the folder. Raises UserError."""
    if named is not None:
        return read_prices(named)
    file, problems = only_file(folder, FILES)
    if problems:
        raise UserError(problems[0].message, code=problems[0].code, hint=problems[0].hint)
    return Prices() if file is None else read_prices(file)


def _table(file: Path) -> PriceTable:
    text, problems = read_text(file)
    return PriceTable({}, problems) if text is None else check_prices(text, str(file))
