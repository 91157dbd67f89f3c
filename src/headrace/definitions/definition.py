"""Definitions: rules and correlators as they are written; a state is a definition with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar

from psycopg import Cursor

State = TypeVar("State")


class Definition(Protocol):
    """A frozen dataclass whose fields are what somebody wrote."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...


def names_of(definition: type[Definition] | Definition) -> tuple[str, ...]:
    """What a definition is made of."""
    return tuple(field.name for field in fields(definition))


def state_row(
    definition: type[Definition], make: Callable[[dict[str, Any], dict[str, Any]], State]
) -> Callable[[Cursor[Any]], Callable[[Sequence[Any]], State]]:
    """A row factory of states: `make` gets the columns of the definition, and the others."""
    own = names_of(definition)

    def factory(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], State]:
        columns = [column.name for column in cursor.description or ()]

        def row(values: Sequence[Any]) -> State:
            given = dict(zip(columns, values, strict=True))
            return make({name: given.pop(name) for name in own}, given)

        return row

    return factory
