"""`limits.yaml` and the `throttle` of a step: what is compiled, and what is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.definition.clauses.throttles import check_limits, limits_of
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Limit, RateLimit
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.folder.pack import pack_folder
from stepwell.runtime.folder.unpack import unpack_limits

LIMITS = "limits:\n  stripe: {concurrency: 5, rate_limit: {limit: 100, per: 1m, burst: 10}}\n"
FLOW = "workflow: flow\ntimeline:\n  - {name: charge, run: python:m.charge, throttle: %s}\n"


def folder(path: Path, limits: str, throttle: str = "stripe") -> Path:
    (path / "limits.yaml").write_text(limits)
    (path / "flow.yaml").write_text(FLOW % throttle)
    return path


def test_a_folder_has_the_limits_of_its_file_and_packs_them(tmp_path: Path) -> None:
    loaded = load_folder(folder(tmp_path, LIMITS))
    assert loaded.errors == ()
    assert loaded.count == 1
    assert loaded.limits == {"stripe": Limit(5, RateLimit(100, 60_000, 10))}
    assert unpack_limits(pack_folder(tmp_path)) == loaded.limits


def test_what_an_earlier_version_packed_has_no_limits() -> None:
    assert unpack_limits({}) == {}


@pytest.mark.parametrize(
    ("throttle", "limit", "key"),
    [("stripe", "stripe", None), ('{limit: mail, key: "{{ input.who }}"}', "mail", "{{ input.who }}")],
)
def test_a_step_names_a_limit_and_maybe_a_key(throttle: str, limit: str, key: str | None) -> None:
    graph = compile_definition(FLOW % throttle).graph
    assert graph is not None
    step = graph.nodes["charge"].step
    assert step is not None
    assert step.throttle is not None
    assert (step.throttle.limit, step.throttle.key and step.throttle.key.text) == (limit, key)


@pytest.mark.parametrize("throttle", ["7", "[stripe]", "{key: a}", "{limit: stripe, per: 1m}", '"a b"'])
def test_a_throttle_that_cannot_be_is_reported_at_its_place(throttle: str) -> None:
    (problem,) = compile_definition(FLOW % throttle).errors
    assert problem.path.startswith("/timeline/0/throttle")
    assert problem.line == 3


def test_a_wait_cannot_be_throttled() -> None:
    text = "workflow: flow\ntimeline:\n  - {name: hold, wait: {for: approval}, throttle: stripe}\n"
    assert [problem.code for problem in compile_definition(text).errors] == ["misplaced_key"]


def test_a_limit_that_the_file_does_not_have_is_reported_with_the_closest_name(tmp_path: Path) -> None:
    (problem,) = load_folder(folder(tmp_path, LIMITS, "strip")).errors
    assert (problem.code, problem.file, problem.line) == ("unknown_limit", str(tmp_path / "flow.yaml"), 3)
    assert "stripe" in (problem.hint or "")


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("stripe: {concurrency: 5}", "wrong_type", 1),
        ("limits: [stripe]", "wrong_type", 1),
        ("limits:\n  stripe: 5", "wrong_type", 2),
        ("limits:\n  stripe: {}", "wrong_type", 2),
        ("limits:\n  stripe: {concurency: 5}", "unknown_key", 2),
        ("limits:\n  stripe: {concurrency: 0}", "bad_value", 2),
        ("limits:\n  stripe: {concurrency: 1001}", "bad_value", 2),
        ("limits:\n  stripe: {concurrency: true}", "bad_value", 2),
        ("limits:\n  stripe:\n    rate_limit: {limit: 5}", "wrong_type", 3),
        ("limits:\n  stripe:\n    rate_limit: {limit: 5, per: soon}", "bad_duration", 3),
        ("limits:\n  stripe:\n    rate_limit: {limit: 5, per: 0s}", "bad_value", 3),
        ("limits:\n  stripe:\n    rate_limit: {limit: 5, per: 1m, burst: 0}", "bad_value", 3),
        ("limits:\n  a b: {concurrency: 5}", "bad_name", 2),
    ],
)
def test_a_mistake_in_the_file_is_reported_at_its_line(text: str, code: str, line: int) -> None:
    found = check_limits(text, "limits.yaml")
    assert limits_of(found.document) == {}
    assert [(problem.code, problem.line) for problem in found.problems] == [(code, line)]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("{limit: 5}", "write concurrency: 5 for how many at once, or rate_limit: {limit: 5, per: 1s}"),
        ("{limit: 5, per: 1s}", "write rate_limit: {limit: 100, per: 1m}"),
        ("{concurency: 5}", "did you mean `concurrency`?"),
    ],
)
def test_a_key_of_a_rate_beside_the_limits_name_is_told_where_it_belongs(written: str, hint: str) -> None:
    assert {problem.hint for problem in check_limits(f"limits:\n  bank: {written}", "limits.yaml").problems} == {hint}


def test_a_folder_with_two_such_files_keeps_none(tmp_path: Path) -> None:
    (folder(tmp_path, LIMITS) / "limits.yml").write_text(LIMITS)
    assert [problem.code for problem in load_folder(tmp_path).errors] == ["duplicate_file"]
