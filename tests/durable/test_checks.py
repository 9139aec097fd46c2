"""What a scan of a folder's modules says of durable functions, before any of them runs."""

from __future__ import annotations

import pytest

from stepwell.definition.authoring import workflow
from stepwell.definition.compiler import compile_document
from stepwell.errors import DefinitionError, NotFound
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.folder.loading import load_folder
from tests.durable.conftest import Flows

GOOD = "from stepwell import workflow\n\n@workflow\nasync def flow(ctx): ...\n"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("@workflow\ndef flow(ctx): ...", "bad_workflow", 2),
        ("@workflow\nasync def flow(order): ...", "missing_ctx", 2),
        ("LIMIT = '1h'\n@workflow(timeout=LIMIT)\nasync def flow(ctx): ...", "bad_workflow", 3),
        ("@workflow(**{})\nasync def flow(ctx): ...", "bad_workflow", 2),
        ("@workflow('name')\nasync def flow(ctx): ...", "bad_workflow", 2),
        ("@workflow(timeout='soon')\nasync def flow(ctx): ...", "bad_duration", 1),
        ("@workflow(name='no spaces')\nasync def flow(ctx): ...", "bad_name", 1),
        ("@workflow(version='2')\nasync def flow(ctx): ...", "wrong_type", 1),
        ("@workflow(version=0)\nasync def flow(ctx): ...", "bad_value", 1),
        ("@workflow(retires=3)\nasync def flow(ctx): ...", "unknown_key", 1),
        ("async def flow(", "bad_syntax", 1),
        ("def pay(): await till()", "bad_syntax", 1),  # what Python parses, and does not import
        ("def pay():\n    fee = 1\n    global fee", "bad_syntax", 3),
        ("def pay():\n    try: ...\n    except* ValueError:\n        return", "bad_syntax", 4),
        (f"LOW = {'-' * 10_000}1", "bad_syntax", 0),  # more than the stack of Python's own parser holds
        ("@workflow\nasync def a(ctx): ...\n@workflow(name='a')\nasync def b(ctx): ...", "duplicate_workflow", 4),
    ],
)
def test_what_is_wrong_is_told_with_a_code_and_the_line(flows: Flows, text: str, code: str, line: int) -> None:
    with pytest.raises(DefinitionError) as caught:
        flows(text)
    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.file.rpartition("/")[2]) == (code, line, "flow.py")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@workflow('order')\nasync def flow(ctx): ...", "@workflow(name='order'), or leave it out"),
        ("@workflow\ndef flow(ctx): await ctx.sleep(1)", "write `async def`"),
    ],
)
def test_a_mistake_of_many_has_a_hint(flows: Flows, text: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        flows(text)
    assert caught.value.problems[0].hint.startswith(hint)


@pytest.mark.parametrize("option", ["retry={'max_retries': 2}", "failure_policy='compensate'", "state_schema={}",
                                    "compensate_on=['cancel']"])  # fmt: skip
def test_options_that_only_graphs_use_are_warned_of(flows: Flows, option: str) -> None:
    flows.write(f"@workflow({option})\nasync def flow(ctx): ...", "flow.py")
    (problem,) = load_folder(flows.folder).problems
    assert (problem.code, problem.severity, problem.line) == ("without_effect", "warning", 1)
    assert option.partition("=")[0] in problem.message


def test_a_result_that_its_schema_refuses_fails_the_run(flows: Flows) -> None:
    kit = flows(
        "from stepwell import workflow\n"
        "@workflow(output_schema={'type': 'object'})\n"
        "async def flow(ctx, given: dict): return given['is']"
    )
    good, bad = kit.start("flow", {"is": {"a": 1}}), kit.start("flow", {"is": 3})
    assert (good.status, good.result) == ("completed", {"a": 1})
    assert bad.status == "failed"
    assert bad.error is not None
    assert (bad.error["type"], bad.error["category"]) == ("output_schema", "validation")
    kit.replay(bad)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("flow.py", "@workflow\nasync def flow(order): ...", "flow.py:2: the first parameter of"),
        ("flow.py", "@workflow\nasync def flow(order): ...", "(missing_ctx)"),
        ("flow.py", "@workflow(name='flow')\ndef run(ctx): ...", "flow.py:2: @workflow needs an `async def`"),
        ("flow.py", "@workflow(timeout='soon')\nasync def flow(ctx): ...", "(bad_duration)"),
        ("flow.yaml", "timeline: [{name: a, slep: 1s}]", "flow.yaml:1:"),
    ],
)  # fmt: skip
def test_who_starts_a_workflow_with_an_error_is_told_what_the_check_tells(
    flows: Flows, file: str, text: str, told: str
) -> None:
    flows.write(text, file)
    flawed = load_folder(flows.folder).flawed
    catalog = Catalog(compile_document)
    catalog.flawed = flawed
    with pytest.raises(NotFound) as caught:
        catalog.named("flow")
    assert told in str(caught.value)
    assert (caught.value.code, caught.value.hint or "") == ("unknown_workflow", flawed["flow"].hint)


def test_a_function_and_a_graph_of_one_name_cannot_be(flows: Flows) -> None:
    flows.write("workflow: flow\ntimeline: [{name: a, sleep: 1s}]", "flow.yaml")
    with pytest.raises(DefinitionError, match="flow"):
        flows(GOOD)


def test_the_scan_runs_no_code_and_counts_the_functions(flows: Flows) -> None:
    kit = flows("raise SystemExit\n" + GOOD)
    loaded = load_folder(flows.folder)
    assert (loaded.count, loaded.problems) == (1, ())
    run = kit.start("flow")
    assert (run.status, run.waiting_for) == ("waiting", "code")


def test_a_definition_file_can_give_a_function_its_triggers(flows: Flows) -> None:
    text = "workflow: on-order\nfunction: python:flow.take\ntriggers: [{event: order.created}]"
    flows.write(text, "on-order.yaml")
    kit = flows(
        "from stepwell import workflow\n\n@workflow(name='on-order')\nasync def take(ctx, n: int):\n    return n\n"
    )
    kit.event("order.created", {"n": 3})
    (run,) = kit.runs("on-order")
    assert run.result == 3


def test_the_decorator_changes_no_function() -> None:
    async def kept(ctx: object) -> str:
        return "itself"

    assert workflow(kept) is kept


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("@workflow\ndef bad(ctx): ...", "takes an `async def`"),
        ("@workflow\nasync def bad(order): ...", "is not `ctx`"),
        ("@workflow('bad')\nasync def bad(ctx): ...", "takes options by name"),
    ],
)
def test_one_bad_function_parks_its_own_runs_and_its_neighbours_go_on(flows: Flows, bad: str, why: str) -> None:
    good = "from stepwell import workflow\n\n@workflow\nasync def good(ctx):\n    return await ctx.event('go')\n"
    kit = flows(f"{good}\n@workflow\nasync def bad(ctx):\n    return await ctx.event('go')\n")
    parked, neighbour = kit.start("bad"), kit.start("good")
    assert parked.status == neighbour.status == "waiting"
    flows.write(f"{good}\n{bad}\n")
    (problem,) = load_folder(flows.folder).problems
    assert problem.code in {"bad_workflow", "missing_ctx"}
    kit._steps.reload()  # as a server does, which deploys the rest of the folder
    kit.event("go", 1)
    kit.event("go", 2)
    assert neighbour.result in {1, 2}
    assert (parked.status, parked.waiting_for) == ("waiting", "code")
    assert why in parked.view["waiting_data"]["message"]
