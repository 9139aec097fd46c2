"""HTTP and Lambda steps on this machine, from the definition to the data on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start
from tests.runtime.http_kit import Server, as_json

SECRET = "sk_live_4242"  # noqa: S105
FLOW = """
workflow: refunds
timeline:
  - name: refund
    run: http:POST http://localhost:{port}/refunds/{{{{ input.id }}}}
    input: {{amount: "{{{{ input.amount }}}}"}}
    http: {{headers: {{authorization: {{secret: env:SHOP_KEY, prefix: "Bearer "}}}}}}
    output: {{refund: "{{{{ result.body }}}}"}}
    timeout: 5s
    retry: {{max_retries: 2, initial_delay: 0s, max_delay: 0s}}
"""


def drive(local: Local) -> None:
    """Handles all that is due."""
    while (delivery := local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), 60_000)) is not None:
        run_now(dispatch(local.parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
        local.inbox.delete(delivery)


def test_a_call_is_tried_again_with_the_same_key_and_its_secret_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", SECRET)
    folder, data = tmp_path / "flows", tmp_path / "data"
    folder.mkdir()
    echo = as_json(f'{{"id": 7, "sent": "Bearer {SECRET}"}}')
    with Server(as_json("{}", "503 Busy"), as_json("{}", "429 Slower"), echo) as server:
        (folder / "flow.yaml").write_text(FLOW.format(port=server.port))
        local = open_local(data, folder, load_folder(folder).graphs, (f"http://localhost:{server.port}",))
        started = run_now(local.parts.service.start(Start("refunds", {"id": "a/b", "amount": 3})))
        drive(local)
        token = run_now(local.parts.service.standing(started.header.run_id)).token
        local.close()
    assert token.scope == {"refund": {"id": 7, "sent": "Bearer [secret]"}}
    assert len(server.asked) == 3, "503 and 429 are retried without being named"
    assert len({_line(asked, b"Idempotency-Key") for asked in server.asked}) == 1
    assert {_line(asked, b"POST") for asked in server.asked} == {b"POST /refunds/a%2Fb HTTP/1.1"}
    assert all(_line(asked, b"authorization") == f"authorization: Bearer {SECRET}".encode() for asked in server.asked)
    kept = b"".join(file.read_bytes() for file in data.rglob("*") if file.is_file())
    assert b"refunds" in kept
    assert SECRET.encode() not in kept


def _line(asked: bytes, name: bytes) -> bytes:
    (found,) = [line for line in asked.split(b"\r\n") if line.startswith(name)]
    return found
