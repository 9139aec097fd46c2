"""What webhooks brought, over each store: kept once, found, listed by day, and gone in time."""

from __future__ import annotations

from pathlib import Path

from stepwell.engine.records import Topic
from stepwell.limits import DAY_MS, DELIVERY_BYTES
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.queue import MemoryQueue
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.deliveries import TOPIC, Deliveries, Delivery, Outcome
from stepwell.testing.backend import ports_of
from tests.contract.kit import NOW_MS, Store

BODY = '{"größe": "\\u0000"}'.encode()
CAME = Delivery("shop", "a#b/1", NOW_MS, Outcome.REFUSED, NOW_MS + DAY_MS, "", "why", "a=1", {"x": "ä"}, BODY, "", 18)


def test_a_delivery_is_kept_found_and_listed_as_it_came(store: Store, tmp_path: Path) -> None:
    clock = VirtualClock(NOW_MS)
    kept = Deliveries(ports_of(store, MemoryQueue(clock), clock))
    large = Delivery("shop", "large", NOW_MS + 1, Outcome.PUBLISHED, NOW_MS + 2, body=b"\xff" * (DELIVERY_BYTES + 1))
    for _ in range(2):
        run_now(kept.keep(CAME))
    run_now(kept.keep(large))
    assert run_now(kept.find("shop", CAME.id)) == CAME
    assert run_now(kept.find("shop", "large")) == large
    assert run_now(kept.find("other", CAME.id)) is None

    run_now(kept.note(Delivery("shop", CAME.id, NOW_MS, Outcome.STARTED, CAME.expires_ms, "run_1", replay=1)))
    found = run_now(kept.of_day(["shop", "other"], NOW_MS))
    assert [one.came.id for one in found] == ["large", CAME.id]
    assert [replay.made for replay in found[1].replays] == ["run_1"]
    assert run_now(kept.replays(CAME)) == 1

    clock.advance(2)
    assert run_now(kept.find("shop", "large")) is None
    assert [one.came.id for one in run_now(kept.of_day(["shop"], NOW_MS))] == [CAME.id]
    assert run_now(store.waiters(Topic(TOPIC, ""))) == []
