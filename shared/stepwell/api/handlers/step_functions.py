"""The route of the API of Step Functions. What answers it is loaded at its first call, to keep cold starts fast."""

from __future__ import annotations

from stepwell.api.exchange import Answer, Call, Route

AMZ_JSON = "application/x-amz-json-1.0"
PATH = "/aws/states"


async def call_step_functions(call: Call) -> Answer:
    from stepwell.api.step_functions.serving import serve  # noqa: PLC0415 - for this call alone

    return Answer(200, await serve(call), AMZ_JSON)


def refused(error: Exception) -> Answer:
    """Answers for an error as Step Functions does."""
    from stepwell.api.step_functions.refusals import refusal_of  # noqa: PLC0415 - as above

    found = refusal_of(error)
    body = {"__type": found.type, "message": found.message}
    return Answer(found.status, body, AMZ_JSON, {"x-amzn-ErrorType": found.type})


STEP_FUNCTIONS_ROUTES = (
    Route("POST", PATH, call_step_functions,
          "Call the API of AWS Step Functions; the header X-Amz-Target names the operation",
          {200: "the operation's answer", 400: "refused: `__type` says why, as Step Functions does"}, media=AMZ_JSON,
          refused=refused),
)  # fmt: skip
