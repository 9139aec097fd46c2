"""Task tokens: whoever has one ends the callback that it stands for, or says that the work goes on."""

from __future__ import annotations

from stepwell.api.exchange import Call
from stepwell.api.parsing import read_json
from stepwell.api.step_functions import asked
from stepwell.api.step_functions.executions import Told
from stepwell.api.step_functions.refusals import Refused, refused_as
from stepwell.definition.asl.names import TASK_FAILED
from stepwell.errors import UserError
from stepwell.runtime.calls.links import CallbackLink


async def succeed(call: Call, given: asked.TaskDone) -> Told:
    link = _link(call, given)
    if not given.output.strip():
        raise Refused("InvalidOutput", "the output is empty; it is JSON as text, such as {}")
    try:
        output = read_json(given.output.encode(errors="surrogatepass"), "output")
    except UserError as error:
        raise refused_as("InvalidOutput", error) from error
    await call.parts.service.callbacks.complete(link, output)
    return {}


async def fail(call: Call, given: asked.TaskFailed) -> Told:
    error = {"type": given.error or TASK_FAILED, "message": given.cause, "data": None}
    await call.parts.service.callbacks.fail(_link(call, given), error)
    return {}


async def beat(call: Call, given: asked.TaskBeat) -> Told:
    await call.parts.service.callbacks.beat(_link(call, given))
    return {}


def _link(call: Call, given: asked.TaskBeat) -> CallbackLink:
    """Reads the token: what stands behind `/callbacks/` in a callback's URL. Raises UserError, Refused."""
    if call.parts.links is None:
        raise Refused("InvalidToken", "this deployment has no callbacks; deploy again")
    return call.parts.links.callback(given.task_token, call.parts.ports.clock.now_ms())
