"""Definitions as somebody wrote them, and kinds of definitions: what plan and apply know about rules, correlators and schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from psycopg import AsyncCursor, Cursor

from headrace.core import parse_duration
from headrace.db import Connection


class Definition(Protocol):
    """A frozen dataclass whose fields are what somebody wrote."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...


State = TypeVar("State")
AnyDefinition = TypeVar("AnyDefinition", bound=Definition)


@dataclass(frozen=True)
class StoredDefinition(Generic[AnyDefinition]):
    """A definition as the database has it, and the source that owns it: a file's name, or `sql`."""

    definition: AnyDefinition
    source: str


def _convert(value: object, hint: object) -> object:
    """A value of a file as the field's type. A duration is written as in patterns, `30 days`, or by ISO 8601, `P30D`."""
    is_duration = timedelta in (hint, *get_args(hint)) and value is not None
    if not is_duration or (isinstance(value, str) and value.startswith(("P", "-P", "+P"))):
        return msgspec.convert(value, hint)
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"{value!r} is not a duration; write a number and a unit, such as '30 days'")
    try:
        return timedelta(microseconds=parse_duration(value))
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None


class DefinitionKind(ABC, Generic[AnyDefinition]):
    """A kind of definition. A file holds the definitions of a kind in a list named after it, such as `rules`."""

    noun: str
    type: type[AnyDefinition]
    usual_fields: str
    """The fields that an entry usually has, for error messages."""
    readers: ClassVar[Mapping[str, Callable[[object], object]]] = {}
    """Fields that are read from a file by a function of their own."""

    @property
    def list_name(self) -> str:
        return f"{self.noun}s"

    def read(self, entry: Mapping[str, object]) -> AnyDefinition:
        """Builds a definition from an entry of a file. Raises msgspec.ValidationError with the name of the field."""
        hints = get_type_hints(self.type)
        values: dict[str, object] = {}
        for field in fields(self.type):
            if field.name not in entry:
                if field.default is MISSING and field.default_factory is MISSING:
                    raise msgspec.ValidationError(f"missing required field `{field.name}`")
                continue
            value = entry[field.name]
            try:
                reader = self.readers.get(field.name)
                values[field.name] = reader(value) if reader else _convert(value, hints[field.name])
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(f"{field.name}: {error}") from None
        return self.type(**values)

    def shard_key(self, definition: AnyDefinition) -> str | None:
        """The key that decides the one shard a definition belongs to; None where every shard has it."""
        return None

    @abstractmethod
    def check(self, definition: AnyDefinition) -> None:
        """Raises where a text of the definition is wrong."""

    @abstractmethod
    def summary(self, definition: AnyDefinition) -> str:
        """What the definition does, in one line."""

    def meaning(self, before: AnyDefinition, after: AnyDefinition) -> str | None:
        """What a change means for events, in one line; None where nothing can be said."""
        return None

    @abstractmethod
    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[AnyDefinition]]:
        """All definitions of this kind in a namespace."""

    @abstractmethod
    def create(self, conn: Connection, definition: AnyDefinition, *, namespace: str | None, source: str) -> None: ...

    @abstractmethod
    def alter(
        self,
        conn: Connection,
        before: AnyDefinition,
        after: AnyDefinition,
        *,
        namespace: str | None,
        source: str,
        restart: bool,
    ) -> Mapping[str, int]:
        """Changes a definition; returns counts of what that affects, such as the keys that start afresh."""

    @abstractmethod
    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None: ...


AnyKind: TypeAlias = DefinitionKind[Any]


def field_names(definition: type[Definition] | Definition) -> tuple[str, ...]:
    """The names of a definition's fields."""
    return tuple(field.name for field in fields(definition))


def state_row(
    definition: type[Definition], build: Callable[[dict[str, Any], dict[str, Any]], State]
) -> Callable[[Cursor[Any] | AsyncCursor[Any]], Callable[[Sequence[Any]], State]]:
    """A row factory of states: `build` gets the columns of the definition, and the other columns."""
    own = field_names(definition)

    def factory(cursor: Cursor[Any] | AsyncCursor[Any]) -> Callable[[Sequence[Any]], State]:
        columns = [column.name for column in cursor.description or ()]

        def row(values: Sequence[Any]) -> State:
            others = dict(zip(columns, values, strict=True))
            return build({name: others.pop(name) for name in own}, others)

        return row

    return factory
