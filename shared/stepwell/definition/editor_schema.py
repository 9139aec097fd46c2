"""The published JSON Schema of a definition, by which editors complete and check it; made of the models."""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_camel

from stepwell.definition.formats.agent_models import PARAMETERS
from stepwell.definition.models import WorkflowDef


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a definition for editors, with both spellings of each key."""
    schema = WorkflowDef.model_json_schema(by_alias=True)
    _add_parameters(schema)
    for model in (schema, *schema["$defs"].values()):
        properties = model["properties"]
        for name, shape in list(properties.items()):
            if shape.get("default", 0) is None:  # means only that the key is optional
                del shape["default"]
            properties[to_camel(name)] = shape
            if name in model.get("required", ()) and to_camel(name) != name:
                model["required"].remove(name)
                model["oneOf"] = [{"required": [name]}, {"required": [to_camel(name)]}]
    schema["$defs"]["TimeoutActionDef"]["oneOf"].append({"required": ["run"]})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Stepwell workflow"
    schema["oneOf"] = [{"required": [name]} for name in ("timeline", "nodes", "steps", "actions", "function", "States")]
    nodes = schema["properties"]["nodes"]["anyOf"][0]  # a node that does nothing needs no body
    nodes["additionalProperties"] = {"anyOf": [nodes["additionalProperties"], {"type": "null"}]}
    _add_envelope(schema)
    return schema


def _add_envelope(schema: dict[str, Any]) -> None:
    """Adds the keys around a definition: apiVersion, kind, metadata, and spec, which is the definition."""
    inner = ("type", "properties", "oneOf", "additionalProperties")
    schema["$defs"]["WorkflowDef"] = {key: schema[key] for key in inner}
    schema["properties"] = {
        **schema["properties"],
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"$ref": "#/$defs/WorkflowDef"},
    }
    schema["oneOf"] = [*schema["oneOf"], {"required": ["spec"]}]


def _add_parameters(schema: dict[str, Any]) -> None:
    """Adds the parameters of the known action types."""
    found: dict[str, Any] = schema["$defs"]
    for model in PARAMETERS.values():
        made = model.model_json_schema(by_alias=True)
        found |= made.pop("$defs", {})
        found[model.__name__] = made
    found["AgentActionDef"]["allOf"] = [
        {
            "if": {"properties": {key: {"const": kind}}, "required": [key]},
            "then": {"properties": {"parameters": {"$ref": f"#/$defs/{model.__name__}"}}},
        }
        for kind, model in PARAMETERS.items()
        for key in ("action_type", "actionType")
    ]
