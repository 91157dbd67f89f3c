"""Generates the SQL that classifies a correlator's events: position, key and symbol of each.

Promises: the statement extracts every field of an event once, and consists of our own trees and names only."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headrace.db import query
from headrace.lang.condition import field_to_postgres
from headrace.lang.ecl import Table, condition_fields, facts_to_sql, key_to_sql, symbols_to_sql, types_that_matter


def classifier_of(topic_id: int, key: str | None, table: Table, *, forgets: bool = False) -> str:
    """The classifier of the events after position $1 up to $2: one symbol per event for one alphabet, an array of them for several,
    or the facts of each event for a table with registers. Events that a node would step in vain are left out by their type, unless
    keys without events are forgotten."""
    names = {field: f"f{number}" for number, field in enumerate(condition_fields(table), 1)}
    columns = {field: f"e.{name}" for field, name in names.items()}
    owner = "e." if columns else ""
    if table.program:
        symbols: tuple[str, ...] = ("null::integer",)
        facts = f"array[{', '.join(facts_to_sql(table.program, columns, owner=owner))}]::text[]"
    else:
        symbols, facts = symbols_to_sql(table, columns, owner=owner), "null::text[]"
    # SQL() takes what our own printers made of checked trees.
    parts = {
        "symbol": sql.SQL(symbols[0] if len(symbols) == 1 else "null::integer"),
        "symbols": sql.SQL("null::integer[]" if len(symbols) == 1 else f"array[{', '.join(symbols)}]"),
        "facts": sql.SQL(facts),
        "key": sql.SQL("''::text" if key is None else key_to_sql(key, {})),
        "log": sql.Identifier(f"log_{topic_id}"),
        "types": _among(None if forgets or table.simple else types_that_matter(table)),
    }
    if not columns:
        return sql.SQL(query("correlators/symbols_plain_body")).format(**parts).as_string(None)
    fields = sql.SQL("".join(f", {field_to_postgres(field)} as {name}" for field, name in names.items()))
    return sql.SQL(query("correlators/symbols_body")).format(fields=fields, **parts).as_string(None)


def _among(types: Sequence[str] | None) -> sql.Composable:
    if types is None:
        return sql.SQL("")
    return sql.SQL(" and type = any (array[{}]::text[])").format(sql.SQL(", ").join(map(sql.Literal, types)))
