"""Each mistake of a newcomer gets what happened, why, and the next command; nothing else is printed."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from stepwell.aws.identity import Identity
from stepwell.cli.deploying import deploy
from stepwell.client.errors import NotFoundProblem
from stepwell.extras import MODULES
from stepwell.testing.kit import Stepwell
from tests.cli.newcomers import MISTAKES, ORDER, SHOP, Mistake
from tests.docs.commands import OUTSIDE, wrong
from tests.docs.snippets import DOCS

from .conftest import Cli, FakeApi

BARE = Identity("111122223333", "eu-west-1", "arn:aws:iam::111122223333:user/ana", bootstrapped=False)
PROJECT = {
    "pyproject.toml": '[project]\nname = "shop"\n[tool.stepwell]\n',
    "workflows/order.yaml": ORDER,
    "workflows/shop.py": SHOP,
}
# Stands for the app of the project, and stops where its packages are installed.
APP = """import sys
from stepwell.cdk.packaging.bundling import install, target_of
from stepwell.cdk.errors import BundlingError
from stepwell.reports import report
from pathlib import Path
try:
    install(Path("out"), Path("locked.txt"), target_of("lambda", "3.13"))
except BundlingError as error:
    sys.exit(report(error))
"""


class Around:
    """What is wrong around the project. Each method arranges one thing, and may add arguments to the command."""

    def __init__(self, project: Path, change: pytest.MonkeyPatch, api: FakeApi) -> None:
        self._project, self._set, self._api = project, change, api
        self.names: dict[str, str] = {}  # what is printed, and what the page has in its place
        self._held: list[socket.socket] = []
        change.delenv("STEPWELL_URL")

    def arrange(self, name: str) -> list[str]:
        arranged: Mapping[str, Callable[[], list[str]]] = {
            "": list, "no extra": self._no_extra, "port": self._port, "server": self._server,
            "gateway": self._gateway, "no credentials": self._no_credentials, "bare account": self._bare_account,
            "no wheel": self._no_wheel,
        }  # fmt: skip
        return arranged[name]()

    def close(self) -> None:
        for one in self._held:
            one.close()

    def no_server(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._at(f"http://127.0.0.1:{port}")

    def _at(self, url: str) -> None:
        self._set.setenv("STEPWELL_URL", url)
        self.names[url] = "http://127.0.0.1:8787"
        at_this_port = f"check --url or STEPWELL_URL; or start it with: stepwell dev --port {url.rpartition(':')[2]}"
        # As at the port that the page has.
        self.names[at_this_port] = "start it with: stepwell dev; for another API, check --url or STEPWELL_URL"

    def _no_extra(self) -> list[str]:
        found = importlib.util.find_spec
        self._set.setattr(importlib.util, "find_spec", lambda name: None if name in MODULES["dev"] else found(name))
        return []

    def _port(self) -> list[str]:
        taken = socket.socket()
        self._held.append(taken)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        self.names[f"port {port}"] = "port 8787"
        return ["--port", port]

    def _server(self) -> list[str]:
        kit = Stepwell(self._project / "workflows")
        with kit.client() as client, pytest.raises(NotFoundProblem) as refused:
            client.handle("run_01J9").view()
        kit.close()
        self._api.on("GET", "/runs/run_01J9", (404, dict(refused.value.problem)))
        self._api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
        self._at(self._api.url)
        return []

    def _gateway(self) -> list[str]:
        self._api.on("GET", "/runs", (403, {"message": "Forbidden"}))
        self._set.setenv("STEPWELL_URL", self._api.url.replace("127.0.0.1", "abc123.execute-api.localhost"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self._set.setenv(name, "none")
        return []

    def _no_credentials(self) -> list[str]:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            self._set.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            self._set.setenv(name, str(self._project / "none"))
        self._set.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return []

    def _bare_account(self) -> list[str]:
        self._set.setattr(deploy, "_identify", lambda *_: BARE)
        self._set.setattr(deploy, "_outputs", lambda *_: {})
        return []

    def _no_wheel(self) -> list[str]:
        """A package that has a wheel for Windows alone, in an index of its own."""
        wheels = self._project / "wheels"
        wheels.mkdir()
        (wheels / "fastmath-1.0-cp313-cp313-win_amd64.whl").touch()
        for name, text in {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}.items():
            self._set.setenv(name, text)
        (self._project / "locked.txt").write_text("fastmath==1.0\n")
        (self._project / "app.py").write_text(APP)
        (self._project / "cdk.json").write_text(json.dumps({"app": f"{shlex.quote(sys.executable)} app.py"}))
        return []


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> Iterator[Around]:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    root = logging.getLogger()
    before = (root.level, [*root.handlers])  # `dev` logs to its own stderr
    made = Around(tmp_path, monkeypatch, api)
    made.no_server()
    yield made
    made.close()
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.title)
def test_a_mistake_is_told_with_its_reason_and_the_next_command(mistake: Mistake, cli: Cli, around: Around) -> None:
    for name, text in mistake.files.items():
        Path(name).write_text(text)
    result = cli(*shlex.split(mistake.typed)[1:], *around.arrange(mistake.around))
    said = result.stdout + result.stderr
    for actual, shown in around.names.items():
        said = said.replace(actual, shown)
    wanted = "[^\x00]*".join(re.escape(part) for part in mistake.said.split("…"))
    assert re.fullmatch(wanted, said), said
    assert result.exit_code == mistake.status


def test_the_page_shows_the_project_that_the_mistakes_are_made_in() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    assert f"# workflows/order.yaml\n{ORDER}" in text
    assert f"# workflows/shop.py\n{SHOP}" in text


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.title)
def test_the_next_command_is_one_that_there_is(mistake: Mistake) -> None:
    words = shlex.split(mistake.then)
    assert mistake.then in mistake.said
    assert words[0] in OUTSIDE | {"df"} or wrong(words) == ""
