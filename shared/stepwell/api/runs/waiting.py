"""Builds waiting_data of a waiting run: its data, votes and approvers, and the links that end it.

A link is a credential to answer. It is computed on request and stored nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from typing_extensions import TypedDict

from stepwell.api.identity import Identity
from stepwell.definition.event_names import is_own
from stepwell.definition.graph import Json
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.approvals import asked, name_of, open_approvals
from stepwell.engine.names import iso
from stepwell.engine.parts import left_of, parts_of
from stepwell.engine.records import Parked
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import asking, asks_several, has_votes, votes_of
from stepwell.engine.waits.callback import heartbeats_due
from stepwell.engine.waits.kind import kind_named
from stepwell.engine.waits.topics import is_callback, run_of
from stepwell.runtime.calls.callbacks import wait_callback
from stepwell.runtime.calls.links import ApprovalLink, CallbackLink, Links
from stepwell.values import dataclass

ANYONE = "anyone"  # the link's name if the approval names no approvers
LINK_SCOPE = "stepwell/links"  # the scope of a token that may get the links of others


class LinksView(TypedDict):
    """The links that end a wait."""

    run_id: str
    callback_url: str | None
    approval_links: dict[str, str]


class AwaitedEvent(TypedDict):
    """An event that a run waits for. `key`: "" if it waits for one without a key."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The links that a caller gets with the run itself."""

    links: Links
    callbacks: bool = True
    approvals: bool = True


def shown_to(identity: Identity, links: Links | None) -> Shown | None:
    """Selects only links that give a caller no additional power.

    An IAM caller may have read access only. A named caller answers approvals in its own name.
    """
    if links is None or identity.kind == "iam":
        return None
    return Shown(links, approvals=not identity.name)


def may_have_all(identity: Identity) -> bool:
    """Returns whether the caller may request all links. With IAM, its policy decides."""
    return identity.kind != "jwt" or LINK_SCOPE in identity.scopes


def waiting_data(run_id: str, token: Token, now_ms: int, shown: Shown | None = None) -> Json:
    """Returns the wait's data with its votes and its links."""
    parked = token.parked
    if parked is None or parked.of_tasks:
        return None
    more: dict[str, Json] = _votes(token, parked) | _approvals(token, parked) | _heartbeat(token)
    for index, arm in enumerate(parked.arms):
        more |= kind_named(arm.kind).progress(arm, parts_of(index, token.received))
    if shown is not None:
        found = links_of(run_id, token, now_ms, shown)
        more |= {name: value for name, value in found.items() if name != "run_id" and value}
    if not more:
        return parked.data
    own = parked.data if isinstance(parked.data, dict) else {} if parked.data is None else {"data": parked.data}
    return {**own, **more}


def awaited_events(token: Token) -> list[AwaitedEvent]:
    """Returns the events that anybody may send and that end the token's wait, or a part of it, without what came."""
    if token.parked is None:
        return []
    topics = dict.fromkeys(topic for arm in left_of(token, token.parked).arms for topic in arm.topics)
    return [
        AwaitedEvent(name=topic.name, key=topic.key.removeprefix("="))
        for topic in topics
        if run_of(topic) is None and not is_callback(topic) and not is_own(topic.name)
    ]


def links_of(run_id: str, token: Token, now_ms: int, shown: Shown) -> LinksView:
    """Computes the links of the token's wait. Raises PortError if the key is unavailable."""
    callback = wait_callback(run_id, token) if shown.callbacks else None
    link = CallbackLink(callback, _expires_ms(token, "callback", now_ms)) if callback else None
    return LinksView(
        run_id=run_id,
        callback_url=shown.links.callback_url(link) if link else None,
        approval_links=_approval_links(run_id, token, now_ms, shown.links) if shown.approvals else {},
    )


def _approval_links(run_id: str, token: Token, now_ms: int, links: Links) -> dict[str, str]:
    arms = open_approvals(token)
    if not arms or token.parked is None:
        return {}
    expires_ms = _expires_ms(token, "approval", now_ms)
    found = _named_approvals(token, token.parked, arms)
    if any(not token.parked.arms[arm].parts for arm in arms):
        found[ANYONE] = ("", "")
    return {
        shown: links.approval_url(ApprovalLink(run_id, token.id, token.waiting_slot, who, expires_ms, approval))
        for shown, (who, approval) in found.items()
    }


def _named_approvals(token: Token, parked: Parked, arms: Sequence[int]) -> dict[str, tuple[str, str]]:
    """Returns the approver and the approval of each link by its name: `ana`, and for another approval `ana/approval_2`.

    The approval is named only for who is asked for several. Links keep their names when others are used.
    """
    asks = asking(parked, token.received)
    each, found = Counter(who for _, who in asks), dict[str, tuple[str, str]]()
    named = set[str]()
    for arm, who in asks:
        approval = name_of(token, arm) if each[who] > 1 else ""
        if arm in arms and who in asked(token, arm):
            found[f"{who}/{approval}" if who in named else who] = (who, approval)
        named.add(who)
    return found


def _expires_ms(token: Token, kind: str, now_ms: int) -> int:
    """Returns when the links expire: with the wait, or after the longest possible wait."""
    until_ms = token.parked.until_ms if token.parked else None
    return now_ms + SCHEMAS[kind].longest_ms if until_ms is None else until_ms


def _votes(token: Token, parked: Parked) -> dict[str, Json]:
    """Returns the votes of the first approval that names approvers or needs several, and who may answer any."""
    arms = [arm for arm in open_approvals(token) if has_votes(parked.arms[arm])]
    if not arms:
        return {}
    return {
        "need": parked.arms[arms[0]].need,
        "approvers": list(asked(token, *arms)),
        "votes": votes_of(one for one in token.received if one.arm == arms[0]),
    }


def _heartbeat(token: Token) -> dict[str, Json]:
    """Returns until when a heartbeat must come, the first of several."""
    due_ms = heartbeats_due(token)
    return {"heartbeat_until": iso(min(due_ms))} if due_ms else {}


def _approvals(token: Token, parked: Parked) -> dict[str, Json]:
    """Returns the open approvals of a wait for several, by name, and who may answer each: nobody named is anybody."""
    if not asks_several(parked):
        return {}
    return {"approvals": {name_of(token, arm): list(asked(token, arm)) for arm in open_approvals(token)}}
