"""OpenID issuers whose user agrees to everything: one with opaque tokens, and one over https that signs them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.emulator import tokens

CLIENT, AUDIENCE = "the-console", "stepwell"
VALID_SECONDS = 3600

Server = TypeVar("Server", bound=ThreadingHTTPServer)


class Handler(BaseHTTPRequestHandler):
    """Answers with one call, and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class Issuer(ThreadingHTTPServer):
    """Agrees to everything, unless it `refuses`; its tokens are random texts."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _IssuerHandler)
        self.url = f"http://{host}:{self.server_port}"
        self.asked: list[dict[str, str]] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: set[str] = set()
        self.refuses = False

    def configuration(self) -> dict[str, Any]:
        return {"authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token"}

    def page(self, path: str) -> Mapping[str, Any] | None:
        """A document that anybody may read."""
        return self.configuration() if path == "/.well-known/openid-configuration" else None

    def token(self) -> str:
        token = secrets.token_urlsafe(16)
        self.tokens.add(token)
        return token


class SecureIssuer(Issuer):
    """Serves https with a certificate of its own, and signs its tokens with the key that it publishes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(tokens.HOST)
        key = tokens.new_key()
        self.socket = tokens.secured(folder, key).wrap_socket(self.socket, server_side=True)
        self.url = f"https://{tokens.HOST}:{self.server_port}"
        self.certificate = folder / "certificate.pem"
        self._signer = tokens.Issuer(self.url, self.certificate, key)

    def configuration(self) -> dict[str, Any]:
        return {**super().configuration(), "issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def page(self, path: str) -> Mapping[str, Any] | None:
        return {"keys": [tokens.public(self._signer.key)]} if path == "/keys" else super().page(path)

    def token(self) -> str:
        return self._signer.token()


class _IssuerHandler(Handler):
    server: Issuer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if (page := self.server.page(url.path)) is not None:
            self.json(200, page)
            return
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.server.asked.append(asked)
        code = secrets.token_urlsafe(8)
        self.server.codes[code] = asked
        answer = (
            {"error": "access_denied", "error_description": "You may not."} if self.server.refuses else {"code": code}
        )
        self.reply(302, Location=f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}")

    def do_POST(self) -> None:
        """A code is good once, for whoever knows what its challenge was made of."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        given = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self.server.codes.pop(given["code"], {})
        hashed = hashlib.sha256(given["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
        if asked.get("code_challenge") != challenge or given["client_id"] != CLIENT:
            self.json(400, {"error": "invalid_grant"})
            return
        self.json(200, {"access_token": self.server.token(), "token_type": "Bearer", "expires_in": VALID_SECONDS})

    def json(self, status: int, body: Mapping[str, Any]) -> None:
        self.reply(status, json.dumps(body).encode(), Content_Type="application/json", Access_Control_Allow_Origin="*")


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serves until the end of the block."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
