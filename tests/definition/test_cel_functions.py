"""The functions of CEL, each on values of every kind: what the library gives, or an error where it gives one."""

from __future__ import annotations

import datetime
import itertools
import math
import random

import pytest

from stepwell.definition.cel import overloads as cel_overloads
from stepwell.definition.cel.overloads import FUNCTIONS, MEMBERS, kind_of
from stepwell.definition.cel.values import Value
from stepwell.definition.expressions import compile_expression
from stepwell.errors import ExpressionError
from tests.definition.cel_library import computed

UTC = datetime.UTC
TIMES = ["2020-01-01T00:00:00Z", "2020-02-29t23:59:60z", "2024-2-30T00:00:00Z", "1969-12-31T23:59:59.9999999Z",
         "0001-01-01T00:00:00+00:01", "0000-12-31T23:59:59-02:00", "9999-12-31T23:59:59-00:01",
         "10000-01-01T00:00:00+01",
         "2020-01-01T24:00:00Z", "2020-01-01T00:00:00+0230", "2020-01-01T00:00:00+2:30", "2020-01-01T00:00:00+24:00",
         "2020-01-01 00:00:00Z", "+2020-01-01T00:00:00Z", "2020-1-1T1:2:3.5-01:02:03", "infinite-past",
         "\v2020-01-01T00:00:00Z ",
         "2020-012-01T00:00:00Z", "2020-01-01T00:00:61Z", "2020-01-01T00:00:00.Z",
         "2020-01-01T00:00:00+01:60"]  # fmt: skip
DURATIONS = ["1h2m3.5s", "1.5", "-1s", "1ms", "-1500us", "999ns", "1001ns", ".5s", "1.s", ".s", "s", "", "+1m",
          "--1s", "0",
             "-0", "00", "1m1h", "1d", "1 s", "1e3s", "315576000000s", "315576000001s", "-87660001h", "1.23456789s",
             "inf",
             "-inf", "1s1", "1H", "1\N{MICRO SIGN}s", "-0.0000019s"]  # fmt: skip
NUMBERS = ["12", " +12\t", "-12", "- 1", "1_0", "0x1F", "-0x1.8p1", "1e5", "1.", ".5", ".", "1e", "+-1", "inf",
          "-Infinity",
           "NaN", "nan(5)", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
           "18446744073709551615",
           "18446744073709551616", "1e400", "1,5", "\N{NO-BREAK SPACE}1", "\N{ARABIC-INDIC DIGIT THREE}",
           "-0"]  # fmt: skip
WORDS = ["true", "TRUE", "True", "t", "T", "1", "0", "f", "F", "False", "tRUE"]
TEXTS = ["", "a", "abcabc", "a,b,,c", ",", "héllo wörld", "😀e\u0301", " \t x\u3000\u200b",
          'q"\\\n\a\b\f\r\t\v\'\x7f', "ABCÀ",
         "%s", "%", "%%", "%d|%s|%f", "%.2f", "%.0e", "%x", "%X", "%o", "%b", "%e", "%.d", "%.1001f", "%5d", "%.2",
         "%s %s", "é%sé",
         "(a", "[a-c]+$", "(?i)A", "\\pL", "^.$", "a{1001}", "(?=a)", "x*"]  # fmt: skip
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "-05:30", "+5:30", "05:30:00", "+25:00", "+02:99", ":30", "5",
          "Z",
         "Nowhere/Land", "-0:30"]  # fmt: skip
POOL: dict[str, list[Value]] = {
    "b": [True, False],
    "d": [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1e-5, 1e-4, 99999.5, 999999.5, 1e6, 1.0000005e6, 1e15, 1e17, 1e21, 5e-324,
              0.49999999999999994,
          -2.5, 9.2233720368547748e18, 9.2233720368547758e18, -9.2233720368547758e18, 1.8446744073709552e19,
          math.inf, -math.inf, math.nan,
          1.7976931348623157e308, 1 / 3],
    "i": [0, 1, 2, 3, 5, 6, -1, -8, 62, 63, 64, 255, 1577836800, 253402300799, 253402300800, -62135596801,
              (1 << 63) - 1, -(1 << 63), 1 << 53],
    "l": [[], [1, 2.5, -3], ["a", "b"], ["a", 1], [1.0, math.nan], [True], [None], [[1, "a",
              None, 2.5], {"b": 1, "a": [0.1]}], [255, "x"],
          ["Infinity", 1], [1e17], [-5], ["é"], [1.5, 2], [123456789.125]],
    "m": [{}, {"x": 1}],
    "n": [None],
    "p": [datetime.timedelta(seconds=seconds) for seconds in (0, 5400, -90.5, 0.000001, 90.12, -3600)],
    "s": [*TIMES, *DURATIONS, *NUMBERS, *WORDS, *TEXTS, *ZONES],
    "y": [b"", b"abc", "é".encode()],
    "t": [datetime.datetime(2026, 1, 5, 3, 4, 5, 678000, UTC), datetime.datetime(1, 1, 1, tzinfo=UTC),
          datetime.datetime(9999, 12, 31, 23, 59, 59, 500000, UTC), datetime.datetime(1969, 12, 31, 23, 59, 59,
          120001, UTC),
          datetime.datetime(2024, 2, 29, 12, tzinfo=UTC), datetime.datetime(2026, 7, 5, 3, tzinfo=UTC)],
}  # fmt: skip
MOST = 1_200  # combinations of one function that are tried


def same(ours: Value, theirs: Value) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return repr(ours) == repr(theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and bool(ours == theirs)


def outcome(name: str, is_member: bool, args: tuple[Value, ...]) -> tuple[str, Value]:
    try:
        return "value", cel_overloads.call(name, is_member, list(args))
    except ExpressionError as error:
        return "error", error.message


def combinations(name: str, arity: int, chance: random.Random) -> list[tuple[Value, ...]]:
    """Values of the kinds that the function takes, all or a sample, and some of kinds that it does not."""
    kinds = [kinds for kinds in FUNCTIONS[name] if len(kinds) == arity and "u" not in kinds]
    fitting = [made for one in kinds for made in itertools.product(*(POOL[kind] for kind in one))]
    everything = [value for values in POOL.values() for value in values]
    wrong = [tuple(chance.choice(everything) for _ in range(arity)) for _ in range(60)]
    return [*(chance.sample(fitting, MOST) if len(fitting) > MOST else fitting), *wrong]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_gives_what_the_library_gives(name: str) -> None:
    chance = random.Random(name)
    is_member = name in MEMBERS
    wrong = []
    for arity in sorted({len(kinds) for kinds in FUNCTIONS[name]}):
        for args in combinations(name, arity, chance):
            (theirs, expected), (ours, made) = computed(name, is_member, args), outcome(name, is_member, args)
            if (ours != theirs or (ours == "value" and not same(made, expected))) and not is_known(name, args):
                wrong.append((args, expected, made))
    assert wrong == []


def is_known(name: str, args: tuple[Value, ...]) -> bool:
    """Where the library is wrong: it takes no end of a text for one, and compares 2**63 - 1 as a double."""
    if name == "substring" and len(args) == 3:
        return isinstance(args[0], str) and args[2] == len(args[0])
    return name.startswith("math.@m") and (1 << 63) - 1 in args and any(isinstance(arg, float) for arg in args)


def test_a_text_may_be_taken_to_its_end() -> None:
    """The library refuses it, against the specification of CEL."""
    assert compile_expression("'abc'.substring(1, 3)").evaluate({}) == "bc"


def test_what_is_space_is_what_the_library_takes_for_it() -> None:
    for code in range(1, 0x3100):
        text = f"{chr(code)}a{chr(code)}"
        assert cel_overloads.call("trim", True, [text]) == computed("trim", True, (text,))[1], hex(code)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-7 < 0.5 && state.a > 1e15", True),
        ("state.a * 1e-3", 2e15),
        ("[1e21, 5, 7e11][0] == 1e21", True),
    ],
)
def test_a_number_with_an_exponent_is_itself(text: str, value: object) -> None:
    assert compile_expression(text).evaluate({"state": {"a": 2e18}}) == value


def test_a_uint_is_a_number_of_its_own_only_above_the_ints() -> None:
    assert [kind_of(value) for value in (1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64)] == [
        "i",
        "i",
        "u",
        "u",
        "?",
    ]
    assert compile_expression("string(uint('18446744073709551615'))").evaluate({}) == "18446744073709551615"
    with pytest.raises(ExpressionError, match="uint64 out of int64 range"):
        compile_expression("int(uint('18446744073709551615'))").evaluate({})


@pytest.mark.parametrize(
    ("zone", "hours"), [("+05:00", [4, 10000]), ("-05:00", [18, 9999]), ("+49:00", [0, 10000]), ("", [23, 9999])]
)
def test_a_zone_may_leave_the_years_that_python_has(zone: str, hours: list[int]) -> None:
    last = "timestamp('9999-12-31T23:59:59Z')"
    assert compile_expression(f"[{last}.getHours('{zone}'), {last}.getFullYear('{zone}')]").evaluate({}) == hours
