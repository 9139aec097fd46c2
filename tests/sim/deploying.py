"""Deploys of a world's code: other code, or none that can be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.runtime.log.messages import Deployed, to_json
from stepwell.runtime.ports import Lane
from tests.sim.actors import Envelope

if TYPE_CHECKING:
    from tests.sim.world import World


def deploy(world: World, act: str) -> None:
    """Deploys from this call on: `patch`, `reload`, `break` or `mend`."""
    world.say(f"deploys: {act}")
    code = world.processes.code
    code.version = 2 if act == "patch" else code.version
    code.is_broken = act == "break" or (code.is_broken and act != "mend")
    world.processes.reload()
    if act != "break":
        world.mended_at = world.written
        world.post(Envelope(str(Lane.RESUME), to_json(Deployed(f"d{world.calls}")), world.now_ms))


def remove_limits(world: World) -> None:
    """Deploys without the named limits, from this call on."""
    world.say("deploys: no limits")
    for catalog in world.catalogs:
        catalog.limits = {}
