"""An agent of Pydantic AI in a durable function: the agent itself is as it would be anywhere."""

from __future__ import annotations

from durable_agent import DurableModel, DurableTools
from model import MODEL
from pydantic_ai import Agent, UsageLimits

from stepwell import WorkflowContext, workflow

agent = Agent(instructions="Answer from the documents alone.")


@agent.tool_plain
async def look_up(name: str) -> str:
    """Returns a document. A real one asks an index, or the web."""
    return f"{name}: {name[::-1]}"


@workflow
async def research(ctx: WorkflowContext, question: str) -> str:
    """Answers a question, however often the process dies on the way."""
    made = await agent.run(
        question,
        model=DurableModel(ctx, MODEL),
        capabilities=[DurableTools(ctx)],
        usage_limits=UsageLimits(request_limit=200),
    )
    return made.output
