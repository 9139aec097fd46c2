"""The two comparisons: what was needed and is not allowed, what is allowed and was not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.iam.policies import Statement, allows
from tests.iam.services import Needs

Roles = Mapping[str, tuple[Statement, ...]]


def missing(roles: Roles, needs: Needs) -> list[str]:
    """What a role does not allow whoever acts in it."""
    return sorted(f"{actor} may not {need}" for actor, need in needs if not allows(roles[actor], need))


def unused(roles: Roles, needs: Needs, spare: Mapping[tuple[str, str], str]) -> list[str]:
    """Permissions without a use. `spare` has the reasons of those that stay, by actor and action; a spare one that is
    used after all, or is not there, is no spare."""
    seen = set(needs)
    idle = {
        (actor, one)
        for actor, one in permissions(roles)
        if not any(who == actor and one.covers(need) for who, need in seen)
    }
    known = {(actor, one.actions[0]) for actor, one in idle}
    found = [f"{actor} never does {one}" for actor, one in idle if (actor, one.actions[0]) not in spare]
    return sorted(found + [f"{actor}: {action} is no spare" for actor, action in set(spare) - known])


def permissions(roles: Roles) -> Iterator[tuple[str, Statement]]:
    """(actor, one action on one resource) of all that is allowed."""
    for actor, statements in roles.items():
        for statement in statements:
            if statement.effect == "Allow":
                yield from ((actor, one) for one in statement.split())
