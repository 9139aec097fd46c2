"""The agent: what it answers, deaths at each write, and the size of what it leaves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from stepwell.memory.store import MemoryStore
from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths

FOLDER = Path(__file__).parent
CALLS = 100  # of tools, in a long run
PROMPT_BYTES, ANSWER_BYTES, LOG_BYTES = 800_000, 5_000, 1_000_000
ASKED: list[int] = []  # messages of each request to the model


def test_it_answers_from_what_its_tools_have_found(stepwell: Stepwell) -> None:
    run = stepwell.start("research", {"question": "oslo rome"})
    assert run.result == "oslo: olso; rome: emor"
    assert [one["step"] for one in run.history if one["type"] == "step.completed"] == [
        "model", "look_up", "look_up", "model",
    ]  # fmt: skip


def test_its_tools_run_beside_each_other(stepwell: Stepwell) -> None:
    run = stepwell.start("research", {"question": "oslo rome"})
    begun = next(one for one in run.history if one["type"] == "tasks.waiting")
    assert begun["data"]["begun"] == ["run look_up", "run look_up"]


def test_whoever_dies_nothing_that_was_recorded_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process dies before or after each write, and the next replays: at most the call that was lost is repeated."""

    def make() -> Stepwell:
        kit = Stepwell(FOLDER, sessions=0)
        _counted(kit, monkeypatch)
        return kit

    def play(kit: Stepwell) -> None:
        kit.start("research", {"question": "oslo rome"}, run_id="one")
        kit.advance("3m")  # whoever died has been replaced

    for kit in deaths(make, play):
        run = Run(kit, "one")
        assert run.result == "oslo: olso; rome: emor"
        done = [one["step"] for one in run.history if one["type"] == "step.completed"]
        assert sorted(done) == ["look_up", "look_up", "model", "model"]
        assert len(ASKED) in {2, 3}
        kit.close()


def test_a_replay_comes_to_the_same_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation is followed by a replay of all before it."""
    kit = Stepwell(FOLDER, sessions=0)
    _long(kit, monkeypatch, calls=5)
    assert kit.start("research", {"question": "?"}).result == "done"
    assert ASKED == [1, 3, 5, 7, 9, 11]
    kit.close()


def test_a_hundred_calls_over_a_long_prompt_leave_a_short_log(
    stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record has an answer, and not the conversation before it."""
    _long(stepwell, monkeypatch, calls=CALLS)
    assert stepwell.start("research", {"question": "word " * (PROMPT_BYTES // 5)}).result == "done"
    assert len(ASKED) == CALLS + 1
    assert ANSWER_BYTES * CALLS < _log_bytes(stepwell) < LOG_BYTES


def test_so_do_a_hundred_calls_beside_each_other(stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool has answered stands once, although its call and the agent both have records of it."""
    model = _module(stepwell)
    before = _log_bytes(stepwell)

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ASKED.append(len(messages))
        if len(ASKED) > 1:
            return ModelResponse([TextPart("done")])
        calls = [
            ToolCallPart("look_up", {"name": f"{n:03}" + "x" * (ANSWER_BYTES // 2)}, f"c{n}") for n in range(CALLS)
        ]
        return ModelResponse(calls)

    monkeypatch.setattr(model.MODEL, "function", reply)
    run = stepwell.start("research", {"question": "word " * (PROMPT_BYTES // 5)})
    assert run.result == "done"
    assert ANSWER_BYTES * CALLS < _log_bytes(stepwell) - before < LOG_BYTES
    ended = [one for one in run.history if one["type"] == "operation.ended"]
    assert [len(one["data"]["output"]) > ANSWER_BYTES for one in ended] == [True] * CALLS


def _log_bytes(kit: Stepwell) -> int:
    memory = kit.service.ports.log
    assert isinstance(memory, MemoryStore)
    return sum(len(saved.body.encode()) for log in memory._logs.values() for saved in log.records.values())


def _module(kit: Stepwell) -> Any:
    """Returns the example's `model`, which the kit has imported for a first run."""
    assert kit.start("research", {"question": "oslo"}).result == "oslo: olso"
    ASKED.clear()
    return sys.modules["model"]


def _counted(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the requests to the model as it is."""
    model = _module(kit)

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ASKED.append(len(messages))
        return await model.reply(messages, info)

    monkeypatch.setattr(model.MODEL, "function", reply)


def _long(kit: Stepwell, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Has the model ask for one document after the other."""
    model = _module(kit)

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ASKED.append(len(messages))
        if len(ASKED) > calls:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("look_up", {"name": "x" * (ANSWER_BYTES // 2)}, f"call-{len(ASKED)}")])

    monkeypatch.setattr(model.MODEL, "function", reply)
