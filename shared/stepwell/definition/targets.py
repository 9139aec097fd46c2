"""The targets of HTTP steps: a strict URL parser, and the list of hosts that a deployment allows.

One narrow grammar serves both, so that no two parsers can disagree about a URL's host. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepwell.definition.patterns import lazy
from stepwell.errors import UserError
from stepwell.limits import URL_CHARACTERS
from stepwell.values import dataclass

HTTPS_PORT, HTTP_PORT = 443, 80
ANYWHERE = "*"  # any public host; the default of `stepwell dev`, never of a deployment
HOSTS_HINT = "write api.example.com, *.example.com, api.example.com:8443 or http://localhost:8000"
INSTEAD = "="  # between a host and the one that is called in its place

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_URL = lazy(r"(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = lazy(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NUMBER = lazy(r"\d+|0[xX][0-9A-Fa-f]*", re.ASCII)  # a last label that makes the name an IP address
_AUTHORITY = lazy(r"(\[[^\]]*\]|[^:@\[\]]*)(?::(\d{1,5}))?", re.ASCII)
_PLAIN = lazy(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_DOTS = lazy(r"(?:\.|%2[eE]){1,2}")
_ENTRY = lazy(r"(?:(https?)://)?(\*\.)?([^/?#@*]+)", re.ASCII)
_HOST_CHARACTERS = 253
_SHOWN = 5  # entries of a list of hosts


class BadUrlError(UserError):
    """A URL or a host name that cannot be called."""

    code = "bad_url"


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `host` is a name in lower case, or one of this machine's own addresses."""

    scheme: str
    host: str
    port: int
    path: str  # with the query; begins with a slash

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine, by one of its three names."""
        return self.host in _LOOPBACK

    @property
    def origin(self) -> str:
        """The origin, such as `https://api.example.com`, with the port unless it is the scheme's default."""
        usual = HTTPS_PORT if self.scheme == "https" else HTTP_PORT
        return f"{self.scheme}://{self.host}{'' if self.port == usual else f':{self.port}'}"


@dataclass(frozen=True, slots=True)
class _Entry:
    scheme: str
    host: str  # for `*.example.com`, the part after the dot
    port: int
    is_wild: bool

    @property
    def shown(self) -> str:
        """The entry as the list has it."""
        origin = Target(self.scheme, f"{'*.' if self.is_wild else ''}{self.host}", self.port, "/").origin
        return origin.removeprefix("https://")

    def covers(self, target: Target) -> bool:
        if (self.scheme, self.port) != (target.scheme, target.port):
            return False
        return target.host.endswith(f".{self.host}") if self.is_wild else target.host == self.host


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that HTTP steps may call. Empty: none."""

    entries: tuple[_Entry, ...] = ()
    anywhere: bool = False
    instead: tuple[tuple[_Entry, _Entry], ...] = ()  # a host, and the one that is called in its place

    def allow(self, target: Target) -> bool:
        """Returns whether the list allows the target, judged by name."""
        return self.called(target) is not None

    def called(self, target: Target) -> Target | None:
        """Returns the target, or its replacement; None if the list does not allow it."""
        for entry, other in self.instead:
            if entry.covers(target):
                return Target(other.scheme, other.host, other.port, target.path)
        return target if self._names(target) else None

    @property
    def shown(self) -> str:
        """Which hosts are allowed, as a part of a sentence."""
        entries = [one.shown for one in (*self.entries, *(host for host, _ in self.instead))]
        named = ["any public host by https at port 443"] if self.anywhere else []
        more = [f"{len(entries) - _SHOWN} more"] if len(entries) > _SHOWN else []
        return ", ".join((*named, *entries[:_SHOWN], *more)) or "none: the list is empty"

    def refusal(self, target: Target) -> str:
        """Why the target is not called: what was asked for, what the list allows, and what to do."""
        entry = target.origin.removeprefix("https://")
        of_stack = "" if target.scheme == "http" else f'add "{entry}" to http_hosts of the stack; '
        return (
            f"nothing was sent to {target.origin}: it is not among the hosts that may be called ({self.shown}); "
            f'{of_stack}for stepwell dev, set STEPWELL_HTTP_HOSTS="{ANYWHERE},{entry}"'
        )

    def _names(self, target: Target) -> bool:
        if self.anywhere and (target.scheme, target.port) == ("https", HTTPS_PORT) and not target.is_loopback:
            return True
        return any(entry.covers(target) for entry in self.entries)


def parse_url(text: str) -> Target:
    """Parses `https://name[:port][/path][?query]`, or `http://` for this machine. Raises BadUrlError otherwise."""
    found = _URL.fullmatch(text) if len(text) <= URL_CHARACTERS else None
    if len(text) > URL_CHARACTERS:
        raise BadUrlError(f"the URL has {len(text)} characters", hint=f"at most {URL_CHARACTERS}")
    if found is None:
        raise BadUrlError("the URL is not of the form https://host/path?query", hint="without a fragment (`#…`)")
    scheme, authority, path, query = found[1], found[2], found[3] or "/", found[4] or ""
    host, port = _host_and_port(authority, HTTPS_PORT if scheme == "https" else HTTP_PORT)
    if not _PLAIN.fullmatch(path + query):
        raise BadUrlError("the URL has characters that are not allowed", hint="percent-encode them: a space is %20")
    if any(_DOTS.fullmatch(segment) for segment in path.split("/")):
        raise BadUrlError("the URL's path has `.` or `..`", hint="write the final path")
    if scheme == "http" and host not in _LOOPBACK:
        raise BadUrlError("the URL is not encrypted", hint="write https://; http:// is only for localhost")
    return Target(scheme, host, port, path + query)


def parse_hosts(entries: Iterable[str]) -> Hosts:
    """Parses a host list. Raises BadUrlError `bad_host` for a bad entry."""
    written = [entry.strip() for entry in entries if entry.strip()]
    plain = tuple(_entry(one) for one in written if one != ANYWHERE and INSTEAD not in one)
    return Hosts(plain, ANYWHERE in written, tuple(_pair(one) for one in written if INSTEAD in one))


def _pair(text: str) -> tuple[_Entry, _Entry]:
    """Parses `api.example.com=http://localhost:8000`: the second is called in place of the first."""
    host, _, other = text.partition(INSTEAD)
    called = _entry(other.strip())
    if called.is_wild:
        message = f"{other.strip()[:80]!r} is not one host that can be called in place of {host.strip()[:80]!r}"
        raise BadUrlError(message, code="bad_host", hint="write api.example.com=http://localhost:8000")
    return _entry(host.strip()), called


def _entry(text: str) -> _Entry:
    found = _ENTRY.fullmatch(text)
    try:
        if found is None:
            raise BadUrlError("it does not name a host")
        scheme = found[1] or "https"
        host, port = _host_and_port(found[3], HTTPS_PORT if scheme == "https" else HTTP_PORT)
        if found[2] and (host in _LOOPBACK or "." not in host):
            raise BadUrlError("it is too wide")
        if scheme == "http" and host not in _LOOPBACK:
            raise BadUrlError("http:// is only for localhost")
    except BadUrlError as error:
        message = f"{text[:80]!r} is not a valid entry of a host list: {error.message}"
        raise BadUrlError(message, code="bad_host", hint=HOSTS_HINT) from None
    return _Entry(scheme, host, port, bool(found[2]))


def _host_and_port(authority: str, usual_port: int) -> tuple[str, int]:
    if "@" in authority:  # not repeated in the message: it may be a password
        raise BadUrlError("the URL has a user's name before its host", hint="put credentials into `http: {headers: …}`")
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found[1]:
        raise BadUrlError("the URL has no host")
    host, port = found[1].lower(), int(found[2] or usual_port)
    if not 0 < port < 65_536:
        raise BadUrlError(f"{port} is not a port", hint="1 to 65535")
    if host in _LOOPBACK:
        return host, port
    if host.startswith("[") or _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise BadUrlError("the URL's host is an address", hint="call hosts by their names")
    if not _HOST.fullmatch(host) or len(host) > _HOST_CHARACTERS:
        hint = "letters, digits, `-` and `.`; xn--… for others"
        raise BadUrlError(f"{host[:80]!r} is not a host name", hint=hint)
    return host, port
