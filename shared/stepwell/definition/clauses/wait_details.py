"""Compiles the keys of single kinds of waits: documents, approvers, escalation and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.durations import show_duration
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Approvers, Json, Wait
from stepwell.limits import APPROVERS, DOCUMENTS, NAME_CHARACTERS


def documents_of(context: Context, data: Mapping[str, Json], path: str) -> Expression | None:
    """Compiles the names of the requested documents; None means one of any name."""
    return _names(context, data, "documents", path, DOCUMENTS)


def approvers_of(context: Context, data: Mapping[str, Json], path: str) -> Approvers | None:
    """Compiles `approvers` and `escalate` of an approval; None if it has neither."""
    if "approvers" not in data and "escalate" not in data:
        return None
    given, later = data.get("approvers", {}), data.get("escalate", {})
    _check_need(context, given, f"{path}/approvers")
    if "escalate" in data and "of" not in given:
        hint = "name the first approvers: approvers: {of: [ana, leo]}"
        context.add("misplaced_key", "`escalate` without `approvers`: anybody may answer", f"{path}/escalate", hint)
    return Approvers(
        need=given.get("need", 1),
        of=_names(context, given, "of", f"{path}/approvers", APPROVERS),
        escalate_after_ms=_longer_than_0(context, later, "after", f"{path}/escalate"),
        escalate_to=_names(context, later, "to", f"{path}/escalate", APPROVERS),
    )


def heartbeat_of(context: Context, data: Mapping[str, Json], path: str) -> int | None:
    """Compiles the heartbeat of a callback, in milliseconds."""
    return _longer_than_0(context, data, "heartbeat", path)


def check_times(context: Context, wait: Wait, arms: Mapping[str, Wait], path: str) -> None:
    """Reports an escalation or a heartbeat that is due after the wait ends. `arms` are the wait's arms by place."""
    limits = [one.timeout_ms for one in (wait, *arms.values()) if one.timeout_ms is not None]
    if not limits:
        return
    for place, one in (arms or {path: wait}).items():
        after_ms = one.approvers.escalate_after_ms if one.approvers is not None else None
        for key, time_ms in (("escalate/after", after_ms), ("heartbeat", one.heartbeat_ms)):
            if time_ms is not None and time_ms >= min(limits):
                message = f"`{key.rpartition('/')[2]}` of {show_duration(time_ms)} is not shorter than the wait"
                hint = f"the wait ends after {show_duration(min(limits))}: write less, or a longer `timeout`"
                context.add("bad_value", message, f"{place}/{key}", hint)


def _check_need(context: Context, given: Mapping[str, Json], path: str) -> None:
    of, need = given.get("of"), given.get("need", 1)
    if isinstance(of, list) and 0 < len(of) < need:
        message = f"`need` is {need}, and `of` names {len(of)}"
        context.add("bad_value", message, f"{path}/need", f"at most {len(of)}, or name more approvers")


def _names(context: Context, data: Mapping[str, Json], key: str, path: str, most: int) -> Expression | None:
    """Compiles a list of names, or a template whose value is one."""
    if key not in data:
        return None
    written, place = data[key], f"{path}/{key}"
    if isinstance(written, list):
        _check_names(context, written, key, place, most)
    elif not (written.strip().startswith("{{") and written.strip().endswith("}}")):
        hint = f"write a list, {key}: [{written[:40]}], or one template whose value is a list"
        context.add("wrong_type", f"`{key}` must be a list of names, not text", place, hint)
        return None
    return context.template(data, key, path)


def _check_names(context: Context, names: list[str], key: str, path: str, most: int) -> None:
    if not names:
        context.add("missing_key", f"`{key}` is empty", path, "name at least one, or remove the key")
    elif len(names) > most:
        context.add("bad_value", f"`{key}` has {len(names)} names", path, f"at most {most}")
    seen: set[str] = set()
    for at, name in enumerate(names):
        if name in seen:
            context.add("duplicate_value", f"`{key}` has `{name[:80]}` twice", f"{path}/{at}", "keep one of them")
        elif "{{" not in name and not 0 < len(name.strip()) <= NAME_CHARACTERS:
            message = f"`{key}` has a name of {len(name)} characters" if name.strip() else f"`{key}` has an empty name"
            context.add("bad_name", message, f"{path}/{at}", f"1 to {NAME_CHARACTERS} characters")
        seen.add(name)


def _longer_than_0(context: Context, data: Mapping[str, Json], key: str, path: str) -> int | None:
    time_ms = context.duration_ms(data, key, path)
    if time_ms == 0:
        context.add("bad_value", f"`{key}` must be longer than 0", f"{path}/{key}", f"for example {key}: 5m")
    return time_ms
