"""An issuer of JSON Web Tokens with an https certificate of its own, and an API that checks its tokens."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from stepwell.definition.graph import Json

HOST = "localhost"
KEY_ID = "the-key"
NO_RUNS = '{"items": [], "next_cursor": null}'


@dataclass(frozen=True, slots=True)
class Issuer:
    """`certificate`: the file of who trusts it. Its server answers no runs to whatever is not about its keys."""

    url: str
    certificate: Path
    key: RSAPrivateKey

    def token(self, *, key: RSAPrivateKey | None = None, **changed: Any) -> str:
        """A token for ana that is good for an hour, with these claims changed, signed with this key."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": "stepwell", "sub": "ana", "iat": now - 1, "exp": now + 3_600, **changed}
        signed = f"{_encoded({'alg': 'RS256', 'kid': KEY_ID})}.{_encoded(claims)}"
        return f"{signed}.{_base64((key or self.key).sign(signed.encode(), PKCS1v15(), SHA256()))}"


@contextmanager
def issuer(folder: Path) -> Iterator[Issuer]:
    """Serves an issuer on a free port; `folder` gets its certificate and its key."""
    key = new_key()
    pages = {"/.well-known/jwks.json": json.dumps({"keys": [public(key)]})}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, NO_RUNS).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Keeps the test quiet."""

    with HTTPServer((HOST, 0), Pages) as server:
        server.socket = secured(folder, key).wrap_socket(server.socket, server_side=True)
        url = f"https://{HOST}:{server.server_port}"
        pages["/.well-known/openid-configuration"] = json.dumps({"jwks_uri": f"{url}/.well-known/jwks.json"})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Issuer(url, folder / "certificate.pem", key)
        finally:
            server.shutdown()
            thread.join()


def authorizer(token_issuer: str) -> Json:
    """The properties of the template's check of tokens, without its API's id; tests/infra holds that they are equal."""
    return {
        "AuthorizerType": "JWT",
        "IdentitySource": ["$request.header.Authorization"],
        "JwtConfiguration": {"Audience": ["stepwell"], "Issuer": token_issuer},
        "Name": "Jwt",
    }


def api_before(page: str, token_issuer: str) -> Json:
    """A template with an API that lets in who has a token of this issuer, to a page instead of a function."""
    api = {"Ref": "Api"}
    target = {"Fn::Join": ["", ["integrations/", {"Ref": "Page"}]]}
    route = {"AuthorizationType": "JWT", "AuthorizerId": {"Ref": "Jwt"}, "RouteKey": "ANY /{proxy+}", "Target": target}
    integration = {"IntegrationType": "HTTP_PROXY", "IntegrationMethod": "ANY", "IntegrationUri": page,
                   "PayloadFormatVersion": "1.0"}  # fmt: skip
    kinds = {
        "Api": ("Api", {"Name": "Guarded", "ProtocolType": "HTTP"}),
        "Stage": ("Stage", {"ApiId": api, "StageName": "$default", "AutoDeploy": True}),
        "Jwt": ("Authorizer", {"ApiId": api, **authorizer(token_issuer)}),
        "Page": ("Integration", {"ApiId": api, **integration}),
        "Route": ("Route", {"ApiId": api, **route}),
    }
    made = {name: {"Type": f"AWS::ApiGatewayV2::{kind}", "Properties": its} for name, (kind, its) in kinds.items()}
    return {"Resources": made}


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


def secured(folder: Path, key: RSAPrivateKey) -> ssl.SSLContext:
    """Serves with a certificate that the key signs itself, and writes both to the folder."""
    now, name = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    (folder / "certificate.pem").write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def public(key: RSAPrivateKey) -> Json:
    """The key as an issuer publishes it."""
    numbers = key.public_key().public_numbers()
    modulus, exponent = (_base64(one.to_bytes(256, "big").lstrip(b"\0")) for one in (numbers.n, numbers.e))
    return {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": modulus, "e": exponent}


def _encoded(document: Json) -> str:
    return _base64(json.dumps(document).encode())


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
