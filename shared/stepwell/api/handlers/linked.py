"""Handlers of signed links, which end a callback or answer an approval. The link is the only credential.

An invalid or expired link causes no read and no write.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

from stepwell.api import pages
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.parsing import read_json, too_large
from stepwell.api.requests import REASON_CHARACTERS, CallbackFailBody, LinksBody, NoQuery
from stepwell.api.runs.states import waiting_tokens
from stepwell.api.runs.waiting import Shown, links_of, may_have_all
from stepwell.definition.graph import Json
from stepwell.engine.approvals import approval_for, asked, open_approvals
from stepwell.engine.names import iso
from stepwell.engine.records import Resumption
from stepwell.engine.waits.approval import has_answered
from stepwell.errors import Conflict, InvalidInput, NotFound, UserError
from stepwell.limits import BODY_BYTES, KEY_CHARACTERS
from stepwell.runtime.calls.links import ApprovalLink, CallbackLink, Links
from stepwell.runtime.log.standing import Standing

_FORM_FIELDS = 10  # above the number of fields in the page's form


async def complete_callback(call: Call) -> Answer:
    link = _callback(call)
    await call.parts.service.callbacks.complete(link, read_json(call.raw_body))
    return Answer(200, {"status": "taken"})


async def fail_callback(call: Call) -> Answer:
    link = _callback(call)
    body = call.body(CallbackFailBody)
    error: dict[str, Json] = {"type": body.type, "message": body.message, "data": body.data}
    await call.parts.service.callbacks.fail(link, error)
    return Answer(200, {"status": "taken"})


async def beat_callback(call: Call) -> Answer:
    await call.parts.service.callbacks.beat(_callback(call))
    return Answer(200, {"status": "noted"})


async def show_links(call: Call) -> Answer:
    """Answers with the links of a run; a separate route, because a link permits more than reading."""
    call.asked(NoQuery)
    run_id, wait = call.path["run_id"], call.body(LinksBody).wait
    service = call.parts.service
    if not may_have_all(call.identity):
        raise Conflict("you may not have the links of a run", code="links_not_allowed",
                       hint="use a token with the scope stepwell/links")  # fmt: skip
    found = await service.waiting(run_id, wait) if wait else await service.standing(run_id)
    now_ms, shown = call.parts.ports.clock.now_ms(), Shown(_links(call))
    tokens = [found.token] if wait else waiting_tokens(found)
    views = [links_of(run_id, token, now_ms, shown) for token in tokens]
    made = next((one for one in views if one["callback_url"] or one["approval_links"]), None)
    if made is None:
        raise Conflict("the run waits for neither a callback nor an approval", code="not_waiting",
                       hint="name the branch, or the step of a DAG, in `wait`")  # fmt: skip
    return Answer(200, made)


# -- approvals: pages for people


async def show_approval(call: Call) -> Answer:
    """Shows an approval without changing it, because mail programs and chats open every link."""
    try:
        link = _approval(call)
        at = await _asked(call, link)
    except UserError as refusal:
        return _refused(refusal)
    parked = at.token.parked
    until = iso(parked.until_ms) if parked and parked.until_ms else ""
    data = parked.data if parked else None
    return pages.question(
        pages.Asked(at.header.workflow, link.run_id, at.token.node, link.approver, until.replace("T", " "), data)
    )


async def answer_approval(call: Call) -> Answer:
    try:
        link = _approval(call)
        at = await _asked(call, link)
        came = _answer(link, _form(call.raw_body))
        _check_first(at, came.by, link.approval)
        await call.parts.service.answer_link(link, came)
    except UserError as refusal:
        return _refused(refusal)
    words = "approved" if came.kind == "approved" else "rejected"
    return pages.notice(200, "Thank you", f"Your answer is recorded: {words}, by {came.by}.")


async def _asked(call: Call, link: ApprovalLink) -> Standing:
    """Finds the token that waits for this answer. Raises NotFound, Conflict."""
    at = await call.parts.service.waiting(link.run_id, link.token)
    if at.token.parked is None or not open_approvals(at.token) or at.token.waiting_slot != link.slot:
        raise Conflict("This approval is over.", code="approval_over")
    _check_first(at, link.approver, link.approval)
    arm = approval_for(at.token, link.approver, link.approval)
    if arm is None:
        raise Conflict("This approval is over.", code="approval_over")
    if link.approver and link.approver not in asked(at.token, arm):
        raise Conflict(f"{link.approver} is no longer an approver.", code="approval_over")
    return at


def _check_first(at: Standing, by: str, approval: str) -> None:
    if has_answered(at.token, by, approval):
        raise Conflict(f"{by} has already answered.", code="approval_used")


def _answer(link: ApprovalLink, form: dict[str, str]) -> Resumption:
    decision, reason = form.get("decision", ""), form.get("reason", "").strip()
    by = link.approver or form.get("by", "").strip()
    if decision not in {"approved", "rejected"}:
        raise InvalidInput("Choose to approve or to reject.", code="bad_decision")
    if not by or len(by) > KEY_CHARACTERS or not by.isprintable():
        raise InvalidInput(f"Enter your name, in at most {KEY_CHARACTERS} characters.", code="bad_name")
    if len(reason) > REASON_CHARACTERS:
        raise InvalidInput(f"Enter the reason in at most {REASON_CHARACTERS} characters.", code="bad_reason")
    if decision == "rejected":
        return Resumption(decision, payload={"data": None, "reason": reason}, by=by)
    return Resumption(decision, payload={"data": {"comment": reason} if reason else None}, by=by)


def _form(raw: bytes) -> dict[str, str]:
    if len(raw) > BODY_BYTES:
        raise too_large()
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput("The form could not be parsed.", code="bad_form") from error
    fields = dict(pairs)
    if len(fields) < len(pairs):  # which one was meant is unknown
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidInput(f"The form has {twice[:KEY_CHARACTERS]!r} more than once.", code="bad_form")
    return fields


_PAGES = {  # the pages for errors: status, title
    "unknown_link": (404, "There is nothing here"),
    "approval_expired": (410, "Too late"),
    "approval_over": (410, "This is over"),
    "not_waiting": (410, "This is over"),
    "not_an_approver": (410, "This is over"),
    "approval_used": (409, "You have answered"),
    "body_too_large": (413, "The input is too long"),
}


def _refused(refusal: UserError) -> Answer:
    gone = (410, "This is over") if isinstance(refusal, NotFound) else (422, "The answer is invalid")
    status, title = _PAGES.get(refusal.code, gone)
    return pages.notice(status, title, refusal.message)


def _callback(call: Call) -> CallbackLink:
    return _links(call).callback(call.path["token"], call.parts.ports.clock.now_ms())


def _approval(call: Call) -> ApprovalLink:
    return _links(call).approval(call.path["token"], call.parts.ports.clock.now_ms())


def _links(call: Call) -> Links:
    if call.parts.links is None:
        raise NotFound("this deployment has no links", code="unknown_link", hint="deploy again")
    return call.parts.links


_CALLBACK = {
    404: "this deployment did not make the link",
    409: "the link was used before",
    410: "the link has expired, or its wait is over",
}
_APPROVAL = {**_CALLBACK, 409: "this approver has already answered"}
_PAGE = "text/html"

LINKED_ROUTES = (
    Route(
        "POST",
        "/callbacks/{token}",
        complete_callback,
        "End a callback with the body as its result, once",
        {200: "accepted", 400: "the body is not JSON", 413: "the body is too large", **_CALLBACK},
        "TakenCallbackView",
    ),
    Route(
        "POST",
        "/callbacks/{token}/fail",
        fail_callback,
        "End a callback with an error, once",
        {200: "it is taken", **_CALLBACK},
        "TakenCallbackView",
        CallbackFailBody,
    ),
    Route(
        "POST",
        "/callbacks/{token}/heartbeat",
        beat_callback,
        "Send a heartbeat for a callback",
        {200: "noted", **_CALLBACK},
        "TakenCallbackView",
    ),
    Route(
        "POST",
        "/runs/{run_id}/links",
        show_links,
        "Create the links that end a run's wait; each permits its holder to answer",
        {200: "the links", 403: "the caller may not have them", 404: "no such run", 409: "nothing waits"},
        "LinksView",
        LinksBody,
    ),
    Route("GET", "/approvals/{token}", show_approval, "Show an approval by its link",
          {200: "a page with a form for each answer", **_APPROVAL}, media=_PAGE),
    Route("POST", "/approvals/{token}", answer_approval, "Answer an approval by its link, with the page's form",
          {200: "it is taken", 413: "the form is too large", **_APPROVAL}, media=_PAGE),
)  # fmt: skip
