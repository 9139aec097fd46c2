"""ItemReader: a Map that reads its items from S3.

    A.reader   reads the file or the list, and makes the items of it: they are in the scope until the Map is over
    A.fork     forks over them

The reading is a step. What it fails with is `States.ItemReaderFailed`, and the Map's own Retry and Catch take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stepwell.definition.asl import datasets, services
from stepwell.definition.asl.datasets import FAILED, failed
from stepwell.definition.asl.dialects import Answers, Dialect, Paths, field_errors
from stepwell.definition.asl.fields import ANSWERS
from stepwell.definition.asl.frames import MADE, Frame
from stepwell.definition.asl.jsonata import is_jsonata
from stepwell.definition.asl.outside import Outside
from stepwell.definition.asl.parts import Computed
from stepwell.definition.asl.tasks import Unsupported, mapped_to
from stepwell.definition.asl.values import Number, number_value
from stepwell.definition.graph import READ, Json, Step
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import ExpressionError, Problem
from stepwell.values import dataclass

State = Mapping[str, Json]
MOST_ITEMS = 100_000_000  # that MaxItems may say; a larger number means this one
_TYPES = ("CSV", "JSON", "JSONL")
_OUTSIDE = Outside(
    "ItemReader",
    "ReaderConfig",
    needs="write arn:aws:states:::s3:getObject",
    choices={
        "InputType": _TYPES,
        "CSVHeaderLocation": (datasets.FIRST_ROW, datasets.GIVEN),
        "CSVDelimiter": tuple(datasets.DELIMITERS),
        "Transformation": ("NONE",),
    },
    unsupported={
        "InputType": ("MANIFEST", "PARQUET"),
        "ManifestType": ("ATHENA_DATA", "S3_INVENTORY"),
        "Transformation": ("LOAD_AND_FLATTEN",),
    },
    instead="read the items in a Task before it, and go through its result",
)
_CONFIG = (*_OUTSIDE.choices, "CSVHeaders", "ItemsPointer", "MaxItems")


@dataclass(frozen=True, slots=True)
class Reader:
    """A Map's ItemReader, compiled."""

    step: Step
    shaping: Read


def reader_of(name: str, state: State, language: str, mapped: Mapping[str, str]) -> Reader | Unsupported:
    """Compiles an ItemReader without mistakes. `mapped`: what runs in place of resources."""
    reader: State = state["ItemReader"]
    resource, config = reader["Resource"], reader.get("ReaderConfig", {})
    field = "Arguments" if language == ANSWERS else "Parameters"
    call, own = services.call_name(resource), mapped_to(resource, mapped)
    if own is None and call not in services.READS:
        message = f"an ItemReader cannot read by the resource {resource[:120]!r} in this version"
        return Unsupported(message, closest(resource, [f"arn:aws:states:::{one}" for one in services.READS]))
    if own is not None and own.startswith("workflow:"):
        return Unsupported("an ItemReader cannot read by a workflow", "name a Python function in resources.yaml")
    fields = {**({"InputPath": state["InputPath"]} if "InputPath" in state else {}), field: reader.get(field, {})}
    dialect: Dialect = Answers(fields) if language == ANSWERS else Paths(fields)
    uses = services.uses(call, reader.get(field)) if own is None else ()
    step = Step(own or resource, Computed(name, "ItemReader", dialect.given), uses=uses, fails_as=FAILED)
    most = number_value(name, {**fields, **config}, "MaxItems", language, float("inf"), FAILED)
    parse = datasets.listed if call == services.LIST else lambda brought: datasets.items_of(brought, config)
    written: float = config.get("MaxItems", 0) if most is None else 0
    return Reader(step, Read(name, parse, dialect.given, most or (lambda frame: written)))


class Read:
    """Makes the items of what was read, beside the state's input."""

    def __init__(
        self,
        state: str,
        parse: Callable[[Json], Sequence[Json]],
        given: Callable[[Frame], Json],
        most: Number,
    ) -> None:
        """`given`: from where it was read. `most`: how many items, in the order of the file; 0: all."""
        self._state, self._parse, self._given, self._most = state, parse, given, most

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        frame = Frame(names, self._state)
        most = min(int(self._most(frame)), MOST_ITEMS)
        items = self._parse(brought)
        is_cut = isinstance(brought, dict) and brought.get("IsTruncated") is True
        if is_cut and not 0 < most <= len(items):
            raise failed(f"there are more than {len(items)} objects: a longer prefix, or MaxItems, makes them fewer")
        return frame.input, {**MADE, READ: {"items": items[:most] if most else items, "source": self._source(frame)}}

    def _source(self, frame: Frame) -> str:
        """Returns the URI of the file or the bucket, for `$$.Map.Item.Source`."""
        given = self._given(frame)
        bucket, key = (given.get(name) if isinstance(given, dict) else None for name in ("Bucket", "Key"))
        return f"s3://{bucket}/{key}" if isinstance(key, str) else f"s3://{bucket}"


# -- mistakes


def reader_problems(state: State, path: str, language: str) -> Iterator[Problem]:
    """Yields what is wrong with an `ItemReader`, and where it stands."""
    yield from _OUTSIDE.problems(state, path, language)
    reader = state["ItemReader"]
    if not isinstance(reader, dict):
        return
    for name in state.keys() & {"Items", "ItemsPath"}:
        yield Problem("bad_state", f"`{name}` and `ItemReader` cannot both be there", f"{path}/{name}", "remove one")
    if isinstance(reader.get("ReaderConfig", {}), dict):
        yield from _config_problems(state, f"{path}/ItemReader/ReaderConfig", language)


def _config_problems(state: State, place: str, language: str) -> Iterator[Problem]:
    reader, config = state["ItemReader"], _OUTSIDE.config_of(state)
    known = _CONFIG if language == ANSWERS else (*_CONFIG, "MaxItemsPath")
    for name, value in config.items():
        if (problem := _OUTSIDE.config_problem(name, value, place, known)) is not None:
            yield problem
        elif wanted := _wanted(name, value, language):
            yield Problem("wrong_type", f"`{name}` must be {wanted}", f"{place}/{pointer_part(name)}")
    if config.keys() >= {"MaxItems", "MaxItemsPath"}:
        yield Problem("bad_state", "`MaxItems` and `MaxItemsPath` cannot both be there", f"{place}/MaxItemsPath")
    if isinstance(resource := reader.get("Resource"), str):
        yield from _type_problems(config, services.call_name(resource), place)


def _type_problems(config: State, call: str, place: str) -> Iterator[Problem]:
    """Yields what the type of the file asks for."""
    if call != services.LIST and "InputType" not in config:
        yield Problem("missing_key", "`ReaderConfig` needs `InputType`", place, f"one of {', '.join(_TYPES)}")
    if config.get("InputType") == "CSV" and "CSVHeaderLocation" not in config:
        hint = "write FIRST_ROW, or GIVEN and CSVHeaders"
        yield Problem("missing_key", "a CSV file needs `CSVHeaderLocation`", place, hint)
    if config.get("CSVHeaderLocation") == datasets.GIVEN and "CSVHeaders" not in config:
        yield Problem("missing_key", "`CSVHeaderLocation: GIVEN` needs `CSVHeaders`", place, "write their names")


def _wanted(name: str, value: Json, language: str) -> str | None:
    """Returns what a field of ReaderConfig must be, if it is something else."""
    match name:
        case "CSVHeaders":
            is_right = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
            return None if is_right and len({*value}) == len(value) else "a list of names, each of them once"
        case "ItemsPointer":
            is_right = isinstance(value, str) and (value == "" or value.startswith("/"))
            return None if is_right else "a JSON pointer, such as /data/items"
        case "MaxItemsPath":
            return None if isinstance(value, str) else "text"
        case "MaxItems":
            is_computed = language == ANSWERS and isinstance(value, str) and is_jsonata(value)
            return None if is_computed or (type(value) is int and value >= 0) else "a whole number of 0 or more"
    return None


def reader_errors(state: State, path: str, language: str) -> Iterator[tuple[str, ExpressionError]]:
    """Yields what is wrong in the expressions of an `ItemReader`, each with its JSON pointer."""
    reader, is_jsonata_state = state["ItemReader"], language == ANSWERS
    given = {name: reader[name] for name in ("Parameters", "Arguments") if name in reader}
    yield from field_errors(given, f"{path}/ItemReader", is_jsonata=is_jsonata_state)
    config = {name: value for name, value in reader.get("ReaderConfig", {}).items() if name.startswith("MaxItems")}
    yield from field_errors(config, f"{path}/ItemReader/ReaderConfig", is_jsonata=is_jsonata_state)
