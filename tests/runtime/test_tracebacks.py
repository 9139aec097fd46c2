"""A failed step's traceback is kept with its run: the user's frames, bounded, and without secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.engine.entries import Entry
from stepwell.engine.records import Failure, Kind, Record, Status
from stepwell.engine.stored.codec import encode_record
from stepwell.limits import TRACEBACK_BYTES
from stepwell.runtime.notify.telling import Notice, notice_json
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.steps import tracebacks
from stepwell.runtime.steps.secrets import READ
from stepwell.testing.kit import Stepwell
from tests.runtime.kit import NOW_MS, Folder

Make = Callable[..., Folder]

SHOP = """
import json
from stepwell import OperationFailed, StepError, Transient, step, workflow

class Declined(StepError): pass

def charge(): return _charged()
def _charged():
    raise ValueError("no funds")
def parses(): return json.loads("{")
def declines():
    try:
        charge()
    except ValueError as error:
        raise Declined("no") from error
def cleans_up():
    try:
        charge()
    finally:
        raise KeyError("worse")
def hides():
    try:
        charge()
    except ValueError:
        raise KeyError("k") from None
def gathers():
    many = []
    for call in (charge, parses):
        try:
            call()
        except ValueError as error:
            many.append(error)
    raise ExceptionGroup("2 of 2 failed", [ExceptionGroup("inner", many), *(KeyError(n) for n in range(9))])
def later(): raise Transient("busy")
def deep(n=0): return deep(n + 1)
def wide():
    raise ValueError("a very long line of code that goes on and on, beyond what a person reads in one line of a page"
                     ) if ("and on and on and on and on and on and on and on and on and on and on") else None
def _r(n): return _r(n - 1) if n else wide()
def wide_and_deep(): return _r(20)
async def waits(): return _charged()
def leaks():
    try:
        raise ValueError("the key is s3cret-s3cret, nobody must know")
    except ValueError as error:
        raise Declined("no") from error
def tells(): raise Declined("it is not s3cret-s3cret", {"tried": ["s3cret-s3cret"]})
def opens(): raise Declined(
    "host=db password=hunter2 failed, {'client_secret': 'two words', 'id': 7}, an api_key is missing")
def typed(n: int): return n
def connects():
    try: raise OSError("no route to " + "x" * 140 + " s3cret-s3cret")
    except OSError as error:
        raise Declined("postgres://app:hunter2@db:5432/x, Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30") from error

@workflow
async def plain(ctx): return _charged()
@workflow
async def wrong(ctx): await ctx.sleep("two fortnights")
@workflow
async def uncaught(ctx): await ctx.step(charge)
"""


def line_of(code: str) -> int:
    return SHOP[: SHOP.index(code)].count("\n") + 1


CHARGE = """\
  File "shop.py", line 7, in charge
    def charge(): return _charged()
  File "shop.py", line 9, in _charged
    raise ValueError("no funds")"""


@pytest.fixture
def shop(folder: Make) -> Folder:
    return folder(shop=SHOP)


def failed(made: Folder, path: str, **given: object) -> Failure:
    failure = made.run(path, given or None).failure
    assert failure is not None
    return failure


def test_a_failed_step_s_traceback_has_the_frames_of_the_user_s_code(shop: Folder) -> None:
    """Neither Stepwell's frames, nor where the folder is on this machine."""
    assert failed(shop, "shop.charge").traceback == CHARGE
    assert failed(shop, "shop.later").traceback.startswith(f'  File "shop.py", line {line_of("def later")}, in later\n')
    assert "line 9, in _charged\n" in failed(shop, "shop.waits").traceback


def test_of_a_library_the_innermost_frame_is_shown_alone(shop: Folder) -> None:
    lines = failed(shop, "shop.parses").traceback.splitlines()
    assert [line.split(",")[0] for line in lines[::2]] == ['  File "shop.py"', '  File "json/decoder.py"']


@pytest.mark.parametrize(
    ("name", "cause"), [("declines", "ValueError: no funds"), ("cleans_up", "ValueError: no funds"), ("hides", None)]
)
def test_a_cause_is_told_below_unless_the_code_hides_it(shop: Folder, name: str, cause: str | None) -> None:
    text = failed(shop, f"shop.{name}").traceback
    assert text.startswith('  File "shop.py", line ')
    assert (f"\ncaused by {cause}\n" in text) is (cause is not None)
    assert ("in _charged" in text) is (cause is not None)


def test_of_a_group_the_members_are_told_in_the_message_and_below(shop: Folder) -> None:
    """What an `asyncio.TaskGroup` raises says of itself how many there are, and no more."""
    failure = failed(shop, "shop.gathers")
    inner = "ExceptionGroup: inner (2 sub-exceptions): ValueError: no funds; JSONDecodeError: Expecting property name"
    assert failure.message.startswith(f"2 of 2 failed (10 sub-exceptions): {inner}")
    assert failure.message.endswith("KeyError: 0; KeyError: 1; KeyError: 2; KeyError: 3")
    assert "\nwith ExceptionGroup: inner (2 sub-exceptions)\nwith ValueError: no funds\n" in failure.traceback
    assert "line 9, in _charged\n" in failure.traceback
    assert len(failure.traceback.encode()) <= TRACEBACK_BYTES


@pytest.mark.parametrize("name", ["deep", "wide_and_deep"])
def test_a_traceback_is_short_and_says_how_many_frames_it_leaves_out(shop: Folder, name: str) -> None:
    text = failed(shop, f"shop.{name}").traceback
    assert len(text.encode()) <= TRACEBACK_BYTES
    assert text.startswith(f'  File "shop.py", line {line_of(f"def {name}(")}, in {name}\n')
    assert " more\n" in text
    assert text.splitlines()[-1].startswith("    ")  # the innermost line of code is there


def test_a_record_grows_by_no_more_than_a_traceback_may_have(shop: Folder) -> None:
    failure = failed(shop, "shop.deep")
    bare = Failure(failure.type, failure.category, failure.message, failure.step)
    sizes = [len(encode_record(Record(0, Kind.STEP, "me", 0, "n", error=one)).encode()) for one in (bare, failure)]
    assert 0 < sizes[1] - sizes[0] < 1_100


def test_a_secret_that_this_process_has_read_is_not_in_a_traceback(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracebacks, "READ", {"s3cret-s3cret"})
    assert "the key is [secret], nobody must know" in failed(shop, "shop.leaks").traceback


def test_a_secret_that_this_process_has_read_is_nowhere_in_an_error(shop: Folder) -> None:
    READ.add("s3cret-s3cret")
    try:
        failure = failed(shop, "shop.tells")
    finally:
        READ.discard("s3cret-s3cret")
    assert (failure.message, failure.data) == ("it is not [secret]", {"tried": ["[secret]"]})
    assert failure.raised is not None
    assert "s3cret" not in encode_record(Record(0, Kind.STEP, "me", 0, "n", error=failure))


def test_no_half_of_a_secret_is_left_where_a_line_ends(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracebacks, "READ", {"s3cret-s3cret"})
    cause = next(line for line in failed(shop, "shop.connects").traceback.splitlines() if "no route" in line)
    assert cause.endswith("xxx [secret")


def test_the_password_of_an_address_and_what_authorizes_are_nowhere_in_an_error(shop: Folder) -> None:
    """Nobody told Stepwell of them: their place says what they are."""
    failure = failed(shop, "shop.connects")
    assert failure.message == "postgres://app:[secret]@db:5432/x, Authorization: Bearer [secret]"
    stored = encode_record(Record(0, Kind.STEP, "me", 0, "n", error=failure))
    assert "hunter2" not in stored
    assert "eyJ" not in stored


def test_what_is_given_as_a_password_is_nowhere_in_an_error(shop: Folder) -> None:
    failure = failed(shop, "shop.opens")
    assert failure.message == (
        "host=db password=[secret] failed, {'client_secret': '[secret]', 'id': 7}, an api_key is missing"
    )
    assert "hunter2" not in encode_record(Record(0, Kind.STEP, "me", 0, "n", error=failure))


def test_an_error_of_another_origin_has_no_traceback(shop: Folder) -> None:
    assert failed(shop, "shop.typed", n="x").traceback == ""
    assert failed(shop, "shop.gone").traceback == ""


def test_a_module_that_cannot_be_imported_says_in_which_line(folder: Make) -> None:
    assert failed(folder(broken="x = 1\nx / 0\ndef f(): ..."), "broken.f").traceback == (
        '  File "broken.py", line 2, in <module>\n    x / 0'
    )


# -- kept with the run


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "shop.py").write_text(SHOP)
    return Stepwell(tmp_path)


def test_the_run_its_step_and_its_history_show_the_traceback(kit: Stepwell) -> None:
    kit.define("workflow: w\ntimeline: [{name: charge, run: python:shop.charge}]")
    run = kit.start("w")
    assert run.view["error"]["traceback"] == CHARGE
    assert run.view["steps"]["charge"]["error"]["traceback"] == CHARGE
    told = [entry["data"]["error"] for entry in run.history if entry["type"] in {"step.failed", "run.failed"}]
    assert [error["traceback"] for error in told] == [CHARGE, CHARGE]


@pytest.mark.parametrize(
    ("name", "code"),
    [("plain", "async def plain(ctx): return _charged()"), ("wrong", 'async def wrong(ctx): await ctx.sleep("two f')],
)
def test_a_durable_function_that_raises_shows_its_lines(kit: Stepwell, name: str, code: str) -> None:
    error = kit.start(name).view["error"]
    assert error["traceback"].startswith(f'  File "shop.py", line {line_of(code)}, in {name}\n    {code}')


def test_a_durable_function_that_lets_a_step_s_error_pass_shows_the_step_s_lines(kit: Stepwell) -> None:
    assert kit.start("uncaught").view["error"]["traceback"] == CHARGE


def test_expressions_and_parents_see_the_error_without_its_traceback(kit: Stepwell) -> None:
    kit.define("workflow: child\ntimeline: [{name: charge, run: python:shop.charge}]")
    kit.define(
        "workflow: w\ntimeline:\n"
        "- {name: charge, run: python:shop.charge, on_failure: skip}\n"
        '- {name: seen, run: python:shop.seen, input: {error: "{{ steps.charge.error }}"}}\n'
        "- {name: call, run: 'workflow:child'}\n"
    )
    seen = kit.mock("seen")
    run = kit.start("w")
    assert run.error is not None
    assert sorted(seen.calls[0]["error"]) == ["attempts", "category", "data", "message", "step", "type"]
    assert run.error["type"] == "child_failed"
    assert "_charged" not in str(run.error)


def test_subscribers_get_the_error_without_its_traceback() -> None:
    entry = Entry("0@0.0", NOW_MS, "run.failed", "0", data={"error": {"type": "E", "traceback": CHARGE}, "n": 1})
    told = notice_json(Notice(Header("r1", "w", "v", None, NOW_MS), Status.FAILED, entry))["entry"]
    assert told["data"] == {"error": {"type": "E"}, "n": 1}
