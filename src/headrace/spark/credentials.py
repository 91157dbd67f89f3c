"""Credentials: names for the databases' addresses. The names travel with plans and tasks; the addresses never do.

Owns: the options `service`, `serviceFile`, `dsnEnv` and `secret`. Promises: an Access holds names only, so plans, partitions,
logs and messages never carry a password; every process resolves the names itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from psycopg.conninfo import make_conninfo

from headrace.core import Invalid, NotFound
from headrace.db import Connection, Target, connect, embedded_server, parse_targets

DSN_VARIABLES = ("HEADRACE_DSN", "DATABASE_URL")
SECRET_FOLDERS = ("HEADRACE_SECRETS", "CREDENTIALS_DIRECTORY")
"""Environment variables that name the folder of secrets. Default: /run/secrets, where containers have it."""
OPTIONS = frozenset({"service", "servicefile", "dsnenv", "secret"})
FORBIDDEN = frozenset({"dsn", "url", "uri", "user", "username", "password", "host", "port", "database", "dbname", "passfile"})
_environment = Lock()


@dataclass(frozen=True)
class Access:
    """How a process finds its databases: by at most one of service, variable and secret, else by the usual variables."""

    service: str | None = None
    service_file: str | None = None
    variable: str | None = None
    secret: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Access:
        """From the options of a source or sink, with names in lower case."""
        for name in options:
            if name.lower() in FORBIDDEN:
                # The value is not repeated: it may be the secret itself.
                raise Invalid(
                    f"option {name!r} would put an address into the plan, where the UI and logs show it; name its place instead: "
                    "option service (in a service file), dsnEnv (an environment variable) or secret (a file)"
                )
        service, variable, secret = (options.get(name) or None for name in ("service", "dsnenv", "secret"))
        names = list(filter(None, (service, variable, secret)))
        if len(names) > 1:
            raise Invalid("give only one of the options service, dsnEnv and secret")
        if any("://" in name for name in names):
            raise Invalid("options service, dsnEnv and secret take a name, not an address, which the plan would show")
        return cls(service, options.get("servicefile") or None, variable, secret)

    def options(self) -> dict[str, str]:
        """As options of a source or sink; none of them is secret."""
        named = {"service": self.service, "serviceFile": self.service_file, "dsnEnv": self.variable, "secret": self.secret}
        return {name: value for name, value in named.items() if value is not None}

    def targets(self) -> list[Target]:
        """The databases, one per shard."""
        if self.service:
            return _services(self.service)
        if self.secret:
            return _parse(_read_secret(self.secret), f"secret {self.secret!r}")
        for name in [self.variable] if self.variable else DSN_VARIABLES:
            if value := os.environ.get(name):
                return _parse(value, f"environment variable {name}")
        embedded = embedded_server()
        if not self.variable and embedded.data.exists():
            embedded.start()
            return [Target("embedded", embedded.dsn())]
        raise NotFound(
            f"environment variable {self.variable or ' or '.join(DSN_VARIABLES)} is not set in Spark's Python process; "
            "set it where Spark starts (driver and executors), or name a service or a secret by option"
        )

    def target(self, shard: str) -> Target:
        """The database of one shard."""
        targets = {target.name: target for target in self.targets()}
        if shard not in targets:
            raise NotFound(
                f"this process knows no shard {shard!r}, only {', '.join(targets)}; driver and executors need the same addresses"
            )
        return targets[shard]

    @contextmanager
    def use_service_file(self) -> Iterator[None]:
        """libpq reads services from this Access's file while the block runs."""
        if self.service_file is None:
            yield
            return
        with _environment:
            before = os.environ.get("PGSERVICEFILE")
            os.environ["PGSERVICEFILE"] = self.service_file
            try:
                yield
            finally:
                os.environ.pop("PGSERVICEFILE")
                if before is not None:
                    os.environ["PGSERVICEFILE"] = before

    @contextmanager
    def connect(self, target: Target) -> Iterator[Connection]:
        """A connection in autocommit mode."""
        with ExitStack() as stack:
            with self.use_service_file():
                conn = stack.enter_context(connect(target))
            yield conn


def _services(text: str) -> list[Target]:
    words = [word.rpartition("=") for word in text.split()]
    if len(words) > 1 and not all(name for name, _, _ in words):
        raise Invalid(f"option service lists several shards without their names: {text!r}; write a=SERVICE b=SERVICE")
    return [Target(name or "main", make_conninfo(service=service)) for name, _, service in words]


def _read_secret(name: str) -> str:
    folder = next((os.environ[variable] for variable in SECRET_FOLDERS if os.environ.get(variable)), "/run/secrets")
    path = Path(folder) / name  # An absolute name replaces the folder.
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise NotFound(f"secret {name!r} cannot be read ({error.strerror}); this process looks for the file {path}") from None


def _parse(text: str, place: str) -> list[Target]:
    try:
        return parse_targets(text)
    except Invalid:
        # Do not chain it: the parser's message quotes the text.
        raise Invalid(f"the address in {place} cannot be read; write postgresql://user:password@host:5432/database") from None
