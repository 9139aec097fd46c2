"""Child runs and rollbacks as deployed: by SQS between runs, each a run of its own in the table."""

from __future__ import annotations

from stepwell.client.errors import NotFoundProblem
from stepwell.engine.children import child_id
from tests.emulator.kit import CALLER, World, until


def test_a_run_goes_on_when_the_last_of_its_children_has_ended(world: World) -> None:
    run_id = world.start("family")
    assert world.waits(run_id)["waiting_for"] == "children"
    boss = _child(world, run_id, 1)
    world.client.handle(boss).approve(by="ana")
    run = world.end(run_id)
    assert run["status"] == "completed"
    assert run["result"] == {"ana": "hello ana", "boss": f"hello {CALLER}", "leo": "hello leo"}


def test_a_cancel_reaches_the_children(world: World) -> None:
    run_id = world.start("family")
    world.waits(run_id)
    boss = _child(world, run_id, 1)
    world.client.handle(run_id).cancel(by="ana")
    assert world.end(boss)["status"] == "cancelled"


def test_what_a_failed_run_has_done_is_undone_the_last_first(world: World) -> None:
    run_id = world.start("trip")
    until(lambda: world.run(run_id)["status"] == "compensated", "it is undone")
    undone = [record for record in world.records(run_id) if record["kind"] == "undone"]
    assert [(one["node"], one["output"]) for one in undone] == [
        ("guide", "not hello guide"),
        ("hotel", "not hello hotel"),
    ]
    assert world.run(run_id)["error"]["type"] == "LookupError"


def _child(world: World, run_id: str, index: int) -> str:
    """The child once it waits. Its parent shows its wait before it starts the children."""
    child = child_id(run_id, "0", 0, index)  # the wait is the first record
    until(lambda: _has_begun(world, child), f"{child} has begun")
    world.waits(child)
    return child


def _has_begun(world: World, run_id: str) -> bool:
    try:
        return bool(world.run(run_id))
    except NotFoundProblem:
        return False
