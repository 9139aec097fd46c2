"""Executions: runs are started, shown, listed and stopped by their ARN."""

from __future__ import annotations

import re
import uuid

from stepwell.api.exchange import Call
from stepwell.api.parsing import read_json
from stepwell.api.runs.states import cancelled_by, error_of, status_of
from stepwell.api.runs.vocabulary import MACHINE, WORDS
from stepwell.api.step_functions import arns, asked
from stepwell.api.step_functions.refusals import VALIDATION, Refused, is_about_input, refused_as
from stepwell.definition.asl.names import EXECUTION, cause_of, name_of
from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.engine.stored.codec import told_failure
from stepwell.errors import Conflict, UserError
from stepwell.limits import ANSWERED_BYTES, PAGE_ITEMS_MAX, SECOND_MS, WAIT_ANSWER_SECONDS
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.starts.starting import Start, Started
from stepwell.runtime.stores.jsontext import encode

Told = dict[str, Json]

BY_DEFAULT = 100  # items of a page, as Step Functions has it
TEXT_BYTES = ANSWERED_BYTES // 8  # of an input or output: two stand together, and are escaped twice on their way
_CALL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


async def start(call: Call, given: asked.Started) -> Told:
    """Starts an execution. A name is taken once: while it runs, the same call finds the same execution."""
    place, workflow, version = arns.machine_of(given.state_machine_arn, call)
    name = _call_id(call) if given.name is None else arns.check_name(given.name)
    started = await _begun(call, workflow, version, name, given.input)
    if given.name is not None and not started.created and started.header.status.terminal:
        raise Refused("ExecutionAlreadyExists", f"the execution {name} of {workflow} has ended; take another name")
    return {"executionArn": place.execution(started.header), "startDate": seconds(started.header.created_ms)}


async def start_sync(call: Call, given: asked.StartedSync) -> Told:
    """Starts an execution and waits for its end, or for as long as a call may take: it goes on then."""
    place, workflow, version = arns.machine_of(given.state_machine_arn, call)
    name = _call_id(call) if given.name is None else arns.check_name(given.name)
    started = await _begun(call, workflow, version, f"{name}:{_call_id(call)}", given.input)
    service, run_id = call.parts.service, started.header.run_id
    await service.wait_for_end(run_id, WAIT_ANSWER_SECONDS * SECOND_MS)
    return _told(place, await service.standing(run_id), has_data=given.included_data == "ALL_DATA")


async def describe(call: Call, given: asked.Described) -> Told:
    place, header = await arns.execution_of(given.execution_arn, call)
    at = await call.parts.service.standing(header.run_id)
    return _told(place, at, has_data=given.included_data == "ALL_DATA")


async def list_executions(call: Call, given: asked.Executions) -> Told:
    """Lists the runs of a workflow, the newest first."""
    if given.map_run_arn or not given.state_machine_arn:
        raise Refused(VALIDATION, "executions are listed by stateMachineArn: a Map makes branches, not executions")
    place, workflow, version = arns.machine_of(given.state_machine_arn, call)
    if version:
        raise Refused(VALIDATION, "executions are listed by the ARN of a state machine, without a version or an alias")
    statuses = frozenset(one for one in Status if WORDS[one.value, MACHINE] == given.status_filter)
    if given.redrive_filter == "REDRIVEN" or (given.status_filter and not statuses):
        return {"executions": []}  # a redrive makes another run
    limit = min(given.max_results or BY_DEFAULT, PAGE_ITEMS_MAX)
    page = await call.parts.service.runs(RunQuery(workflow, statuses, limit=limit, cursor=given.next_token))
    if not page.headers and not given.next_token:
        call.parts.catalog.named(workflow)
    return {"executions": [_listed(place, header) for header in page.headers], **following(page.next_cursor)}


async def stop(call: Call, given: asked.Stopped) -> Told:
    """Cancels the run. If it has ended, the answer is its end and nothing changes."""
    _, header = await arns.execution_of(given.execution_arn, call)
    service = call.parts.service
    reason = ": ".join(text for text in (given.error, given.cause) if text)
    await service.cancel(header.run_id, reason, call.told(""))
    at = await service.standing(header.run_id)
    return {"stopDate": seconds(_ended_ms(at) or service.ports.clock.now_ms())}


async def _begun(call: Call, workflow: str, version: str, key: str, text: str) -> Started:
    if not text.strip():
        raise Refused("InvalidExecutionInput", "the input is empty; it is JSON as text, such as {}")
    try:
        given = read_json(text.encode(errors="surrogatepass"), "input")
    except UserError as error:
        raise refused_as("InvalidExecutionInput", error) from error
    request = Start(workflow, given, key=key, tags={EXECUTION: key}, version=version)
    try:
        return await call.parts.service.start(request)
    except Conflict as error:
        if error.code != "already_used":
            raise
        message = f"the execution {key} of {workflow} was started with another input or version; take another name"
        raise Refused("ExecutionAlreadyExists", message) from error
    except UserError as error:
        if is_about_input(error):
            raise refused_as("InvalidExecutionInput", error) from error
        raise


def _call_id(call: Call) -> str:
    """Returns an id of the call that is the same when boto3 repeats it, so that it starts one execution."""
    found = call.headers.get("amz-sdk-invocation-id", "")
    return found if _CALL_ID.fullmatch(found) else str(uuid.uuid4())


def _listed(place: arns.Place, header: Header) -> Told:
    return {
        "executionArn": place.execution(header),
        "stateMachineArn": place.machine(header.workflow),
        "name": arns.name_of(header),
        "status": WORDS[header.status.value, MACHINE],
        "startDate": seconds(header.created_ms),
        **({"stopDate": seconds(header.ended_ms)} if header.ended_ms else {}),
    }


def _told(place: arns.Place, at: Standing, *, has_data: bool) -> Told:
    """What DescribeExecution tells of a run, read off its log."""
    ended_ms, status = _ended_ms(at), status_of(at)
    told = {**_listed(place, at.header), "status": WORDS[status.value, MACHINE]}
    told |= {"stopDate": seconds(ended_ms)} if ended_ms else {}
    told |= _text("input", at.run.input, has_data=has_data)
    if status is Status.COMPLETED:
        told |= _text("output", at.token.result, has_data=has_data)
    elif status is Status.CANCELLED:
        told |= {"cause": cancelled_by(at.token, status)[1]} if has_data else {}
    elif ended_ms and has_data and (failure := error_of(at.token)) is not None:
        error = told_failure(failure) or {}
        told |= {"error": name_of(error), "cause": cause_of(error)}
    return told


def _text(name: str, value: Json, *, has_data: bool) -> Told:
    """Returns a value as text, unless it is too large for an answer, and whether it is included."""
    text = encode(value) if has_data else ""
    is_there = has_data and len(text.encode()) <= TEXT_BYTES
    return {**({name: text} if is_there else {}), f"{name}Details": {"included": is_there}}


def _ended_ms(at: Standing) -> int:
    return at.token.last_ms if at.token.ended else 0


def seconds(at_ms: int) -> float:
    """A time as this protocol has it."""
    return at_ms / SECOND_MS


def following(token: str) -> Told:
    """The token of the next page, where there is one."""
    return {"nextToken": token} if token else {}
