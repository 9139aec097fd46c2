"""Mutants of several approvals in one wait, and of events that stay: what is for one is taken for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import approvals, receiving
from stepwell.engine.actions import Drop, Refuse
from stepwell.engine.inputs import EventOffered
from stepwell.engine.records import Resumption
from stepwell.engine.token import Token
from stepwell.engine.waits import approval

_approval_for, _answer_of = approvals.approval_for, approval.answer_of


@contextmanager
def names_unheard() -> Iterator[None]:
    """An answer is for the first approval that the person may give, whichever it names."""

    def approval_for(token: Token, by: str, name: str = "") -> int | None:
        return _approval_for(token, by)

    with mock.patch.object(approvals, "approval_for", approval_for):
        yield


@contextmanager
def one_answer_for_all() -> Iterator[None]:
    """Who has answered one of several approvals has answered all of them."""

    def answer_of(token: Token, by: str, name: str = "") -> Resumption | None:
        return _answer_of(token, by)

    def again(token: Token, before: Resumption, left: Any) -> Drop | Refuse:
        return Drop()

    with mock.patch.object(approvals, "answer_of", answer_of), mock.patch.object(approvals, "_which", again):
        yield


@contextmanager
def event_of_one_arm() -> Iterator[None]:
    """An event that is not consumed is for the first arm that it fits."""

    def unseen(token: Token, given: EventOffered, resumption: Resumption | None) -> Resumption | None:
        topic, place = str(given.topic), f"{given.at_ms:015d}:{given.event_id}"
        is_known = receiving.has_seen(token, given.topic, given.at_ms, given.event_id)
        return None if is_known or resumption is None else replace(resumption, seen=f"{topic}\n{place}")

    with mock.patch.object(receiving, "_unseen", unseen):
        yield


OF_SEVERAL: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    names_unheard,
    one_answer_for_all,
    event_of_one_arm,
)
