"""The dev server as people use it: a process that can be killed at any time."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from stepwell.errors import PortError, UserError
from stepwell.local import dev
from stepwell.local.bell import WATCH_MS
from stepwell.local.dev import serve
from tests.local.kit import Dev, until

Start = Callable[[], Dev]


def is_waiting(server: Dev, run_id: str) -> bool:
    return server.status(run_id) == "waiting"


def test_a_run_goes_on_from_where_it_stood_after_a_kill(dev: Start, folder: Path) -> None:
    first = dev()
    assert first.call("POST", "/workflows/order/runs", {"run_id": "r1"})[0] == 201
    until(lambda: first.status("r1") == "waiting", "the approval")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = dev()
    assert second.status("r1") == "waiting"
    assert second.call("POST", "/runs/r1/approve", {"by": "ana"})[0] == 200
    until((folder / "tries").exists, "the slow step")
    second.end(signal.SIGKILL)  # in the middle of a step
    (folder / "go").touch()
    third = dev()
    assert "1 message was under way when the last server ended" in third.errors
    status, run = third.call("GET", "/runs/r1/result?wait=20")
    assert (status, run["result"]) == (200, "v1")
    assert (folder / "tries").read_text() == "xx"  # the attempt that was killed, and the one that ended
    entries = third.call("GET", "/runs/r1/history?limit=500")[1]["items"]
    assert sum(entry["type"] == "step.completed" and entry["step"] == "charge" for entry in entries) == 1


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_soon_whatever_is_under_way(dev: Start, folder: Path, kind: int) -> None:
    server = dev()
    server.call("POST", "/workflows/order/runs", {"run_id": "r1"})
    until(lambda: server.status("r1") == "waiting", "the approval")
    server.call("POST", "/runs/r1/approve", {})
    until((folder / "tries").exists, "the slow step")
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as caller:
        caller.sendall(b"GET /runs/r1/result?wait=25 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.call("GET", "/health")
        began = time.monotonic()
        assert server.end(kind) == 0, server.errors
        assert time.monotonic() - began < 20  # a second and a half, and not the caller's 25; the step never ends


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can fill another process's disk")
def test_health_says_that_the_disk_takes_no_writes(dev: Start) -> None:
    server = dev()
    assert server.call("GET", "/health")[0] == 200
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    status, answer = server.call("GET", "/health")
    assert (status, answer["status"]) == (503, "unavailable")
    assert "stepwell.db" in answer["dependencies"]["store"]
    assert server.call("GET", "/runs")[0] == 200  # reads go on
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
    assert server.call("GET", "/health")[0] == 200


def test_a_second_server_on_the_same_data_is_refused(dev: Start, folder: Path, tmp_path: Path) -> None:
    dev()
    second = Dev(folder, tmp_path / "data")
    assert (second.line, second.end()) == ("", 2)
    assert "is in use by process" in second.errors
    assert "Traceback" not in second.errors


def test_a_port_in_use_is_an_error_that_says_so(dev: Start, folder: Path, tmp_path: Path) -> None:
    port = int(dev().url.rpartition(":")[2])
    second = Dev(folder, tmp_path / "other", port)
    assert (second.line, second.end()) == ("", 2)
    assert f"cannot listen on port {port}" in second.errors
    assert "Traceback" not in second.errors


def test_a_folder_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    server = Dev(tmp_path / "nope", tmp_path / "data")
    assert (server.line, server.end()) == ("", 2)
    assert "there is no folder" in server.errors


def test_a_folder_without_workflows_is_served_and_told(dev: Start, folder: Path) -> None:
    (folder / "order.yaml").rename(folder / "order.txt")
    assert f"there are no workflows in {folder}; write one there" in dev().errors


def test_a_changed_definition_and_a_changed_module_are_taken_up(dev: Start, folder: Path) -> None:
    server = dev()
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.ship, timeout: 1m}\n")
    until(lambda: server.call("GET", "/workflows/quick")[0] == 200, "the new workflow")
    assert server.call("POST", "/workflows/quick/runs?wait=20", {})[1]["result"] == "v1"
    (folder / "shop.py").write_text("def ship():\n    return 'version 2'\n")
    until(lambda: server.call("POST", "/workflows/quick/runs?wait=20", {})[1]["result"] == "version 2", "the new code")
    (folder / "quick.yaml").unlink()
    until(lambda: server.call("GET", "/workflows/quick")[0] == 404, "its removal")
    until(lambda: "workflow quick: removed" in server.errors, "its line in the log, which comes after")
    assert "workflow quick: added" in server.errors


def test_a_broken_definition_is_told_and_the_others_are_served(dev: Start, folder: Path) -> None:
    (folder / "bad.yaml").write_text("workflow: bad\nnodes:\n  a: {transitions: [{to: nowhere}]}\n")
    server = dev()
    assert "bad.yaml" in server.errors
    assert [one["name"] for one in server.call("GET", "/workflows")[1]["items"]] == ["order"]
    status, problem = server.call("POST", "/workflows/bad/runs", {})
    assert (status, problem["code"]) == (404, "unknown_workflow")
    assert "the workflow 'bad' has an error: " in problem["detail"]


def test_a_function_that_is_not_there_is_told_at_the_start_and_after_a_reload(dev: Start, folder: Path) -> None:
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.shipp, timeout: 1m}\n")
    server = dev()
    assert "quick.yaml:3:10: error unknown_function" in server.errors
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.sh, timeout: 1m}\n")
    until(lambda: "no function 'sh' in shop" in server.errors, "the reload")
    until(lambda: "quick: changed; new runs take the new version" in server.errors, "that it is served all the same")


def test_a_body_of_two_megabytes_is_refused_by_the_server_itself(dev: Start) -> None:
    status, answer = dev().call("POST", "/events", b"x" * 2_000_000)
    assert (status, answer["code"]) == (413, "body_too_large")


def test_what_is_no_http_is_refused_like_everything_else(dev: Start) -> None:
    """Such as a URL with a letter that is not percent-encoded, as curl sends it."""
    with socket.create_connection(("127.0.0.1", int(dev().url.rpartition(":")[2])), timeout=60) as line:
        line.sendall("GET /runs?workflow=ü HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = b"".join(iter(partial(line.recv, 4096), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    refused = json.loads(body)
    assert refused["code"] == "bad_request"
    assert "percent-encode" in refused["hint"]


def test_a_page_from_another_site_gets_nothing(dev: Start) -> None:
    server = dev()
    for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
        assert server.call("POST", "/workflows/order/runs", {}, **headers)[0] == 403
    assert server.call("GET", "/runs")[1]["items"] == []
    assert server.call("GET", "/runs", origin=server.url)[0] == 200


def test_an_idle_server_answers_and_wakes_at_once(dev: Start, folder: Path) -> None:
    server = dev()
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.ship, timeout: 1m}\n")
    until(lambda: server.call("GET", "/workflows/quick")[0] == 200, "the new workflow")
    server.call("POST", "/workflows/quick/runs?wait=20", {})
    began = time.monotonic()
    for _ in range(10):
        assert server.call("POST", "/workflows/quick/runs?wait=20", {})[1]["status"] == "completed"
    assert time.monotonic() - began < 5 * WATCH_MS / 1_000  # that nobody is rung for waits for the next look: ten times


def test_a_reload_wakes_the_runs_that_wait_for_code_and_says_so(dev: Start, folder: Path) -> None:
    (folder / "shop.py").write_text("import a_module_that_is_not_installed\n")
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.ship, timeout: 1m}\n")
    server = dev()
    for run_id in ("r1", "r2"):
        server.call("POST", "/workflows/quick/runs", {"run_id": run_id})
        until(partial(is_waiting, server, run_id), "the broken module")
    assert "r1 waits for code: python:shop.ship: ModuleNotFoundError: No module named 'a_mod" in server.errors
    (folder / "shop.py").write_text("def ship():\n    return 'mended'\n")
    status, run = server.call("GET", "/runs/r2/result?wait=20")
    assert (status, run["result"]) == (200, "mended")
    assert "2 runs that waited for code try the new code" in server.errors


def test_a_reload_takes_up_changed_limits_and_keeps_the_last_good_ones(dev: Start, folder: Path) -> None:
    def most() -> list[int]:
        return [one["concurrency"] for one in server.call("GET", "/limits")[1]["items"]]

    (folder / "limits.yaml").write_text("limits: {stripe: {concurrency: 5}}")
    (folder / "paid.yaml").write_text(
        "workflow: paid\ntimeline: [{name: pay, run: python:shop.charge, throttle: stripe}]"
    )
    server = dev()
    assert server.call("POST", "/workflows/paid/runs?wait=20", {})[1]["status"] == "completed"
    assert most() == [5]
    (folder / "limits.yaml").write_text("limits: {stripe: {concurrency: 2}}")
    until(lambda: most() == [2], "the lower limit")
    (folder / "limits.yaml").write_text("limits: {stripe: {concurrency: none}}")
    until(lambda: "the last good version of their workflows stays" in server.errors, "the warning")
    assert most() == [2]


def test_a_reload_takes_up_changed_prices_and_keeps_the_last_good_ones(dev: Start, folder: Path) -> None:
    def as_of() -> str:
        return str(server.call("GET", "/runs/r1")[1]["cost"]["prices_as_of"])

    (folder / "prices.yaml").write_text("as_of: 2027-01-31")
    server = dev()
    server.call("POST", "/workflows/order/runs", {"run_id": "r1"})
    assert as_of() == "2027-01-31"
    (folder / "prices.yaml").write_text("as_of: 2027-02-28")
    until(lambda: as_of() == "2027-02-28", "the later prices")
    (folder / "prices.yaml").write_text("million_objects: 5")
    until(lambda: "bad_prices" in server.errors, "the error")
    assert as_of() == "2027-02-28"


def test_prices_that_the_environment_names_are_followed_by_no_reload(
    dev: Start, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named.yaml").write_text("as_of: 2027-03-31")
    monkeypatch.setenv("STEPWELL_PRICES", str(tmp_path / "named.yaml"))
    server = dev()
    server.call("POST", "/workflows/order/runs", {"run_id": "r1"})
    (folder / "prices.yaml").write_text("as_of: 2027-02-28")
    (folder / "quick.yaml").write_text("workflow: quick\nnodes:\n  ship: {run: python:shop.ship, timeout: 1m}\n")
    until(lambda: server.call("GET", "/workflows/quick")[0] == 200, "the reload")
    assert server.call("GET", "/runs/r1")[1]["cost"]["prices_as_of"] == "2027-03-31"


def test_a_server_does_not_start_with_a_named_table_of_prices_that_cannot_be(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named.yaml").write_text("as_of: 2027-03-31\nmillion_gold: 5\n")
    monkeypatch.setenv("STEPWELL_PRICES", str(tmp_path / "named.yaml"))
    with pytest.raises(UserError, match=r"named\.yaml:2 cannot be used: there is no price `million_gold`") as refused:
        serve(folder, tmp_path / "data", 0)
    assert refused.value.code == "bad_prices"


ENDED_AS_IT_STARTS = """
import signal, sys
from pathlib import Path
from stepwell.local import dev
dev.relax_collector = lambda: signal.raise_signal(signal.SIGTERM)
dev.serve(Path(sys.argv[1]), Path(sys.argv[2]), 0)
"""


def test_a_signal_before_it_serves_stops_what_has_begun(folder: Path, tmp_path: Path) -> None:
    """Workers that went on would read a closed database."""
    command = [sys.executable, "-c", ENDED_AS_IT_STARTS, str(folder), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "")
    assert [line.partition(" ")[2] for line in done.stderr.splitlines()] == ["W ended by SIGTERM"]


def test_a_file_that_breaks_keeps_its_last_good_version_until_it_is_mended(dev: Start, folder: Path) -> None:
    server, text = dev(), (folder / "order.yaml").read_text()
    (folder / "order.yaml").write_text(text.replace("wait: {for", "wait: {fro"))
    until(lambda: "the last good version of their workflows stays" in server.errors, "the warning")
    assert server.call("GET", "/workflows/order")[0] == 200
    (folder / "order.yaml").write_text(text.replace("workflow: order", "workflow: other"))
    until(lambda: server.call("GET", "/workflows/order")[0] == 404, "its removal, now that nothing is broken")


def test_the_log_has_a_line_for_each_start_wait_end_and_failure(dev: Start, folder: Path) -> None:
    (folder / "fails.yaml").write_text("workflow: fails\nnodes:\n  work: {run: python:shop.fails, timeout: 1m}\n")
    (folder / "shop.py").write_text("def charge(): ...\ndef fails():\n    raise ValueError('no luck')\n")
    server = dev()
    server.call("POST", "/workflows/fails/runs?wait=20", {"run_id": "one"})
    server.call("POST", "/workflows/order/runs", {"run_id": "two"})
    until(lambda: "two order: waits at approve for approval until" in server.errors, "the wait")
    server.call("POST", "/runs/two/cancel", {"reason": "a mistake"})
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    server.call("POST", "/workflows/order/runs", {"run_id": "three", "start_at": tomorrow})
    assert "I three order: created, run three, starts at 20" in server.errors
    lines = [line[9:] for line in server.errors.splitlines() if " one " in line or " two " in line]
    assert lines[:1] == ["I one fails: created, run one"]
    assert any(line.startswith("W one fails: failed after ") for line in lines)
    assert any(line.endswith("ValueError: no luck (step work)") for line in lines)
    assert any(line.startswith("W two order: cancelled after ") for line in lines)


def test_housekeeping_that_finds_a_full_disk_is_a_line_and_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def sweep() -> None:
        raise PortError("the database a.db did not answer: database or disk is full", hint="free some space")

    dev._guarded(sweep)
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().endswith("disk is full (free some space); it is tried again later")
