"""Keeps steps from the outside while a workflow is verified: no network, no processes, no files but temporary ones.

It guards against accidents, such as a second charge on a real card. It is no sandbox against hostile code.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})
_PROCESSES = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
                        "os.system", "subprocess.Popen"})  # fmt: skip
_FILES = frozenset({"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree",
                    "sqlite3.connect"})  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class OutsideError(RuntimeError):
    """A step reached for the outside, which `stepwell verify` does not let it do."""


class Guard:
    """What the steps may not reach. `refused`: by step, what each reached for."""

    def __init__(self) -> None:
        self.step = ""  # the one that runs now; "": none
        self.refused: dict[str, set[str]] = {}

    def refuse(self, what: str) -> None:
        """Notes it. Raises OutsideError."""
        self.refused.setdefault(self.step, set()).add(what)
        raise OutsideError(f"step {self.step} reaches outside: {what}. Replace it, or allow it")


_guards: list[Guard] = []  # the one in force is the last
_is_hooked = False


@contextmanager
def guarding(guard: Guard) -> Iterator[None]:
    """Has the guard in force while steps run."""
    global _is_hooked  # noqa: PLW0603  Python has no way to remove an audit hook
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _guards or not _guards[-1].step:
        return
    if event in _NETWORK:
        _guards[-1].refuse(f"the network ({_address(args)})")
    elif event in _PROCESSES:
        _guards[-1].refuse(f"a process ({args[0] if args else event})")
    elif event in _FILES or (event == "open" and len(args) > 2 and args[2] & _WRITING):
        path = args[0]
        if isinstance(path, str | bytes | os.PathLike) and _is_outside(os.fsdecode(path)):
            _guards[-1].refuse(f"a file ({os.fsdecode(path)})")


def _address(args: tuple[Any, ...]) -> str:
    """The host, and the port if there is one, of an event of `socket`."""
    for one in args:
        if isinstance(one, tuple):
            return ":".join(str(part) for part in one[:2])
        if isinstance(one, str | bytes):
            return os.fsdecode(one)
    return "an address"


def _is_outside(path: str) -> bool:
    """Tells whether a file is neither temporary nor Python's own."""
    is_device = path.startswith("/dev/") and not path.startswith("/dev/shm/")  # noqa: S108 - files in memory
    if is_device or path == ":memory:" or "__pycache__" in path or not path:
        return False
    places = {Path(tempfile.gettempdir()).resolve(), Path(tempfile.gettempdir())}
    full = Path(path).absolute()
    return not any(full.is_relative_to(place) for place in places)
