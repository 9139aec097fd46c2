"""`stepwell webhook test`: sends a delivery to a source of webhooks.yaml, signed as its sender would sign it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from uuid import uuid4

from stepwell.cli.arguments import ResultAsJson, Url, argument, option, read_pairs, unread
from stepwell.cli.completing import complete_source
from stepwell.cli.folder.checking import print_problems
from stepwell.cli.folders import chosen_folder
from stepwell.cli.screen import report
from stepwell.definition.text import closest
from stepwell.errors import NotFound, UserError
from stepwell.settings import environment

if TYPE_CHECKING:
    from stepwell.api.webhooks.sources import Source


def send_signed(
    source: Annotated[str, argument("SOURCE", "Its name in webhooks.yaml.", complete_source)],
    file: Annotated[str, option("--file -f", "FILE", "The body; - for stdin.")],
    header: Annotated[
        list[str] | None, option("--header -H", "NAME=VALUE", "Another header: x-github-event=push.")
    ] = None,
    delivery_id: Annotated[str, option("--id", "ID", "The id, if the scheme sends one; default a new one.")] = "",
    folder: Annotated[
        Path | None, option("--folder", "DIR", "That of webhooks.yaml; default the workflow folder.")
    ] = None,
    url: Url = "",
    as_json: ResultAsJson = False,
) -> None:
    """Send a signed test delivery to a source, and print the result."""
    from stepwell.api.webhooks.sending import sign  # noqa: PLC0415 - with the API, 200 ms
    from stepwell.client import Client  # noqa: PLC0415 - httpx: 100 ms

    given = {name.lower(): value for name, value in read_pairs(header or [], "--header", "x-id=7").items()}
    content, known = _read(file), _source(chosen_folder(folder), source)
    if delivery_id and not known.signings[0].id_header:
        raise UserError(f"the scheme of {source} sends no id, so --id would change nothing", code="bad_option",
                        hint="leave --id out: a source of such a scheme knows a delivery by its body")  # fmt: skip
    headers = {"content-type": _content_type(content), **given}
    with Client(url) as client:
        signed = sign(
            known,
            content,
            headers["content-type"],
            host=urlsplit(client.url).netloc,
            delivery_id=delivery_id or f"test-{uuid4()}",
            now_ms=time.time_ns() // 1_000_000,
        )
        answer = client.deliver(source, signed.content, {**signed.headers, **headers}, signed.query)
    report(answer, as_json, _told(answer))


def _told(answer: Mapping[str, object]) -> str:
    if answer.get("ignored"):
        return "ignored: the source's `match` is false"
    duplicate = {"event_id": "duplicate of event {}", "run_id": "duplicate of the delivery that started {}"}
    told = {"event_id": "sent as event {}", "run_id": "started {}", "challenge": "answered the challenge {}"}
    words = {**told, **(duplicate if answer.get("duplicate") else {})}
    return "\n".join(words[name].format(value) for name, value in answer.items() if name in words) or "accepted"


def _source(folder: Path, name: str) -> Source:
    from stepwell.api.webhooks.sources import sources_of  # noqa: PLC0415
    from stepwell.runtime.folder.loading import load_webhooks  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind  # noqa: PLC0415 - with the API

    loaded = load_webhooks(folder)
    if loaded.document is None and loaded.problems:
        print_problems(loaded.problems, stderr=True)
        raise UserError("webhooks.yaml has errors", code="bad_webhooks", hint=f"stepwell check {folder}")
    sources = sources_of(loaded.document, SecretsByKind({"env": EnvironmentSecrets(environment())}))
    if name not in sources:
        hint = closest(name, sources) or "webhooks.yaml of the workflow folder lists the sources"
        raise NotFound(f"there is no source {name!r} in {folder}", code="unknown_source", hint=hint)
    return sources[name]


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise unread(file, error) from error


def _content_type(content: bytes) -> str:
    """Guesses JSON from the first character, otherwise a form."""
    return "application/json" if content.lstrip()[:1] in {b"{", b"["} else "application/x-www-form-urlencoded"
