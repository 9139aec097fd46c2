"""What may come in: hostile names, ids, keys and JSON are refused under a code of their own, and nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidInput, UserError
from stepwell.limits import JSON_DEPTH, KEY_CHARACTERS, NAME_CHARACTERS, TAGS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.admission import check_event_key, check_json, check_name, check_run_id, check_tags
from tests.runtime.kit import World

FLOW = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}]"
BAD_NAMES = ["", " ", "a b", "../etc/passwd", "a/b", "a\\b", "a..b", ".hidden", "-x", "a\n", "a\0b", "é", "a#b", "a|b",
             "x" * (NAME_CHARACTERS + 1), "a%2fb", "${a}", "{{a}}", "'; DROP TABLE runs;--"]  # fmt: skip
BAD_JSON: list[tuple[str, Any]] = [
    ("not_finite", float("nan")),
    ("not_finite", {"a": [float("inf")]}),
    ("not_finite", [-float("inf")]),
    ("number_too_large", 2**63),
    ("number_too_large", {"a": -(2**63)}),
    ("bad_text", "\ud800"),
    ("bad_text", {"\udfff": 1}),
    ("bad_text", ["a\udc80"]),
    ("not_json", object()),
    ("not_json", {1, 2}),
    ("not_json", b"bytes"),
    ("not_json", {"a": (1, 2)}),
    ("not_json", {("a",): 1}),
]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_be_a_path_a_key_or_a_trick_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_name(name, "workflow name")
    assert refused.value.code == "bad_name"
    with pytest.raises(InvalidInput) as refused:
        check_run_id(name)
    assert refused.value.code == "bad_run_id"


@pytest.mark.parametrize(
    "name", ["a", "9", "order-review", "stripe.payment_intent.succeeded", "a:b", "x" * NAME_CHARACTERS]
)
def test_ordinary_names_pass(name: str) -> None:
    check_name(name, "event name")


@pytest.mark.parametrize("key", ["\n", "a\0", "a\tb", "\ud800", "x" * (KEY_CHARACTERS + 1), "\u2028"])
def test_a_key_that_cannot_be_shown_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_event_key(key)
    assert refused.value.code == "bad_key"


def test_a_refused_value_of_a_tag_is_named_by_its_tag() -> None:
    with pytest.raises(InvalidInput, match="that cannot be the value of the tag 'team'"):
        check_tags({"shop": "a", "team": "\0"})


@pytest.mark.parametrize("key", ["", "a b", "ünïcode/…", "x" * KEY_CHARACTERS, "@run", "=key", "a|b#c"])
def test_a_key_may_be_any_printable_text(key: str) -> None:
    check_event_key(key)


@pytest.mark.parametrize(("code", "value"), BAD_JSON)
def test_what_is_not_json_that_every_store_can_hold_is_refused(code: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_json(value, "input")
    assert refused.value.code == code


def test_nesting_is_bounded() -> None:
    check_json(nested(JSON_DEPTH), "input")
    for depth in (JSON_DEPTH + 1, 100_000):
        with pytest.raises(InvalidInput) as refused:
            check_json(nested(depth), "input")
        assert refused.value.code == "too_deep"


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(_json)
def test_whatever_is_json_passes_and_can_be_stored(value: Any) -> None:
    check_json(value, "input")
    assert json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode().decode()) == value


def test_tags_are_bounded_in_number_name_and_value() -> None:
    check_tags({f"t{number}": "v" for number in range(TAGS)})
    for tags in ({f"t{number}": "v" for number in range(TAGS + 1)}, {"a b": "v"}, {"a": "\n"}, {"a": "x" * 513}):
        with pytest.raises(InvalidInput):
            check_tags(tags)


@pytest.mark.parametrize(("code", "value"), [*BAD_JSON, ("too_deep", nested(65))])
def test_no_door_writes_anything_of_it(code: str, value: Any) -> None:
    world = World(FLOW)
    run_id = world.start()
    world.deliver()
    world.store.calls.clear()
    for call in (
        lambda: world.start(given=value),
        lambda: run_now(world.service.approve(run_id, value)),
        lambda: run_now(world.service.send_event("paid", value, run_id=run_id)),
        lambda: run_now(world.service.send_event("paid", value, key="k")),
    ):
        with pytest.raises(UserError) as refused:
            call()
        assert refused.value.code == code
    assert not world.store.writes
    assert world.deliver() == 0


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_door_takes_a_bad_name(name: str) -> None:
    world = World(FLOW)
    for call in (
        lambda: world.start(name),
        lambda: world.start(run_id=name or " "),
        lambda: world.start(tags={name: "v"}),
        lambda: run_now(world.service.send_event(name, {})),
        lambda: run_now(world.service.header(name)),
        lambda: run_now(world.service.cancel(name)),
    ):
        with pytest.raises(UserError):
            call()
    assert not world.store.writes


@pytest.mark.parametrize("text", ["\ud800", "a\udc80b"])
@pytest.mark.parametrize("call", ["cancel", "terminate", "reject"])
def test_a_reason_or_a_name_that_no_store_can_hold_is_refused(call: str, text: str) -> None:
    for parts in ({"reason": text}, {"who": text}):
        world = World(FLOW)
        run_id = world.start()
        world.deliver()
        with pytest.raises(InvalidInput):
            run_now(getattr(world.service, call)(run_id, **parts))


def test_a_key_of_any_text_makes_a_run_id_that_can_be() -> None:
    world = World(FLOW)
    for key in ("\ud800", "../..", "x" * 10_000, "\0"):
        check_run_id(world.start(key=key))
