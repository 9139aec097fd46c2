"""The picture of a machine shows its states alone: the ways lead past what the compiler has added."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.conftest import Begin, Machine, machine, task

CAUGHT = [{"ErrorEquals": ["States.ALL"], "Next": "Z"}]
RETRIED = [{"ErrorEquals": ["States.ALL"]}]
DONE: Machine = {"Type": "Succeed"}


def told(begin: Begin, written: Machine, path: str, given: Any) -> Any:
    run = begin(written, given)
    with run._kit.client() as client:
        reply = client._http.get(path.format(run=run.id))
    assert reply.status_code == 200
    return reply


MACHINES = [
    machine(
        A={"Type": "Parallel", "Branches": [machine(B=DONE), machine(C=DONE)], "Parameters": {}, "Retry": RETRIED,
           "Catch": CAUGHT, "Next": "Z"},
        Z=DONE,
    ),
    machine(
        A={"Type": "Map", "ItemsPath": "$.l", "ItemProcessor": machine(B=task("echo", Next="C"), C=DONE),
           "Catch": CAUGHT, "Next": "Z"},
        Z=DONE,
    ),
]  # fmt: skip
EDGES = [
    {("A", "B"), ("A", "C"), ("A", "Z"), ("B", "A"), ("C", "A"), ("Z", "end")},
    {("A", "Z"), ("B", "C"), ("C", "A"), ("Z", "end")},
]


@pytest.mark.parametrize(("written", "edges"), list(zip(MACHINES, EDGES, strict=True)))
def test_the_edges_lead_from_state_to_state(begin: Begin, written: Machine, edges: set[tuple[str, str]]) -> None:
    graph = told(begin, written, "/workflows/m", {"l": [1]}).json()["graph"]
    assert {(one["from"], one["to"]) for one in graph["edges"]} == edges
    assert graph["start"] == "B"


@pytest.mark.parametrize("written", MACHINES)
@pytest.mark.parametrize("form", ["svg", "mermaid", "dot"])
def test_a_machine_that_begins_with_branches_can_be_drawn(begin: Begin, written: Machine, form: str) -> None:
    text = told(begin, written, "/runs/{run}/graph?format=" + form, {"l": []}).text
    assert "A.fork" not in text
