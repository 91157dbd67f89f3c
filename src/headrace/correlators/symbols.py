"""Generates the function that tells a correlator's events apart: position, key and symbol of each.

Owns: headrace_internal.symbols_<correlator_id>. Promises: its text is made of our own trees and names only; it asks what the table's
decision trees ask, and takes every field out of an event once."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import sql

from headrace.db import query
from headrace.lang.condition import Field, field_to_postgres, parse, parse_scalar, scalar_to_postgres, to_postgres
from headrace.lang.ecl import Alphabet, Decision, Table
from headrace.lang.ecl import tree as t

KEY_BYTES_MAX = 1024


def symbols_name(correlator_id: int) -> str:
    """The name of a correlator's classifying function."""
    return f"symbols_{correlator_id}"


def symbols_function(correlator_id: int, body: str) -> sql.Composed:
    """The statement that creates a correlator's classifying function."""
    function = sql.Identifier(symbols_name(correlator_id))
    return sql.SQL(query("correlators/symbols_function")).format(function=function, body=sql.Literal(body))


def symbols_body(topic_id: int, key: str | None, table: Table) -> str:
    """The body of the function: one symbol per event for one alphabet, an array of them for several."""
    fields = dict.fromkeys(
        field
        for predicate in table.predicates
        for atom in t.atoms(predicate)
        if isinstance(atom, t.Condition)
        for field in parse(atom.text).fields
    )
    columns = {field: f"e.f{number}" for number, field in enumerate(fields, 1)}
    owner = "e." if columns else ""
    answers = [_symbol(alphabet, table, columns, owner) for alphabet in table.alphabets]
    one = len(answers) == 1
    given = {
        "symbol": _raw(answers[0] if one else "null::integer"),
        "symbols": _raw("null::integer[]" if one else f"array[{', '.join(answers)}]"),
        "key": _raw(_key(key)),
        "log": sql.Identifier(f"log_{topic_id}"),
    }
    if columns:
        template = sql.SQL(query("correlators/symbols_body"))
        return template.format(fields=_extractions(columns), **given).as_string(None)
    return sql.SQL(query("correlators/symbols_plain_body")).format(**given).as_string(None)


def _extractions(columns: Mapping[Field, str]) -> sql.Composable:
    return sql.Composed(
        [
            sql.SQL(", {} as {}").format(_raw(field_to_postgres(field)), sql.Identifier(name.removeprefix("e.")))
            for field, name in columns.items()
        ]
    )


def _key(text: str | None) -> str:
    if text is None:
        return "''::text"
    value = scalar_to_postgres(parse_scalar(text))
    if value == "key":
        return value
    # A key is part of an index: a long one goes in by its checksum.
    hashed = f"'sha256:' || encode(sha256(convert_to({value}, 'UTF8')), 'hex')"
    return f"case when octet_length({value}) > {KEY_BYTES_MAX} then {hashed} else {value} end"


def _symbol(alphabet: Alphabet, table: Table, columns: Mapping[Field, str], owner: str) -> str:
    def decided(decision: Decision) -> str:
        if isinstance(decision, int):
            return str(decision)
        number, yes, no = decision
        asked = predicate_to_postgres(table.predicates[number], columns, owner)
        return f"case when {asked} then {decided(yes)} else {decided(no)} end"

    cases = " ".join(f"when {_literal(type_)} then {decided(decision)}" for type_, decision in alphabet.types.items())
    return f"case {owner}type {cases} else {decided(alphabet.other)} end" if cases else decided(alphabet.other)


def predicate_to_postgres(predicate: t.Predicate, columns: Mapping[Field, str], owner: str = "") -> str:
    """A predicate as SQL; unknown stays unknown, which `when` takes as no."""
    match predicate:
        case t.Literal(value):
            return "true" if value else "false"
        case t.EventType(name):
            return f"({owner}type = {_literal(name)})"
        case t.Condition(text):
            return f"({to_postgres(parse(text), columns)})"
        case t.Named(_, inner):
            return predicate_to_postgres(inner, columns, owner)
        case t.Not(operand):
            return f"(not {predicate_to_postgres(operand, columns, owner)})"
        case t.And(parts):
            return "(" + " and ".join(predicate_to_postgres(part, columns, owner) for part in parts) + ")"
        case t.Or(parts):
            return "(" + " or ".join(predicate_to_postgres(part, columns, owner) for part in parts) + ")"


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


def _raw(text: str) -> sql.SQL:
    # Printed by our own printers out of checked trees: that is what SQL() means by literal.
    return sql.SQL(text)
