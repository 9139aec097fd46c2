"""`input.NAME` is warned about where the input's schema has nearly that name."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition

FLOW = """\
workflow: flow
input_schema: {type: object, properties: {order_id: {type: string}, amount: {type: number}}}
timeline:
  - {name: pay, run: "http:GET https://a.test/", timeout: 9s, GIVEN}
"""


def warned(given: str) -> list[tuple[str, int, str | None]]:
    found = compile_definition(FLOW.replace("GIVEN", given)).problems
    return [(one.message, one.line, one.hint) for one in found if one.code == "unknown_input"]


@pytest.mark.parametrize(
    ("given", "name", "meant"),
    [
        ('input: {a: "{{ input.orderid }}"}', "orderid", "order_id"),
        ('input: {a: ["of {{ input.amonut + 1 }}"]}', "amonut", "amount"),
        ('throttle: {limit: bank, key: "{{ input.order_di }}"}', "order_di", "order_id"),
        ('diverge: [{when: input.amonut > 1, fail: too_much}]', "amonut", "amount"),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_a_declared_one_is_warned_about(given: str, name: str, meant: str) -> None:
    message = f"`input.{name}` is read, and input_schema does not have it"
    assert warned(given) == [(message, 4, f"did you mean `{meant}`?")]


@pytest.mark.parametrize(
    "given",
    [
        'input: {a: "{{ input.order_id }}"}',
        'input: {a: "{{ input.customer }}"}',  # like no other, and the schema is open
        'input: {a: "{{ state.pay[0].input.amonut }}", b: input.amonut is text}',
    ],
)
def test_what_may_be_there_is_left_alone(given: str) -> None:
    assert warned(given) == []
