"""A step's own exception is caught as itself, in the first run and in each replay, and as StepFailed."""

from __future__ import annotations

import pytest

from stepwell.testing.kit import Stepwell
from tests.durable.conftest import Flows

CODE = """
import asyncio
from decimal import Decimal
from stepwell import Invalid, Retry, StepFailed, workflow

class CardDeclined(Exception):
    amount: Decimal
    def __init__(self, code: str, amount: Decimal):
        super().__init__(f"declined: {code}")
        self.code, self.amount, self.data = code, amount, {"n": 1}

class Expired(CardDeclined): ...

class Full(OSError): ...

class Holds(Exception):
    def __init__(self):
        self.socket = object()

class Wrong(Invalid): ...

def charge(how: str):
    class Local(Exception): ...
    match how:
        case "declined":
            raise Expired("51", Decimal("1.10"))
        case "builtin":
            raise KeyError("x")
        case "os":
            raise Full(28, "no space")
        case "file":
            raise FileNotFoundError(2, "no such file", "till.csv")
        case "text":
            b"till \\xff".decode()
        case "nothing":
            raise TimeoutError
        case "holds":
            raise Holds
        case "local":
            raise Local("here")
        case "ours":
            raise Wrong("no card", {"card": None})
        case "group":
            raise StopIteration(1)

@workflow
async def flow(ctx, how: str, way: str = "step"):
    try:
        match way:
            case "step":
                await ctx.step(charge, how)
            case "run":
                await ctx.run(lambda: charge(how), name="charge")
            case "map":
                await ctx.map(charge, [how])
            case "all":
                await ctx.all(ctx.step(charge, how), ctx.sleep(1))
            case "gather":
                await asyncio.gather(ctx.step(charge, how), ctx.sleep(1))
            case "kept":
                (error, _) = await ctx.all(ctx.step(charge, how), ctx.sleep(1), return_exceptions=True)
                raise error
    except CardDeclined as error:
        await ctx.sleep(1)
        assert isinstance(error, StepFailed) and isinstance(error, Expired), type(error).__mro__
        return [type(error).__name__, str(error), error.code, str(error.amount + 1), error.data["n"], error.type]
    except (KeyError, Full, Wrong, FileNotFoundError, UnicodeDecodeError, TimeoutError) as error:
        assert isinstance(error, StepFailed)
        return [type(error).__name__, str(error), list(error.args), error.type, error.data]
    except StepFailed as error:
        return ["StepFailed", type(error).__name__, error.type, str(error)]

@workflow
async def careless(ctx):
    await ctx.step(charge, "declined")
"""


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def kit(flows: Flows, request: pytest.FixtureRequest) -> Stepwell:
    return flows(CODE, sessions=request.param)


@pytest.mark.parametrize("way", ["step", "run", "map", "all", "gather", "kept"])
def test_it_has_its_class_its_text_and_its_fields(kit: Stepwell, way: str) -> None:
    run = kit.start("flow", {"how": "declined", "way": way})
    kit.advance("3s")
    assert run.result == ["Expired", "declined: 51", "51", "2.10", 1, "Expired"], run.error


@pytest.mark.parametrize(
    ("how", "caught"),
    [
        ("builtin", ["KeyError", "'x'", ["x"], "KeyError", None]),
        ("os", ["Full", "[Errno 28] no space", [28, "no space"], "Full", None]),
        (
            "file",
            ["FileNotFoundError", "[Errno 2] no such file: 'till.csv'", [2, "no such file"], "FileNotFoundError", None],
        ),
        ("nothing", ["TimeoutError", "", [], "TimeoutError", None]),
        ("ours", ["Wrong", "no card", ["no card"], "Wrong", {"card": None}]),
    ],
)
def test_so_has_one_of_python_of_the_system_and_of_ours(kit: Stepwell, how: str, caught: list[object]) -> None:
    assert kit.start("flow", {"how": how}).result == caught


def test_one_whose_arguments_are_no_json_has_its_text(kit: Stepwell) -> None:
    """Its bytes cannot be stored: in UTF-8 they would be no error."""
    run = kit.start("flow", {"how": "text"})
    assert isinstance(run.result, list), run.error
    assert run.result[1:3] == ["StepFailed", "UnicodeDecodeError"]
    assert "invalid start byte" in run.result[3]


@pytest.mark.parametrize(("how", "name"), [("holds", "Holds"), ("local", "Local"), ("group", "StopIteration")])
def test_one_that_cannot_be_made_again_is_a_step_failed(kit: Stepwell, how: str, name: str) -> None:
    run = kit.start("flow", {"how": how})
    assert isinstance(run.result, list), run.error
    assert run.result[:3] == ["StepFailed", "StepFailed", name]


def test_uncaught_it_is_the_runs_error_and_nobody_sees_how_it_is_made(kit: Stepwell) -> None:
    run = kit.start("careless")
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("Expired", "declined: 51")
    assert "raised" not in run.error
    assert "raised" not in str(run.history)


def test_a_replay_has_the_class_that_the_name_stands_for_now(flows: Flows) -> None:
    kit = flows(CODE, sessions=0)
    run = kit.start("flow", {"how": "declined"})
    assert run.phase == "sleeping"
    flows.write(CODE.replace("class Expired(CardDeclined): ...", "Expired = CardDeclined"))
    kit.reload()
    kit.advance("1s")
    assert run.result == ["CardDeclined", "declined: 51", "51", "2.10", 1, "Expired"]


AGAIN = """
from stepwell import Retry, workflow

tries = []

class Full(OSError): ...

def fill(n: int):
    tries.append(n)
    if len(tries) < 3:
        raise Full(28, "no space")
    return n

@workflow
async def flow(ctx, way: str):
    again = Retry(3, "constant", "1s", on=(OSError,))
    match way:
        case "step":
            return [await ctx.step(fill, 1, retry=again)]
        case "run":
            return [await ctx.run(lambda: fill(1), name="fill", retry=again)]
        case "map":
            return await ctx.map(fill, [1], retry=again)
"""


@pytest.mark.parametrize("way", ["step", "run", "map"])
def test_a_policy_that_names_its_base_class_tries_it_again(flows: Flows, way: str) -> None:
    kit = flows(AGAIN)
    run = kit.start("flow", {"way": way})
    kit.advance("2s")
    assert run.result == [1], run.error
