"""A workflow folder: reads and checks its definitions and webhook sources. All their file I/O is here.

The folder is scanned to the bottom. At its top every YAML and JSON file is a definition; in a sub-folder, those that
look like one, because sample events and settings may lie beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from pathlib import Path

from stepwell.definition.called import Called, unknown_workflows
from stepwell.definition.clauses.events import Setting, differing_settings
from stepwell.definition.clauses.throttles import FILES as LIMIT_FILES
from stepwell.definition.clauses.throttles import check_limits, limits_of, unknown_limits
from stepwell.definition.compiler import COMPILERS, Compiled, compile_definition, compile_found
from stepwell.definition.durable import FoundFunction, functions_in
from stepwell.definition.graph import Graph, Json, Limit
from stepwell.definition.resources import FILES as RESOURCE_FILES
from stepwell.definition.resources import check_resources
from stepwell.definition.side_files import SideFile
from stepwell.definition.states_language import is_machine, is_named_as_machine
from stepwell.definition.webhooks import FILES, Webhooks, check_webhooks
from stepwell.errors import DefinitionError, NotFound, Problem
from stepwell.prices import Prices
from stepwell.runtime.folder.pricing import FILES as PRICE_FILES
from stepwell.runtime.folder.pricing import load_prices, prices_of
from stepwell.runtime.folder.reading import only_file, only_side_file, read_text
from stepwell.runtime.folder.sources import without_timed
from stepwell.runtime.folder.unheard import unheard_failures
from stepwell.runtime.notify.telling import TOLD
from stepwell.runtime.starts.scheduled import schedule_problems
from stepwell.scan import module_name, modules, walk
from stepwell.values import dataclass

_ENDINGS = frozenset({".yaml", ".yml", ".json"})
_TOOLS = ("package.json", "package-lock.json", "cdk.json", "tsconfig.json")
_OTHERS = frozenset({*FILES, *LIMIT_FILES, *PRICE_FILES, *RESOURCE_FILES, *_TOOLS})


@dataclass(frozen=True, slots=True)
class Folder:
    """The contents of a folder: the graphs without errors, and all problems of its files.

    `webhooks`: the checked document of `definition.webhooks`; None if there is no such file, or it has errors. `count`:
    of the workflows, including those with errors. `limits`: the named ones of `limits.yaml`. `prices`: from its
    `prices.yaml`, or the built-in ones.
    """

    graphs: tuple[Graph, ...]
    problems: tuple[Problem, ...]
    webhooks: Mapping[str, Json] | None = None
    count: int = 0
    limits: Mapping[str, Limit] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def flawed(self) -> Mapping[str, Problem]:
        """Returns the first error of each workflow that has errors, by its name; "": of a file that tells no name."""
        return {one.workflow: one for one in reversed(self.errors) if one.workflow or _may_define(Path(one.file))}


def load_folder(path: Path) -> Folder:
    """Compiles the definitions of the folder. Raises NotFound if there is no such folder."""
    if not path.is_dir():
        raise NotFound(f"there is no folder {path}", code="unknown_folder",
                       hint="name the folder with your definitions, or make one: stepwell init DIR")  # fmt: skip
    graphs: dict[str, Graph] = {}
    files: dict[str, Path] = {}
    called: dict[str, tuple[Called, ...]] = {}
    settings: dict[str, tuple[Setting, ...]] = {}
    problems: list[Problem] = []
    resources = load_resources(path)
    written = [(file, loaded) for file in definition_files(path) if (loaded := _load(file, path, resources.document))]
    functions = list(_functions(path))
    for file, loaded in (*written, *functions):
        problems.extend(loaded.problems)
        if (graph := loaded.graph) is None:
            continue
        if graph.name in graphs and graph.replays and graph.code == graphs[graph.name].code:
            continue  # a file defines the function that is marked in a module, say to add triggers
        if graph.name in graphs:
            problems.append(_twice(graph.name, file, files[graph.name]))
            continue
        graphs[graph.name], files[graph.name] = graph, file
        called[graph.name], settings[graph.name] = loaded.called, loaded.settings
    broken = any(problem.severity == "error" for problem in problems)
    # An unknown name may be that of a broken definition.
    unknown = {} if broken else {name: unknown_workflows(called[name], graphs) for name in graphs}
    wrong = {name: (*unknown.get(name, ()), *found) for name, found in differing_settings(settings).items()}
    webhooks = load_webhooks(path, None if broken else graphs.keys())
    unheard = unheard_failures(webhooks.document, graphs, str(only_file(path, FILES)[0]))
    limits, prices = load_limits(path), load_prices(path)
    unlimited = [] if limits.problems else _unlimited(graphs, files, limits)
    scheduled = [one for name, graph in graphs.items() for one in schedule_problems(graph, str(files[name]))]
    keyless = {one.workflow for one in scheduled if one.severity == "error"}
    return Folder(
        tuple(graph for name, graph in graphs.items() if not wrong[name] and name not in keyless),
        _placed(
            (
                *without_timed(problems, graphs.values(), path),
                *chain.from_iterable(wrong.values()),
                *webhooks.problems,
                *unheard,
                *limits.problems,
                *resources.problems,
                *unlimited,
                *scheduled,
                *prices.problems,
            )
        ),
        webhooks.document,
        len(written) + len(set(chain.from_iterable(_names(loaded) for _, loaded in functions))),
        limits_of(limits.document),
        prices_of(prices.document),
    )


def _names(loaded: Compiled) -> Iterator[str]:
    """Yields the names of the durable functions, those with errors too."""
    if loaded.graph is not None:
        yield loaded.graph.name
    yield from (one.workflow for one in loaded.problems if one.workflow)


def _unlimited(graphs: Mapping[str, Graph], files: Mapping[str, Path], limits: SideFile) -> list[Problem]:
    """Returns problems of steps that are throttled by a limit that does not exist."""
    return [one for name, graph in graphs.items() for one in unknown_limits(graph, limits.document, str(files[name]))]


def _placed(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Returns the problems with their lines. Some were found in graphs, and have only a pointer."""
    if all(one.line or not one.path for one in problems):
        return problems
    from stepwell.runtime.folder.placing import with_lines  # noqa: PLC0415 - YAML takes 50 ms

    return with_lines(problems)


def load_limits(path: Path) -> SideFile:
    """Reads and checks the folder's named limits."""
    return only_side_file(path, LIMIT_FILES, check_limits)


def load_resources(path: Path) -> SideFile:
    """Reads and checks what the folder has for the resources of state machines."""
    return only_side_file(path, RESOURCE_FILES, check_resources)


def load_workflow(path: Path, name: str) -> tuple[Graph, tuple[Graph, ...], Mapping[str, Limit]]:
    """Returns a workflow of the folder, the others, and its named limits.

    Raises NotFound; DefinitionError if the folder has errors.
    """
    loaded = load_folder(path)
    if loaded.errors:
        raise DefinitionError("\n".join(str(problem) for problem in loaded.errors), problems=loaded.errors)
    graphs = {graph.name: graph for graph in loaded.graphs}
    if name not in graphs:
        raise NotFound(f"{path} has no workflow {name!r}", code="unknown_workflow",
                       hint=f"it has {', '.join(sorted(graphs)) or 'none'}")  # fmt: skip
    return graphs.pop(name), tuple(graphs.values()), loaded.limits


def check_module(file: Path) -> tuple[int, tuple[Problem, ...]]:
    """Returns how many durable functions a module has, and their problems."""
    text, problems = read_text(file)
    found, wrong = ([], list(problems)) if text is None else functions_in(text, str(file))
    made = [compile_found(one, str(file)) for one in found]
    return len(found), (*wrong, *chain.from_iterable(one.problems for one in made))


def _functions(path: Path) -> Iterator[tuple[Path, Compiled]]:
    """Yields the durable functions of the folder's modules; of each workflow only the highest version."""
    newest: dict[str, tuple[Path, FoundFunction]] = {}
    for file in modules(path):
        text, problems = read_text(file)
        module = module_name(path, file)
        found, wrong = ([], list(problems)) if text is None else functions_in(text, str(file), module)
        yield file, Compiled(None, tuple(wrong))
        for one in found:
            name = str(one.document["workflow"])
            other = newest.get(name)
            if other is not None and other[1].version == one.version:
                yield file, Compiled(None, (replace(_twice(name, file, other[0]), line=one.line),))
            elif other is None or _is_newer(one, other[1]):
                newest[name] = file, one
    for file, one in newest.values():
        yield file, compile_found(one, str(file))


def _is_newer(one: FoundFunction, other: FoundFunction) -> bool:
    """Tells whether its version takes the other's place. One that is no number does: compiling it says so."""
    wrong = [version for version in (other.version, one.version) if not isinstance(version, int)]
    return one.version in wrong if wrong else other.version < one.version


def load_webhooks(path: Path, workflows: Collection[str] | None = None) -> Webhooks:
    """Reads and checks the webhook sources and endpoints. `workflows`: the known names; None: any."""
    file, problems = only_file(path, FILES)
    if file is None:
        return Webhooks(None, problems)
    text, problems = read_text(file)
    return Webhooks(None, problems) if text is None else check_webhooks(text, str(file), workflows, TOLD)


def definition_files(path: Path) -> tuple[Path, ...]:
    """Returns the files that may be definitions, by name."""
    return tuple(file for file in walk(path) if is_definition(file))


def is_definition(file: Path) -> bool:
    """Tells by its name whether a file may be one: YAML or JSON, not hidden, and not of another tool."""
    return file.suffix in _ENDINGS and not file.name.startswith(".") and file.name not in _OTHERS


def _load(file: Path, folder: Path, resources: Mapping[str, Json]) -> Compiled | None:
    """Compiles a file; None if it is in a sub-folder and no definition."""
    text, problems = read_text(file)
    if text is None:
        return Compiled(None, problems)
    taken = file.parent == folder or is_named_as_machine(file.name) or _looks_like_one(text, file.suffix)
    return compile_definition(text, str(file), resources) if taken else None


def _looks_like_one(text: str, suffix: str) -> bool:
    """Tells whether a file of a sub-folder is a definition; YAML that cannot be parsed counts as one.

    JSON must have `workflow` and a format, because events of GitHub have the former, and those of Slack `actions`. A
    state machine of Step Functions, which is named by its file, counts too.
    """
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    data = load_document(text).data
    if not isinstance(data, dict):
        return data is None and suffix != ".json"
    inner = data.get("spec")
    keys = data.keys() | inner.keys() if isinstance(inner, dict) else data.keys()
    if is_machine(keys):
        return True
    if suffix == ".json":
        return "workflow" in keys and not keys.isdisjoint(COMPILERS)
    return "workflow" in keys or not keys.isdisjoint(COMPILERS)


def _may_define(file: Path) -> bool:
    return is_definition(file) or file.suffix == ".py"


def _twice(name: str, file: Path, first: Path) -> Problem:
    message = f"workflow {name!r} is defined in {first.name} already; this file is left out"
    return Problem(
        "duplicate_workflow", message, path="/workflow", hint="give one of them another name", file=str(file)
    )
