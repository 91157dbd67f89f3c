"""What publishing asks of a connection, described once: statements with their parameters, and a COPY.

A plan is a generator that yields these steps and gets their answers; it knows no driver and neither sync nor async.
An adapter performs a step on its driver's connection. So the logic stands once, and an adapter is a few lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import LiteralString, TypeAlias, TypeVar

from headrace.db import query

Value: TypeAlias = str | None | list[str] | list[int]
Rows: TypeAlias = list[tuple[object, ...]]
T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """The statement in sql/queries/<name>.sql and its parameters by name. Answered by its rows."""

    name: str
    parameters: dict[str, Value]

    @property
    def pyformat(self) -> LiteralString:
        """With `%(name)s`, for psycopg and Django."""
        return query(self.name)

    @property
    def named(self) -> str:
        """With `:name`, for SQLAlchemy."""
        return _rendered(self.name, "named")

    @property
    def numbered(self) -> str:
        """With `$1`, for asyncpg."""
        return _rendered(self.name, "numbered")

    @property
    def values(self) -> list[Value]:
        """The parameters in the order of `$1`, `$2` …"""
        return [self.parameters[name] for name in _names(self.name)]


@dataclass(frozen=True)
class Copy:
    """A COPY into the outbox, of chunks in PostgreSQL's binary format; `chunks` makes them anew at each call.

    Answered by False, with nothing sent, where this connection cannot COPY now."""

    chunks: Callable[[], Iterator[bytes]]

    @property
    def text(self) -> LiteralString:
        return query("outbox/copy")

    @property
    def parts(self) -> tuple[str, str, list[str]]:
        """Schema, table and columns, for a driver that writes the statement by itself."""
        schema, table, columns = _copy_parts.findall(self.text)[0]
        return schema, table, columns.split(", ")


Step: TypeAlias = Statement | Copy
Answer: TypeAlias = Rows | bool
Plan: TypeAlias = Generator[Step, Answer, T]

_copy_parts = re.compile(r"^copy (\w+)\.(\w+) \(([\w, ]+)\)", re.MULTILINE)
_parameter = re.compile(r"%\((\w+)\)s")


@cache
def _names(name: str) -> list[str]:
    return list(dict.fromkeys(_parameter.findall(query(name))))


@cache
def _rendered(name: str, style: str) -> str:
    place = {parameter: f"${number}" for number, parameter in enumerate(_names(name), 1)}
    return _parameter.sub(lambda found: f":{found[1]}" if style == "named" else place[found[1]], query(name))
