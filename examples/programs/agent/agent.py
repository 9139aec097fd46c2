"""An agent: the model's words are streamed, its tools run beside each other, and a person allows what costs money."""

from __future__ import annotations

from collections.abc import Callable

from model import Call, Message, stream

from stepwell import OperationFailed, Rejected, Retry, StepContext, WaitTimedOut, WorkflowContext, step, workflow

MOST_TURNS = 10  # of the model: what a run costs has an end


@step(retry=Retry(5), timeout="2m")
def think(said: list[Message], ctx: StepContext) -> Message:
    """Returns the model's next message. Whoever reads along sees it word by word."""
    reply = Message("assistant")
    for piece in stream(said):
        if isinstance(piece, Call):
            reply.calls.append(piece)
        else:
            ctx.emit({"text": piece})
            reply.text += piece
    return reply


@step(retry=Retry(3), timeout="30s")
def search(place: str) -> str:
    return f"{place}: {100 * len(place)} EUR"


@step(timeout="30s")
def book(offer: str, ctx: StepContext) -> str:
    return f"booked {offer}, {ctx.idempotency_key[-4:]}"


TOOLS: dict[str, Callable[..., str]] = {"search": search, "book": book}
ASKED = {"book"}  # a person has to allow these


async def use(ctx: WorkflowContext, call: Call) -> str:
    """What the tool says. A failure is for the model to read, and ends nothing."""
    try:
        if call.tool in ASKED:
            await ctx.approval(call.tool, {"argument": call.argument}, timeout="1d")
        return await ctx.step(TOOLS[call.tool], call.argument)
    except Rejected as no:
        return f"{call.tool}: refused: {no}"
    except WaitTimedOut:
        return f"{call.tool}: nobody has allowed it"
    except OperationFailed as failed:
        return f"{call.tool}: failed: {failed}"


@workflow
async def agent(ctx: WorkflowContext, task: str) -> str | None:
    """Works until the model asks for no tool any more."""
    said = [Message("user", task)]
    for _ in range(MOST_TURNS):
        reply = await ctx.step(think, said)
        said.append(reply)
        if not reply.calls:
            return reply.text
        results = await ctx.all(*(use(ctx, call) for call in reply.calls))
        said += [Message("tool", text) for text in results]
    return None
