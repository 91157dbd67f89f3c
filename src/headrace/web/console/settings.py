"""Settings of the console, in Python or in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
from starlette.requests import HTTPConnection

from headrace.core import Invalid
from headrace.web.console.login import NoLogin, ProxyLogin, TokenLogin, User
from headrace.web.console.masks import mask_path

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


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


class _File(msgspec.Struct, forbid_unknown_fields=True):
    token: list[_Token] = []
    proxy: _Proxy | None = None
    read_only: bool = False
    hosts: list[str] = msgspec.field(default_factory=lambda: list(LOCAL_HOSTS))
    masks: dict[str, list[str]] = {}
    live_every_s: float = 2.0
    pool_size: int = 4
    ingest: bool = False


def read_settings(path: Path) -> ConsoleSettings:
    """The settings of a TOML file; docs/console.md shows one. Raises Invalid if it is wrong."""
    try:
        file = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Invalid(f"settings of the console in {path}: {error}; see docs/console.md") from error
    if file.token and file.proxy:
        raise Invalid(f"settings of the console in {path}: both tokens and a proxy; choose one way to sign in")
    login: Login = NoLogin()
    if file.token:
        login = TokenLogin({token.sha256: User(token.name, token.role, token.read_only) for token in file.token})
    elif file.proxy:
        login = ProxyLogin(file.proxy.header, file.proxy.proxies, file.proxy.roles, file.proxy.default_role)
    return ConsoleSettings(
        login=login,
        read_only=file.read_only,
        hosts=file.hosts,
        masks=file.masks,
        live_every_s=file.live_every_s,
        pool_size=file.pool_size,
        ingest=file.ingest,
    )
