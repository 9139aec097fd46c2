"""The client of the HTTP API: `from stepwell import Client, AsyncClient`; its errors are imported from here."""

from typing import TYPE_CHECKING

from stepwell.client.errors import (
    AccessProblem,
    ApiProblem,
    BusyProblem,
    ConflictProblem,
    InputProblem,
    NotFoundProblem,
    RunFailed,
    ServerProblem,
    Unreachable,
    UpdateFailed,
)

if TYPE_CHECKING:
    from stepwell.client.clients import AsyncClient, AsyncHandle, AsyncListing, Client, Handle, Listing

__all__ = [
    "AccessProblem",
    "ApiProblem",
    "AsyncClient",
    "AsyncHandle",
    "AsyncListing",
    "BusyProblem",
    "Client",
    "ConflictProblem",
    "Handle",
    "InputProblem",
    "Listing",
    "NotFoundProblem",
    "RunFailed",
    "ServerProblem",
    "Unreachable",
    "UpdateFailed",
]

if not TYPE_CHECKING:  # a checker would take any name for one of this module

    def __getattr__(name: str) -> object:
        """Imports the clients lazily: httpx takes 100 ms, and who only catches an error does not need it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from stepwell.client import clients  # noqa: PLC0415 - see above

        return getattr(clients, name)
