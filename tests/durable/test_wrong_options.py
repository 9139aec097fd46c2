"""A wrong option of a `ctx` operation fails the function with a code, and a message that tells what was expected."""

from __future__ import annotations

import inspect

import pytest

from stepwell import WorkflowContext
from stepwell.definition.context_options import OPTIONS, PARAMETERS
from tests.durable.conftest import Flows

HEAD = """
from stepwell import step, workflow
from stepwell.errors import InvalidInput

tried = []

@step
def pay(n: int) -> int:
    tried.append(n)
    if len(tried) < 3:
        raise ConnectionError("no")
    return n

@workflow
async def other(ctx, order): ...

async def thing(n: int) -> int:
    return n

@workflow
async def flow(ctx):
    BODY
"""


def error_of(flows: Flows, call: str) -> tuple[str, str]:
    run = flows(HEAD.replace("BODY", f"return await {call}")).start("flow")
    assert run.error is not None, run.view
    return run.error["type"], run.error["message"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ctx.step(pay, 1, retry=3)", "`retry` must be a Retry or a dict, not 3 (retry=Retry(3))"),
        ("ctx.step(pay, 1, retry={'max_retires': 3})", "a retry policy has no 'max_retires' (did you mean `max_retr"),
        ("ctx.map(pay, [1], retry=3)", "`retry` must be a Retry or a dict, not 3"),
        ("ctx.run(lambda: 1, retry=3)", "`retry` must be a Retry or a dict, not 3"),
        ("ctx.approval('buy', need='1')", "`need` must be a whole number, not '1'"),
        ("ctx.approval('buy', approvers=5)", "approvers is a list of names"),
        ("ctx.event('x', match=5)", "`match` must be text, not 5"),
        ("ctx.event('x', match={})", "`match` must be text, not {}"),
        ("ctx.map(pay, 5)", "`map` takes the items of a list, not 5"),
        ("ctx.step(pay, 1, at_most_once='yes')", "`at_most_once` must be True or False, not 'yes' (leave it out for"),
        ("ctx.run(lambda: 1, at_most_once=1)", "`at_most_once` must be True or False, not 1"),
        ("ctx.map(pay, [1], at_most_once='yes')", "`at_most_once` must be True or False, not 'yes'"),
        ("ctx.step(pay, 1, pool=5)", "`pool` cannot be 5 (letters, digits"),
        ("ctx.map(pay, [1], pool='')", "`pool` cannot be ''"),
        ("ctx.all(tolerate=3)", "3 does not say how many may fail"),
        (
            "ctx.map(pay, [1], tolerate={'percent': 300})",
            "the percent of `tolerate` must be a number from 0 to 100, not",
        ),
        ("ctx.map(thing, [1], tolerate={'percent': 101})", "the percent of `tolerate` must be a number from 0 to 100"),
        ("ctx.map(pay, [1], tolerate={'percent': float('inf')})", "must be a number from 0 to 100, not inf"),
        ("ctx.map(pay, [1], tolerate={'percent': True})", "must be a number from 0 to 100, not True"),
        ("ctx.map(pay, [1], tolerate={'percent': -1})", "{'percent': -1} does not say how many may fail"),
        ("ctx.map(pay, [1], tolerate={'count': 1.5})", "the count of `tolerate` must be a whole number, not 1.5"),
        ("ctx.map(pay, [1], tolerate={'count': float('inf')})", "must be a whole number, not inf"),
        ("ctx.map(pay, [1], tolerate={'count': True})", "the count of `tolerate` must be a whole number, not True"),
        ("ctx.map(pay, [1], tolerate={'cuont': 1})", "{'cuont': 1} does not say how many may fail"),
        ("ctx.all(tolerate={'count': 1, 'percent': 2})", '`tolerate` has count and percent (write {"count": 3} or'),
        ("ctx.approval('buy', need=1.5, approvers=['a', 'b'])", "`need` must be a whole number, not 1.5"),
        ("ctx.approval('buy', need=True)", "`need` must be a whole number, not True"),
        ("ctx.step(pay, 1, timeout=0)", "`timeout` must be longer than 0"),
        ("ctx.run(pay, 1, timeout='0s')", "`timeout` must be longer than 0"),
        ("ctx.map(pay, [1], timeout=0)", "`timeout` must be longer than 0"),
        ("ctx.callback(heartbeat=0)", "`heartbeat` must be longer than 0"),
        ("ctx.all(max_concurrency='2')", "`max_concurrency` must be a whole number, not '2'"),
    ],
)
def test_a_value_of_a_wrong_type_is_told(flows: Flows, call: str, message: str) -> None:
    found = error_of(flows, call)
    assert found[0] == "bad_value"
    assert message in found[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ctx.approval('buy', aprovers=['ana'])", "ctx.approval has no option 'aprovers' (did you mean `approvers`?)"),
        ("ctx.event('x', keys='a')", "ctx.event has no option 'keys' (did you mean `key`?)"),
        ("ctx.callback(tiemout='1h')", "ctx.callback has no option 'tiemout' (did you mean `timeout`?)"),
        ("ctx.all(max_concurency=2)", "ctx.all has no option 'max_concurency' (did you mean `max_concurrency`?)"),
        ("ctx.until(lambda: True, tiemout=1)", "ctx.until has no option 'tiemout' (did you mean `timeout`?)"),
        ("ctx.event('x', 'a')", "ctx.event: too many positional arguments (it is ctx.event(name, *, key, match, "),
        ("ctx.event()", "ctx.event: missing a required argument: 'name' (it is ctx.event(name, *, key, match, "),
    ],
)
def test_an_option_that_an_operation_does_not_have_is_told(flows: Flows, call: str, message: str) -> None:
    found = error_of(flows, call)
    assert found[0] == "bad_value"
    assert message in found[1]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("ctx.step(pay, 1, tiemout='1s')", "timeout"),
        ("ctx.map(pay, [1, 2], max_concurency=3)", "max_concurrency"),
        ("ctx.run(pay, 1, tiemout='1s')", "timeout"),
        ("ctx.child(other, 1, tiemout='1s')", "timeout"),
        ("ctx.child('other', {}, tiemout='1s')", "timeout"),
    ],
)
def test_what_may_be_an_argument_of_the_function_has_a_hint(flows: Flows, call: str, meant: str) -> None:
    found = error_of(flows, call)
    assert found[0] == "step_input"
    assert f"did you mean `{meant}`?" in found[1]


def test_a_type_error_of_the_function_is_left_as_it_is(flows: Flows) -> None:
    assert error_of(flows, "ctx.query('q', print)(1, 2)(3)")[0] == "TypeError"


def test_a_policy_may_be_a_dict_as_for_a_step(flows: Flows) -> None:
    kit = flows(HEAD.replace("BODY", "return await ctx.step(pay, 7, retry={'maxRetries': 2})"))
    run = kit.start("flow")
    kit.advance("1m")
    assert (run.status, run.result) == ("completed", 7)


def test_the_error_can_be_caught(flows: Flows) -> None:
    body = "try: ctx.event('x', keys='a')\n    except InvalidInput as error: return error.code"
    assert flows(HEAD.replace("BODY", body)).start("flow").result == "bad_value"


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_options_of_an_operation_are_those_that_it_has(name: str) -> None:
    of = inspect.signature(getattr(WorkflowContext, name)).parameters.values()
    assert {one.name for one in of if one.kind is one.KEYWORD_ONLY} == {*OPTIONS[name]}
    assert [one.name for one in of if one.kind is one.POSITIONAL_OR_KEYWORD][1:] == [*PARAMETERS.get(name, ())]


HEARTBEAT = "return await ctx.callback(heartbeat='2h', timeout='1h')"


def test_a_heartbeat_that_comes_after_the_time_limit_is_refused(flows: Flows) -> None:
    run = flows(HEAD.replace("BODY", HEARTBEAT)).start("flow")
    assert run.error is not None
    assert run.error["type"] == "bad_value"
    assert "`heartbeat` of 2h is not shorter than the wait" in run.error["message"]


def test_a_run_that_already_waits_for_such_a_callback_goes_on(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("stepwell.runtime.durable.context.check_heartbeat", lambda *given: None)
        kit = flows(HEAD.replace("BODY", HEARTBEAT), sessions=0)
        run = kit.start("flow")
        assert run.waiting_for == "callback"
    kit.advance("1h")
    assert (run.status, (run.error or {})["type"]) == ("timed_out", "callback_timeout")


@pytest.mark.parametrize(
    ("call", "shown"), [("ctx.step(done, at_most_once='yes')", "done"), ("ctx.run(done, at_most_once='yes')", "done")]
)
def test_a_run_that_has_made_such_a_step_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, call: str, shown: str
) -> None:
    head = HEAD.replace("@workflow", "@step\ndef done(): return 7\n\n@workflow", 1)
    body = f"found = await {call}\n    await ctx.sleep('1h')\n    return found"
    with monkeypatch.context() as patched:
        for module in ("context", "calling"):
            patched.setattr(f"stepwell.runtime.durable.{module}.check_step", lambda *given: None)
        kit = flows(head.replace("BODY", body), sessions=0)
        run = kit.start("flow")
        assert run.status == "waiting", run.view
    kit.advance("1h")
    assert (run.status, run.result) == ("completed", 7), run.view


NAMED = ["ctx.step(done, name=NAME)", "ctx.run(done, name=NAME)", "ctx.map(done, [1], name=NAME)",
         "ctx.map(thing, [1], name=NAME)", "ctx.all(ctx.step(done), name=NAME)",
         "ctx.first(ctx.step(done), name=NAME)"]  # fmt: skip
DONE = HEAD.replace("@workflow", "@step\ndef done(n: int = 0): return 7\n\n@workflow", 1)


@pytest.mark.parametrize("call", NAMED)
@pytest.mark.parametrize("name", ["0", "False", "[]", "5"])
def test_a_name_that_is_no_text_is_refused_also_if_it_is_false(flows: Flows, call: str, name: str) -> None:
    run = flows(DONE.replace("BODY", f"return await {call.replace('NAME', name)}")).start("flow")
    assert run.error is not None, run.view
    assert (run.error["type"], run.error["message"].partition(" (")[0]) == ("bad_name", f"{name} cannot be a name")


@pytest.mark.parametrize("call", NAMED)
@pytest.mark.parametrize("name", ["''", "None"])
def test_an_empty_name_is_none(flows: Flows, call: str, name: str) -> None:
    body = f"await {call.replace('NAME', name)}\n    return 7"
    assert flows(DONE.replace("BODY", body)).start("flow").result == 7


@pytest.mark.parametrize("call", NAMED)
def test_a_run_that_has_made_an_operation_with_such_a_name_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    body = f"await {call.replace('NAME', '0')}\n    await ctx.sleep('1h')\n    return 7"
    with monkeypatch.context() as patched:
        for module in ("context", "calling", "combining"):
            patched.setattr(f"stepwell.runtime.durable.{module}.given_name", lambda name: name or "")
        kit = flows(DONE.replace("BODY", body), sessions=0)
        run = kit.start("flow")
        assert run.status == "waiting", run.view
    kit.advance("1h")
    assert (run.status, run.result) == ("completed", 7), run.view


@pytest.mark.parametrize(
    ("call", "let_through"),
    [
        ("ctx.map(done, [1], tolerate={'percent': 300})", "arguments.wrong_tolerate"),
        ("ctx.map(thing, [1], tolerate={'count': 1, 'percent': 10})", "arguments.wrong_tolerate"),
        ("ctx.approval('buy', need=1.5, approvers=['ana', 'leo'], timeout=0)", "arguments.wrong_need"),
        ("ctx.callback(heartbeat=0)", "arguments.late_heartbeat"),
        ("ctx.step(done, timeout=0)", "arguments.wrong_step"),
    ],
)
def test_a_run_that_has_made_an_operation_with_such_a_value_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, call: str, let_through: str
) -> None:
    body = f"""try: await {call}
    except InvalidInput: return "refused"
    except Exception: pass
    await ctx.sleep('1h')
    return 7"""
    with monkeypatch.context() as patched:
        patched.setattr(f"stepwell.runtime.durable.{let_through}", lambda *given: None)
        kit = flows(DONE.replace("BODY", body), sessions=0)
        run = kit.start("flow")
        assert run.status == "waiting", run.view
    kit.advance("1h")
    assert (run.status, run.result) == ("completed", 7), run.view


def test_a_refusal_that_is_caught_is_the_same_in_every_replay(flows: Flows) -> None:
    body = f"try: {HEARTBEAT}\n    except InvalidInput: await ctx.sleep('1h')\n    return await ctx.event('go')"
    kit = flows(HEAD.replace("BODY", body), sessions=0)
    run = kit.start("flow")
    kit.advance("1h")
    kit.event("go", 3)
    assert run.result == 3, run.view
