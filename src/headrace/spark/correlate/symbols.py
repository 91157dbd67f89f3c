"""Classification: the key and the symbols of every event in Spark SQL; each field is extracted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.evaluate import CorrelatorSpec
from headrace.lang.condition import Field, fields_of, parse_scalar
from headrace.lang.ecl import SPARK, Table, condition_fields, facts_to_sql, key_to_sql, symbols_to_sql

PREFIX = "_headrace_"


@dataclass(frozen=True)
class Classifier:
    """Spark SQL that classifies a correlator's events: the fields to extract, then the key and a symbol per alphabet."""

    table: Table
    fields: Mapping[Field, str]
    key: str
    symbols: tuple[str, ...]
    facts: tuple[str, ...] = ()
    """Of a table with registers, whose symbols follow from them and from the registers."""

    @cached_property
    def roots(self) -> frozenset[str]:
        return frozenset(field.root for field in self.fields)

    @property
    def symbol_names(self) -> list[str]:
        return ["symbol", *(f"symbol{number}" for number in range(1, len(self.symbols)))]


def extractions(columns: Mapping[Field, str]) -> list[str]:
    """The fields as columns, in Spark SQL."""
    return [f"{SPARK.field(field)} as {name}" for field, name in columns.items()]


def build_classifier(spec: CorrelatorSpec, columns: dict[Field, str] | None = None) -> Classifier:
    """The classifier of a correlator. Several correlators may share `columns`; new fields are added to it."""
    columns = {} if columns is None else columns
    table = spec.table
    for field in (*condition_fields(table), *(fields_of(parse_scalar(spec.key)) if spec.key is not None else ())):
        columns.setdefault(field, f"{PREFIX}f{len(columns)}")
    key = "''" if spec.key is None else key_to_sql(spec.key, SPARK, columns)
    if table.program:
        return Classifier(table, columns, key, ("0",), tuple(facts_to_sql(table.program, SPARK, columns)))
    return Classifier(table, columns, key, symbols_to_sql(table, SPARK, columns))
