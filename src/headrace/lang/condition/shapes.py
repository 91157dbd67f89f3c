"""Shapes: what conditions that differ in their constants only have in common.

The rules of a topic are often one sentence with many numbers: "more than N pieces of article X". Their constants become rows
of a table, and one join evaluates all of them. The text of a shape is the condition with a numbered parameter in place of
each constant. The access predicate is not among them: its constant is the key by which the join finds the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.postgres_printer import text_to_postgres, to_postgres
from headrace.lang.condition.spark_printer import text_to_spark, to_spark
from headrace.lang.condition.text_printer import canonical_text
from headrace.lang.condition.tree import Field, Type

_COLUMNS: Final = {Type.INTEGER: "integers", Type.NUMERIC: "numerics", Type.TEXT: "texts", Type.TIMESTAMPTZ: "moments"}


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a condition in the order of their parameters, by type.

    A moment is RFC 3339 text for PostgreSQL, and the text of its microseconds since 1970 for Spark."""

    integers: tuple[int, ...] = ()
    numerics: tuple[Decimal, ...] = ()
    texts: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterizedCondition:
    """The text of a condition's shape, the key of its access predicate (None without one) and its constants."""

    shape: str
    key: str | None
    constants: Constants


@dataclass(frozen=True, slots=True)
class ShapeSql:
    """A shape as SQL over extracted columns and a row of constants, and the constants of the condition itself.

    `access_key` is null for an event that no row can match; None where the shape has no access predicate."""

    access_key: str | None
    residual: str | None
    constants: Constants


def parameterize(condition: Condition) -> ParameterizedCondition:
    """The shape, key and constants of a condition, as PostgreSQL stores them."""
    access, residual = condition.split()
    parameters = _Parameters("$")
    columns = {field: f"[{canonical_text(field)}]" for field in condition.fields}
    shape = to_postgres(residual, columns, parameters.bind) if residual else "true"
    if access is None:
        return ParameterizedCondition(shape, None, parameters.constants())
    return ParameterizedCondition(f"{columns[access.field]} = $key and {shape}", access.text, parameters.constants())


def shape_to_postgres(condition: Condition, columns: Mapping[Field, str], row: str) -> ShapeSql:
    """The shape of a condition; constants are read from the row's columns integers, numerics, texts, moments."""
    access, residual = condition.split()
    parameters = _Parameters(f"{row}.")
    return ShapeSql(
        text_to_postgres(access.field, columns) if access else None,
        to_postgres(residual, columns, parameters.bind) if residual else None,
        parameters.constants(),
    )


def shape_to_spark(condition: Condition, columns: Mapping[Field, str], prefix: str) -> ShapeSql:
    """The shape of a condition; constants are read from columns integers, numerics, texts, moments, each with the prefix.

    Patterns are in Java's dialect, so the constants differ from those that PostgreSQL stores."""
    access, residual = condition.split()
    parameters = _Parameters(prefix, first=0)
    return ShapeSql(
        text_to_spark(access.field, columns) if access else None,
        to_spark(residual, columns, parameters.bind) if residual else None,
        parameters.constants(),
    )


class _Parameters:
    """Gives every constant the next parameter of its type."""

    def __init__(self, prefix: str, *, first: int = 1) -> None:
        self._prefix = prefix
        self._first = first
        self._values: dict[Type, list[str | int | Decimal]] = {type: [] for type in _COLUMNS}

    def bind(self, value: str | int | Decimal, type: Type) -> str:
        self._values[type].append(value)
        return f"{self._prefix}{_COLUMNS[type]}[{len(self._values[type]) - 1 + self._first}]"

    def constants(self) -> Constants:
        values = self._values
        return Constants(
            tuple(int(value) for value in values[Type.INTEGER]),
            tuple(Decimal(value) for value in values[Type.NUMERIC]),
            tuple(str(value) for value in values[Type.TEXT]),
            tuple(str(value) for value in values[Type.TIMESTAMPTZ]),
        )
