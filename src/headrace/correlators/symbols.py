"""Generates the SQL function that classifies a correlator's events: position, key and symbol of each.

Owns: headrace_internal.symbols_<correlator_id>. Promises: the function extracts every field of an event once."""

from __future__ import annotations

from psycopg import sql

from headrace.db import query
from headrace.lang.ecl import POSTGRES, Table, condition_fields, key_to_sql, symbols_to_sql


def symbols_name(correlator_id: int) -> str:
    return f"symbols_{correlator_id}"


def symbols_function(correlator_id: int, body: str) -> sql.Composed:
    """The statement that creates the classifying function of a correlator."""
    function = sql.Identifier(symbols_name(correlator_id))
    return sql.SQL(query("correlators/symbols_function")).format(function=function, body=sql.Literal(body))


def symbols_body(topic_id: int, key: str | None, table: Table) -> str:
    """The body of the function: one symbol per event for one alphabet, an array of them for several."""
    names = {field: f"f{number}" for number, field in enumerate(condition_fields(table), 1)}
    columns = {field: f"e.{name}" for field, name in names.items()}
    symbols = symbols_to_sql(table, POSTGRES, columns, owner="e." if columns else "")
    # SQL() takes what our own printers made of checked trees.
    parts = {
        "symbol": sql.SQL(symbols[0] if len(symbols) == 1 else "null::integer"),
        "symbols": sql.SQL("null::integer[]" if len(symbols) == 1 else f"array[{', '.join(symbols)}]"),
        "key": sql.SQL("''::text" if key is None else key_to_sql(key, POSTGRES, {})),
        "log": sql.Identifier(f"log_{topic_id}"),
    }
    if not columns:
        return sql.SQL(query("correlators/symbols_plain_body")).format(**parts).as_string(None)
    fields = sql.SQL("".join(f", {POSTGRES.field(field)} as {name}" for field, name in names.items()))
    return sql.SQL(query("correlators/symbols_body")).format(fields=fields, **parts).as_string(None)
