"""Text to plain data and places; what is malformed is a problem with its line."""

from __future__ import annotations

import pytest

from stepwell.definition.loader import load_document
from stepwell.limits import DEFINITION_BYTES
from tests.effort import loops

WORDS = ["no", "off", True, None, None, "007", "12:30", "2026-01-01", "1_000"]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("on: yes", {"on": "yes"}),
        ("a: [no, off, true, ~, null, 007, 12:30, 2026-01-01, 1_000]", {"a": WORDS}),
        ("a: [0x1F, -3, +4, 1e3, .5, '5']", {"a": [31, -3, 4, 1000.0, 0.5, "5"]}),
        ("1: x\nnull: y", {"1": "x", "null": "y"}),
        ("a: &x {k: v}\nb: *x\nc: {<<: *x, k: w}", {"a": {"k": "v"}, "b": {"k": "v"}, "c": {"k": "w"}}),
        ('{"a": "\\ud83d\\ude00",\n\t"b": 2.50}', {"a": "😀", "b": 2.5}),
        ("\ufeffa: 1", {"a": 1}),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_words_mean_what_they_look_like(text: str, data: dict[str, object]) -> None:
    loaded = load_document(text)
    assert not loaded.problems
    assert loaded.data == data


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "empty_definition", 1),
        ("# nothing", "empty_definition", 1),
        ("a: 1\nb: {c: [1", "bad_syntax", 2),
        ("a:\n\tb: 1", "bad_syntax", 2),
        ("a: b: c", "bad_syntax", 1),
        ("a: 1\n---\nb: 2", "bad_syntax", 2),
        ("a: 1\nb: 2\na: 3", "duplicate_key", 3),
        ('{"a": 1,\n "a": 2}', "duplicate_key", 2),
        ("a: 1\nb: !!python/object:os.system x", "bad_tag", 2),
        ("a: .nan", "bad_number", 1),
        ("a: 1\nb: -.inf", "bad_number", 2),
        ('{"a": 1e999}', "bad_number", 1),
        ("? [a]\n: 1", "bad_key", 1),
        ("a: *nowhere", "bad_alias", 1),
        ("a: &a [*a]", "bad_alias", 1),
        ("a: " + "[" * 100 + "]" * 100, "too_deep", 1),
        ('{"a":' * 5_000, "too_deep", 1),
        ("a: \x01", "bad_syntax", 0),
        ("x" * (DEFINITION_BYTES + 1), "definition_too_large", 0),
    ],
)
def test_malformed_text_is_one_problem_with_its_line(text: str, code: str, line: int) -> None:
    (problem,) = load_document(text, "flow.yaml").problems
    assert (problem.code, problem.line, problem.file) == (code, line, "flow.yaml")


def test_an_alias_bomb_is_refused_before_it_expands() -> None:
    layers = [
        f"{name}: &{name} [{','.join(['*' + before] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]

    def refused() -> None:
        (problem,) = load_document("a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(layers)).problems
        assert problem.code == "definition_too_large"

    assert loops(refused) < 100  # measured: 5, 0.2 s


def test_places_are_those_of_keys_and_items() -> None:
    places = load_document("a:\n  - x: 1\n  - y: {z/w: 2}\n").places
    assert places["/a"] == (1, 1)
    assert places["/a/1"] == (3, 5)
    assert places["/a/1/y/z~1w"] == (3, 9)


def test_json_has_places_too() -> None:
    assert load_document('{"a":\n\t{"b\\ud83d\\ude00": [1,\n 2]}}').places["/a"] == (1, 2)


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ('{"a": 1,\n "b" 2}', (2, 6), "expecting ':' delimiter"),
        ('{"a": 1,\n // two\n "b": 2}', (2, 2), "expecting property name enclosed in double quotes"),
        ('{"a": 1,\n "b": "\x01"}', (2, 8), "invalid control character"),
        ('{"a": 1,\n "b": [\n', (2, 7), "this is not closed"),
    ],
)
def test_a_json_file_is_told_what_is_wrong_with_its_json(text: str, place: tuple[int, int], told: str) -> None:
    (problem,) = load_document(text, "a.json").problems
    assert (problem.line, problem.column, problem.message) == (*place, f"not readable as JSON: {told}")
