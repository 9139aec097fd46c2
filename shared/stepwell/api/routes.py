"""The API as a whole: one table of routes, and the resolver that serves it behind an API Gateway HTTP API."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.api.exchange import Route
from stepwell.api.handlers.acting import ACTING_ROUTES
from stepwell.api.handlers.asking import ASKING_ROUTES
from stepwell.api.handlers.batching import BATCHING_ROUTES
from stepwell.api.handlers.dead import DEAD_ROUTES
from stepwell.api.handlers.erasing import ERASING_ROUTES
from stepwell.api.handlers.fetching import FETCHING_ROUTES
from stepwell.api.handlers.limiting import LIMITING_ROUTES
from stepwell.api.handlers.linked import LINKED_ROUTES
from stepwell.api.handlers.logs import LOGGING_ROUTES
from stepwell.api.handlers.looking import LOOKING_ROUTES
from stepwell.api.handlers.pausing import PAUSING_ROUTES
from stepwell.api.handlers.recovering import RECOVERING_ROUTES
from stepwell.api.handlers.scheduling import SCHEDULING_ROUTES
from stepwell.api.handlers.starting import STARTING_ROUTES
from stepwell.api.handlers.step_functions import STEP_FUNCTIONS_ROUTES
from stepwell.api.handlers.versions import VERSION_ROUTES
from stepwell.api.resolver import Resolver, app_of
from stepwell.runtime.assembly import Assembly

ROUTES: tuple[Route, ...] = (
    *STARTING_ROUTES,
    *ASKING_ROUTES,
    *FETCHING_ROUTES,
    *ACTING_ROUTES,
    *BATCHING_ROUTES,
    *PAUSING_ROUTES,
    *ERASING_ROUTES,
    *DEAD_ROUTES,
    *RECOVERING_ROUTES,
    *LIMITING_ROUTES,
    *LINKED_ROUTES,
    *LOGGING_ROUTES,
    *LOOKING_ROUTES,
    *SCHEDULING_ROUTES,
    *VERSION_ROUTES,
    *STEP_FUNCTIONS_ROUTES,
)


def create_app(parts: Assembly, more: Iterable[Route] = ()) -> Resolver:
    """Builds the whole API over these parts, for the Lambda handler and the dev server."""
    return app_of(parts, (*ROUTES, *more))
