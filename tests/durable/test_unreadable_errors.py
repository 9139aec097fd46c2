"""A step whose exception cannot be read fails as that step, once: what it raises when read is not the worker's."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

HEAD = """
from stepwell import StepError, StepFailed, step, workflow

CALLS = []

def refuse(self, *args):
    raise RuntimeError("not to be read")

class NoText(Exception):
    __str__ = __repr__ = refuse
class NoAttributes(Exception):
    __getattr__ = refuse
class NoFields(Exception):
    __dict__ = property(refuse)
class NoNothing(Exception):
    __getattribute__ = refuse
class NoArguments(Exception):
    args = property(refuse)
class NoCause(Exception):
    __cause__ = __context__ = property(refuse)
class NoTrace(Exception):
    __traceback__ = property(refuse)
class NoClass(Exception):
    __class__ = property(refuse)
class NoData(StepError):
    data = property(refuse, lambda self, value: None)
class NoCategory(StepError):
    category = property(refuse)
class OddCategory(StepError):
    category = ["step"]
class Opaque:
    __repr__ = __str__ = refuse
class OpaqueData(StepError):
    def __init__(self): super().__init__("no", Opaque())
class OpaqueFields(Exception):
    def __init__(self): self.held = Opaque()
class Meta(type):
    __getattribute__ = lambda cls, name: refuse(cls) if name == "__name__" else type.__getattribute__(cls, name)
class NoName(Exception, metaclass=Meta): ...
class Leaves(Exception):
    def __str__(self): raise SystemExit(3)
"""
STEP = """
@step
def charge(kind: str):
    CALLS.append(kind)
    raise globals()[kind]

@workflow
async def flow(ctx, kind: str, own: bool = False):
    try:
        await ctx.run(lambda: charge(kind), name="charge") if own else await ctx.step(charge, kind)
    except StepFailed as error:
        return [error.failure.type, error.failure.category, len(CALLS)]

@workflow
async def uncaught(ctx, kind: str):
    raise globals()[kind]
"""
KINDS = ["NoText", "NoAttributes", "NoFields", "NoNothing", "NoArguments", "NoCause", "NoTrace", "NoClass", "NoData",
         "NoCategory", "OddCategory", "OpaqueData", "OpaqueFields", "NoName", "Leaves"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", [False, True], ids=["step", "run"])
def test_a_step_whose_exception_cannot_be_read_fails_once_as_itself(flows: Flows, kind: str, own: bool) -> None:
    run = flows(HEAD + STEP).start("flow", {"kind": kind, "own": own})
    assert run.result == [kind, "step", 1], run.error


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_whose_exception_cannot_be_read_fails_with_it(flows: Flows, kind: str) -> None:
    run = flows(HEAD + STEP).start("uncaught", {"kind": kind})
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", kind)
