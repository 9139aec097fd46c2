"""`state.NAME` is warned about where nothing of the definition writes that name."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.definition.state_names import OF_WAITS
from stepwell.engine.results import _OF_CHILD
from stepwell.engine.waits import kind

FLOW = """\
workflow: flow
timeline:
  - {name: fetch, run: "http:GET https://a.test/", timeout: 9s, output: {total: "{{ result.body }}"}}
  - {name: ask, wait: {for: approval, timeout: 1h}}
  - {name: pay, run: "http:GET https://a.test/", timeout: 9s, input: {n: "{{ READ }}"}}
"""


def warned(text: str) -> list[tuple[str, int, str]]:
    found = compile_definition(text).problems
    return [(one.message, one.line, one.hint or "") for one in found if one.code == "unknown_state"]


@pytest.mark.parametrize(
    "read",
    ["state.fetch", "state.total", "state.approval.by", "state._last_error.type", "input.typo", "has(state.ask)"],
)
def test_a_name_that_something_writes_is_read_without_a_word(read: str) -> None:
    assert warned(FLOW.replace("READ", read)) == []


def test_a_name_that_nothing_writes_is_warned_about_with_the_closest_one() -> None:
    ((message, line, hint),) = warned(FLOW.replace("READ", "state.totl"))
    assert (message, line) == ("`state.totl` is read, and nothing writes it", 5)
    assert hint == "did you mean `total`?"


def test_it_is_warned_about_once_however_often_it_is_read() -> None:
    text = FLOW.replace("READ", "state.typo + state.typo") + '  - {name: nap, sleep: "{{ state.typo }}"}\n'
    assert len(warned(text)) == 1


@pytest.mark.parametrize(
    "more",
    [
        'output: "{{ result.body }}"',  # an object of any names
        "",
    ],
)
def test_nothing_is_said_where_a_step_may_write_any_name(more: str) -> None:
    text = FLOW.replace('output: {total: "{{ result.body }}"}', more or "output: {}").replace("READ", "state.typo")
    assert len(warned(text)) == (0 if more else 1)


def test_a_name_of_the_state_schema_is_known() -> None:
    text = FLOW.replace("READ", "state.typo")
    schema = "state_schema: {type: object, properties: {typo: {type: string}}}\n"
    assert warned(text.replace("timeline:\n", f"{schema}timeline:\n")) == []


def test_the_items_of_a_fork_and_the_target_of_its_join_are_known() -> None:
    text = """\
workflow: flow
nodes:
  spread: {transitions: [{to: one, foreach: input.items, as: line}]}
  one: {run: "http:GET https://a.test/", timeout: 9s, input: {n: "{{ state.line }}"}, transitions: [{to: all}]}
  all: {fan_in: {target: scores}, transitions: [{to: last, when: "size(state.scores) > 0"}]}
  last: {run: "http:GET https://a.test/", timeout: 9s, input: {n: "{{ state.lines }}"}}
"""
    assert [hint for _, _, hint in warned(text)] == ["did you mean `line`?"]


def test_the_variables_of_an_agent_may_come_from_anywhere() -> None:
    text = 'agent: a\nactions:\n  - {actionType: send, parameters: {message: "{{ state.typo }}"}}\n'
    assert warned(text) == []


def test_the_names_that_waits_write_are_those_of_the_engine() -> None:
    assert {name for one in kind.KINDS.values() for name in one.sets} | {*_OF_CHILD} == OF_WAITS


@pytest.mark.parametrize("read", ["order_id", "state.order_id"])
def test_a_name_of_the_input_is_to_be_read_from_the_input(read: str) -> None:
    schema = "input_schema: {type: object, properties: {order_id: {type: string}}}\n"
    (found,) = compile_definition(FLOW.replace("READ", read) + schema).problems
    assert (found.line, found.hint) == (5, "write input.order_id: it is a name of the input")


def test_an_unknown_name_may_be_one_of_the_input_or_a_variable() -> None:
    (found,) = compile_definition(FLOW.replace("READ", "order_id")).problems
    assert found.hint.startswith(
        "write input.order_id for a name of the input, state.order_id for a variable; the names"
    )
