"""ResultWriter: a Map that writes the results of its items to S3.

    A.join   keeps the results, and draws the id under which they are written
    A        writes them: a file of those that succeeded, one of those that failed, and the manifest at last

If more items have failed than the Map tolerates, it fails after that, with what it would fail with otherwise.
The writing is a step. Its retries write the same files again. What it fails with is `States.ResultWriterFailed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stepwell.definition.asl import services
from stepwell.definition.asl.dialects import Answers, Dialect, Paths, field_errors
from stepwell.definition.asl.fields import ANSWERS
from stepwell.definition.asl.frames import MADE, Frame
from stepwell.definition.asl.intrinsic_functions import uuid_of
from stepwell.definition.asl.names import cause_of, name_of
from stepwell.definition.asl.outside import Outside
from stepwell.definition.asl.parts import Computed
from stepwell.definition.asl.tasks import Unsupported, mapped_to
from stepwell.definition.graph import KEPT, Json, Step
from stepwell.definition.text import closest, compact_json
from stepwell.errors import ExpressionError, KeptFailure, Problem
from stepwell.values import dataclass

State = Mapping[str, Json]
FAILED = "result_writer_failed"
_SUCCESS, _FAILURE = "SUCCEEDED", "FAILED"
_ENDINGS = {"JSON": "json", "JSONL": "jsonl"}
_OUTSIDE = Outside(
    "ResultWriter",
    "WriterConfig",
    needs="write Resource: arn:aws:states:::s3:putObject, and Parameters with the Bucket",
    choices={"Transformation": ("NONE", "COMPACT", "FLATTEN"), "OutputType": tuple(_ENDINGS)},
    unsupported={},
    instead="",
)


@dataclass(frozen=True, slots=True)
class Writer:
    """A Map's ResultWriter, compiled."""

    step: Step
    keeping: Kept
    told: Callable[[Frame, Json], Json]


def writer_of(name: str, state: State, language: str, mapped: Mapping[str, str]) -> Writer | Unsupported:
    """Compiles a ResultWriter without mistakes. `mapped`: what runs in place of resources."""
    writer: State = state["ResultWriter"]
    resource, field = writer["Resource"], "Arguments" if language == ANSWERS else "Parameters"
    own = mapped_to(resource, mapped)
    if own is None and services.call_name(resource) != services.WRITE:
        message = f"a ResultWriter cannot write by the resource {resource[:120]!r} in this version"
        return Unsupported(message, closest(resource, [f"arn:aws:states:::{services.WRITE}"]))
    if own is not None and own.startswith("workflow:"):
        return Unsupported("a ResultWriter cannot write by a workflow", "name a Python function in resources.yaml")
    fields = {**({"InputPath": state["InputPath"]} if "InputPath" in state else {}), field: writer.get(field, {})}
    dialect: Dialect = Answers(fields) if language == ANSWERS else Paths(fields)
    made = _Files(state.get("Label", name), writer.get("WriterConfig", {}), dialect)
    uses = services.uses(services.WRITE, writer.get(field)) if own is None else ()
    step = Step(own or resource, Computed(name, "ResultWriter", made.given), uses=uses, fails_as=FAILED)
    return Writer(step, Kept(name), made.told)


class Kept:
    """Keeps what the branches of a Map came to, beside the state's input, until it is written."""

    def __init__(self, state: str) -> None:
        self._state = state

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        frame = Frame(names, self._state)
        came = brought if isinstance(brought, dict) else {"outcomes": brought}
        return frame.input, {**MADE, KEPT: {"id": uuid_of(frame.seed("ResultWriter")), **came}}


class _Files:
    """The files of one Map's results, in the words of Step Functions."""

    def __init__(self, label: str, config: State, dialect: Dialect) -> None:
        self._label, self._dialect = label, dialect
        self._transformation = config.get("Transformation", "NONE")
        self._ending = _ENDINGS[config.get("OutputType", "JSON")]

    def given(self, frame: Frame) -> Json:
        """Returns what the step is called with: the bucket, and each object's key and text, the manifest last."""
        bucket, folder = self._place(frame)
        outcomes = frame.kept("outcomes")
        good = [one for one in outcomes if one.get("error") is None]
        bad = [one for one in outcomes if one.get("error") is not None]
        files = {
            **({_SUCCESS: self._results(frame, good)} if good else {}),
            **({_FAILURE: [self._record(frame, one) for one in bad]} if bad else {}),
        }
        objects = [
            {"Key": f"{folder}{name}_0.{self._ending}", "Body": self._text(results)} for name, results in files.items()
        ]
        listed: dict[str, Json] = {_FAILURE: [], "PENDING": [], _SUCCESS: []}
        for name, one in zip(files, objects, strict=True):
            listed[name] = [{"Key": one["Key"], "Size": len(one["Body"].encode())}]
        manifest = {"DestinationBucket": bucket, "MapRunArn": self._arn(frame), "ResultFiles": listed}
        return {
            "Bucket": bucket,
            "Objects": [*objects, {"Key": f"{folder}manifest.json", "Body": compact_json(manifest)}],
        }

    def _text(self, results: Sequence[Json]) -> str:
        return compact_json(results) if self._ending == "json" else "".join(f"{compact_json(one)}\n" for one in results)

    def told(self, frame: Frame, brought: Json) -> Json:
        """Returns the state's result. `brought`: where the manifest was written; else where it was to be.

        Raises KeptFailure if too many items have failed.
        """
        if (failure := frame.kept("failure")) is not None:
            raise KeptFailure(failure)
        bucket, folder = self._place(frame)
        place = brought if isinstance(brought, dict) and brought.keys() >= {"Bucket", "Key"} else {}
        details = {"Bucket": place.get("Bucket", bucket), "Key": place.get("Key", f"{folder}manifest.json")}
        return {"MapRunArn": self._arn(frame), "ResultWriterDetails": details}

    def _place(self, frame: Frame) -> tuple[str, str]:
        given = self._dialect.given(frame)
        bucket = given.get("Bucket") if isinstance(given, dict) else None
        prefix = given.get("Prefix", "") if isinstance(given, dict) else None
        if not isinstance(bucket, str) or not isinstance(prefix, str):
            raise ExpressionError(f"the Bucket and the Prefix of {frame.state} are to be texts", code=FAILED)
        return bucket, f"{prefix}{'/' if prefix and not prefix.endswith('/') else ''}{frame.kept('id')}/"

    def _results(self, frame: Frame, outcomes: Sequence[State]) -> list[Json]:
        if self._transformation == "NONE":
            return [self._record(frame, one) for one in outcomes]
        outputs = [one["output"] for one in outcomes]
        if self._transformation == "COMPACT":
            return outputs
        return [part for one in outputs for part in (one if isinstance(one, list) else [one])]

    def _record(self, frame: Frame, outcome: State) -> Json:
        """Returns the execution of one item, as far as it is one here."""
        error = outcome.get("error")
        status, name = _SUCCESS if error is None else _FAILURE, f"{frame.kept('id')}.{outcome['index']}"
        machine = f"{frame.names['run']['workflow']}/{self._label}"
        came = {"Output": compact_json(outcome.get("output")), "OutputDetails": {"Included": True}}
        if error is not None:
            came = {"Error": name_of(error), "Cause": cause_of(error)}
        return {
            "ExecutionArn": f"arn:aws:states:::execution:{machine}:{name}",
            "Input": compact_json(outcome.get("given")),
            "InputDetails": {"Included": True},
            "Name": name,
            **came,
            "RedriveCount": 0,
            "RedriveStatus": "NOT_REDRIVABLE",
            "RedriveStatusReason": f"Execution is {status} and cannot be redriven",
            "StateMachineArn": f"arn:aws:states:::stateMachine:{machine}",
            "Status": status,
        }

    def _arn(self, frame: Frame) -> str:
        return f"arn:aws:states:::mapRun:{frame.names['run']['workflow']}/{self._label}:{frame.kept('id')}"


# -- mistakes


def writer_problems(state: State, path: str, language: str) -> Iterator[Problem]:
    """Yields what is wrong with a `ResultWriter`, and where it stands."""
    yield from _OUTSIDE.problems(state, path, language)
    place = f"{path}/ResultWriter/WriterConfig"
    for name, value in _OUTSIDE.config_of(state).items():
        if (problem := _OUTSIDE.config_problem(name, value, place, tuple(_OUTSIDE.choices))) is not None:
            yield problem


def writer_errors(state: State, path: str, language: str) -> Iterator[tuple[str, ExpressionError]]:
    """Yields what is wrong in the expressions of a `ResultWriter`, each with its JSON pointer."""
    writer = state["ResultWriter"]
    given = {name: writer[name] for name in ("Parameters", "Arguments") if name in writer}
    yield from field_errors(given, f"{path}/ResultWriter", is_jsonata=language == ANSWERS)
