"""`ctx.transact`: the user's writes and the operation's record, once and together, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.durable.transact import Check, Delete, Put, Update, number_of
from stepwell.engine.records import Failure
from stepwell.errors import InvalidInput, PortError
from stepwell.limits import DELIVERIES, TABLE_ITEM_BYTES, TRANSACT_DEPTH
from stepwell.runtime.durable.failures import OperationFailed, TransactionRefused, raised
from stepwell.runtime.durable.transacting import checked
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.testing.backend import Backend, in_memory
from stepwell.testing.kit import Run, Stepwell
from tests.runtime.kit import operation

SHOP = """
from decimal import Decimal
from stepwell import Check, Delete, Put, TransactionRefused, Update, workflow

def sell(ctx, sku, count):
    return [
        Update("stock", {"sku": sku}, add={"left": -count}, at_least={"left": count}),
        Put("orders", {"id": ctx.run_id}, {"sku": sku, "count": count}, exists=False),
    ]

@workflow
async def buy(ctx, sku: str, count: int):
    ctx.state["sku"] = sku
    made = await ctx.transact(sell(ctx, sku, count))
    await ctx.transact([Update("sales", {"day": 1}, add={"count": count})], name="count")
    await ctx.event("shipped")
    return made

@workflow
async def try_to_buy(ctx, sku: str):
    try:
        await ctx.transact([Check("orders", {"id": "o"}, exists=False), *sell(ctx, sku, 1)])
    except TransactionRefused as refused:
        ctx.state["refused"] = refused.write
    await ctx.event("next")
    await ctx.transact([Put("seen", {"id": 1})])
    return ctx.state.get("refused")

@workflow
async def mistaken(ctx, names: list[str]):
    await ctx.transact([Put("seen", {"id": name}) for name in names])

@workflow
async def patched(ctx):
    if ctx.patched("count-it"):
        ctx.state["new"] = True
    await ctx.transact([Update("sales", {"day": 1}, add={"count": 1})])
    await ctx.event("next")
    return ctx.patched("count-it")

def heavy_step():
    return 2

@workflow
async def heavy(ctx):
    made = await ctx.step(heavy_step, pool="heavy")
    await ctx.transact([Put("seen", {"id": made})])
    return made

@workflow
async def together(ctx):
    async def two(day):
        await ctx.transact([Update("sales", {"day": day}, add={"count": 1})])
        await ctx.transact([Update("sales", {"day": day}, add={"count": 1})])
        return day
    return await ctx.all(two(1), two(2), ctx.transact([Update("sales", {"day": 3}, add={"count": 1})]))
"""
Fault = Callable[[str, bool], None]  # a call's name, and whether it was done


class Breaking:
    """A store whose calls may fail: before they are done, or after."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.fault: Fault = lambda name, done: None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name in {"item", "items", "change_items"}:
            return method

        async def call(*args: Any, **named: Any) -> Any:
            kind = operation(name, named)
            self.fault(kind, False)
            made = await method(*args, **named)
            self.fault(kind, True)
            return made

        return call


class Shop(Stepwell):
    """A Stepwell that handles a message again where its worker has died."""

    def __init__(self, folder: Path) -> None:
        backend = in_memory()
        store: Any = Breaking(backend.ports.log)
        self.store: Breaking = store
        broken = replace(backend.ports, log=store, mailbox=store, runs=store, notes=store)
        self.clock = backend.clock
        super().__init__(folder, Backend(broken, backend.inbox, backend.clock))
        self.died = 0

    def settle(self) -> None:
        for _ in range(DELIVERIES):
            try:
                return super().settle()
            except PortError:
                self.died += 1
                self.clock.set(self.clock.now_ms() + 60_000)
        raise AssertionError("it died again and again")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    (tmp_path / "shop.py").write_text(SHOP)
    made = Shop(tmp_path)
    made.table("stock").put({"sku": "a"}, {"left": 3})
    return made


def cold(shop: Shop) -> None:
    """What was in the process is gone."""
    shop._steps._real._sessions = None


def sold(shop: Shop, run: Run) -> None:
    """Everything of `buy` has happened once."""
    assert shop.table("stock").items() == [{"sku": "a", "left": 1}]
    assert shop.table("orders").items() == [{"id": run.id, "sku": "a", "count": 2}]
    assert shop.table("sales").items() == [{"day": 1, "count": 2}]


def test_the_writes_and_the_record_are_made_in_one_call(shop: Shop) -> None:
    calls: list[str] = []
    shop.store.fault = lambda name, done: calls.append(name if done else "")
    run = shop.start("buy", {"sku": "a", "count": 2})
    run.event("shipped")
    assert (run.status, run.result, run.state) == ("completed", None, {"sku": "a"})
    sold(shop, run)
    assert calls.count("append_with") == 2
    assert calls.count("append") + calls.count("consume") == 3  # waiting, resumed, returned
    assert (run.steps["transact"].status, run.steps["count"].status) == ("completed", "completed")


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_worker_that_dies_at_any_call_of_the_store_sells_once(tmp_path: Path, done: bool) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    at = died = 0
    while died == at:
        shop = Shop(tmp_path)
        shop.table("stock").put({"sku": "a"}, {"left": 3})
        run = shop.start("buy", {"sku": "a", "count": 2})
        shop.store.fault = dies_at(at, done)
        shop.settle()
        cold(shop)
        shop.store.fault = lambda name, done: None
        assert run.waiting_for == "event"
        run.event("shipped")
        assert run.status == "completed"
        sold(shop, run)
        at, died = at + 1, died + shop.died
    assert at > 10  # as many calls there were, and one more


def dies_at(at: int, done: bool) -> Fault:
    """The store fails at its n-th call."""
    seen = iter(range(1_000_000))

    def fault(name: str, is_done: bool) -> None:
        if is_done is done and next(seen) == at:
            raise PortError(f"died at {name}")

    return fault


def test_one_whose_answer_was_lost_goes_on_from_its_own_record(shop: Shop) -> None:
    faults = iter([True])

    def lost(name: str, done: bool) -> None:
        if name == "append_with" and done and next(faults, False):
            raise PortError("no answer")

    shop.store.fault = lost
    run = shop.start("buy", {"sku": "a", "count": 2})
    run.event("shipped")
    assert (run.status, shop.died) == ("completed", 1)
    sold(shop, run)


def test_a_refused_transaction_is_caught_and_told_by_its_write_and_in_each_replay_the_same(shop: Shop) -> None:
    run = shop.start("try_to_buy", {"sku": "gone"})
    assert run.state["refused"] == 1
    assert run.steps["transact"].status == "failed"
    shop.table("stock").put({"sku": "gone"}, {"left": 9})  # it would hold now
    cold(shop)
    run.event("next")
    assert (run.status, run.result) == ("completed", 1)
    assert shop.table("orders").items() == []
    assert shop.table("seen").items() == [{"id": 1}]


def test_a_refused_transaction_that_nobody_catches_is_the_runs_error(shop: Shop) -> None:
    run = shop.start("buy", {"sku": "a", "count": 4})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["step"]) == ("transaction_refused", "transact")
    assert run.error["message"] == "write 0, Update of sku a in stock: its condition does not hold"
    assert shop.table("stock").items() == [{"sku": "a", "left": 3}]
    assert (shop.table("orders").items(), shop.table("sales").items()) == ([], [])


def test_what_is_refused_while_the_worker_dies_may_be_done_by_the_one_that_follows_it(shop: Shop) -> None:
    def restocked(name: str, done: bool) -> None:
        if name == "append_with" and done:
            shop.store.fault = lambda name, done: None
            shop.table("stock").put({"sku": "a"}, {"left": 5})
            raise PortError("died before it could say that it was refused")

    shop.table("stock").put({"sku": "a"}, {"left": 1})
    shop.store.fault = restocked
    run = shop.start("buy", {"sku": "a", "count": 2})
    run.event("shipped")
    assert run.status == "completed"
    assert shop.table("stock").items() == [{"sku": "a", "left": 3}]


def test_a_run_that_was_cancelled_meanwhile_writes_nothing(shop: Shop) -> None:
    def cancelled(name: str, done: bool) -> None:
        if name == "append_with" and not done:
            shop.store.fault = lambda name, done: None
            assert run_now(shop.service.cancel(run.id, "", ""))

    shop.store.fault = cancelled
    run = shop.start("buy", {"sku": "a", "count": 2})
    assert run.status == "cancelled"
    assert shop.table("orders").items() == []


def test_what_can_never_be_written_fails_where_it_is_asked_for(shop: Shop) -> None:
    run = shop.start("mistaken", {"names": ["x", "y", "x"]})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["category"]) == ("same_item", "validation")
    assert shop.table("seen").items() == []


def test_a_step_in_the_place_of_a_transaction_is_another_operation(shop: Shop, tmp_path: Path) -> None:
    run = shop.start("buy", {"sku": "a", "count": 2})
    assert run.waiting_for == "event"
    changed = SHOP.replace("await ctx.transact(sell(ctx, sku, count))", 'await ctx.step(heavy_step, name="transact")')
    assert changed != SHOP
    (tmp_path / "shop.py").write_text(changed)
    shop._steps._real.reload()
    run.event("shipped")
    assert run.waiting_for == "code"


def test_a_patch_rides_on_a_transactions_record(shop: Shop) -> None:
    run = shop.start("patched")
    assert run.waiting_for == "event"
    cold(shop)
    run.event("next")
    assert (run.status, run.result) == ("completed", True)
    assert shop.table("sales").items() == [{"day": 1, "count": 1}]


def test_branches_have_transactions_of_their_own(shop: Shop) -> None:
    run = shop.start("together")
    assert (run.status, run.result) == ("completed", [1, 2, None])
    assert shop.table("sales").items() == [{"day": 1, "count": 2}, {"day": 2, "count": 2}, {"day": 3, "count": 1}]


def test_a_worker_of_another_pool_hands_it_to_the_default_one(shop: Shop) -> None:
    """The kit has one worker, which is here of the pool that the last message was sent to."""
    worker, queue, sent = shop._parts.worker, shop._parts.ports.queue, list[str]()
    send = queue.send

    async def spied(lane: Lane, message: Any, at_ms: int = 0) -> None:
        worker._pool = message.get("pool", "default")
        sent.append(worker._pool)
        await send(lane, message, at_ms)

    queue.send = spied  # type: ignore[method-assign]  # of this queue
    run = shop.start("heavy")
    assert (run.status, run.result) == ("completed", 2)
    assert sent == ["default", "heavy", "default"]
    assert shop.table("seen").items() == [{"id": 2}]


# -- what is checked at once


@pytest.mark.parametrize(
    ("writes", "code"),
    [
        ([], "bad_value"),
        ([Delete("orders", {"id": number}) for number in range(100)], "too_many_writes"),
        (["a write"], "bad_value"),
        ([Delete("no", {"id": 1})], "bad_name"),
        ([Delete("orders", {})], "bad_key"),
        ([Delete("orders", {"a": 1, "b": 2, "c": 3})], "bad_key"),
        ([Delete("orders", {"id": ""})], "bad_key"),
        ([Delete("orders", {"id": True})], "bad_key"),
        ([Delete("orders", {"id": None})], "bad_key"),
        ([Delete("orders", {"id": "x" * 2_049})], "bad_key"),
        ([Delete("orders", {"a": 1, "b": 2}), Check("orders", {"b": 2.0, "a": 1}, exists=True)], "same_item"),
        ([Put("orders", {"id": 1}, {"id": 2})], "bad_key"),
        ([Update("orders", {"id": 1}, set={"id": 2})], "bad_key"),
        ([Update("orders", {"id": 1})], "bad_value"),
        ([Update("orders", {"id": 1}, set={"a": 1}, add={"a": 1})], "bad_value"),
        ([Update("orders", {"id": 1}, add={"a": "1"})], "bad_value"),
        ([Check("orders", {"id": 1})], "bad_value"),
        ([Check("orders", {"id": 1}, exists=False, equals={"a": 1})], "bad_value"),
        ([Check("orders", {"id": 1}, at_least={"a": True})], "bad_value"),
        ([Put("orders", {"id": 1}, ["item"])], "bad_value"),  # type: ignore[arg-type]  # no dict
        ([Put("orders", {"id": 1}, {1: 2})], "bad_name"),  # type: ignore[dict-item]  # no text
        ([Put("orders", {"id": 1}, {"a": {1, 2}})], "not_storable"),
        ([Put("orders", {"id": 1}, {"a": float("inf")})], "not_storable"),
        ([Put("orders", {"id": 1}, {"a": 10**38 + 1})], "not_storable"),
        ([Put("orders", {"id": 1}, {"a": "\ud800"})], "not_storable"),
        ([Put("orders", {"id": 1}, {"a": "x" * TABLE_ITEM_BYTES})], "too_large"),
        ([Put("orders", {"id": number}, {"a": "x" * 399_000}) for number in range(11)], "too_large"),
    ],
)
def test_what_dynamodb_would_not_take_is_refused_at_the_call(writes: list[Any], code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked(writes)
    assert caught.value.code == code


def test_values_nest_as_deep_as_dynamodb_takes_them() -> None:
    deep: Any = 1
    for _ in range(TRANSACT_DEPTH - 1):
        deep = [deep]
    checked([Put("orders", {"id": 1}, {"a": deep})])
    with pytest.raises(InvalidInput, match="deep"):
        checked([Put("orders", {"id": 1}, {"a": [deep]})])


def test_the_functions_own_objects_are_copied() -> None:
    item = {"lines": [{"count": 1}]}
    (write,) = checked([Put("orders", {"id": 1}, item)])
    item["lines"][0]["count"] = 2
    assert isinstance(write, Put)
    assert write.item == {"lines": [{"count": 1}]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [(10, "10"), (0.1, "0.1"), (-0.0, "0"), (Decimal("1.500"), "1.5"), (10**37, str(10**37)), (1e-130, "1E-130"),
     (Decimal("9.99E+125"), "9.99E+125")],
)  # fmt: skip
def test_a_number_is_exact_and_has_one_form(given: Any, shown: str) -> None:
    assert str(number_of(given)) == shown


def test_one_that_can_never_be_written_is_no_condition_to_catch() -> None:
    refused = raised(Failure("transaction_refused", "validation", "no"))
    invalid = raised(Failure("transaction_invalid", "validation", "no table"))
    assert isinstance(refused, TransactionRefused)
    assert refused.write == -1
    assert type(invalid) is OperationFailed
