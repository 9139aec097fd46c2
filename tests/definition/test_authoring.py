"""`@step`, its defaults, and the directives that steps return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition import authoring, graph
from stepwell.definition.authoring import Directive, Retry, StepDefaults, step
from stepwell.definition.models import WorkflowDef
from stepwell.definition.options import WorkflowOptions
from stepwell.errors import DefinitionError, UserError


def test_a_bare_step_stays_the_same_function() -> None:
    def charge(order: int) -> int:
        return order + 1

    assert step(charge) is charge
    assert charge(1) == 2
    assert charge.__stepwell__ == StepDefaults()  # type: ignore[attr-defined]  # what the decorator leaves


def test_a_step_carries_its_defaults_in_the_engines_terms() -> None:
    @step(name="charge", retry=Retry(2, on=("transient", "timeout")), timeout="30s", at_most_once=True, pool="big")
    def function() -> None: ...

    assert function.__stepwell__ == StepDefaults(  # type: ignore[attr-defined]  # what the decorator leaves
        name="charge",
        retry=graph.Retry(2, "exponential", 1_000, 60_000, "none", frozenset({"transient", "timeout"})),
        timeout_ms=30_000,
        at_most_once=True,
        pool="big",
    )


def test_a_retry_may_be_a_dict_in_either_spelling() -> None:
    @step(retry={"maxRetries": 1, "initial_delay": 2, "on": ["Busy"]})
    async def function() -> None: ...

    policy = function.__stepwell__.retry  # type: ignore[attr-defined]  # what the decorator leaves
    assert (policy.max_retries, policy.initial_delay_ms, policy.on) == (1, 2_000, frozenset({"Busy"}))


@pytest.mark.parametrize(("given", "most_ms"), [({}, 300_000), ({"max_delay": "2m"}, 120_000)])
def test_the_default_maximum_of_a_retry_does_not_shorten_its_first_delay(given: dict[str, str], most_ms: int) -> None:
    """As in a definition. A delay of five minutes was one of a minute."""
    assert Retry(initial_delay="5m", **given).policy().max_delay_ms == most_ms  # type: ignore[arg-type]  # by name


def test_a_retry_takes_classes_of_exceptions_by_their_names() -> None:
    assert Retry(on=("timeout", OSError, KeyError)).policy().on == {"timeout", "OSError", "KeyError"}


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: step(name="a b"),
        lambda: step(timeout="soon"),
        lambda: step(timeout="366d"),
        lambda: step(pool=""),
        lambda: step(at_most_once="yes"),  # type: ignore[call-overload]  # the mistake
        lambda: step(retry={"max_retry": 3}),
        lambda: step(retry=3),  # type: ignore[call-overload]  # the mistake
        lambda: step("charge"),  # type: ignore[call-overload]  # the mistake
        lambda: Retry(-1),
        lambda: Retry(True),
        lambda: Retry(backoff="expo"),
        lambda: Retry(jitter="some"),
        lambda: Retry(on="transient"),  # type: ignore[arg-type]  # the mistake
        lambda: Retry(on=OSError),  # type: ignore[arg-type]  # the mistake
        lambda: Retry(on=(OSError, int)),  # type: ignore[arg-type]  # the mistake
        lambda: Retry(initial_delay=-1),
    ],
)
def test_a_bad_default_is_refused_where_it_is_written(mistake: Callable[[], object]) -> None:
    with pytest.raises(UserError):
        mistake()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (authoring.sleep(5, {"a": 1}), Directive("sleep", timeout_ms=5_000, result={"a": 1})),
        (authoring.sleep("2h", then="again"), Directive("sleep", timeout_ms=7_200_000, then="again")),
        (
            authoring.wait_for_approval("manager", {"a": 1}),
            Directive("approval", type="manager", data={"a": 1}, timeout_ms=86_400_000),
        ),
        (
            authoring.wait_for_event("paid", key="7", timeout="1h"),
            Directive("event", "paid", "7", timeout_ms=3_600_000),
        ),
        (
            authoring.wait_for_callback(data={"a": 1}, result=2),
            Directive("callback", data={"a": 1}, timeout_ms=86_400_000, result=2),
        ),
        (
            authoring.children(["fraud", {"workflow": "fraud", "input": {"a": 1}}, {"workflow": "stock", "name": "s"}]),
            Directive(
                "children",
                data=[
                    {"workflow": "fraud", "name": "fraud", "input": None},
                    {"workflow": "fraud", "name": "fraud_2", "input": {"a": 1}},
                    {"workflow": "stock", "name": "s", "input": None},
                ],
                timeout_ms=300_000,
            ),
        ),
        (authoring.fail("no money", "card_declined"), Directive("fail", reason="no money", type="card_declined")),
        (authoring.fail("no money"), Directive("fail", reason="no money", type="failed")),
    ],
)
def test_a_directive_says_what_the_engine_is_to_do(made: Directive, expected: Directive) -> None:
    assert made == expected


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (lambda: authoring.sleep("366d"), "timeout_too_long"),
        (lambda: authoring.sleep(-1), "bad_duration"),
        (lambda: authoring.step(timeout=0), "bad_step"),
        (lambda: authoring.sleep(1, then="later"), "bad_step"),
        (lambda: authoring.wait_for_approval(timeout="31d"), "timeout_too_long"),
        (lambda: authoring.wait_for_callback(timeout="366d"), "timeout_too_long"),
        (lambda: authoring.wait_for_event(""), "bad_name"),
        (lambda: authoring.wait_for_event("paid", key=""), "bad_key"),
        (lambda: authoring.wait_for_event("paid", key="x" * 513), "bad_key"),
        (lambda: authoring.children([]), "bad_step"),
        (lambda: authoring.children("fraud"), "bad_step"),
        (lambda: authoring.children([5]), "bad_step"),  # type: ignore[list-item]  # the mistake
        (lambda: authoring.children([{"name": "x"}]), "bad_step"),
        (lambda: authoring.children([{"workflow": "f", "timeout": 5}]), "bad_step"),
        (lambda: authoring.children(["a b"]), "bad_name"),
        (lambda: authoring.children([{"workflow": "f", "name": ""}]), "bad_name"),
        (
            lambda: authoring.children([{"workflow": "f", "name": "x"}, {"workflow": "g", "name": "x"}]),
            "duplicate_name",
        ),
        (lambda: authoring.children(["f"] * 101), "too_many_children"),
        (lambda: authoring.children(["f"], timeout="25h"), "timeout_too_long"),
        (lambda: authoring.fail(5), "bad_step"),  # type: ignore[arg-type]  # the mistake
        (lambda: authoring.fail("x", type="a/b"), "bad_name"),
    ],
)
def test_a_bad_directive_is_refused_with_a_code(mistake: Callable[[], Any], code: str) -> None:
    with pytest.raises(UserError) as caught:
        mistake()
    assert caught.value.code == code


def test_a_directive_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        authoring.sleep(1).timeout_ms = 2  # type: ignore[misc]  # it is frozen


def test_what_is_no_step_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError):
        step(5)  # type: ignore[call-overload]  # the mistake


def test_the_options_of_a_workflow_that_checkers_know_are_the_keys_of_a_definition() -> None:
    """All that do not belong to another format, and that are not the decorator's own."""
    of_machines = {"Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version", "resources"}
    of_formats = {"timeline", "nodes", "steps", "actions", "function", "agent", "history_window", "compensation"}
    of_formats |= of_machines
    assert {*WorkflowOptions.__annotations__} == {*WorkflowDef.model_fields} - of_formats - {"workflow", "version"}
