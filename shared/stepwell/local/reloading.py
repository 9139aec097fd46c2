"""Watches the workflow folder and deploys its changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

from stepwell.definition.clauses.throttles import FILES as LIMIT_FILES
from stepwell.definition.durable import FunctionFacts
from stepwell.definition.graph import Graph, Json
from stepwell.definition.webhooks import FILES
from stepwell.errors import Problem, StepwellError
from stepwell.local.wiring import Local
from stepwell.project import project_of
from stepwell.repeated import told_once
from stepwell.runtime.folder.code import check_folder_code
from stepwell.runtime.folder.facts import function_facts
from stepwell.runtime.folder.loading import Folder, is_definition, load_folder
from stepwell.runtime.folder.placing import with_lines
from stepwell.runtime.folder.pricing import FILES as PRICE_FILES
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.deploys import tell_deployed
from stepwell.runtime.starts.ids import new_id
from stepwell.scan import walk
from stepwell.settings import read_settings

log = logging.getLogger("stepwell.dev")

DEBOUNCE_MS = 100


class Reloader:
    """A thread that deploys the folder again whenever a definition, a module or `webhooks.yaml` changes."""

    def __init__(
        self,
        local: Local,
        folder: Path,
        serve_webhooks: Callable[[Mapping[str, Json] | None], None],
        told: Iterable[Problem] = (),
        seen: Mapping[Path, int] | None = None,
    ) -> None:
        """`told`: the problems that the server has told of at its start. `seen`: the files then, else those of now."""
        self._local, self._folder, self._serve_webhooks = local, folder, serve_webhooks
        self._told = tuple(told)
        self._seen = stamps(folder) if seen is None else seen
        self._thread = threading.Thread(target=self._watch, name="stepwell-reload", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _watch(self) -> None:
        changes = watch(
            *project_of(self._folder).sources,
            watch_filter=_Sources(),
            debounce=DEBOUNCE_MS,
            step=DEBOUNCE_MS // 2,
            stop_event=self._local.stopping,
            rust_timeout=500,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        has_looked = False
        for found in changes:
            changed = {Path(path) for _, path in found}
            try:
                if not has_looked:  # what changed after the folder was read, and before it was watched
                    changed |= {path for path, _ in self._seen.items() ^ stamps(self._folder).items()}
                    has_looked = True
                if changed:
                    self._reload(changed)
            except (StepwellError, OSError) as error:
                log.error("could not reload the folder; the previous version stays: %s", error)
            except Exception:  # the next change is looked at all the same
                log.exception("could not reload the folder; the previous version stays")

    def _reload(self, changed: set[Path]) -> None:
        if any(path.suffix == ".py" for path in changed):
            self._local.steps.reload()
            modules = sorted(_shown(path) for path in changed if path.suffix == ".py")
            log.info("reloaded modules: %s", ", ".join(modules))
        before = dict(self._local.parts.catalog.current)
        loaded = load_folder(self._folder)
        self._tell((*loaded.problems, *code_problems(self._folder)))
        broken = {problem.file for problem in loaded.errors}
        graphs = loaded.graphs if not broken else with_the_last_good(before, loaded.graphs)
        limits = None if broken & _named(self._folder, LIMIT_FILES) else loaded.limits
        prices = None if broken & _named(self._folder, PRICE_FILES) or read_settings().prices else loaded.prices
        self._local.deploy(graphs, limits, prices)
        self._local.parts.catalog.flawed = loaded.flawed
        self._local.parts.catalog.functions = code_facts(self._folder)
        if knows_webhooks(loaded, self._folder):
            self._serve_webhooks(loaded.webhooks)
        for line in differences(before, self._local.parts.catalog.current):
            log.info("%s", line)
        self._wake_stuck()
        if broken:
            is_kept = len(graphs) > len(loaded.graphs)
            log.warning("%s", _served(loaded, broken, is_kept, _not_served(loaded, graphs, is_kept)))

    def _tell(self, found: tuple[Problem, ...]) -> None:
        """Tells what is wrong since the last look, and which files are right again."""
        tell_problems(news(self._told, found))
        for file in sorted(_wrong(self._told) - _wrong(found)):
            log.info("%s", f"{file} has no errors any more" if Path(file).exists() else f"{file} is gone")
        self._told = found

    def _wake_stuck(self) -> None:
        """Wakes the runs that wait for code, to try the reloaded code."""
        count = run_now(tell_deployed(self._local.parts.ports, new_id()))
        if count:
            log.info(
                "%d run%s that waited for code tr%s the new code", count, *(("", "ies") if count == 1 else ("s", "y"))
            )


def knows_webhooks(loaded: Folder, folder: Path) -> bool:
    """Tells whether the folder says which endpoints there are; else deliveries may wait for one of a broken file."""
    broken = {problem.file for problem in loaded.errors}
    return loaded.webhooks is not None or not broken & _named(folder, FILES)


def _named(folder: Path, names: Iterable[str]) -> set[str]:
    return {str(folder / name) for name in names}


def stamps(folder: Path) -> Mapping[Path, int]:
    """Returns when each source of a project was changed."""
    places = (place for place in project_of(folder).sources if place.is_dir())
    return {path: path.stat().st_mtime_ns for place in places for path in walk(place) if _is_read(path)}


class _Sources(DefaultFilter):
    """Accepts definitions, settings files and modules, outside hidden and generated folders."""

    def __call__(self, change: Change, path: str) -> bool:
        return super().__call__(change, path) and _is_read(Path(path))


def _is_read(path: Path) -> bool:
    return path.suffix == ".py" or is_definition(path) or path.name in {*FILES, *LIMIT_FILES, *PRICE_FILES}


def with_the_last_good(before: Mapping[str, Graph], loaded: Iterable[Graph]) -> tuple[Graph, ...]:
    """Adds the workflows that are missing: a file with errors does not say which workflow it had."""
    return tuple({**before, **{graph.name: graph for graph in loaded}}.values())


def differences(before: Mapping[str, Graph], after: Mapping[str, Graph]) -> tuple[str, ...]:
    """Describes a deployment's changes, one line for each workflow."""
    lines = [f"workflow {name}: added" for name in sorted(after.keys() - before.keys())]
    lines += [f"workflow {name}: removed; its runs go on" for name in sorted(before.keys() - after.keys())]
    lines += [
        f"workflow {name}: changed; new runs take the new version"
        for name in sorted(after.keys() & before.keys())
        if after[name].version != before[name].version
    ]
    return tuple(lines)


def code_problems(folder: Path) -> tuple[Problem, ...]:
    """What `stepwell check` finds in the code. It is served all the same: a run waits where it needs that code."""
    return check_folder_code(folder, project_of(folder).sources[1:])


def code_facts(folder: Path) -> Mapping[str, FunctionFacts]:
    """What the code tells of durable functions to those who call them."""
    return function_facts(folder, project_of(folder).sources[1:])


def news(told: Iterable[Problem], found: Iterable[Problem]) -> Iterator[Problem]:
    """Yields the errors that were found, and the warnings that were not told before, wherever they stand by now."""
    known = {replace(one, line=0, column=0) for one in told}
    return (one for one in found if one.severity == "error" or replace(one, line=0, column=0) not in known)


def _wrong(problems: Iterable[Problem]) -> set[str]:
    return {one.file for one in problems if one.severity == "error"}


def tell_problems(problems: Iterable[Problem]) -> None:
    """Logs the problems of the definitions, like `stepwell check`."""
    for problem in told_once(with_lines(problems)):
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", problem)


def _shown(path: Path) -> str:
    """Returns a path as the current folder sees it: several modules may have one name."""
    return path.relative_to(here).as_posix() if path.is_relative_to(here := Path.cwd()) else str(path)


def _not_served(loaded: Folder, graphs: Iterable[Graph], is_kept: bool) -> set[str]:
    """Returns the definitions with errors of whose workflows no version is served."""
    served, is_lost = {graph.name for graph in graphs}, loaded.count > len(loaded.graphs) and not is_kept
    found = (one for one in loaded.errors if is_definition(Path(one.file)))
    return {one.file for one in found if (one.workflow not in served if one.workflow else is_lost)}


def _served(loaded: Folder, broken: set[str], is_kept: bool, lost: set[str]) -> str:
    """Says what is served in place of files with errors. `lost`: those of which nothing is served."""
    files = "1 file has" if len(broken) == 1 else f"{len(broken)} files have"
    if lost:
        names = ", ".join(sorted(_shown(Path(file).absolute()) for file in lost))
        whose = "its workflow is" if len(lost) == 1 else "their workflows are"
        return f"{files} errors: until {names} is right, {whose} not served"
    if not is_kept and all(is_definition(Path(file)) for file in broken):  # others: limits, prices, webhooks
        return f"{files} errors: their workflows are served all the same"
    unread = any(one.code == "bad_syntax" and one.file.endswith(".py") for one in loaded.errors)
    waits = "; a run that needs the code of a module with errors waits for it" if unread else ""
    return f"{files} errors: the last good version of their workflows stays{waits}"
