"""The model: here a few rules that always say the same. YOUR MODEL GOES HERE, such as `OpenAIResponsesModel("…")`."""

from __future__ import annotations

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks up each word of the question, all of them at once, and tells what it has found."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    found = [part for request in requests for part in request.parts if isinstance(part, ToolReturnPart)]
    if found:
        return ModelResponse([TextPart("; ".join(str(part.content) for part in found))])
    asked = next(part for part in requests[0].parts if isinstance(part, UserPromptPart))
    words = str(asked.content).split()
    return ModelResponse([ToolCallPart("look_up", {"name": word}, f"call-{at}") for at, word in enumerate(words)])


MODEL = FunctionModel(reply)
