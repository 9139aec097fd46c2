"""The ARNs of state machines and executions, which are workflows and runs.

    arn:aws:states:REGION:ACCOUNT:stateMachine:WORKFLOW          with a version or an alias behind it, `:live`
    arn:aws:states:REGION:ACCOUNT:execution:WORKFLOW:NAME        NAME: of StartExecution, else the run's id
    arn:aws:states:REGION:ACCOUNT:express:WORKFLOW:NAME:CALL     of StartSyncExecution, where each call is a run

Callers may name any region and account: code that is moved here keeps its ARNs.
"""

from __future__ import annotations

import re

from stepwell.api.exchange import Call
from stepwell.api.step_functions.refusals import Refused
from stepwell.credentials import credential_of
from stepwell.definition.asl.names import EXECUTION
from stepwell.errors import NotFound
from stepwell.runtime.calls.service import Service
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.admission import RUN_ID
from stepwell.runtime.starts.keys import id_of_key
from stepwell.values import dataclass

NO_ACCOUNT = "000000000000"
_REGION = "us-east-1"
_PLACE = r"arn:(aws[a-z-]{0,20}):states:([a-z0-9-]{0,40}):([0-9]{0,12})"
_MACHINE = re.compile(rf"{_PLACE}:stateMachine:([A-Za-z0-9._:-]{{1,250}})", re.ASCII)
_EXECUTION = re.compile(rf"{_PLACE}:(execution|express):(.{{1,300}})", re.ASCII)
_NAME = re.compile(r"[^\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]{1,80}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the caller says that things are."""

    partition: str
    region: str
    account: str

    def machine(self, workflow: str) -> str:
        return f"{self}:stateMachine:{workflow}"

    def execution(self, header: Header) -> str:
        key = key_of(header)
        return f"{self}:{'express' if ':' in key else 'execution'}:{header.workflow}:{key}"

    def __str__(self) -> str:
        return f"arn:{self.partition}:states:{self.region}:{self.account}"


def place_of(call: Call) -> Place:
    """Returns the region that the caller signed for, and the account of the API."""
    signed = credential_of(call.headers.get("authorization", ""))
    return Place("aws", signed.region if signed else _REGION, call.identity.account or NO_ACCOUNT)


def machine_of(arn: str, call: Call) -> tuple[Place, str, str]:
    """Returns the place, the workflow, and the version that the ARN names. Raises Refused."""
    found = _MACHINE.fullmatch(arn)
    if found is None:
        raise Refused(
            "InvalidArn", f"{arn[:300]!r} is not the ARN of a state machine ({place_of(call).machine('NAME')})"
        )
    workflow, _, version = found[4].rpartition(":")
    is_whole = not workflow or found[4] in call.parts.catalog.current
    return Place(found[1], found[2], found[3]), *((found[4], "") if is_whole else (workflow, version))


async def execution_of(arn: str, call: Call) -> tuple[Place, Header]:
    """Returns the place and the run that an ARN names. Raises Refused.

    A run's id by itself is taken too: `$$.Execution.Id` has it.
    """
    service = call.parts.service
    found = _EXECUTION.fullmatch(arn)
    if found is None:
        header = await _header(service, arn)
        if header is None:
            raise Refused("InvalidArn", f"{arn[:300]!r} is not the ARN of an execution, and no run has this id")
        return place_of(call), header
    place = Place(found[1], found[2], found[3])
    workflow, *parts = found[5].rsplit(":", 1 if found[4] == "execution" else 2)
    key = ":".join(parts)
    for run_id in (id_of_key(workflow, key), key) if key else ():
        header = await _header(service, run_id)
        if header is not None and header.workflow == workflow:
            return place, header
    raise Refused("ExecutionDoesNotExist", f"there is no execution {arn[:300]!r}")


async def _header(service: Service, run_id: str) -> Header | None:
    try:
        return await service.header(run_id) if RUN_ID.fullmatch(run_id) else None
    except NotFound:
        return None


def key_of(header: Header) -> str:
    """Returns the key of a run that this API started, else its id."""
    key = header.tags.get(EXECUTION, "")
    return key if key and header.run_id == id_of_key(header.workflow, key) else header.run_id


def name_of(header: Header) -> str:
    return key_of(header).partition(":")[0]


def check_name(name: str) -> str:
    """Returns the name of an execution. Raises Refused."""
    if not _NAME.fullmatch(name) or not name.isprintable():
        allowed = '1 to 80 characters; no space, no control character, and none of <>{}[]?*"#%\\^|~`$&,;:/'
        raise Refused("InvalidName", f"{name[:100]!r} cannot be the name of an execution ({allowed})")
    return name
