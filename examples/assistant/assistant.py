"""An agent loop that survives: ask the model, run the tools it wants, a person between it and what is dangerous."""

from __future__ import annotations

from model import Call, Message, ask, summarise
from tools import DANGEROUS, TOOLS

from stepwell import OperationFailed, Rejected, Retry, WaitTimedOut, WorkflowContext, workflow
from stepwell.errors import InvalidInput

MOST_TURNS = 20  # of the model, in a whole run: what it costs has an end
LONGEST = 8  # messages, until the older ones are put into one
KEPT = 3  # of the latest ones, word for word
PATIENT = Retry(5, initial_delay="2s", max_delay="60s")  # with a model that is overloaded


@workflow
async def assistant(ctx: WorkflowContext, task: str, conversation: list[Message] | None = None) -> dict[str, object]:
    """Works on the task until the model has an answer."""
    said = conversation or [Message(role="user", text=task)]
    ctx.state.setdefault("turns", 0)
    while ctx.state["turns"] < MOST_TURNS:
        ctx.state["turns"] += 1
        reply = await ctx.step(ask, said, timeout="60s", retry=PATIENT)
        said.append(reply)
        if not reply.calls:
            return {"answer": reply.text, "turns": ctx.state["turns"]}
        results: list[str] = await ctx.all(*(use(ctx, call) for call in reply.calls), name="tools")
        said += [Message(role="tool", text=text) for text in results]
        if len(said) > LONGEST:
            return ctx.continue_as(assistant, task, await shortened(ctx, said))
    return {"answer": None, "turns": ctx.state["turns"]}


async def use(ctx: WorkflowContext, call: Call) -> str:
    """What a tool says. What goes wrong with it is for the model to read, and ends nothing."""
    tool = TOOLS.get(call.tool)
    if tool is None:
        return f"{call.tool}: there is no such tool"
    try:
        if call.tool in DANGEROUS:
            await ctx.approval(call.tool, call.arguments, timeout="2d")
        return await ctx.step(tool, **call.arguments)
    except Rejected as no:
        return f"{_what(call)}: refused by a person: {no}"
    except WaitTimedOut:
        return f"{_what(call)}: nobody has allowed it"
    except (OperationFailed, InvalidInput) as error:
        return f"{_what(call)}: failed: {error}"


async def shortened(ctx: WorkflowContext, said: list[Message]) -> list[Message]:
    """The task, one message for all that is older, and the latest ones."""
    task, older, latest = said[0], said[1:-KEPT], said[-KEPT:]
    summary = await ctx.step(summarise, older, timeout="60s", retry=PATIENT)
    return [task, Message(role="tool", text=summary), *latest]


def _what(call: Call) -> str:
    return f"{call.tool} {' '.join(str(value) for value in call.arguments.values())}"
