"""`stepwell dev --aws`: deploys the real template to an AWS emulator and serves its API on the dev port."""

from __future__ import annotations

import logging
import re
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from watchfiles import watch

from stepwell.aws.emulation.deployment import Stack, deploy
from stepwell.aws.emulation.emulator import HOST, Emulator
from stepwell.aws.secrets import AwsSecrets
from stepwell.cli.deploying.cdk import place_of_app
from stepwell.cli.deploying.synthesis import synthesise
from stepwell.cli.folders import EMULATOR
from stepwell.cli.forwarding import Forwarder
from stepwell.cors import cors_origins
from stepwell.definition.graph import Json
from stepwell.errors import PortError, StepwellError
from stepwell.limits import WAIT_ANSWER_SECONDS
from stepwell.local.dev import Server, listen, log_to_stderr, url_of
from stepwell.local.folder import claim_folder
from stepwell.local.gateway import Gateway
from stepwell.project import project_of
from stepwell.runtime.folder.loading import load_webhooks
from stepwell.runtime.steps.secrets import Secrets, SecretsByKind
from stepwell.runtime.stores.clocks import RealClock

log = logging.getLogger("stepwell.dev")

API = "AWS::ApiGatewayV2::Api"
KEY_OUTPUT = "ApiKeySecret"
LIVE = re.compile("LiveApi[0-9A-F]{8}$")  # the one of the live feed
ANSWER_SECONDS = WAIT_ANSWER_SECONDS + 35.0  # a wait, and functions that start
DEBOUNCE_MS = 200


def serve(folder: Path, data: Path, port: int, *, reload: bool, then: Callable[[str], None] | None = None) -> int:
    """Serves until a signal stops it, and calls `then` with its URL once it serves. Returns the exit status.

    Raises StepwellError if it cannot serve at all.
    """
    log_to_stderr()
    for noisy in ("botocore", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    place = place_of_app(folder, Path.cwd())
    with claim_folder(data):
        listening = listen(port)
        log.info("starting the AWS emulator")
        with Emulator(data / EMULATOR, sys.stderr) as emulator:
            return _serve(emulator, place, folder, data / "cdk.out", listening, reload=reload, then=then)


def _serve(
    emulator: Emulator,
    place: Path,
    folder: Path,
    assembly: Path,
    listening: socket.socket,
    *,
    reload: bool,
    then: Callable[[str], None] | None,
) -> int:
    stopping, origins = threading.Event(), cors_origins(project_of(folder).properties)

    def stand() -> Stack:
        log.info("building the functions' packages and the template")
        asked = {"emulator": True, "folder": str(folder.resolve()), "public_url": url_of(listening)}
        for told in synthesise(place, asked, assembly):
            log.info("%s", told)
        log.info("uploading them and deploying the stack")
        stack = deploy(emulator, assembly)[-1]
        for problem in missing_secrets(load_webhooks(folder).document, emulator.client):
            log.warning("%s. To create a secret in the emulator, add --endpoint-url %s", problem, emulator.url)
        return stack

    stack = stand()
    with gateway_to(emulator, stack, origins) as gateway:
        log.info("deployed to %s", emulator.url)
        if key := api_key_of(stack, emulator.client):
            log.info("callers need the API's key: export STEPWELL_API_KEY=%s", shlex.quote(key))
        if reload:
            threading.Thread(
                target=_follow, args=(project_of(folder).sources, stand, stopping), name="stepwell-reload", daemon=True
            ).start()
        server = Server(gateway, stopping, then)
        try:
            server.run(sockets=[listening])
        finally:
            stopping.set()
    return 0 if server.started else 1


def api_key_of(stack: Stack, client: Callable[[str], Any]) -> str:
    """Reads the key of an API with `auth: api_key`; empty for another one. Nobody outside this machine can use it."""
    if not (secret := stack.outputs.get(KEY_OUTPUT)):
        return ""
    return str(client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"])


def missing_secrets(document: Mapping[str, Json] | None, client: Callable[[str], Any]) -> Iterator[str]:
    """Yields a message for each webhook none of whose secrets the deployed functions can read.

    `client` returns the emulator's client for a service. The functions do not have this process's variables.
    """
    kept = AwsSecrets(partial(client, "secretsmanager"), partial(client, "ssm"), RealClock())
    secrets = SecretsByKind({"secretsmanager": kept, "ssm": kept})
    for part in (document or {}).values():
        for name, given in part.items():
            failures = [str(error) for one in given["secret"] if (error := _failure(secrets, one)) is not None]
            if failures and len(failures) == len(given["secret"]):
                yield f"webhook {name}: {'; '.join(failures)}"


def _failure(secrets: Secrets, reference: str) -> PortError | None:
    try:
        secrets.get(reference)
    except PortError as error:
        return error
    return None


@contextmanager
def gateway_to(emulator: Emulator, stack: Stack, origins: Sequence[str] = ()) -> Iterator[Gateway]:
    """Serves the stack's API at the root of a local server. `origins`: of web pages that may call it."""
    api_id = next(api for name, api in stack.of_type(API).items() if not LIVE.search(name))
    host = f"{api_id}.execute-api.localhost:{emulator.port}"
    signature = None if KEY_OUTPUT in stack.outputs else emulator.signature()  # with `api_key` it would be a wrong key
    with httpx.Client(base_url=emulator.url, timeout=ANSWER_SECONDS, trust_env=False) as http:

        def send(method: str, url: str, headers: dict[str, str], content: bytes) -> httpx.Response:
            """The host names the API. A caller without credentials acts as the emulator's account: both are here."""
            auth = None if "authorization" in headers else signature
            return http.request(method, url, headers={**headers, "host": host}, content=content, auth=auth)

        gateway = Gateway(Forwarder(send, "the emulator", feed=f"ws://{HOST}:{emulator.port}"), origins=origins)
        try:
            yield gateway
        finally:
            gateway.close()


def _follow(sources: Sequence[Path], stand: Callable[[], Stack], stopping: threading.Event) -> None:
    """Deploys the project again when a file in it changes; a failed deployment changes nothing."""
    changes = watch(*sources, debounce=DEBOUNCE_MS, stop_event=stopping, rust_timeout=500, raise_interrupt=False)
    for found in changes:
        log.info("changed: %s; deploying again", ", ".join(sorted(Path(path).name for _, path in found)))
        try:
            stand()
            log.info("deployed")
        except (StepwellError, OSError) as error:
            log.error("not deployed, the previous version stays: %s", error)
        except Exception:  # the next change is deployed all the same
            log.exception("not deployed, the previous version stays")
