"""Shapes: what conditions that differ in their constants only have in common.

A topic's rules are often one sentence with many numbers: "more than N pieces of article X". Their constants become rows
of a table, and one join answers all of them. A shape is told by its text: the condition with its fields as written and a
numbered place for each constant. Its best equality is not part of the rest: it is the key by which the rows are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.postgres_printer import equality_to_postgres, to_postgres
from headrace.lang.condition.spark_printer import equality_to_spark, to_spark
from headrace.lang.condition.text import text_of
from headrace.lang.condition.tree import Field, Type

# An index entry of PostgreSQL holds about 2 700 bytes; a longer constant is no key, it is compared with the rest.
KEY_BYTES_MAX: Final = 500
_COLUMNS: Final = {Type.INTEGER: "integers", Type.NUMERIC: "numerics", Type.TEXT: "texts", Type.TIMESTAMPTZ: "moments"}


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a condition in the order of their places, by type.

    A moment is RFC 3339 text for PostgreSQL, and text of its microseconds since 1970 for Spark."""

    integers: tuple[int, ...] = ()
    numerics: tuple[Decimal, ...] = ()
    texts: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shaped:
    """A condition taken apart: the text of its shape, the key of its equality (None: it has none) and its constants."""

    shape: str
    key: str | None
    constants: Constants


@dataclass(frozen=True, slots=True)
class ShapeSql:
    """A shape as SQL over extracted columns and a row of constants. `key` is null where no row can be right."""

    key: str | None
    rest: str | None


def shaped(condition: Condition) -> Shaped:
    """The shape and constants of a condition."""
    key, rest = _split(condition)
    printer = _Places("$")
    columns = {field: f"[{text_of(field)}]" for field in condition.fields}
    text = to_postgres(rest, columns, printer.place) if rest else "true"
    opened = f"{columns[key[0]]} = $key and " if key else ""
    return Shaped(opened + text, key[1] if key else None, printer.constants())


def shape_to_postgres(condition: Condition, columns: dict[Field, str], row: str) -> ShapeSql:
    """The shape of the condition as SQL: constants are read from the row's columns integers, numerics, texts, moments."""
    key, rest = _split(condition)
    return ShapeSql(
        equality_to_postgres(key[0], columns) if key else None,
        to_postgres(rest, columns, _Places(f"{row}.").place) if rest else None,
    )


def shape_to_spark(condition: Condition, columns: dict[Field, str], row: str) -> ShapeSql:
    """The shape as Spark SQL: constants are read from the columns <row>integers, <row>numerics, <row>texts, <row>moments."""
    key, rest = _split(condition)
    return ShapeSql(
        equality_to_spark(key[0], columns) if key else None,
        to_spark(rest, columns, _Places(row, first=0).place) if rest else None,
    )


def spark_constants(condition: Condition) -> Constants:
    """The constants that `shape_to_spark` reads. Patterns are in Java's dialect, so they differ from those of `shaped`."""
    _, rest = _split(condition)
    places = _Places("", first=0)
    if rest:
        to_spark(rest, {}, places.place)
    return places.constants()


def _split(condition: Condition) -> tuple[tuple[Field, str] | None, Condition | None]:
    equality = condition.equality
    if equality is None or len(equality.text.encode()) > KEY_BYTES_MAX:
        return None, condition
    return (equality.field, equality.text), condition.residual


class _Places:
    """Gives every constant the next place of its type."""

    def __init__(self, before: str, *, first: int = 1) -> None:
        self._before = before
        self._first = first
        self._kept: dict[Type, list[str | int | Decimal]] = {kind: [] for kind in _COLUMNS}

    def place(self, value: str | int | Decimal, kind: Type) -> str:
        self._kept[kind].append(value)
        return f"{self._before}{_COLUMNS[kind]}[{len(self._kept[kind]) - 1 + self._first}]"

    def constants(self) -> Constants:
        kept = self._kept
        return Constants(
            tuple(int(value) for value in kept[Type.INTEGER]),
            tuple(Decimal(value) for value in kept[Type.NUMERIC]),
            tuple(str(value) for value in kept[Type.TEXT]),
            tuple(str(value) for value in kept[Type.TIMESTAMPTZ]),
        )
