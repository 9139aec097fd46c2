"""State machines: the workflows that are deployed, of any format."""

from __future__ import annotations

from stepwell.api.exchange import Call
from stepwell.api.step_functions import arns, asked
from stepwell.api.step_functions.executions import BY_DEFAULT, Told, following
from stepwell.definition.graph import Graph
from stepwell.runtime.starts.versions import Versions
from stepwell.runtime.stores.jsontext import encode

FORMAT = "States"
_OF_LANGUAGE = ("Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version")


async def list_machines(call: Call, given: asked.Machines) -> Told:
    """Lists the deployed workflows by name. The token of a page is its last name."""
    place, current = arns.place_of(call), call.parts.catalog.current
    names = sorted(name for name in current if name > given.next_token)
    shown = names[: given.max_results or BY_DEFAULT]
    machines = [{"stateMachineArn": place.machine(name), "name": name, "type": "STANDARD"} for name in shown]
    return {"stateMachines": machines, **following(shown[-1] if len(names) > len(shown) else "")}


async def describe_machine(call: Call, given: asked.Machine) -> Told:
    """Shows the deployed version, or the one that the ARN names."""
    place, workflow, version = arns.machine_of(given.state_machine_arn, call)
    graph = await Versions(call.parts.ports, call.parts.catalog).graph(workflow, version)
    has_data = given.included_data == "ALL_DATA"
    return {
        "stateMachineArn": f"{place.machine(workflow)}{version and f':{version}'}",
        "name": workflow,
        "status": "ACTIVE",
        "type": "STANDARD",
        "revisionId": graph.version,
        **({"description": graph.description} if graph.description else {}),
        **({"definition": encode(_definition(graph))} if has_data else {}),
    }


def _definition(graph: Graph) -> dict[str, object]:
    """The machine as it was written; of another format, its document."""
    if graph.format != FORMAT:
        return dict(graph.document)
    return {name: graph.document[name] for name in _OF_LANGUAGE if name in graph.document}
