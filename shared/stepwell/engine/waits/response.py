"""A wait for a message from a person."""

from __future__ import annotations

from stepwell.engine.names import Moment
from stepwell.engine.token import Token
from stepwell.engine.waits.event import EventWait


class ResponseWait(EventWait):
    """An answer follows its question: the last step before it that says something."""

    def takes(self, moment: Moment, token: Token, at_ms: int) -> bool:
        nodes = (moment.graph.nodes.get(name) for name in token.steps)
        asked = [token.steps[node.name].started_ms for node in nodes if node and node.step and node.step.window]
        return at_ms >= max(asked, default=0)


RESPONSE = ResponseWait("response", of_people=True, sets={"lastResponse": ()})
