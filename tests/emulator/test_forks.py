"""Forks as deployed: branches by SQS to many workers at once, and one of them goes on as the parent."""

from __future__ import annotations

from tests.emulator.kit import World


def test_a_run_forks_over_two_pages_and_joins_once(world: World) -> None:
    names = [f"n{number}" for number in range(110)]
    run = world.end(world.start("fan", {"names": names}))
    assert run["status"] == "completed"
    assert run["state"]["hails"] == [{"said": f"hello {name}"} for name in names]
    assert run["cost"]["steps"] == len(names)


def test_the_steps_of_a_dag_run_when_those_before_them_have_ended(world: World) -> None:
    run = world.end(world.start("diamond"))
    assert run["result"]["last"] == "hello hello hello first"
    assert run["cost"]["steps"] == 4
