"""Letters: who is written to of what, under which id, and what they hold."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.entries import Entry
from stepwell.engine.records import Status
from stepwell.limits import LETTER_BYTES
from stepwell.runtime.notify.endpoints import Endpoint, letter_json, letter_of
from stepwell.runtime.notify.letters import letters_of
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
        return [letter.endpoint for letter in letters_of(told, (CRM, AUDIT))]

    assert names(notice()) == ["crm"]
    assert names(notice(workflow="refund")) == ["crm", "audit"]
    assert names(notice("run.failed", workflow="refund")) == ["audit"]
    assert names(notice("run.failed")) == []


def test_a_letter_holds_what_the_bus_is_told() -> None:
    told = notice(data={"result": 7})
    (letter,) = letters_of(told, (CRM,))
    assert letter.content == {
        "type": "run.completed", "timestamp": "2023-11-14T22:13:20.000Z", "data": notice_json(told)
    }  # fmt: skip
    assert letter_of(decode(encode(letter_json(letter)))) == letter


def test_a_letters_id_is_that_of_the_entry_in_that_run_without_full_stops() -> None:
    (one,), (again,) = letters_of(notice(), (CRM,)), letters_of(notice(), (CRM,))
    assert one.id == again.id
    assert one.id.startswith("msg_")
    assert "." not in one.id
    (later,) = letters_of(notice(created_ms=5), (CRM,))
    assert later.id != one.id, "another run that has the same name, after the first is gone"


def test_data_that_is_too_large_is_left_out() -> None:
    (letter,) = letters_of(notice(data={"result": "ü" * (LETTER_BYTES // 2)}), (CRM,))
    assert (letter.content["data"]["data_left_out"], letter.content["data"]["entry"]["data"]) == (True, None)
