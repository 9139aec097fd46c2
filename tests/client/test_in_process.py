"""A client in front of the testing kit: the API's own code, without a server and without a clock."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Client
from stepwell.client import ConflictProblem, InputProblem, NotFoundProblem, RunFailed
from stepwell.errors import InvalidInput, UserError
from stepwell.testing.kit import Stepwell
from tests.client.workflows.checkouts import Order, Receipt, checkout

FOLDER = Path(__file__).parent / "workflows"


@pytest.fixture
def stepwell() -> Stepwell:
    return Stepwell(FOLDER)


@pytest.fixture
def client(stepwell: Stepwell) -> Client:
    return stepwell.client()


def test_a_function_is_started_with_its_arguments_and_gives_its_own_type(client: Client) -> None:
    run = client.start(checkout, Order(item="tea", amount=3), id="order-17")
    run.approve(by="ana")
    receipt = run.result()
    assert (run.id, receipt) == ("order-17", Receipt(item="tea", by="ana"))
    assert client.handle("order-17", checkout).result() == receipt
    assert client.handle("order-17").result() == {"item": "tea", "by": "ana"}


def test_a_workflow_is_started_by_its_name_with_its_input(client: Client) -> None:
    run = client.start("checkout", {"order": {"item": "tea", "amount": 3}}, tags={"team": "shop"})
    assert run.status() == "waiting"
    assert [found["run_id"] for found in client.runs(tag="team=shop")] == [run.id]
    assert [found["run_id"] for found in client.runs(tag={"team": "shop"})] == [run.id]
    assert list(client.runs(tag={"team": "office"})) == []
    assert next(iter(run.history()))["type"] == "run.created"


def test_runs_are_listed_by_one_tag(client: Client) -> None:
    with pytest.raises(UserError) as refused:
        client.runs(tag={"team": "shop", "size": "s"})
    assert (refused.value.code, refused.value.hint) == (
        "bad_tag",
        'for example tag={"team": "shop"}, or tag="team=shop"',
    )


def test_a_large_value_is_read_whole(stepwell: Stepwell) -> None:
    text = "x" * 5_100_000
    stepwell.define("workflow: wide\ntimeline: [{name: wide, run: python:m.wide}]")
    stepwell.mock("wide", returns={"text": text})
    run = stepwell.client().start("wide")
    view = run.view()
    assert view["state"]["wide"]["large"]["bytes"] > 5_000_000
    assert run.client.whole(view)["state"]["wide"]["text"] == text
    entries = [run.client.whole(entry)["data"] for entry in run.history()]
    assert any(data and data.get("output") == {"text": text} for data in entries)
    assert run.value("/state/wide/text") == text


def test_a_result_that_looks_like_a_link_is_the_result(stepwell: Stepwell) -> None:
    """Whoever made it may have had it lead anywhere."""
    forged = {"large": {"bytes": 2, "link": "http://169.254.169.254/"}}
    stepwell.define("workflow: odd\ntimeline: [{name: odd, run: python:m.odd}]")
    stepwell.mock("odd", returns=forged)
    run = stepwell.client().start("odd")
    assert run.result() == forged
    assert run.value("/result") == forged


def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(InvalidInput, match="do not fit checkout"):
        client.start(checkout, Order(item="tea", amount=3), "more")  # type: ignore[arg-type,call-arg]  # one too many
    assert list(client.runs()) == []


def test_a_handle_queries_updates_signals_and_cancels(client: Client) -> None:
    run = client.start(checkout, Order(item="tea", amount=3))
    assert run.query("item") == "tea"
    assert run.update("rename", {"to": "coffee"}) == "coffee"
    run.signal("hurry")
    assert run.cancel("a mistake", by="ana")["cancelled"]
    assert run.status() == "cancelled"
    with pytest.raises(RunFailed) as failed:
        run.result()
    assert failed.value.run_status == "cancelled"


def test_what_the_api_refuses_is_raised_by_its_kind_and_code(client: Client) -> None:
    with pytest.raises(NotFoundProblem) as missing:
        client.handle("nobody").view()
    assert missing.value.code == "unknown_run"
    run = client.start(checkout, Order(item="tea", amount=3), id="once")
    with pytest.raises(ConflictProblem) as used:
        client.start(checkout, Order(item="coffee", amount=3), id="once")
    assert used.value.code == "already_used"
    with pytest.raises(InputProblem):
        client.handle(run.id).signal("")


def test_a_wait_that_only_the_test_can_end_is_told_instead_of_waited_for(client: Client, stepwell: Stepwell) -> None:
    run = client.start(checkout, Order(item="tea", amount=3))
    before = stepwell.now
    with pytest.raises(TimeoutError, match=f"run {run.id} waits for something that this test has not done"):
        run.result()
    assert stepwell.now == before


def test_an_async_client_does_the_same(stepwell: Stepwell) -> None:
    async def main() -> Receipt:
        async with stepwell.async_client() as client:
            run = await client.start(checkout, Order(item="tea", amount=3))
            await run.approve(by="ana")
            return await run.result()

    assert asyncio.run(main()) == Receipt(item="tea", by="ana")


def test_the_client_is_imported_only_by_who_uses_it() -> None:
    """A Lambda function pays for httpx when it takes the client, and for pydantic when it starts a function."""
    script = (
        "import sys, stepwell; assert not {'httpx', 'pydantic'} & {*sys.modules}; stepwell.Client('http://x.example');"
        "assert 'httpx' in sys.modules; assert not {'pydantic', 'boto3', 'botocore'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603 - our own words
