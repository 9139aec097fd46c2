"""Fields of a Map whose items or results are outside it: what its ItemReader and its ResultWriter have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stepwell.definition.asl.fields import ANSWERS
from stepwell.definition.graph import Json
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem
from stepwell.values import dataclass

State = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Outside:
    """One of the two fields."""

    name: str
    config: str  # the name of its field for everything but what is called
    needs: str  # the hint where it has no Resource
    choices: Mapping[str, Sequence[str]]  # the values that a field of its configuration can have
    unsupported: Mapping[str, Sequence[str]]  # values that Step Functions has
    instead: str  # the hint for those

    def problems(self, state: State, path: str, language: str) -> Iterator[Problem]:
        """Yields what is wrong with the field, without its configuration, and where it stands."""
        own, place = state[self.name], f"{path}/{self.name}"
        if not isinstance(own, dict):
            yield Problem("wrong_type", f"`{self.name}` must be an object", place)
            return
        field, other = ("Arguments", "Parameters") if language == ANSWERS else ("Parameters", "Arguments")
        known = ("Resource", self.config, field)
        if other in own:
            message = f"`{other}` is for the other query language; this state's is {language}"
            yield Problem("misplaced_key", message, f"{place}/{other}", f"write {field}")
        for name in own.keys() - {*known, other}:
            hint = closest(name, known)
            yield Problem("unknown_key", f"`{self.name}` has no field `{name}`", f"{place}/{pointer_part(name)}", hint)
        if not isinstance(own.get("Resource"), str):
            yield Problem("missing_key", f"`{self.name}` needs `Resource`", place, self.needs)
        processor = state.get("ItemProcessor")
        if not isinstance(processor, dict) or (processor.get("ProcessorConfig") or {}).get("Mode") != "DISTRIBUTED":
            hint = "write ItemProcessor: {ProcessorConfig: {Mode: DISTRIBUTED}, …}"
            yield Problem("bad_state", f"`{self.name}` is for a Map in the mode DISTRIBUTED", place, hint)
        if not isinstance(own.get(self.config, {}), dict):
            yield Problem("wrong_type", f"`{self.config}` must be an object", f"{place}/{self.config}")

    def config_of(self, state: State) -> State:
        """Returns the configuration; nothing if it is no object, which `problems` says."""
        own = state[self.name]
        config = own.get(self.config) if isinstance(own, dict) else None
        return config if isinstance(config, dict) else {}

    def config_problem(self, name: str, value: Json, place: str, known: Sequence[str]) -> Problem | None:
        """Returns what is wrong with one field of the configuration at this place. `known`: the names of all."""
        here = f"{place}/{pointer_part(name)}"
        if value in self.unsupported.get(name, ()):
            return Problem("unsupported", f"`{name}: {value}` is not supported in this version", here, self.instead)
        if name not in known:
            return Problem("unknown_key", f"`{self.config}` has no field `{name}`", here, closest(name, known))
        if name in self.choices and value not in self.choices[name]:
            hint = f"one of {', '.join(self.choices[name])}"
            return Problem("bad_value", f"`{name}` cannot be {value!r:.50}", here, hint)
        return None
