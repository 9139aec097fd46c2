"""A wait for an event of a name that the definition, or the step, gives."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Json, Wait
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import Arm, Pause, Topic
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Coming, Place, WaitKind, limited
from stepwell.engine.waits.topics import topics
from stepwell.errors import ExpressionError
from stepwell.limits import KEY_CHARACTERS


class EventWait(WaitKind):
    """A wait for one event, by name, key and condition."""

    def arm(self, wait: Wait, place: Place) -> Arm:
        name = wait.event or SCHEMAS[self.name].event
        key = "" if wait.key is None else _key(wait.key, place.names)
        return Arm(self.name, topics(name, key, place.run_id), _match(wait, place.names))

    def topics_of(self, moment: Moment, token: Token, pause: Pause) -> tuple[Topic, ...]:
        return topics(pause.name, pause.key, moment.run.run_id)


class NamedEventWait(EventWait):
    """It goes by the name of its event."""

    def title(self, wait: Wait) -> str:
        return wait.event or self.name

    def words(self, wait: Wait) -> str:
        return limited(f"{self.name} {wait.event}" if wait.event else self.name, wait, ", at most ")


EVENT = NamedEventWait("event", comings={"event": Coming("event.received", "event", is_part=True)})


def _match(wait: Wait, names: Names) -> str:
    """The condition over the event, with whom it is to be from."""
    written = wait.match.text if wait.match else ""
    if wait.sender is None:
        return written
    sender = wait.sender.evaluate(names)
    if not isinstance(sender, str):
        raise ExpressionError(f"`{wait.sender.text}` gave {sender!r:.80}", hint="the name of the sender, as text")
    is_from = f"event.from == {json.dumps(sender, ensure_ascii=False)}"
    bare = written.strip().removeprefix("{{").removesuffix("}}")
    return f"({bare}) && {is_from}" if written else is_from


def _key(key: Expression, names: Mapping[str, Json]) -> str:
    value = key.evaluate(names)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ExpressionError(f"the wait's key `{key.text}` gave {value!r}", hint="a key is a string or a whole number")
    text = str(value)
    if len(text) > KEY_CHARACTERS:
        raise ExpressionError(f"the wait's key has {len(text)} characters; at most {KEY_CHARACTERS} are kept")
    if not text.isprintable():  # no event can have it
        raise ExpressionError(f"the wait's key is {text!r:.80}", hint="a key has printable characters")
    return text
