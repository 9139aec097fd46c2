"""Draws the parts of docs/ that say what tables in the code say. `python -m tests.docs.generate` rewrites them.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`; everything else in a page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import stepwell
from stepwell.api.live import stream_routes
from stepwell.api.openapi import document
from stepwell.api.routes import ROUTES
from stepwell.api.webhooks.replay import delivery_routes
from stepwell.api.webhooks.route import webhook_routes
from stepwell.cli.exits import MEANINGS
from stepwell.cli.main import COMMANDS, GROUPS
from stepwell.definition.durations import show_duration
from stepwell.definition.shape import UNSUPPORTED_KEYS, UNSUPPORTED_VALUES
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.entries import ENTRY_TYPES
from stepwell.engine.table import ENDED, LEGAL, RECEPTION, Message, Phase
from tests.cli.newcomers import troubles
from tests.definition.test_code import bad_functions
from tests.docs import figures, reference, scale
from tests.docs.options import options
from tests.docs.tables import table

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPENAPI = Path("reference") / "openapi.json"
_BLOCK = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MEANINGS = {"take": "takes", "drop": "·", "refuse": "409"}


def phases() -> str:
    """The legal changes of phase, as a state diagram."""
    ways: dict[tuple[Phase, Phase], list[str]] = {}
    for (before, signal), after in LEGAL.items():
        ways.setdefault((before, after), []).append(signal.value)
    lines = [f"    {before} --> {after}: {', '.join(signals)}" for (before, after), signals in ways.items()]
    ends = [f"    {phase} --> [*]" for phase in Phase if phase in ENDED]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.INITIALIZING}", *lines, *ends, "```"])


def reception() -> str:
    """What each phase does with each message."""
    resting = list(dict.fromkeys(phase for phase, _ in RECEPTION))
    rows = [[f"`{phase}`", *(_MEANINGS[RECEPTION[phase, message]] for message in Message)] for phase in resting]
    return table(["phase", *Message], rows)


def history() -> str:
    """The types of history entries."""
    return table(["type", "tells"], [[f"`{kind}`", what] for kind, what in ENTRY_TYPES.items()])


def waits() -> str:
    """The waits of this version, with their limits."""
    rows = [
        [
            f"`{kind}`",
            one.ended_by or f"the event `{one.event}`",
            "given" if one.timeout_ms is None else show_duration(one.timeout_ms),
            show_duration(one.longest_ms),
        ]
        for kind, one in SCHEMAS.items()
    ]
    return table(["wait", "ended by", "default timeout", "maximum"], rows)


def unsupported() -> str:
    """What the definition reference knows and this version does not."""
    features = dict.fromkeys(UNSUPPORTED_KEYS.values())
    values = [f"`{key}: {value}`" for key, known in UNSUPPORTED_VALUES.items() for value in known]
    return "\n".join(f"- {feature}" for feature in [*features, *values])


def commands() -> str:
    """The commands of the command line."""
    named = [(command.__name__, command) for command in COMMANDS]
    named += [(f"{group} {name}", command) for group, several in GROUPS.items() for name, command in several.items()]
    told = [(name, (command.__doc__ or "").partition("\n")[0]) for name, command in named]
    return table(["command", "does"], [[f"`stepwell {name}`", what] for name, what in told])


def mistakes() -> str:
    """The bad functions of the tests, how `check` names them, and what their runs fail with."""
    rows = [
        [does[:1].lower() + does[1:], f"`{line}`", f"`{found.code}`: {found.hint}", f"`{then}`" if then else "nothing"]
        for does, line, found, then in bad_functions()
    ]
    return table(["the function", "for example", "`check` finds, with the hint", "its run fails with"], rows)


def exits() -> str:
    """The exit statuses of the command line."""
    return table(["status", "meaning"], [[str(status), meaning] for status, meaning in MEANINGS.items()])


BLOCKS: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        phases, reception, history, waits, unsupported, commands, exits, options, mistakes, troubles,
        reference.routes, reference.calls, reference.refusals, reference.faults, reference.failures, reference.findings,
        reference.limits, reference.engine, reference.pool,
        figures.machine, figures.processor, figures.elapsed, figures.durabilities, figures.journeys,
        scale.starts, scale.items, scale.quotas,
    )
}  # fmt: skip


def rendered(text: str) -> str:
    """A page with its blocks as the code has them now."""
    return _BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}", text)


def pages() -> list[Path]:
    """The pages that have a block."""
    return [page for page in sorted(DOCS.rglob("*.md")) if _BLOCK.search(page.read_text(encoding="utf-8"))]


@cache
def openapi_text() -> str:
    """The OpenAPI document of all routes."""
    routes = (*ROUTES, *delivery_routes(dict), *webhook_routes(dict), *stream_routes(None))
    return json.dumps(document(routes, stepwell.__version__), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Rewrites the pages that are behind, and names them."""
    (DOCS / OPENAPI).write_text(openapi_text(), encoding="utf-8")
    for page in pages():
        before = page.read_text(encoding="utf-8")
        if (after := rendered(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
