"""Notifications: who is written to of what, under which id, and what they hold."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.entries import Entry
from stepwell.engine.records import Status
from stepwell.limits import NOTIFICATION_BYTES
from stepwell.runtime.notify.endpoints import Endpoint, notification_json, notification_of
from stepwell.runtime.notify.notifications import notifications_of
from stepwell.runtime.notify.telling import Notice, notice_json
from stepwell.runtime.stores.jsontext import decode, encode
from tests.contract.kit import header

CRM = Endpoint("crm", "https://crm.example.com/", ("env:CRM",), frozenset({"run.completed"}))
AUDIT = Endpoint("audit", "https://a.example.com/", ("env:A",), frozenset({"run.completed", "run.failed"}),
                 frozenset({"refund"}))  # fmt: skip


def notice(kind: str = "run.completed", data: object = None, **run: object) -> Notice:
    values = {"workflow": "order", **run}
    about = replace(header("order-4711"), **values)  # type: ignore[arg-type]  # fields by name
    return Notice(about, Status.COMPLETED, Entry("0@2.1", 1_700_000_000_000, kind, "0", data=data))


def test_each_endpoint_that_wants_the_notice_is_written_to() -> None:
    def names(told: Notice) -> list[str]:
        return [notification.endpoint for notification in notifications_of(told, (CRM, AUDIT))]

    assert names(notice()) == ["crm"]
    assert names(notice(workflow="refund")) == ["crm", "audit"]
    assert names(notice("run.failed", workflow="refund")) == ["audit"]
    assert names(notice("run.failed")) == []


def test_a_notification_holds_what_the_bus_is_told() -> None:
    told = notice(data={"result": 7})
    (notification,) = notifications_of(told, (CRM,))
    assert notification.content == {
        "type": "run.completed", "timestamp": "2023-11-14T22:13:20.000Z", "data": notice_json(told)
    }  # fmt: skip
    assert notification_of(decode(encode(notification_json(notification)))) == notification


def test_a_notifications_id_is_that_of_the_entry_in_that_run_without_full_stops() -> None:
    (one,), (again,) = notifications_of(notice(), (CRM,)), notifications_of(notice(), (CRM,))
    assert one.id == again.id
    assert one.id.startswith("msg_")
    assert "." not in one.id
    (later,) = notifications_of(notice(created_ms=5), (CRM,))
    assert later.id != one.id, "another run that has the same name, after the first is gone"


def test_data_that_is_too_large_is_left_out() -> None:
    (notification,) = notifications_of(notice(data={"result": "ü" * (NOTIFICATION_BYTES // 2)}), (CRM,))
    assert (notification.content["data"]["data_left_out"], notification.content["data"]["entry"]["data"]) == (
        True,
        None,
    )
