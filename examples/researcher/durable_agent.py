"""Makes an agent of Pydantic AI durable: each request to its model, and each call of a tool, is a `ctx.run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from stepwell import Retry, WorkflowContext


class DurableModel(WrapperModel):
    """A model whose responses are recorded. What it is asked is not: a replay comes to the same conversation."""

    def __init__(self, ctx: WorkflowContext, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._ctx = ctx

    async def request(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        async def request() -> ModelResponse:
            return await self.wrapped.request(messages, model_settings, parameters)

        return await self._ctx.run(request, name="model", retry=Retry(3), timeout="5m")


@dataclass
class DurableTools(AbstractCapability[Any]):
    """Tools whose results are recorded."""

    ctx: WorkflowContext

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        async def execute() -> Any:
            return await handler(args)

        return await self.ctx.run(execute, name=call.tool_name, retry=Retry(3), timeout="5m")
