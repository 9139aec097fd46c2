"""The services' models that botocore brings: which services, actions and parameters there are."""

from __future__ import annotations

from functools import cache
from typing import Any

from stepwell.aws.services.names import OTHERS, botocore_service, java_name

STREAMS = "takes or answers with a stream of events, which no task can have"
NO_STREAMS = "map the resource in resources.yaml to a Python function that calls it"


@cache
def _loader() -> Any:
    from botocore.session import Session  # noqa: PLC0415 - a third of a second, only where a machine calls a service

    return Session().get_component("data_loader")


@cache
def _known() -> tuple[str, ...]:
    return tuple(_loader().list_available_services("service-2"))


@cache
def find_service(service: str) -> str | None:
    """Returns botocore's name of a service; None if it has none."""
    found = botocore_service(service, _known())
    return found if found in _known() else None


def services() -> list[str]:
    """Returns the services' names as tasks write them."""
    return sorted({*OTHERS, *(name.replace("-", "") for name in _known() if name not in OTHERS.values())})


@cache
def model_of(name: str) -> Any:
    """Returns the model of a service by botocore's name."""
    from botocore.model import ServiceModel  # noqa: PLC0415 - as above

    return ServiceModel(_loader().load_service_model(name, "service-2"), service_name=name)


def is_streaming(operation: Any) -> bool:
    """Tells whether an operation takes or answers with a stream of events."""
    return bool(operation.has_event_stream_input or operation.has_event_stream_output)


@cache
def java_prefix(service: str) -> str:
    """Returns what the names of a service's errors begin with, such as `DynamoDb`."""
    name = find_service(service)
    return service if name is None else java_name(model_of(name).metadata["serviceId"])
