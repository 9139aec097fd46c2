"""The AWS emulator: ministack as a child process, which ends with this process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from stepwell.errors import StepwellError
from stepwell.settings import environment

if TYPE_CHECKING:
    from stepwell.aws.signing import SigV4

HOST = "127.0.0.1"
ACCOUNT = "000000000000"
REGION = "us-east-1"
ANY_SECRET = "none"  # noqa: S105 - the emulator requires one and checks none
START_SECONDS = 60.0
STOP_SECONDS = 1.0  # then it is killed, with the functions that still work
READ_SECONDS = 60
POLL_SECONDS = 0.05
INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_FILE", "SYSTEMROOT", "VIRTUAL_ENV")  # the functions see them


class Emulator:
    """A running ministack, whose data is lost when it stops."""

    def __init__(self, folder: Path, log: IO[Any] | None = None, variables: Mapping[str, str] | None = None) -> None:
        """`folder` is emptied now and at the end; `log` gets the output of the emulator and the functions.

        `variables` are added to its environment, which the functions inherit.
        """
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed emulator
        folder.mkdir(parents=True)
        self._folder = folder
        self.port = _free_port()
        self.url = f"http://{HOST}:{self.port}"
        self._clients: dict[str, Any] = {}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "stepwell.aws.emulation.server"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**_environment(folder, self.port), **(variables or {})},
            start_new_session=True,  # Ctrl-C goes to the parent, which then stops the emulator
        )

    def __enter__(self) -> Emulator:
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def client(self, service: str) -> Any:
        """Returns a boto3 client for the emulator only, whatever the environment says. It is closed at the end."""
        if service not in self._clients:
            self._clients[service] = self._new_client(service)
        return self._clients[service]

    def _new_client(self, service: str) -> Any:
        import boto3  # noqa: PLC0415 - slow to load
        from botocore.config import Config  # noqa: PLC0415

        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=ANY_SECRET,
            config=Config(proxies={}, read_timeout=READ_SECONDS, s3={"addressing_style": "path"}),
        )

    def signature(self) -> SigV4:
        """Returns a signature for API calls as the emulator's own account."""
        from botocore.credentials import Credentials  # noqa: PLC0415 - slow to load

        from stepwell.aws.signing import SigV4  # noqa: PLC0415

        return SigV4(Credentials(ACCOUNT, ANY_SECRET), REGION)

    def stop(self) -> None:
        """Stops the process and its functions' processes. Nothing that they do is kept."""
        for client in self._clients.values():
            client.close()
        if self._child.poll() is None:
            self._child.terminate()
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(self._child.pid, signal.SIGKILL)  # the functions are of its session
            else:  # Windows
                self._child.kill()
            self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        opener = build_opener(ProxyHandler({}))
        while time.monotonic() < until:
            if self._child.poll() is not None:
                raise StepwellError(f"ministack ended with status {self._child.returncode}", code="emulator_failed")
            try:
                opener.open(f"{self.url}/_ministack/ready", timeout=1).close()
                return
            except (URLError, OSError):
                time.sleep(POLL_SECONDS)
        raise StepwellError(f"ministack did not start within {START_SECONDS:.0f} seconds", code="emulator_failed")


def _environment(folder: Path, port: int) -> Mapping[str, str]:
    """Returns a minimal environment, because the functions inherit it."""
    return {
        **{name: value for name, value in environment().items() if name in INHERITED},
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "TMPDIR": str(folder.resolve()),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
        return port
