"""Approvals by link, votes and delegation: who may answer, and what a page does."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from stepwell.limits import KEY_CHARACTERS
from stepwell.runtime.loop.driving import run_now
from tests.api.kit import START_MS, URL, Reply, World, event

SCRIPT = "</pre><script>alert(1)</script>\" onload='x'"
ONE = """
workflow: one
timeline: [{name: ok, wait: {for: approval, data: {note: '{{ input.note }}'}}}, {name: nap, sleep: 1d}]
"""
QUORUM = """
workflow: quorum
timeline:
  - {name: ok, wait: {for: approval, approvers: {need: 2, of: [ana, leo, kim]}, timeout: 24h}}
  - {name: nap, sleep: 1d}
"""
BRANCHED = """
workflow: branched
steps:
  - {name: ask, wait: {for: approval, approvers: {of: [ana]}}}
  - {name: also, wait: {for: callback}}
"""


def asked(definition: str = ONE, note: str = "") -> tuple[World, str, dict[str, str]]:
    """A run that waits for an approval, and the links of its approvers."""
    world = World(definition)
    run_id = world.start(definition.split()[1], input={"note": note})
    return world, run_id, world.get(f"/runs/{run_id}").json["waiting_data"]["approval_links"]


def send(world: World, url: str, decision: str = "approved", **fields: str) -> Reply:
    """What a browser sends for the page's form."""
    body = urlencode({"decision": decision, **fields})
    return world.open("POST", url, body, **{"content-type": "application/x-www-form-urlencoded"})


def answers(world: World, run_id: str) -> list[tuple[str, str | None]]:
    page = world.get(f"/runs/{run_id}/history", limit=500).json["items"]
    told = ("approval.received", "approval.rejected", "approval.delegated", "approval.escalated", "part.received")
    return [(entry["type"], entry["by"]) for entry in page if entry["type"] in told]


def test_the_page_asks_and_the_form_answers() -> None:
    world, run_id, links = asked(note="two crates")
    page = world.open("GET", links["anyone"])
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert all(text in page.text for text in ("two crates", run_id, "one", 'name="by"'))
    assert f"<h1>Your approval for {world.get(f'/runs/{run_id}').json['workflow']}</h1>" in page.text
    assert send(world, links["anyone"], by="Ana", reason="fine").status == 200
    world.drain()
    approval = world.get(f"/runs/{run_id}").json["state"]["approval"]
    assert approval == {"decision": "approved", "by": "Ana", "data": {"comment": "fine"}}


def test_a_rejection_by_link_fails_the_run_with_its_reason() -> None:
    world, run_id, links = asked()
    assert send(world, links["anyone"], "rejected", by="Ana", reason="too dear").status == 200
    world.drain()
    assert "too dear (by Ana)" in world.get(f"/runs/{run_id}").json["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_preview_of_a_link_approves_nothing(method: str) -> None:
    world, _, links = asked()
    before = world.stored()
    assert world.open(method, links["anyone"]).status == 200
    assert world.stored() == before


def test_what_is_shown_is_text_and_the_page_can_do_nothing_else() -> None:
    world, _, links = asked(note=SCRIPT)
    page = world.open("GET", links["anyone"])
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert not re.search(r"<(link|img|iframe|object)|src=|href=|onload='", page.text)
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["Cache-Control"] == "no-store"
    by = send(world, links["anyone"], by="<b>Ana</b>")
    assert "<b>" not in by.text


def test_a_link_that_is_not_good_answers_nothing() -> None:
    world, _, links = asked(QUORUM)
    token = links["ana"].rpartition("/")[2]
    said, mac = token.split(".")
    theirs = links["leo"].rpartition("/")[2].split(".")[0]
    other = World(QUORUM)
    other.link_keys = [b"another key, that signs nothing here"]
    other.start("quorum")
    resigned = _first(other)["ana"].rpartition("/")[2]
    callback = "callbacks"
    before = world.stored()
    for bad in (token[:-1], said, f"{theirs}.{mac}", resigned, "x"):
        for method in ("GET", "POST"):
            assert world.open(method, f"{URL}/approvals/{bad}", "decision=approved").status == 404
    assert world.open("POST", links["ana"].replace("approvals", callback), "{}").status == 404
    world.clock.advance(86_400_000)
    assert send(world, links["ana"]).status == 410
    assert world.stored() == before


def _first(world: World) -> dict[str, str]:
    (run,) = world.get("/runs").json["items"]
    found: dict[str, str] = world.get(f"/runs/{run['run_id']}").json["waiting_data"]["approval_links"]
    return found


@pytest.mark.parametrize("fields", [
    {"decision": "maybe", "by": "Ana"}, {"by": ""}, {"by": "a\u0000b"}, {"by": "x" * (KEY_CHARACTERS + 1)},
    {"by": "Ana", "reason": "x" * 4_001}, {str(n): "" for n in range(20)},
])  # fmt: skip
def test_a_form_that_cannot_be_answers_nothing(fields: dict[str, str]) -> None:
    world, _, links = asked()
    before = world.stored()
    assert send(world, links["anyone"], **fields).status == 422
    assert world.stored() == before


@pytest.mark.parametrize("body", ["decision=rejected&by=Ana&decision=approved", "decision=approved&by=Ana&by=Ben",
                                  "decision=approved&decision=approved&by=Ana"])  # fmt: skip
def test_a_form_with_a_field_given_twice_answers_nothing(body: str) -> None:
    world, _, links = asked()
    before = world.stored()
    reply = world.open("POST", links["anyone"], body, **{"content-type": "application/x-www-form-urlencoded"})
    assert reply.status == 422
    assert "more than once" in reply.text
    assert world.stored() == before


def test_a_link_answers_the_wait_that_it_was_made_for_and_no_later_one() -> None:
    loop = ONE.replace("{name: nap, sleep: 1d}", "{name: again, wait: {for: approval}}")
    world, run_id, links = asked(loop)
    assert send(world, links["anyone"], by="Ana").status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["current_steps"] == ["again"]
    before = world.stored()
    for reply in (world.open("GET", links["anyone"]), send(world, links["anyone"], by="Ana")):
        assert (reply.status, "over" in reply.text) == (410, True)
    assert world.stored() == before


# -- votes


def test_a_link_answers_in_the_name_that_it_was_made_for() -> None:
    world, run_id, links = asked(QUORUM)
    assert set(links) == {"ana", "leo", "kim"}
    assert 'name="by"' not in world.open("GET", links["ana"]).text
    assert send(world, links["ana"], by="kim").status == 200
    data = world.get(f"/runs/{run_id}").json["waiting_data"]
    assert (data["need"], data["approvers"]) == (2, ["leo", "kim"])
    assert data["votes"] == [{"decision": "approved", "by": "ana", "data": None}]
    assert set(data["approval_links"]) == {"leo", "kim"}


def test_approving_twice_is_one_approval() -> None:
    world, run_id, links = asked(QUORUM)
    assert [send(world, links["ana"], decision).status for decision in ("approved", "approved", "rejected")] == [
        200, 409, 409
    ]  # fmt: skip
    assert world.open("GET", links["ana"]).status == 409
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    assert len(answers(world, run_id)) == 1


def test_an_approval_of_a_dag_has_its_own_links() -> None:
    world = World(BRANCHED)
    run_id = world.start("branched")
    links = world.post(f"/runs/{run_id}/links", {"wait": "ask"}).json
    assert world.post(f"/runs/{run_id}/links", {"wait": "also"}).json["callback_url"]
    assert send(world, links["approval_links"]["ana"]).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["steps"]["ask"]["output"]["by"] == "ana"


def test_who_is_known_by_name_has_no_link_of_another() -> None:
    world, run_id, _ = asked(QUORUM)
    call = event("GET", f"/runs/{run_id}")
    call["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": "ana"}}}
    assert "approval_links" not in world.send(call).json["waiting_data"]


@pytest.mark.parametrize(
    ("what", "body"),
    [("approve", {"by": "ana"}), ("approve", {}), ("reject", {"by": "ana"}), ("delegate", {"by": "ana", "to": "bea"})],
)
def test_who_is_known_by_credentials_is_not_told_to_name_another(what: str, body: dict[str, str]) -> None:
    """The body's `by` decides nothing there, so a hint to write another one leads nowhere."""
    world, run_id, _ = asked(QUORUM)
    call = event("POST", f"/runs/{run_id}/{what}", json.dumps(body))
    call["requestContext"]["authorizer"] = {"iam": {"userArn": "arn:aws:iam::1:user/ana"}}
    reply = world.send(call)
    assert (reply.status, reply.json["code"]) == (403, "not_an_approver")
    assert reply.json["detail"] == "arn:aws:iam::1:user/ana is not asked for this approval"
    assert reply.json["hint"].startswith("your credentials say who you are here; `by`, or --by, does not.")


# -- delegation


def delegate(world: World, run_id: str, by: str, to: str, **more: Any) -> Reply:
    return world.post(f"/runs/{run_id}/delegate", {"by": by, "to": to, **more})


def test_an_approver_hands_the_approval_on() -> None:
    world, run_id, links = asked(QUORUM)
    assert delegate(world, run_id, "ana", "bea").json["waiting_data"]["approvers"] == ["bea", "leo", "kim"]
    assert send(world, links["ana"]).status == 410
    reply = world.post(f"/runs/{run_id}/approve", {"by": "ana"})
    assert (reply.status, reply.json["code"]) == (403, "not_an_approver")
    for name in ("bea", "kim"):
        assert world.post(f"/runs/{run_id}/approve", {"by": name}).status == 200
    world.drain()
    assert answers(world, run_id) == [
        ("approval.delegated", "ana"), ("part.received", "bea"), ("approval.received", "kim")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "to", "status"),
    [("bob", "bea", 403), ("", "bea", 403), ("leo", "bea", 403), ("ana", "kim", 409), ("ana", "leo", 409),
     ("ana", "ana", 422), ("ana", "", 422), ("ana", "a\u0000b", 422)],
)  # fmt: skip
def test_a_delegation_that_cannot_be_changes_nothing(by: str, to: str, status: int) -> None:
    """leo has voted: he has nothing left to hand on."""
    world, run_id, _ = asked(QUORUM)
    world.post(f"/runs/{run_id}/approve", {"by": "leo"})
    before = world.stored()
    assert delegate(world, run_id, by, to).status == status
    assert world.stored() == before


def test_what_anybody_may_approve_is_nobodys_to_hand_on() -> None:
    world, run_id, _ = asked()
    assert delegate(world, run_id, "ana", "bea").status == 403
    run_now(world.parts.service.cancel(run_id))
    assert delegate(world, run_id, "ana", "bea").json["code"] == "not_waiting"


def test_a_vote_that_loses_the_race_against_a_delegation_does_not_count() -> None:
    world, run_id, _ = asked(QUORUM)
    usual = world.store.append

    async def later(*given: Any, **named: Any) -> Any:
        world.store.append = usual  # type: ignore[method-assign]  # of this store
        await world.parts.service.delegate(run_id, "ana", "bea")
        return await usual(*given, **named)

    world.store.append = later  # type: ignore[method-assign]  # of this store
    assert world.post(f"/runs/{run_id}/approve", {"by": "ana"}).status == 403
    assert answers(world, run_id) == [("approval.delegated", "ana")]


def test_links_end_with_their_wait() -> None:
    world, _, links = asked(QUORUM)
    assert world.parts.links is not None
    link = world.parts.links.approval(links["ana"].rpartition("/")[2], START_MS)
    assert link.expires_ms == START_MS + 86_400_000


TWICE = """
workflow: twice
timeline:
  - {name: ok, wait: {all: [{for: approval, approvers: {of: [ana, leo]}}, {for: approval, approvers: {of: [ana]}}]}}
"""


def test_who_is_asked_for_two_approvals_has_a_link_for_each() -> None:
    world, run_id, links = asked(TWICE)
    assert list(links) == ["ana", "leo", "ana/approval_2"]
    assert send(world, links["ana/approval_2"]).status == 200
    used = world.open("GET", links["ana/approval_2"])
    assert (used.status, "already answered" in used.text) == (409, True)
    assert list(world.get(f"/runs/{run_id}").json["waiting_data"]["approval_links"]) == ["ana", "leo"]
    assert send(world, links["ana"]).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"
    assert world.open("GET", links["ana"]).status == 410


def test_a_run_shows_which_of_several_approvals_are_open_and_who_may_give_them() -> None:
    world, run_id, links = asked(TWICE)
    assert world.get(f"/runs/{run_id}").json["waiting_data"]["approvals"] == {
        "approval": ["ana", "leo"],
        "approval_2": ["ana"],
    }
    assert send(world, links["ana"]).status == 200
    assert world.get(f"/runs/{run_id}").json["waiting_data"]["approvals"] == {"approval_2": ["ana"]}


def test_a_link_keeps_its_name_when_another_one_is_used() -> None:
    world, run_id, links = asked(TWICE)
    assert send(world, links["ana"]).status == 200
    left = world.get(f"/runs/{run_id}").json["waiting_data"]["approval_links"]
    assert left == {"ana/approval_2": links["ana/approval_2"]}
    assert world.open("GET", links["leo"]).status == 410


def test_each_of_several_approvals_is_explained_with_its_name() -> None:
    world, run_id, _ = asked(TWICE)
    told = world.get(f"/runs/{run_id}/explain").json["wakers"]
    assert [waker["what"] for waker in told] == ["call", "call", "timer"]
    assert ['/approval"' in told[0]["detail"], '/approval_2"' in told[1]["detail"]] == [True, True]
