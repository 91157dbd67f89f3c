"""Shapes: what conditions that differ in their constants only have in common.

The rules of a topic are often one sentence with many numbers: "more than N pieces of article X". Their constants become rows
of a table, and one join evaluates all of them. The text of a shape is its access path and the residual, with a numbered parameter
in place of each constant. The join finds the rows by the keys and the bound of the access path; see `access`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.lang.condition.access import (
    BLOCK_BOUND,
    BOUND_CHARS_MAX,
    AccessPath,
    Bound,
    InList,
    Interval,
    Prefix,
    block_scale,
    find_access,
)
from headrace.lang.condition.condition import Condition, canonical_text
from headrace.lang.condition.postgres_printer import field_to_postgres, text_to_postgres, to_postgres
from headrace.lang.condition.tree import Field, Type

_COLUMNS: Final = {Type.INTEGER: "integers", Type.NUMERIC: "numerics", Type.TEXT: "texts", Type.TIMESTAMPTZ: "moments"}


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a condition in the order of their parameters, by type. A moment is RFC 3339 text."""

    integers: tuple[int, ...] = ()
    numerics: tuple[Decimal, ...] = ()
    texts: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterizedCondition:
    """The text of a condition's shape, its access path and its constants."""

    shape: str
    access: AccessPath
    constants: Constants


@dataclass(frozen=True, slots=True)
class ShapeSql:
    """A shape as SQL over extracted columns and a row of constants.

    `keys` are those that an event asks for; each is null for an event that no row can match. `bound` is the comparison with the
    row's bound, None where the shape has none."""

    keys: tuple[str, ...]
    bound: str | None
    residual: str | None
    constants: Constants


def parameterize(condition: Condition) -> ParameterizedCondition:
    """The shape, access path and constants of a condition, as PostgreSQL stores them."""
    access, residual = find_access(condition)
    parameters = _Parameters("$")
    columns = {field: f"[{canonical_text(field)}]" for field in condition.fields}
    shape = to_postgres(residual, columns, parameters.bind) if residual else "true"
    return ParameterizedCondition(f"{access.text}: {shape}", access, parameters.constants())


def shape_to_postgres(condition: Condition, columns: Mapping[Field, str], row: str, variants: Sequence[int]) -> ShapeSql:
    """The shape of a condition; constants are read from the row's columns integers, numerics, texts, moments, bound, bound_text.

    Variants: those of all conditions of the shape."""
    access, residual = find_access(condition)
    parameters = _Parameters(f"{row}.")
    printer = _Access(columns)
    return ShapeSql(
        printer.keys(access, variants),
        printer.bound(access.bound, row) if access.bound else None,
        to_postgres(residual, columns, parameters.bind) if residual else None,
        parameters.constants(),
    )


class _Access:
    """Prints what an event asks for: keys as `AccessPath.keys` writes them, and the comparison with a bound."""

    def __init__(self, columns: Mapping[Field, str]) -> None:
        self._columns = columns

    def keys(self, access: AccessPath, variants: Sequence[int]) -> tuple[str, ...]:
        texts = [self._text(equality.field) for equality in access.equalities]
        match access.choice:
            case InList(field=field):
                return (_join([*texts, self._text(field)]),)
            case Prefix(field=field):
                start = self._text(field)
                return tuple(_join([*texts, f"('{length}:' || left({start}, {length}))"]) for length in variants)
            case Interval(field=field):
                number = self._double(field)
                return tuple(_join([*texts, f"('{level}:' || {_block(number, block_scale(level))})"]) for level in variants)
        return (_join(texts) if texts else "''",)

    def bound(self, bound: Bound, row: str) -> str:
        operator = "<=" if bound.is_lower else ">="
        if isinstance(bound.value, str):
            # "bound is null" leads the index to bound_text, which comes after bound.
            value = f'(left({self._text(bound.field)}, {BOUND_CHARS_MAX}) collate "C")'
            return f"{row}.bound is null and {row}.bound_text {operator} {value}"
        return f"{row}.bound {operator} {self._double(bound.field)}"

    def _text(self, field: Field) -> str:
        return text_to_postgres(field, self._columns)

    def _double(self, field: Field) -> str:
        """The field's number, or a moment's seconds since 1970."""
        value = self._columns.get(field) or f"({field_to_postgres(field)})"
        return f"extract(epoch from {value})::float8" if field.type is Type.TIMESTAMPTZ else f"{value}::float8"


def _join(texts: list[str]) -> str:
    """As `join_key`."""
    parts = [part for text in texts[:-1] for part in (f"length({text})::text", "':'", text)]
    return f"({' || '.join([*parts, texts[-1]])})" if parts else texts[-1]


def _block(number: str, scale: float) -> str:
    """As `access.block`, as text."""
    bound = f"'{BLOCK_BOUND!r}'::float8"
    return f"floor(least(greatest({number} * '{scale!r}'::float8, -{bound}), {bound}))::bigint::text"


class _Parameters:
    """Gives every constant the next parameter of its type."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._values: dict[Type, list[str | int | Decimal]] = {type: [] for type in _COLUMNS}

    def bind(self, value: str | int | Decimal, type: Type) -> str:
        self._values[type].append(value)
        return f"{self._prefix}{_COLUMNS[type]}[{len(self._values[type])}]"

    def constants(self) -> Constants:
        values = self._values
        return Constants(
            tuple(int(value) for value in values[Type.INTEGER]),
            tuple(Decimal(value) for value in values[Type.NUMERIC]),
            tuple(str(value) for value in values[Type.TEXT]),
            tuple(str(value) for value in values[Type.TIMESTAMPTZ]),
        )
