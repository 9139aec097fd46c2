"""A run's own permit, by its log: given back with a wait, and asked for again in a slot of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.fold import fold
from stepwell.engine.limits import shares
from stepwell.engine.limits.throttles import FREED, PERMITTED
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from tests.engine.golden_logs import folded
from tests.engine.golden_shares import FILE, recorded_shares


def log() -> list[dict[str, Any]]:
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    (run,) = golden["runs"].values()
    return list(run["logs"]["0"])


def states() -> list[tuple[str, int]]:
    """What the run has of its limit after each record, and the slot that its permit is of."""
    found, token = [], Token()
    for one in log():
        token = fold([decode_record(json.dumps(one))], token)
        found.append((token.share.state or "asked", token.share.slot) if token.share else ("first", -1))
    return found


def test_a_golden_log_of_shares_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_shares() == golden
    assert folded(golden) == golden["tokens"]


def test_each_permit_after_the_first_is_of_the_slot_that_asked_for_it() -> None:
    """Nap, its end, asked, granted; approval, its end, asked, granted. A permit that is given back stays given back."""
    assert states()[:4] == [(FREED, -1), (FREED, -1), ("asked", 2), (PERMITTED, 2)]
    later = [state for state in states()[4:] if state[1] == 2]
    assert {(PERMITTED, 2), (FREED, 2)} <= set(later)


def test_only_records_that_say_so_carry_the_newer_format_and_older_code_leaves_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = [one[formats.KEY] for one in log()]
    assert numbers.count(formats.FREEING) == 4
    assert set(numbers) == {formats.FORMAT, formats.FREEING}
    monkeypatch.setattr(formats, "NEWEST", formats.REFERRING)
    with pytest.raises(NewerFormat):
        decode_record(json.dumps(log()[0]))


def test_a_snapshot_keeps_what_the_run_has_of_its_limit() -> None:
    token = fold([decode_record(json.dumps(one)) for one in log()[:3]], Token())
    kept = decode_snapshot(encode_token(token))
    assert kept is not None
    assert kept.share == token.share
    assert kept.returned == token.returned
    assert json.loads(encode_token(token))[formats.KEY] == formats.FREEING


def test_a_permit_is_given_back_with_every_record_until_another_is_asked_for() -> None:
    """The writer of the first may have died, and the wait be over before its message comes again."""
    token, found = Token(), []
    for one in log()[:5]:
        token = fold([decode_record(json.dumps(one))], token)
        found.append([permit.slot for permit in token.returned])
    assert found[:4] == [[-1], [-1], [-1], []]
    assert shares.holds(fold([decode_record(json.dumps(one)) for one in log()[:4]], Token()))


def test_a_run_has_its_permit_from_its_beginning_to_its_end_but_while_it_has_given_it_back() -> None:
    had, token = [shares.holds(Token())], Token()
    for one in log():
        token = fold([decode_record(json.dumps(one))], token)
        had.append(shares.holds(token))
    assert had[:5] == [True, False, False, False, True]
    assert token.ended
    assert not had[-1]
