"""The options of a socket that waits for long: whoever stands between drops a connection on which nothing is sent.

NAT gateways, load balancers and endpoints of AWS do so after 350 seconds, and tell neither side. The answer is lost
then, and the caller waits until its own time-out. Linux alone would send its first sign of life after two hours.
"""

from __future__ import annotations

import socket

IDLE_SECONDS = 60  # before the first sign of life, and between two
LOST = 5  # signs without an answer, after which the connection is broken

_VALUES = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPALIVE": IDLE_SECONDS,  # the name of the former on macOS
    "TCP_KEEPINTVL": IDLE_SECONDS,
    "TCP_KEEPCNT": LOST,
}
_NAMES = [name for name in _VALUES if hasattr(socket, name)]
STAYING_OPEN = (  # level, option and value
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, int(getattr(socket, name)), _VALUES[name]) for name in _NAMES),
)
