"""A pool that allows several steps at once: branches of a message begin in the same invocation, beside a long step."""

from __future__ import annotations

import json

import pytest

from tests.functions.conftest import Deploy

FORK = """
workflow: flow
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.numbers }}", as: n}]}
  work: {run: python:m.work, input: {n: "{{ branch.item }}"}, output: {n: "{{ result }}"}, timeout: 2m,
         transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
"""
STEPS = """
import logging, threading

MEET = threading.Barrier(3)

def work(n: int):
    MEET.wait(timeout=60)
    logging.getLogger("shop").warning("met")
    return n
"""


def test_as_many_steps_run_in_one_invocation_as_its_pool_allows(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of three: each waits for the two others. Each line of theirs names its own branch."""
    monkeypatch.setenv("STEPWELL_STEPS_PER_INVOCATION", "3")
    stack = deployed(FORK, STEPS)
    run_id = stack.start({"numbers": [0, 1, 2]})
    assert stack.deliver("default") == 2  # the run's own message, and that of its branches
    assert stack.run(run_id)["status"] == "completed"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    met = {(line["token"], line["step"], line["run_id"]) for line in lines if line.get("message") == "met"}
    assert met == {(f"0/0.{n}", "work", run_id) for n in range(3)}
    assert [line["Steps"] for line in lines if "Steps" in line] == [[1, 1, 1]]
