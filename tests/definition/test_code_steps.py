"""Literals that `@step` and `Retry` refuse, which `stepwell check` finds: else the module cannot be imported."""

from __future__ import annotations

import inspect
from pathlib import Path
from textwrap import dedent

import pytest

from stepwell.definition.authoring import STEP_DEFAULTS, defaults_of, step
from stepwell.definition.code.modules import read_code
from stepwell.definition.code.steps import wrong_steps_of
from stepwell.errors import Problem
from stepwell.runtime.folder.code import check_folder_code
from stepwell.testing.kit import Stepwell


def found(text: str) -> list[Problem]:
    return wrong_steps_of(read_code({"shop": ("shop.py", dedent(text))}))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("timeout='soon'", "bad_duration", "'soon' is not a duration"),
        ("timeout=0", "bad_step", "`timeout` must be longer than 0"),
        ("timeout=[1]", "bad_duration", "a duration cannot be a list"),
        ("retry=3", "bad_step", "`retry` must be a Retry or a dict, not 3"),
        ("retry={'max_retires': 3}", "bad_step", "a retry policy has no 'max_retires'"),
        ("retry=Retry('3')", "bad_step", "`max_retries` must be a whole number of 0 or more, not '3'"),
        ("retry=Retry(3, 'expo')", "bad_step", "`backoff` must be constant or linear or exponential, not 'expo'"),
        ("retry=Retry(on=5)", "bad_step", "`on` must be a list of names and of classes, not 5"),
        ("retry=Retry(max_retires=3)", "bad_arguments", "Retry has no option 'max_retires'"),
        ("tiemout='3s'", "bad_arguments", "@step has no option 'tiemout'"),
        ("at_most_once='yes'", "bad_step", "`at_most_once` must be True or False, not 'yes'"),
        ("name='a b'", "bad_name", "`name` cannot be 'a b'"),
        ("pool=''", "bad_name", "`pool` cannot be ''"),
        ("'pay'", "bad_step", "@step takes a function, not 'pay'"),
    ],
)
def test_a_literal_that_a_step_refuses_is_found_with_its_line(options: str, code: str, message: str) -> None:
    text = f"import stepwell\nfrom stepwell import Retry, step\n\n@step({options})\ndef pay(n): ...\n"
    (problem,) = found(text)
    assert (problem.code, problem.message, problem.line, problem.severity) == (code, message, 4, "error")
    assert [one.message for one in found(text.replace("@step", "@stepwell.step"))] == [message]


def test_each_mistake_of_a_step_is_found_wherever_it_is() -> None:
    text = """
    from stepwell import Retry, step
    @step(timeout="soon", retry=3,
          tiemout="3s")
    def pay(n): ...
    class Till:
        @step(pool="a b")
        def ship(n): ...
    sent = step(name="a b")(print)
    POLICY = Retry(jitter="some")
    async def leg(ctx): await ctx.step(pay, 1, retry=Retry(-1))
    """
    places = sorted((one.line, one.code) for one in found(text))
    expected = [(3, "bad_duration"), (3, "bad_step"), (4, "bad_arguments"), (7, "bad_name"), (9, "bad_name")]
    assert places == [*expected, (10, "bad_step"), (11, "bad_step")]


def test_what_a_step_takes_and_what_only_the_import_knows_is_left_alone() -> None:
    text = """
    from stepwell import Retry, step
    from others import step as other
    LIMIT = "soon"
    @step(timeout=LIMIT, retry=Retry(3, "linear", max_delay="5m", on=("timeout", OSError)), name="own", pool=None)
    def pay(n): ...
    @step(retry={"maxRetries": 3}, timeout=5, at_most_once=True)
    def ship(n): ...
    @other(colour="red")
    def send(n): ...
    @step(**{"colour": "red"})
    def take(n): ...
    @step
    def plain(n): ...
    made = step(print)
    """
    assert found(text) == []


def test_a_time_limit_over_a_year_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from stepwell import step\n@step(timeout='400d')\ndef pay(n): ...\n")
    assert [one.code for one in check_folder_code(tmp_path)] == ["timeout_too_long"]


def test_the_options_of_a_step_are_those_that_it_has() -> None:
    for made in (step, defaults_of):
        of = inspect.signature(made).parameters.values()
        assert tuple(one.name for one in of if one.kind is one.KEYWORD_ONLY) == STEP_DEFAULTS


@pytest.mark.parametrize(
    ("options", "message"),
    [("retry=3", "`retry` must be a Retry or a dict, not 3"), ("tiemout=3", "@step has no option 'tiemout'")],
)
def test_a_run_that_waits_for_such_code_tells_its_place(tmp_path: Path, options: str, message: str) -> None:
    (tmp_path / "shop.py").write_text(f"from stepwell import step\n\n@step({options})\ndef pay(n): ...\n")
    (tmp_path / "order.yaml").write_text("workflow: order\nnodes: {a: {run: python:shop.pay}}\n")
    kit = Stepwell(tmp_path)
    run = kit.start("order", {"n": 1})
    assert run.waiting_for == "code"
    assert f"@step at shop.py:3: {message}" in str(run.view["waiting_data"])
    kit.close()


def test_a_workflow_that_is_a_method_is_told(tmp_path: Path) -> None:
    text = "from stepwell import workflow\nclass Till:\n    @workflow\n    async def pay(self, ctx): ...\n"
    (tmp_path / "till.py").write_text(text)
    (found,) = check_folder_code(tmp_path)
    assert (found.code, found.line) == ("bad_workflow", 4)
    (tmp_path / "till.py").write_text(text.replace("from stepwell", "from elsewhere"))
    assert [one.code for one in check_folder_code(tmp_path) if one.code == "bad_workflow"] == []
