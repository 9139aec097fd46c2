"""Dev servers that begin as a copy of one process, which has imported what they need: half a second of work for each.

What is copied has served nothing. A copy has the environment, the folder and the outputs that it is given. It ends as
a program of its own ends, and can be killed as one.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO, Protocol

SHARED = Path(__file__).resolve().parents[2] / "shared"
# The process that is copied. For each server another copy waits for its end: only its parent hears how a process ends.
_ORIGIN = """
import json, os, signal, socket, sys
from pathlib import Path
import stepwell.definition.models, uvicorn.loops.asyncio, uvicorn.protocols.websockets.wsproto_impl  # imported late
from stepwell.errors import StepwellError
from stepwell.local.dev import serve

asking = socket.socket(fileno=int(sys.argv[1]))
lines = asking.makefile()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody hears how those end that wait
while True:
    begun, passed, _, _ = socket.recv_fds(asking, 1, 3)
    if not begun:
        sys.exit()
    given = json.loads(lines.readline())
    if not os.fork():
        break
    for one in passed:
        os.close(one)

lines.close()
asking.close()
out, errors, ends = passed
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run below nohup
if server := os.fork():
    os.close(out)  # whose reader learns so that the server has ended
    os.write(ends, b"%d\\n" % server)
    os.write(ends, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]))
    os._exit(0)
os.close(ends)
os.dup2(out, 1)
os.dup2(errors, 2)
os.close(out)
os.close(errors)
os.chdir(given["cwd"])
os.environ.clear()
os.environ.update(given["environment"])
try:
    status = serve(Path(given["folder"]), Path(given["data"]), given["port"])
except StepwellError as error:  # as the command line does
    print(error, file=sys.stderr)
    status = 2
sys.exit(status)
"""


class Process(Protocol):
    """What tests use of a process: of `subprocess.Popen`, or of a copy."""

    @property
    def pid(self) -> int: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


class Copy:
    """A server. `ends`: what waits for its end writes its number there, and then its exit status."""

    def __init__(self, stdout: IO[str], ends: IO[str]) -> None:
        self.stdout, self._ends = stdout, ends
        self.pid = int(ends.readline())
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None and select.select([self._ends], [], [], 0)[0]:
            self._status = int(self._ends.readline())
            self._ends.close()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            select.select([self._ends], [], [], timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


class Origin:
    """The process that is copied. It ends when nobody can ask it any more."""

    def __init__(self) -> None:
        self._asking, asked = socket.socketpair()
        with asked:
            self._process = subprocess.Popen(  # noqa: S603 - this Python
                [sys.executable, "-c", _ORIGIN, str(asked.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[asked.fileno()],
                env={**os.environ, "PYTHONPATH": str(SHARED)},
            )  # fmt: skip

    def copy(self, folder: Path, data: Path, port: int, errors: int) -> Copy:
        """Starts a server. `errors`: where it writes its standard error."""
        given = {"folder": str(folder), "data": str(data), "port": port, "cwd": str(Path.cwd()),
                 "environment": {**os.environ, "PYTHONPATH": str(SHARED)}}  # fmt: skip
        (stdout, out), (ends, ending) = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._asking, [b"."], [out, errors, ending])
            self._asking.sendall(json.dumps(given).encode() + b"\n")
        finally:
            os.close(out)
            os.close(ending)
        return Copy(os.fdopen(stdout), os.fdopen(ends, buffering=1))

    def end(self) -> None:
        self._asking.close()
        self._process.wait()


@cache
def origin() -> Origin:
    """The one of this process."""
    found = Origin()
    atexit.register(found.end)
    return found
