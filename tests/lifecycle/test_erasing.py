"""Deleting runs: all data of a person is gone, whatever it was kept in, and wherever a deletion died on its way."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.records import Status
from stepwell.errors import Conflict, EngineFault, NotFound, PortError, RunDeleted
from stepwell.limits import ID_HELD_MS
from stepwell.local.database import Database
from stepwell.local.outgoing import TellingStore
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.calls.batching import Batch
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.stores.blobs import of_run
from tests.aws.kit import aws_world
from tests.contract.emulated import items_of
from tests.lifecycle.bulk import Mortal, pass_time
from tests.lifecycle.persons import (
    ANA,
    BEN,
    FLOWS,
    Files,
    found,
    plant,
    prepared,
    report_of,
    runs_of,
    text_of,
    world_of,
)
from tests.runtime.kit import World

_LATE = f'{{"v":2,"slot":3,"kind":"step","by":"wake:0:2","at_ms":1,"node":"x","output":"{ANA}"}}'


def places(world: World) -> dict[str, Any]:
    """All that the world in memory keeps."""
    inner = world.store.inner
    store = inner._inner if isinstance(inner, Mortal) else inner
    kept = {name.lstrip("_"): text_of(value) for name, value in vars(store).items()}
    return {**kept, "blobs": text_of(world.blobs), "queue": text_of(world.queue), "files": text_of(files_of(world))}


def files_of(world: World) -> Any:
    return world.parts.eraser._files


def purged(world: World, who: str = ANA, **options: Any) -> str:
    """The batch that deletes a person's runs, after its end."""
    batch = Batch("purge", tag=["customer", who], **{"force": True} | options)
    job = run_now(world.service.batch(batch)).header.run_id
    pass_time(world, 3_600_000)
    return job


def test_a_purge_by_tag_leaves_nothing_of_the_person_and_all_of_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world = world_of()
    plant(world, ANA)
    others = plant(world, BEN)
    count = len(runs_of(world))
    before = found(ANA, **places(world))
    assert {"runs", "logs", "events", "pending", "waiters", "blobs", "files", "notes"} <= {*before}
    job = purged(world)
    report = report_of(world, job)
    assert (report["matched"], report["done"], report["refused"]) == (4, 4, {})
    run_now(world.parts.eraser.delete(job))
    assert found(ANA, **places(world)) == []
    assert ANA not in caplog.text
    assert len(runs_of(world)) == count / 2
    assert found(BEN, **places(world)) == before
    run_now(world.service.send_event("paid", None, key=BEN))
    world.pass_time(1_000)
    assert world.header(others[1]).status is Status.FAILED  # at its last step, as it is to


def test_a_purge_finds_nothing_of_the_person_in_the_bytes_of_a_sqlite_file(tmp_path: Path) -> None:
    database = Database(tmp_path / "stepwell.db", "NORMAL")
    world = world_of()
    world.store.inner = SqliteStore(database)
    plant(world, ANA)
    plant(world, BEN)
    assert ANA in _bytes(tmp_path)
    job = purged(world)
    assert report_of(world, job)["done"] == 4
    run_now(world.parts.eraser.delete(job))
    run_now(world.parts.eraser.scrub())
    assert ANA not in _bytes(tmp_path)
    assert BEN in _bytes(tmp_path)
    assert found(ANA, blobs=text_of(world.blobs), files=text_of(files_of(world))) == []
    database.close()


def _bytes(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode(errors="replace") for path in folder.iterdir())


def test_a_purge_finds_nothing_of_the_person_in_the_table_and_the_bucket() -> None:
    with aws_world(*FLOWS, files=Files()) as world:
        prepared(world)
        plant(world, ANA)
        plant(world, BEN)
        assert found(ANA, **_cloud(world)) == ["table", "bucket", "files"]
        job = purged(world)
        assert report_of(world, job)["done"] == 4
        run_now(world.parts.eraser.delete(job))
        assert found(ANA, **_cloud(world)) == []
        assert found(BEN, **_cloud(world)) == ["table", "bucket", "files"]


def _cloud(world: Any) -> dict[str, str]:
    s3, bucket = world.blobs._client(), world.blobs._bucket
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]
    bodies = [s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys]
    return {
        "table": text_of(items_of(world.table.name)),
        "bucket": "".join([*keys, *bodies]),
        "files": text_of(files_of(world)),
    }


def test_a_deletion_that_dies_at_any_call_is_finished_by_the_next_one() -> None:
    calls, died = 1, 0
    while True:
        world = world_of()
        ids = plant(world, ANA)
        mortal = Mortal(world, calls, calls + 40, calls + 41)
        for run_id in ids:
            died += _delete_until_done(world, run_id)
        pass_time(world, 3_600_000)
        assert found(ANA, **places(world)) == [], calls
        if mortal.killed < 3:
            break
        calls += 3
    assert died > 100


@pytest.mark.parametrize("first", range(1, 120, 17))
def test_a_deletion_on_sqlite_that_dies_is_finished_by_the_next_one(first: int, tmp_path: Path) -> None:
    """Also in the free pages of its file. `first`: the call of the store at which it dies; and twice more."""
    database = Database(tmp_path / "stepwell.db", "NORMAL")
    world = world_of()
    world.store.inner = SqliteStore(database)
    ids = plant(world, ANA)
    mortal = Mortal(world, first, first + 40, first + 41)
    assert sum(_delete_until_done(world, run_id) for run_id in ids) == mortal.killed == 3
    pass_time(world, 3_600_000)
    run_now(world.parts.eraser.scrub())
    assert ANA not in _bytes(tmp_path)
    assert found(ANA, blobs=text_of(world.blobs), files=text_of(files_of(world))) == []
    database.close()


@pytest.mark.parametrize("first", [5, 31, 64, 97])
def test_a_deletion_on_dynamodb_that_dies_is_finished_by_the_next_one(first: int) -> None:
    with aws_world(*FLOWS, files=Files()) as world:
        prepared(world)
        ids = plant(world, ANA)
        mortal = Mortal(world, first, first + 40, first + 41)
        assert sum(_delete_until_done(world, run_id) for run_id in ids) == mortal.killed == 3
        pass_time(world, 3_600_000)
        assert found(ANA, **_cloud(world)) == []


def _delete_until_done(world: World, run_id: str) -> int:
    for died in range(9):
        try:
            run_now(world.parts.eraser.delete(run_id, force=True))
        except PortError:
            continue
        except NotFound:
            return died
        return died
    raise AssertionError("it dies each time")


def test_what_a_late_worker_writes_to_a_deleted_run_goes_a_quarter_of_an_hour_later() -> None:
    """It had begun a step before the run was terminated."""
    world = world_of()
    run_id = plant(world, ANA)[1]
    run_now(world.parts.eraser.delete(run_id, force=True))
    run_now(world.store.append(run_id, "0", 3, _LATE))
    run_now(world.blobs.put(ANA.encode(), "run-" + "0" * 32))
    assert "logs" in found(ANA, **places(world))
    world.pass_time(16 * 60_000)
    assert run_now(world.store.is_blank(run_id, "0"))


RATED = """
workflow: flow
rate_limit: {limit: 1, per: 1h, key: "{{ input }}"}
timeline: [{name: a, run: python:m.a}]
"""


def test_a_turn_that_a_late_worker_takes_for_a_deleted_run_goes_a_quarter_of_an_hour_later() -> None:
    """It had read the run before that was deleted, and nothing of the run is left that could tell it."""
    world = World(RATED)
    world.start(given="ana")
    world.deliver()
    run_id = world.start(given="ana")
    world.store.before["put_note"] = lambda *_: run_now(world.parts.eraser.delete(run_id, force=True))
    world.deliver()
    assert f"t#{run_id}" in run_now(world.store.notes("pace:flow/ana"))
    world.pass_time(16 * 60_000)
    assert f"t#{run_id}" not in run_now(world.store.notes("pace:flow/ana"))


def test_what_a_late_worker_writes_to_a_deleted_run_is_told_to_nobody(tmp_path: Path) -> None:
    """Its record takes a slot that the run's last record had, and would have that one's id."""
    world = World("workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]")
    store = TellingStore(Database(tmp_path / "stepwell.db", "NORMAL"), world.blobs, mock.Mock())
    store.live = mock.Mock(wanted=True)
    world.store.inner = store
    world.steps.of["a"] = lambda call: run_now(world.parts.eraser.delete(call.run_id, force=True)).runs
    run_id = world.start()
    world.deliver()
    assert not run_now(world.store.is_blank(run_id, "0"))
    told = [notice.entry.type for call in store.live.tell.call_args_list for notice in call.args[0]]
    assert told == ["run.created", "run.started", "run.failed"]


def test_a_run_whose_deletion_died_can_be_deleted_though_a_late_worker_has_written_to_it() -> None:
    world = world_of()
    run_id = plant(world, ANA)[1]
    drop_run = world.store.inner.drop_run

    async def dies(gone: str, held_until_ms: int) -> bool:
        if gone == run_id:
            raise PortError("it died there")
        return bool(await drop_run(gone, held_until_ms))

    with mock.patch.object(world.store.inner, "drop_run", dies), pytest.raises(PortError):
        run_now(world.parts.eraser.delete(run_id, force=True))
    run_now(world.store.append(run_id, "0", 3, _LATE))
    assert run_now(world.parts.eraser.delete(run_id)).runs == 1
    with pytest.raises(NotFound):
        world.header(run_id)
    assert run_now(world.store.is_blank(run_id, "0"))


def test_whoever_meets_a_torn_log_of_a_deleted_run_leaves_it() -> None:
    """It had read the run's header before that was deleted. Of a run that is there, a torn log is a fault."""
    world = world_of()
    run_id = plant(world, ANA)[1]
    header = world.header(run_id)
    run_now(world.parts.eraser.delete(run_id, force=True))
    world.lose_messages()
    run_now(world.store.append(run_id, "0", 3, _LATE))
    world.send(Lane.WORK, to_json(Wake(run_id, 3)))
    read = mock.AsyncMock(side_effect=[header, None])
    with mock.patch.object(world.store.inner, "get_run", read):
        assert world.deliver() == 1
    assert read.await_count == 2
    world.send(Lane.WORK, to_json(Wake(run_id, 3)))
    with mock.patch.object(world.store.inner, "get_run", return_value=header), pytest.raises(EngineFault):
        world.deliver()


def test_what_is_to_delete_a_late_workers_writes_deletes_nothing_once_the_id_is_nearly_free() -> None:
    """The message may have lain in a queue for long, and another run may begin while it is handled."""
    world = world_of()
    run_id = plant(world, ANA)[1]
    run_now(world.parts.eraser.delete(run_id, force=True))
    run_now(world.store.append(run_id, "0", 0, _LATE))
    world.clock.advance(ID_HELD_MS - 60_000)
    world.deliver()
    assert not run_now(world.store.is_blank(run_id, "0"))


def test_a_run_under_way_is_refused_unless_it_may_be_terminated() -> None:
    world = world_of()
    _, open_, *_ = plant(world, ANA)
    with pytest.raises(Conflict, match="is under way") as refused:
        run_now(world.parts.eraser.delete(open_))
    assert refused.value.code == "run_open"
    assert world.header(open_).status is Status.WAITING
    report = report_of(world, purged(world, force=False))
    assert (report["done"], report["refused"]) == (2, {"run_open": 2})
    assert run_now(world.parts.eraser.delete(open_, force=True)).runs == 3  # with its child runs
    with pytest.raises(NotFound):
        world.header(open_)


LARGE = """
workflow: flow
nodes:
  a: {run: python:m.a, transitions: [{to: b}]}
  b: {transitions: [{to: c, foreach: "{{ [1, 2] }}"}]}
  c: {run: python:m.c, transitions: [{to: d}]}
  d: {wait: {for: event, name: paid, key: k}, transitions: [{to: e}]}
  e: {fan_in: {policy: all}}
"""


@pytest.mark.parametrize("large", ["a", "c"])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_run_whose_blob_is_lost_can_be_deleted(large: str, is_over: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Only of what the lost record began something may be left."""
    world = World(LARGE)
    world.steps.of[large] = lambda _: "x" * 1_000_000
    run_id = world.start()
    world.deliver()
    if is_over:
        run_now(world.service.cancel(run_id))
        world.deliver()
    run_now(world.blobs.drop(of_run(run_id)))
    assert run_now(world.parts.eraser.delete(run_id, force=not is_over)).runs == 1
    assert runs_of(world) == []
    assert run_now(world.store.is_blank(run_id, "0"))
    assert run_now(world.store.is_blank(run_id, "0/1.0"))
    assert "does not exist" in caplog.text


def test_a_child_run_whose_parent_goes_on_is_refused() -> None:
    world = world_of()
    _, open_, *_ = plant(world, ANA)
    child = next(one for one in runs_of(world) if (world.header(one).parent or "").startswith(f"{open_}|"))
    for force in (False, True):
        with pytest.raises(Conflict, match="waits for it") as refused:
            run_now(world.parts.eraser.delete(child, force=force))
        assert refused.value.code == "parent_open"
    assert world.header(child).status is Status.COMPLETED


def test_a_purge_takes_the_earlier_batches_that_name_the_person() -> None:
    world = world_of()
    plant(world, ANA)
    run_now(world.service.batch(Batch("cancel", tag=["customer", ANA], dry_run=True)))
    run_now(world.service.batch(Batch("cancel", tag=["customer", BEN], dry_run=True)))
    world.pass_time(60_000)
    job = purged(world)
    left = run_now(world.service.runs(RunQuery("stepwell:batch"))).headers
    assert [one.input["tag"][1] for one in left] == [ANA, BEN]
    assert left[0].run_id == job


def test_a_purge_ends_though_another_one_has_just_deleted_an_earlier_batch() -> None:
    """Lists may show a run for a moment after it was deleted."""
    world = world_of()
    plant(world, ANA)
    first = purged(world)
    list_runs = world.store.inner.list_runs

    async def listed(query: RunQuery) -> Any:
        page = await list_runs(query)
        if query.workflow == "stepwell:batch" and any(one.run_id == first for one in page.headers):
            await world.parts.eraser.delete(first)
        return page

    with mock.patch.object(world.store.inner, "list_runs", listed):
        job = purged(world)
    assert world.header(job).status is Status.COMPLETED
    assert runs_of(world) == [job]


def test_a_purge_can_be_of_runs_before_a_time() -> None:
    world = world_of()
    plant(world, ANA)
    middle_ms = world.clock.now_ms()
    world.pass_time(60_000)
    plant(world, BEN)
    batch = Batch("purge", workflow="guarded", before_ms=middle_ms, force=True)
    job = run_now(world.service.batch(batch)).header.run_id
    world.pass_time(60_000)
    assert report_of(world, job)["done"] == 1
    left = run_now(world.service.runs(RunQuery("guarded"))).headers
    assert [one.tags["customer"] for one in left] == [BEN]


def test_the_id_of_a_deleted_run_can_be_used_again() -> None:
    world = world_of()
    first = world.start("child", {"who": ANA}, key="once")
    world.pass_time(1_000)
    run_now(world.parts.eraser.delete(first))
    with pytest.raises(RunDeleted):
        world.start("child", {"who": BEN}, key="once")
    world.pass_time(ID_HELD_MS)
    assert world.start("child", {"who": BEN}, key="once") == first
    world.pass_time(3_600_000)
    assert world.header(first).status is Status.COMPLETED
