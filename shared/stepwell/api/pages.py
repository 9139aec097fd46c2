"""The HTML pages of approval links: self-contained, without scripts, with all outside text escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape

from stepwell.api.exchange import Answer
from stepwell.api.requests import REASON_CHARACTERS
from stepwell.definition.graph import Json
from stepwell.limits import KEY_CHARACTERS
from stepwell.values import dataclass

DATA_CHARACTERS = 20_000  # of the wait's data that a page shows

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:#57606a}
dd{margin:0;overflow-wrap:anywhere}
pre{background:#f3f5f7;padding:1rem;border-radius:.4rem;white-space:pre-wrap;overflow-wrap:anywhere}
form{border-top:1px solid #d0d7de;padding:1rem 0}label{display:block;margin:.5rem 0}
input,textarea{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.4rem}
button{font:inherit;padding:.5rem 1.2rem;border:0;border-radius:.4rem;color:#fff;background:#1a7f37}
button.no{background:#b42318}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # hides the URL, which is a credential, from other sites; forms need an origin
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """An approval to answer. `approver` is the name to answer in; "" if the person types it."""

    workflow: str
    run_id: str
    step: str
    approver: str
    until: str
    data: Json


def question(asked: Asked) -> Answer:
    """Renders the question, with a form for each answer."""
    facts = {
        "Workflow": asked.workflow,
        "Asked by": f"step {asked.step}",
        "Run": asked.run_id,
        "You answer as": asked.approver,
        "Until": asked.until,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    body = f"<dl>{rows}</dl>{_data(asked.data)}{_form(asked, 'approved')}{_form(asked, 'rejected')}"
    return _page(200, f"Your approval for {asked.workflow}", body)


def notice(status: int, title: str, text: str) -> Answer:
    """Renders a page with a single message."""
    return _page(status, title, f"<p>{escape(text)}</p>")


def _form(asked: Asked, decision: str) -> str:
    name = "" if asked.approver else (
        f'<label>Your name <input name="by" required maxlength="{KEY_CHARACTERS}" autocomplete="name"></label>'
    )  # fmt: skip
    label, button, look = ("Comment", "Approve", "") if decision == "approved" else ("Reason", "Reject", ' class="no"')
    return (
        f'<form method="post"><input type="hidden" name="decision" value="{decision}">{name}'
        f'<label>{label} <textarea name="reason" rows="2" maxlength="{REASON_CHARACTERS}"></textarea></label>'
        f"<button{look}>{button}</button></form>"
    )


def _data(data: Json) -> str:
    if data in (None, "", [], {}):
        return ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, indent=2)
    cut = "\n…" if len(text) > DATA_CHARACTERS else ""
    return f"<pre>{escape(text[:DATA_CHARACTERS] + cut)}</pre>"


def _page(status: int, title: str, body: str) -> Answer:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return Answer(status, text, "text/html; charset=utf-8", _HEADERS)
