"""Each problem of the API says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from stepwell.api.problems import problem, problem_answer
from stepwell.engine.records import Status
from stepwell.error_hints import HINTS
from stepwell.errors import Conflict
from tests.api.kit import World, event
from tests.docs.errors import CODE, every, nodes_of


def refusals() -> Iterator[tuple[str, bool]]:
    """Yields the code of each refusal of the engine, and whether it has a hint."""
    for file in sorted(CODE.rglob("*.py")):
        own = {name.id: value.value for one in nodes_of(file) if isinstance(one, ast.Assign)
               for name, value in _pairs(one) if isinstance(value, ast.Constant)}  # fmt: skip
        for node in nodes_of(file):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refuse":
                code = node.args[1]
                found = code.value if isinstance(code, ast.Constant) else own.get(ast.unparse(code).rpartition(".")[2])
                if found is not None:
                    yield str(found), len(node.args) > 2


def _pairs(one: ast.Assign) -> Iterator[tuple[ast.Name, ast.expr]]:
    target, value = one.targets[0], one.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from ((name, made) for name, made in zip(target.elts, value.elts) if isinstance(name, ast.Name))  # noqa: B905
    elif isinstance(target, ast.Name):
        yield target, value


def test_each_refusal_of_the_engine_has_a_hint() -> None:
    found = list(refusals())
    assert ("not_idle", False) in found
    assert ("gathering_due", False) in found
    assert {code for code, has_hint in found if not has_hint} - HINTS.keys() == set()


def test_each_error_that_the_api_can_answer_has_a_hint() -> None:
    codes = {one.code for one in every() if one.place == "call" and one.kind and not one.hint}
    assert "not_idle" in codes
    assert codes - HINTS.keys() == set()


def test_no_text_names_a_page_that_only_the_repository_has() -> None:
    """Whoever has the wheel has no docs/."""
    found = [f"{file.name}:{node.lineno}" for file in sorted(CODE.rglob("*.py"))
             for node in nodes_of(file)
             if isinstance(node, ast.Constant) and isinstance(node.value, str)
             and "\n" not in node.value and re.search(r"\bdocs/[\w/-]+\.md", node.value)]  # fmt: skip
    assert found == []


def test_each_end_of_a_run_that_its_result_is_asked_for_has_a_hint() -> None:
    ends = {f"run_{one.value}" for one in Status if one.terminal and one is not Status.COMPLETED}
    assert ends - HINTS.keys() == set()


@pytest.mark.parametrize("status", [400, 404, 409, 422, 429, 500, 503])
def test_a_problem_of_a_code_that_nobody_knows_has_a_hint(status: int) -> None:
    answer = problem(status, "unheard_of", "it is so")
    assert isinstance(answer.body, dict)
    assert answer.body["hint"]


def test_an_empty_hint_is_none() -> None:
    answer = problem_answer(Conflict("so it is", code="not_idle", hint=""))
    assert isinstance(answer.body, dict)
    assert answer.body["hint"] == HINTS["not_idle"]


MISTAKES = {
    "invalid_input": ("POST", "/workflows/order/runs", '{"inptu": {}}'),
    "bad_query": ("GET", "/runs?a=%ff", None),
    "bad_key": ("POST", "/workflows/order/runs", "{}"),
    "not_idle": ("POST", "/runs/RUN/start", None),
    "run_ended": ("POST", "/runs/ENDED/pause", None),
    "run_failed": ("GET", "/runs/FAILED/result", None),
    "not_waiting": ("POST", "/runs/ENDED/approve", "{}"),
    "unknown_branch": ("GET", "/runs/RUN/history?token=0/7.0", None),
    "unknown_run": ("GET", "/runs/nope", None),
    "not_paused": ("POST", "/runs/RUN/unpause", None),
    "bad_json": ("POST", "/workflows/order/runs", "{"),
}


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(world: World, code: str) -> None:
    method, path, body = MISTAKES[code]
    for name, workflow in {"RUN": "order", "ENDED": "quick", "FAILED": "fails"}.items():
        path = path.replace(name, world.start(workflow))
    path, _, query = path.partition("?")
    headers = {"Idempotency-Key": "k" * 600} if code == "bad_key" else {}
    reply = world.send(event(method, path, body, query=query, headers=headers))
    assert (reply.json["code"], bool(reply.json["hint"])) == (code, True)


def test_a_wrong_body_names_what_the_call_takes(world: World) -> None:
    reply = world.post("/workflows/order/runs", {"inptu": {}})
    assert reply.json["hint"].startswith("the body takes input, run_id, tags, priority, ")
    assert world.get("/health", limit=1).json["hint"] == "this call takes no query string"
