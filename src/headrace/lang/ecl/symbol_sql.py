"""Predicates, symbols and keys of a correlator as PostgreSQL's SQL.

Promises: the SQL consists of our own trees and names, never of a user's text."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lang.condition import (
    Condition,
    Extraction,
    Field,
    Type,
    field_to_postgres,
    parse,
    parse_scalar,
    postgres_literal,
    text_to_postgres,
    to_postgres,
)
from headrace.lang.ecl import tree as t
from headrace.lang.ecl.alphabet import Alphabet, Decision
from headrace.lang.ecl.engine import to_condition_tree
from headrace.lang.ecl.registers import RegisterProgram
from headrace.lang.ecl.table import Table

KEY_BYTES_MAX = 1024
"""A key is part of an index, so a longer one is stored as its checksum."""
Columns = Mapping[Field, str]
_TYPE = Field("type", (), Extraction.TEXT)


def condition_fields(table: Table) -> list[Field]:
    """The distinct fields that the conditions and captures of a table read."""
    if table.program:
        static = [field for text in table.program.static for field in parse(text).fields]
        return list(dict.fromkeys([*static, *table.program.fields]))
    atoms = [atom for predicate in table.predicates for atom in t.atoms(predicate)]
    texts = [atom.text for atom in atoms if isinstance(atom, t.Condition)]
    return list(dict.fromkeys(field for text in texts for field in parse(text).fields))


def key_to_sql(text: str, columns: Columns) -> str:
    """The key as text. Raises ConditionError where the text is no text, integer or boolean of the condition language."""
    key = parse_scalar(text)
    value = text_to_postgres(key, columns)
    if isinstance(key, Field) and key.root == "key" and key.type is Type.TEXT:
        # The event's own key: publish has limited its length.
        return value
    checksum = f"'sha256:' || encode(sha256(convert_to({value}, 'UTF8')), 'hex')"
    return f"(case when octet_length({value}) > {KEY_BYTES_MAX} then {checksum} else {value} end)"


def symbols_to_sql(table: Table, columns: Columns, *, owner: str = "") -> tuple[str, ...]:
    """The symbol of an event in each alphabet. `owner` is the prefix of the column `type`."""
    type_ = f"{owner}type"
    columns = {**columns, _TYPE: type_}
    predicates = [to_postgres(Condition(to_condition_tree(predicate)), columns) for predicate in table.predicates]

    def decide(decision: Decision) -> str:
        if isinstance(decision, int):
            return str(decision)
        # An unknown predicate stays unknown, which `when` takes as no.
        return f"case when {predicates[decision.predicate]} then {decide(decision.yes)} else {decide(decision.no)} end"

    def symbol(alphabet: Alphabet) -> str:
        cases = " ".join(f"when {postgres_literal(name)} then {decide(tree)}" for name, tree in alphabet.types.items())
        return f"(case {type_} {cases} else {decide(alphabet.other)} end)" if cases else decide(alphabet.other)

    return tuple(map(symbol, table.alphabets))


def facts_to_sql(program: RegisterProgram, columns: Columns, *, owner: str = "") -> list[str]:
    """The facts of an event, as text: its type, the truths of the conditions that read it alone, and the fields that registers need."""
    facts = [f"{owner}type"]
    facts += [f"cast(({to_postgres(parse(text), columns)}) as text)" for text in program.static]
    for field in program.fields:
        value = columns.get(field) or field_to_postgres(field)
        if field.type is Type.TIMESTAMPTZ:
            value = f"(extract(epoch from {value}) * 1000000)::bigint"
        facts.append(f"cast({value} as text)")
    return facts
