"""Compiles a state machine of Amazon States Language to nodes.

a state            a node of its name; what a catcher, a retrier or a rule makes of the data, nodes of their own
Parallel, Map P    the node `P.fork`, whose branches meet at the node `P`; `maps` has the others of a Map
Next, Catch        rules that lead on; in a branch, `End` leads to the node where its branches meet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from stepwell.definition.asl import parts
from stepwell.definition.asl.dialects import Answers, Dialect, Paths, field_errors
from stepwell.definition.asl.fields import (
    ANSWERS,
    LANGUAGES,
    PATHS,
    batcher_problems,
    field_problems,
    language_of,
    machine_problems,
)
from stepwell.definition.asl.frames import Frame
from stepwell.definition.asl.maps import MapNodes, begins_at, meets_at, written
from stepwell.definition.asl.readers import reader_errors, reader_problems
from stepwell.definition.asl.rules import catches, choices, is_wrong, retriers
from stepwell.definition.asl.tasks import Target, Unsupported, target_of
from stepwell.definition.asl.values import fail_value, number_value, numbers_value, seconds_value
from stepwell.definition.asl.writers import writer_errors, writer_problems
from stepwell.definition.clauses.calls import check_workflow
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import END, Call, Child, FanIn, Json, Node, Retrier, Rule, Step, Wait
from stepwell.definition.resources import check_targets
from stepwell.definition.text import closest, pointer_part
from stepwell.limits import NAME_CHARACTERS, STEP_TIMEOUT_MS

VISITS = 1_000_000  # of a state: a machine's loops end by its own rules, or by the records that a run may have
SCHEME = "workflow:"
_LIMITS = {"timeout": "TimeoutSeconds", "heartbeat": "HeartbeatSeconds"}

State = Mapping[str, Json]
_OWN = (("ItemReader", reader_problems, reader_errors), ("ResultWriter", writer_problems, writer_errors))


def compile_machine(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    """Compiles the machine's states, and those of its branches. The first node is where it starts."""
    machine = _Machine(context, document.get("resources", {}), document.get("QueryLanguage", PATHS))
    if machine.language not in LANGUAGES:
        hint = closest(str(machine.language), LANGUAGES)
        context.add("bad_value", f"`QueryLanguage` cannot be {machine.language!r}", "/QueryLanguage", hint)
        return {}
    if not context.trusted:
        check_targets(context, machine.resources, "/resources")
    start = machine.compile(document, "", "")
    lacking = {id(one) for one in [one for one in context.problems if one.code == "missing_extra"][1:]}
    context.problems[:] = [one for one in context.problems if id(one) not in lacking]  # told at the first expression
    nodes = machine.nodes
    context.places.update(machine.places)
    return {start: nodes[start], **nodes} if start in nodes else nodes


class _Machine:
    """One compilation: the nodes so far, and where each stands in the source."""

    def __init__(self, context: Context, resources: Mapping[str, str], language: str) -> None:
        self.context, self.resources, self.language = context, resources, language
        self.nodes: dict[str, Node] = {}
        self.places: dict[str, str] = {}

    def compile(self, machine: State, path: str, join: str) -> str:
        """Compiles the states of a machine, or of a branch that ends at `join`. Returns its first node."""
        states = machine.get("States")
        if not isinstance(states, dict) or not states:
            self.context.add("bad_state", "`States` must be an object with at least one state", f"{path}/States")
            return ""
        self.context.problems += machine_problems(machine, path) if path else ()
        entries: dict[str, str] = {}
        for name, state in states.items():
            self._check_name(name, state, f"{path}/States/{pointer_part(name)}")
            entries[name] = _entry(name, state)
        for name, state in states.items():
            if isinstance(state, dict):
                place = f"{path}/States/{pointer_part(name)}"
                _State(self, name, state, place, entries, join or END).compile()
        start = machine.get("StartAt")
        if isinstance(start, str) and start in states:
            return entries[start]
        hint = closest(start, states) if isinstance(start, str) else "write the name of the first state"
        self.context.add("unknown_target", f"`StartAt` names {start!r}, which is no state", f"{path}/StartAt", hint)
        return ""

    def _check_name(self, name: str, state: Json, place: str) -> None:
        if not isinstance(state, dict):
            self.context.add("wrong_type", f"the state `{name}` must be an object", place)
        if len(name) > NAME_CHARACTERS or not name.isprintable() or not name.strip() or "/" in name:
            hint = f"at most {NAME_CHARACTERS} characters that can be printed, and no /"
            self.context.add("bad_name", f"a state cannot be named {name[:100]!r}", place, hint)
        elif name == END:
            self.context.add("reserved_name", f"`{END}` is reserved for the end of the run", place, "rename the state")
        elif name in self.places:
            message = f"two states are named `{name}`, which is one name in the whole machine"
            self.context.add("duplicate_name", message, place, "rename one of them")

    def add(self, node: Node, place: str) -> None:
        self.nodes[node.name] = node
        self.places[node.name] = place


class _State:
    """The compilation of one state."""

    def __init__(
        self, machine: _Machine, name: str, state: State, path: str, entries: Mapping[str, str], end: str
    ) -> None:
        self.machine, self.context = machine, machine.context
        self.name, self.state, self.path = name, state, path
        self.entries, self.end = entries, end
        self.language = language_of(state, machine.language)
        self.reads = "ItemReader" in state

    def compile(self) -> None:
        problems = list(field_problems(self.state, self.path, self.language))
        if not problems and "ItemBatcher" in self.state:
            problems += batcher_problems(self.state["ItemBatcher"], f"{self.path}/ItemBatcher", self.language)
        own = [(find, errors) for field, find, errors in _OWN if field in self.state and not problems]
        problems += [one for find, _ in own for one in find(self.state, self.path, self.language)]
        self.context.problems += problems
        wrong = list(field_errors(self.state, self.path, is_jsonata=self.language == ANSWERS))
        wrong += [one for _, errors in own if not problems for one in errors(self.state, self.path, self.language)]
        for place, error in wrong:
            self.context.add_error(error, place)
        self.machine.places[self.name] = self.path
        if problems or wrong:
            self._follow_inner()
            return
        compilers: Mapping[str, Callable[[], None]] = {
            "Task": self._task, "Pass": self._pass, "Choice": self._choice, "Wait": self._wait,
            "Succeed": self._succeed, "Fail": self._fail, "Parallel": self._parallel, "Map": self._map,
        }  # fmt: skip
        compilers[self.state["Type"]]()

    def _follow_inner(self) -> None:
        """Checks what is inside a state that has mistakes itself."""
        inner = self.state.get("ItemProcessor", self.state.get("Iterator"))
        branches = self.state.get("Branches")
        listed = [(f"Branches/{at}", one) for at, one in enumerate(branches if isinstance(branches, list) else ())]
        for name, one in [*listed, ("ItemProcessor" if "ItemProcessor" in self.state else "Iterator", inner)]:
            if isinstance(one, dict):
                self.machine.compile(one, f"{self.path}/{name}", self.name)

    # -- types

    def _task(self) -> None:
        state, payload = self.state, self._payload("Parameters", "Arguments")
        found = target_of(state["Resource"], payload, self.machine.resources)
        if isinstance(found, Unsupported):
            self.context.add("unsupported_resource", found.message, f"{self.path}/Resource", found.hint)
            return
        dialect, tried = self._dialect(), retriers(self.context, state, self.path)
        select = found.select or (lambda given: given)
        given = parts.Computed(self.name, "input", lambda frame: select(dialect.given(frame)))
        timeout_ms = _milliseconds(state, "TimeoutSeconds")
        shaping = parts.Shaped(self.name, dialect, found.wrap)
        is_workflow = found.run.startswith(SCHEME)
        if is_workflow:
            check_workflow(self.context, found.run.removeprefix(SCHEME), f"{self.path}/Resource")
        if found.has_token:
            self._answered(found, lambda frame: select(dialect.given(frame.with_token())), shaping, tried)
        elif is_workflow and not found.is_detached:
            child = Child(found.run.removeprefix(SCHEME), found.run.removeprefix(SCHEME), given)
            call = Call((child,), single=True, timeout_ms=timeout_ms, timeout=self._computed_timeout())
            self._add(Node(self.name, call=call, shaping=shaping, rules=self._rules(tried)))
        else:
            step = Step(found.run, given, timeout_ms=timeout_ms, retriers=tuple(tried), uses=found.uses,
                        limits=self._limits("timeout"), throws=found.throws)  # fmt: skip
            self._add(Node(self.name, step=step, shaping=shaping, rules=self._rules(())))

    def _answered(
        self, found: Target, given: Callable[[Frame], Json], shaping: parts.Shaped, tried: Sequence[Retrier]
    ) -> None:
        """Adds a task whose result comes by a callback. Each of its retries is another visit, with another token."""
        limit_ms = _milliseconds(self.state, "TimeoutSeconds")
        beat_ms = _milliseconds(self.state, "HeartbeatSeconds")
        wait = Wait("callback", timeout_ms=limit_ms, heartbeat_ms=beat_ms)
        runs_ms = None if limit_ms is None else min(limit_ms, STEP_TIMEOUT_MS)
        computed = parts.Computed(self.name, "input", given)
        step = Step(found.run, computed, timeout_ms=runs_ms, callback=wait, uses=found.uses,
                    limits=self._limits("timeout", "heartbeat"), throws=found.throws)  # fmt: skip
        self._add(Node(self.name, step=step, shaping=shaping, rules=self._rules(tried)))

    def _limits(self, *names: str) -> parts.Computed | None:
        """Returns the time limits that are computed."""
        return numbers_value(self.name, self.state, {name: _LIMITS[name] for name in names}, self.language)

    def _computed_timeout(self) -> parts.Computed | None:
        number = number_value(self.name, self.state, "TimeoutSeconds", self.language)
        return None if number is None else parts.Computed(self.name, "TimeoutSeconds", number)

    def _pass(self) -> None:
        dialect = self._dialect()
        fixed = self.state.get("Result")

        def result(frame: Frame, brought: Json) -> Json:
            return fixed if "Result" in self.state else dialect.given(frame)

        if self.language == ANSWERS:
            shaping = parts.Shaped(self.name, Answers(self.state, brings=False))
        else:
            shaping = parts.Shaped(self.name, dialect, result)
        self._add(Node(self.name, shaping=shaping, rules=self._rules(())))

    def _choice(self) -> None:
        rules = choices(self.context, self.name, self.state, self.path, self.language, self._target, self._led)
        default = self.state.get("Default")
        if default is not None:
            to = self._target(default, f"{self.path}/Default")
            rules = [
                *rules,
                Rule(f"{self.name}.Default", "transition", to=self._led("Default", to, self.state, self.path)),
            ]
        self._add(Node(self.name, rules=tuple(rules)))

    def _led(self, which: str, to: str, fields: State, place: str) -> str:
        """Returns where a way of a Choice state leads: to the next state, or to a node that makes its output before."""
        state = self.state
        own = {name: value for name, value in fields.items() if name in ("Assign", "Output")}
        if fields is not state and is_wrong(self.context, own, place, self.language):
            return to
        filters = {name: state[name] for name in ("InputPath", "OutputPath") if name in state}
        if not own and not filters:
            return to
        made = f"{self.name}.{which}"
        fields = {**filters, **own}
        dialect: Dialect = Answers(own, brings=False) if self.language == ANSWERS else Paths(fields, brings=False)
        self._add(Node(made, shaping=parts.Shaped(self.name, dialect), is_made=True,
                       rules=(Rule(f"{made}.Next", "transition", to=to),)))  # fmt: skip
        return made

    def _wait(self) -> None:
        wait = Wait("sleep", timeout=seconds_value(self.name, self.state, self.language))
        shapes = any(name in self.state for name in ("InputPath", "OutputPath", "Assign", "Output"))
        if not shapes and "Next" in self.state:  # the end of a run, or of a branch, is to have the data for its result
            self._add(Node(self.name, wait=wait, rules=self._rules(())))
            return
        made = f"{self.name}.Output"
        self._add(Node(self.name, wait=wait, rules=(Rule(f"{self.name}.Next", "transition", to=made),)))
        shaping = parts.Shaped(self.name, self._dialect(brings=False))
        self._add(Node(made, shaping=shaping, rules=self._rules(()), is_made=True))

    def _succeed(self) -> None:
        shaping = parts.Shaped(self.name, self._dialect(brings=False))
        self._add(Node(self.name, shaping=shaping, rules=(Rule(f"{self.name}.End", "transition", to=self.end),)))

    def _fail(self) -> None:
        self._add(Node(self.name, failing=fail_value(self.name, self.state, self.language)))

    def _parallel(self) -> None:
        branches = []
        for at, branch in enumerate(self.state["Branches"]):
            path, which = f"{self.path}/Branches/{at}", f"{self.name}.Branches[{at}]"
            if not isinstance(branch, dict):
                self.context.add("wrong_type", "a branch must be an object", path)
                continue
            start = self._begun(which, self.machine.compile(branch, path, self.name))
            branches.append(Rule(which, "transition", to=start))
        if not branches:
            self.context.add("bad_state", "`Branches` is empty", f"{self.path}/Branches", "write at least one")
        self._add(Node(f"{self.name}.fork", fan_out="all", rules=tuple(branches), join=self.name, is_made=True))
        rules = self._rules(retriers(self.context, self.state, self.path))
        fan_in = FanIn(merge="results", target=self.name, tells="error")
        self._add(Node(self.name, fan_in=fan_in, shaping=parts.Shaped(self.name, self._dialect()), rules=rules))

    def _begun(self, which: str, start: str) -> str:
        """Returns where a branch begins: at a node that makes its input, if that is not the state's own."""
        if self.state.get("InputPath", "$") == "$" and not {"Parameters", "Arguments"} & self.state.keys():
            return start
        self._add(Node(which, shaping=parts.Given(self.name, self._dialect()), is_made=True,
                       rules=(Rule(f"{which}.Next", "transition", to=start),)))  # fmt: skip
        return which

    def _map(self) -> None:
        key = "ItemProcessor" if "ItemProcessor" in self.state else "Iterator"
        start = self.machine.compile(self.state[key], f"{self.path}/{key}", meets_at(self.name, self.state))
        rules = self._rules(retriers(self.context, self.state, self.path))
        found = MapNodes(self.name, self.state, self.language, self._dialect(), rules, self.machine.resources)
        for node in found.compile(self.context, self.path, start):
            self._add(node)

    # -- shared

    def _add(self, node: Node) -> None:
        if node.name in self.machine.nodes:
            message = f"the state `{node.name}` has a name that another one needs"
            self.context.add("duplicate_name", message, self.path, "rename it")
        made = replace(node, max_visits=VISITS, part_of=self.name if node.is_made else "")
        self.machine.add(made, self.path)

    def _payload(self, by_paths: str, by_answers: str) -> Json:
        return self.state.get(by_answers if self.language == ANSWERS else by_paths)

    def _dialect(self, payload: str = "", *, brings: bool = True) -> Dialect:
        if self.language == ANSWERS:
            return Answers(self.state, payload or "Arguments", brings=brings)
        return Paths(self.state, payload or "Parameters", brings=brings)

    def _rules(self, tried: Sequence[Retrier]) -> tuple[Rule, ...]:
        """Returns the ways on: retries of what is no step, catchers, and the next state."""
        again = [self._again(tried, at) for at in range(len(tried))]
        caught = catches(self.context, self.name, self.state, self.path, self.language)
        rules = [*again]
        for at, (errors, dialect, to) in enumerate(caught):
            made = f"{self.name}.Catch[{at}]"
            target = self._target(to, f"{self.path}/Catch/{at}/Next")
            shaping = parts.Caught(self.name, dialect, has_read=self.reads, has_kept="ResultWriter" in self.state)
            self._add(Node(made, shaping=shaping, is_made=True, rules=(Rule(f"{made}.Next", "transition", to=target),)))
            when = parts.OnError(self.name, f"Catch[{at}]", partial(_takes, errors))
            rules.append(Rule(f"{self.name}.Catch[{at}]", "transition", when, made))
        to = self._target(self.state["Next"], f"{self.path}/Next") if "Next" in self.state else self.end
        return (*rules, Rule(f"{self.name}.Next", "transition", to=to))

    def _again(self, tried: Sequence[Retrier], at: int) -> Rule:
        """Returns the rule of a retrier of what is no step: it leads back by a pause, and counts in the scope."""
        made = f"{self.name}.Retry[{at}]"
        delay = parts.Computed(self.name, made, partial(parts.delay_seconds, tried[at], at))
        counts = parts.Computed(self.name, made, partial(parts.counted, tried, at))
        back = self.entries[self.name]
        self._add(Node(made, wait=Wait("sleep", timeout=delay, output=counts), is_made=True,
                       rules=(Rule(f"{made}.Next", "transition", to=back),)))  # fmt: skip
        when = parts.OnError(self.name, made, partial(parts.is_due, tried, at))
        return Rule(f"{self.name}.diverge[{at}]", "diverge", when, made)

    def _target(self, name: Json, path: str) -> str:
        if isinstance(name, str) and name in self.entries:
            return self.entries[name]
        hint = closest(name, self.entries) if isinstance(name, str) else "write the name of a state"
        message = f"`{name}` is no state of this machine or branch"
        self.context.add("unknown_target", message, path, hint)
        return self.end


def _entry(name: str, state: Json) -> str:
    """Returns the node where a state begins."""
    kind = state.get("Type") if isinstance(state, dict) else None
    if kind == "Map":
        return begins_at(name, state)
    return f"{name}.fork" if kind == "Parallel" else name


def _milliseconds(state: State, name: str) -> int | None:
    seconds = written(state, name)
    return None if seconds is None else int(seconds * 1000)


def _takes(errors: parts.ErrorNames, frame: Frame) -> bool:
    return errors.take_error(frame.names["error"])
