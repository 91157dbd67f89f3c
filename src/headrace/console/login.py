"""Login: who sits in front of the console, and as which role of the database the console acts for this person.

Owns: the ways to sign in. Promises: nobody is taken for somebody else: a header counts only from the address of a trusted proxy, and
of a token only its SHA-256 is configured."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from time import time

from starlette.requests import HTTPConnection

COOKIE = "headrace_session"
SESSION_S = 12 * 3600
"""How long a sign-in counts."""


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
class TokenLogin:
    """Users by the SHA-256 of their tokens. A token is typed once; the browser then keeps the cookie of a session, signed with the
    configured digest, which ends SESSION_S after the sign-in. Several processes that serve one console know each other's sessions.

    It also comes as `Authorization: Bearer …`, for programs."""

    users: Mapping[str, User] = field(repr=False)
    _ended: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Sessions that were signed out, by when they would have ended anyway."""

    def identify(self, request: HTTPConnection) -> User | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.user_of(token)
        session = request.cookies.get(COOKIE, "")
        nonce, _, rest = session.partition(".")
        start = rest.partition(".")[0]
        if not (start.isascii() and start.isdigit() and len(start) <= 12) or session in self._ended:
            return None
        if not 0 <= time() - int(start) < SESSION_S:
            return None
        return _lookup(self.users, lambda digest: _session(digest, nonce, start), session)

    def user_of(self, token: str) -> User | None:
        """The user of a token."""
        return _lookup(self.users, lambda digest: digest, _digest(token.strip()))

    def start_session(self, token: str) -> str:
        """The value of a new cookie: it shows neither the token nor its configured digest."""
        return _session(_digest(token.strip()), secrets.token_urlsafe(16), str(int(time())))

    def end_session(self, session: str) -> None:
        """Whoever has copied this cookie cannot use it any more, in this process."""
        now = time()
        for old in [name for name, until in self._ended.items() if until < now]:
            del self._ended[old]
        self._ended[session] = now + SESSION_S


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
        peer = request.client.host if request.client else ""
        if not name or not _is_inside(peer, [ip_network(proxy) for proxy in self.proxies]):
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


def _session(digest: str, nonce: str, start: str) -> str:
    signature = hmac.new(digest.encode(), f"headrace console session {nonce} {start}".encode(), sha256).hexdigest()
    return f"{nonce}.{start}.{signature}"


def _lookup(users: Mapping[str, User], derive: Callable[[str], str], value: str) -> User | None:
    # Compares with every token, in constant time: the time tells nothing about how much of a token was right.
    matches = [user for digest, user in users.items() if hmac.compare_digest(derive(digest).encode(), value.encode())]
    return matches[0] if matches else None


def _is_inside(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        return any(ip_address(address) in network for network in networks)
    except ValueError:
        return False
