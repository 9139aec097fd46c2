"""A connection that waits for long gives signs of life: AWS drops an idle one, and tells neither side."""

from __future__ import annotations

import socket

from stepwell.runtime.steps.http_call import dial
from stepwell.sockets import IDLE_SECONDS, STAYING_OPEN

DROPPED_SECONDS = 350


def test_an_http_steps_connection_gives_signs_of_life_before_it_is_dropped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        with dial(host, port, 5.0) as made:
            assert {made.getsockopt(level, option) for level, option, _ in STAYING_OPEN} == {1, IDLE_SECONDS, 5}
    assert IDLE_SECONDS < DROPPED_SECONDS
