"""Checks `out:` of a `webhooks.yaml`: the endpoints of outgoing webhooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.secret_references import check_secrets
from stepwell.definition.targets import BadUrlError, parse_url
from stepwell.definition.text import NAME, NAME_HINT, closest, pointer_part
from stepwell.limits import ENDPOINT_SECRETS, ENDPOINTS, NAME_CHARACTERS

DEFAULT = "run.*"
_KEYS = ("url", "secret", "events", "workflows")
_ALL = "*"
_EXAMPLE = "out: {crm: {url: https://crm.example.com/hooks, secret: env:CRM_SECRET}}"


def check_endpoints(
    context: Context, given: Json, types: Collection[str], workflows: Collection[str] | None
) -> Mapping[str, Json]:
    """Returns the endpoints by name, with `events` expanded. `types` are the events that can be sent."""
    if not isinstance(given, dict):
        context.add("wrong_type", "`out` must map names to endpoints", "/out", _EXAMPLE)
        return {}
    if len(given) > ENDPOINTS:
        context.add("too_many_endpoints", f"`out` has {len(given)} endpoints", "/out", f"at most {ENDPOINTS}")
    return {name: _endpoint(context, name, one, types, workflows) for name, one in given.items()}


def _endpoint(
    context: Context, name: str, given: Json, types: Collection[str], workflows: Collection[str] | None
) -> Mapping[str, Json]:
    path = f"/out/{pointer_part(name)}"
    if not NAME.fullmatch(name) or len(name) > NAME_CHARACTERS:
        context.add("bad_name", f"{name[:80]!r} cannot be the name of an endpoint", path, NAME_HINT)
    if not isinstance(given, dict):
        context.add("wrong_type", f"the endpoint `{name}` must be a mapping", path, _EXAMPLE)
        return {}
    for key in given.keys() - set(_KEYS):
        context.add("unknown_key", f"unknown key `{key}`", f"{path}/{pointer_part(key)}", closest(key, _KEYS))
    secrets = check_secrets(context, f"the endpoint `{name}`", given, path)
    if len(secrets) > ENDPOINT_SECRETS:
        hint = f"at most {ENDPOINT_SECRETS}: the new one and those that receivers still know"
        context.add("too_many_secrets", f"`{name}` has {len(secrets)} secrets", f"{path}/secret", hint)
    return {
        "url": _url(context, name, given, path),
        "secret": secrets,
        "events": _events(context, given.get("events", [DEFAULT]), f"{path}/events", types),
        "workflows": _workflows(context, given.get("workflows"), f"{path}/workflows", workflows),
    }


def _url(context: Context, name: str, given: Mapping[str, Json], path: str) -> Json:
    url = given.get("url")
    if "url" not in given:
        context.add("missing_key", f"the endpoint `{name}` has no `url`", path, _EXAMPLE)
    elif not isinstance(url, str):
        context.add("wrong_type", "`url` must be a URL", f"{path}/url", "url: https://crm.example.com/hooks")
    else:
        try:
            parse_url(url)
        except BadUrlError as error:
            context.add_error(error, f"{path}/url")
    return url


def _events(context: Context, given: Json, path: str, types: Collection[str]) -> list[Json]:
    """Returns the types, sorted. `run.*` matches a prefix, `*` everything."""
    found: set[str] = set()
    for written in _texts(context, given, path, f"events: [{DEFAULT}, approval.requested]"):
        family = written.removesuffix(_ALL)
        is_family = written == _ALL or written.endswith(f".{_ALL}")
        these = {one for one in types if (one.startswith(family) if is_family else one == written)}
        if not these:
            hint = closest(written, types) or f"for example {DEFAULT}, step.failed or {_ALL} for all"
            context.add("unknown_event", f"there is no event {written[:80]!r}", path, hint)
        found |= these
    return sorted(found)


def _workflows(context: Context, given: Json, path: str, workflows: Collection[str] | None) -> Json:
    """Returns the names; null means all."""
    if given is None:
        return None
    names = list(_texts(context, given, path, "workflows: [order]"))
    for name in names:
        if workflows is not None and name not in workflows:
            message = f"there is no workflow {name[:80]!r}"
            context.add("unknown_workflow", message, path, closest(name, workflows))
    return sorted(set(names))


def _texts(context: Context, given: Json, path: str, hint: str) -> Sequence[str]:
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        context.add("wrong_type", f"`{path.rpartition('/')[2]}` must be a list of names", path, hint)
        return ()
    return given
