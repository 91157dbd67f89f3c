"""Login: who sits in front of the console, and as which role of the database the console acts for this person; and the settings, in
Python or in a TOML file.

Owns: the ways to sign in. Promises: nobody is taken for somebody else: a header counts only from the address of a trusted proxy, and
of a token only its SHA-256 is configured."""

from __future__ import annotations

import hmac
import secrets
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from ipaddress import ip_address, ip_network
from pathlib import Path
from time import time
from typing import Protocol, runtime_checkable

import msgspec
from starlette.requests import HTTPConnection

from headrace.core import Invalid
from headrace.web.console.texts import mask_path

COOKIE = "headrace_session"
SESSION_S = 12 * 3600
"""How long a sign-in counts at most."""
IDLE_S = 3600
"""A session ends this long after the last page that somebody asked for."""
RENEW_S = 60
"""A cookie older than this is renewed by the next page."""


@dataclass(frozen=True)
class User:
    """A person: the name in the audit, and the role of the database. Without a role the console's own connection decides."""

    name: str
    role: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class NoLogin:
    """Everybody who reaches the console is this user. Only for 127.0.0.1 and an embedded database."""

    user: User = User("local")

    def identify(self, request: HTTPConnection) -> User | None:
        return self.user


@dataclass(frozen=True)
class Session:
    """A sign-in with a token: `hash` names it without its secret, `cookie` is its value as of now."""

    user: User
    hash: str
    ends_at: float
    age_s: float
    """Since the cookie was issued."""
    cookie: str = field(repr=False)


@dataclass(frozen=True)
class TokenLogin:
    """Users by the SHA-256 of their tokens. A token is typed once; the browser then keeps the cookie of a session, signed with the
    configured digest. It ends IDLE_S after it was renewed last, and SESSION_S after the sign-in in any case. Several processes that
    serve one console know each other's sessions.

    It also comes as `Authorization: Bearer …`, for programs."""

    users: Mapping[str, User] = field(repr=False)

    def identify(self, request: HTTPConnection) -> User | None:
        token = _bearer(request)
        if token is not None:
            return self.user_of(token)
        session = self.session_of(request)
        return session.user if session else None

    def session_of(self, request: HTTPConnection) -> Session | None:
        """The session of a request's cookie, unless it has ended by itself; a token in the request counts instead of it. Whether it was
        signed out, EndedSessions knows."""
        if _bearer(request) is not None:
            return None
        value = request.cookies.get(COOKIE, "")
        nonce, _, rest = value.partition(".")
        times = rest.split(".")[:2]
        if len(times) < 2 or not all(text.isascii() and text.isdigit() and len(text) <= 12 for text in times):
            return None
        now, (start, issued) = time(), map(int, times)
        if not (0 <= now - start < SESSION_S and 0 <= now - issued < IDLE_S):
            return None
        digest = _matching(self.users, lambda digest: _cookie(digest, nonce, start, issued), value)
        if digest is None:
            return None
        renewed = _cookie(digest, nonce, start, int(now))
        return Session(self.users[digest], _digest(nonce), start + SESSION_S, now - issued, renewed)

    def user_of(self, token: str) -> User | None:
        """The user of a token."""
        digest = _matching(self.users, lambda digest: digest, _digest(token.strip()))
        return None if digest is None else self.users[digest]

    def start_session(self, token: str) -> str:
        """The value of a new cookie: it shows neither the token nor its configured digest."""
        now = int(time())
        return _cookie(_digest(token.strip()), secrets.token_urlsafe(16), now, now)


@dataclass(frozen=True)
class ProxyLogin:
    """The user's name comes in a header of a trusted proxy; from any other address the header is ignored."""

    header: str
    proxies: Sequence[str]
    roles: Mapping[str, str] = field(default_factory=dict)
    """The role of each user."""
    default_role: str | None = None
    """The role of users who are not listed; without it they are turned away."""

    def identify(self, request: HTTPConnection) -> User | None:
        name = request.headers.get(self.header, "")
        try:
            peer = ip_address(request.client.host if request.client else "")
        except ValueError:
            return None
        if not name or not any(peer in ip_network(proxy) for proxy in self.proxies):
            return None
        role = self.roles.get(name, self.default_role)
        return User(name, role) if role else None


@dataclass(frozen=True)
class HostLogin:
    """The application that the console is mounted in knows the user: a function from the request to a user, or None.

    A function that reads a database, as Django's sessions do, is async: the event loop must not wait for it."""

    function: Callable[[HTTPConnection], User | None | Awaitable[User | None]]

    def identify(self, request: HTTPConnection) -> User | None | Awaitable[User | None]:
        return self.function(request)


def new_token() -> tuple[str, str]:
    """A random token and its SHA-256, which goes into the configuration."""
    token = secrets.token_urlsafe(32)
    return token, _digest(token)


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _bearer(request: HTTPConnection) -> str | None:
    """The token that a program sends."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else None


def _cookie(digest: str, nonce: str, start: int, issued: int) -> str:
    text = f"headrace console session {nonce} {start} {issued}"
    return f"{nonce}.{start}.{issued}.{hmac.new(digest.encode(), text.encode(), sha256).hexdigest()}"


def _matching(users: Mapping[str, User], derive: Callable[[str], str], value: str) -> str | None:
    """The configured digest from which a value derives."""
    # Compares with every token, in constant time: the time tells nothing about how much of a token was right.
    matches = [digest for digest in users if hmac.compare_digest(derive(digest).encode(), value.encode())]
    return matches[0] if matches else None


LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@runtime_checkable
class Login(Protocol):
    """A way to sign in."""

    def identify(self, request: HTTPConnection) -> User | None | Awaitable[User | None]:
        """The user of a request; None if there is none."""
        ...


@dataclass(frozen=True)
class ConsoleSettings:
    """How the console behaves."""

    login: Login = field(default_factory=NoLogin)
    read_only: bool = False
    """The server rejects every change, whoever asks."""
    hosts: Sequence[str] = LOCAL_HOSTS
    """Names that requests may use as host, without the port. Others are rejected: a page of somebody else may have led here by DNS."""
    masks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Fields of payloads, such as `card.number` or `*.email`, with the roles that see them; others see •••."""
    live_every_s: float = 2.0
    """How often an open page is renewed."""
    pool_size: int = 4
    """Connections per shard."""
    ingest: bool = False
    """Also take and show events by HTTP, below /ingest, for holders of access tokens; see docs/http.md."""

    def __post_init__(self) -> None:
        """Raises Invalid for a mask that names no field."""
        for path in self.masks:
            mask_path(path)


class _Token(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    sha256: str
    role: str | None = None
    read_only: bool = False


class _Proxy(msgspec.Struct, forbid_unknown_fields=True):
    header: str
    proxies: list[str]
    roles: dict[str, str] = {}
    default_role: str | None = None


def read_settings(path: Path) -> ConsoleSettings:
    """The settings of a TOML file; docs/console.md shows one. Raises Invalid if it is wrong."""
    try:
        file = tomllib.loads(path.read_text(encoding="utf-8"))
        tokens = msgspec.convert(file.pop("token", []), list[_Token])
        proxy = msgspec.convert(file.pop("proxy", None), _Proxy | None)
        settings = msgspec.convert(file, ConsoleSettings)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Invalid(f"settings of the console in {path}: {error}; see docs/console.md") from error
    if unknown := sorted(file.keys() - vars(settings).keys()):
        raise Invalid(f"settings of the console in {path}: there is no setting {unknown[0]!r}; see docs/console.md")
    if tokens and proxy:
        raise Invalid(f"settings of the console in {path}: both tokens and a proxy; choose one way to sign in")
    login: Login = NoLogin()
    if tokens:
        login = TokenLogin({token.sha256: User(token.name, token.role, token.read_only) for token in tokens})
    elif proxy:
        login = ProxyLogin(proxy.header, proxy.proxies, proxy.roles, proxy.default_role)
    return replace(settings, login=login)
