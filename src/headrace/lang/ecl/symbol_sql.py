"""Predicates, symbols and keys of a correlator as SQL, in the dialects of PostgreSQL and Spark.

Promises: one walk over the trees serves both dialects, so both ask the same questions; the SQL consists of our own trees and
names, never of a user's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.lang.condition import (
    Condition,
    Field,
    Node,
    Type,
    field_to_postgres,
    field_to_spark,
    parse,
    parse_scalar,
    postgres_literal,
    spark_literal,
    text_to_postgres,
    text_to_spark,
    to_postgres,
    to_spark,
)
from headrace.lang.ecl import tree as t
from headrace.lang.ecl.alphabet import Alphabet, Decision
from headrace.lang.ecl.registers import RegisterProgram
from headrace.lang.ecl.table import Table

KEY_BYTES_MAX = 1024
"""A key is part of an index, so a longer one is stored as its checksum."""
Columns = Mapping[Field, str]


@dataclass(frozen=True)
class Dialect:
    """What differs between the engines: literals, conditions, fields, a key as text, and its checksum."""

    literal: Callable[[str], str]
    condition: Callable[[Condition, Columns], str]
    field: Callable[[Field], str]
    key: Callable[[Node, Columns], str]
    checksum: str
    micros: str
    """A timestamp as microseconds since 1970."""
    text: str
    """The type of texts."""


_POSTGRES_CHECKSUM = "'sha256:' || encode(sha256(convert_to({0}, 'UTF8')), 'hex')"
_SPARK_CHECKSUM = "concat('sha256:', sha2(cast({0} as binary), 256))"
POSTGRES = Dialect(
    postgres_literal,
    to_postgres,
    field_to_postgres,
    text_to_postgres,
    _POSTGRES_CHECKSUM,
    "(extract(epoch from {0}) * 1000000)::bigint",
    "text",
)
SPARK = Dialect(spark_literal, to_spark, field_to_spark, text_to_spark, _SPARK_CHECKSUM, "unix_micros({0})", "string")


def condition_fields(table: Table) -> list[Field]:
    """The distinct fields that the conditions and captures of a table read."""
    if table.program:
        static = [field for text in table.program.static for field in parse(text).fields]
        return list(dict.fromkeys([*static, *table.program.fields]))
    atoms = [atom for predicate in table.predicates for atom in t.atoms(predicate)]
    texts = [atom.text for atom in atoms if isinstance(atom, t.Condition)]
    return list(dict.fromkeys(field for text in texts for field in parse(text).fields))


def key_to_sql(text: str, dialect: Dialect, columns: Columns) -> str:
    """The key as text. Raises ConditionError where the text is no text, integer or boolean of the condition language."""
    key = parse_scalar(text)
    value = dialect.key(key, columns)
    if isinstance(key, Field) and key.root == "key" and key.type is Type.TEXT:
        # The event's own key: publish has limited its length.
        return value
    return f"(case when octet_length({value}) > {KEY_BYTES_MAX} then {dialect.checksum.format(value)} else {value} end)"


def symbols_to_sql(table: Table, dialect: Dialect, columns: Columns, *, owner: str = "") -> tuple[str, ...]:
    """The symbol of an event in each alphabet. `owner` is the prefix of the column `type`."""
    printer = _Printer(table, dialect, columns, f"{owner}type")
    return tuple(printer.symbol(alphabet) for alphabet in table.alphabets)


def facts_to_sql(program: RegisterProgram, dialect: Dialect, columns: Columns, *, owner: str = "") -> list[str]:
    """The facts of an event, as text: its type, the truths of the conditions that read it alone, and the fields that registers need."""
    facts = [f"{owner}type"]
    facts += [f"cast(({dialect.condition(parse(text), columns)}) as {dialect.text})" for text in program.static]
    for field in program.fields:
        value = columns.get(field) or dialect.field(field)
        if field.type is Type.TIMESTAMPTZ:
            value = dialect.micros.format(value)
        facts.append(f"cast({value} as {dialect.text})")
    return facts


@dataclass(frozen=True)
class _Printer:
    table: Table
    dialect: Dialect
    columns: Columns
    type: str

    def symbol(self, alphabet: Alphabet) -> str:
        literal = self.dialect.literal
        cases = " ".join(f"when {literal(name)} then {self._decision(tree)}" for name, tree in alphabet.types.items())
        other = self._decision(alphabet.other)
        return f"(case {self.type} {cases} else {other} end)" if cases else other

    def _decision(self, decision: Decision) -> str:
        if isinstance(decision, int):
            return str(decision)
        # An unknown predicate stays unknown, which `when` takes as no.
        predicate = self._predicate(self.table.predicates[decision.predicate])
        return f"case when {predicate} then {self._decision(decision.yes)} else {self._decision(decision.no)} end"

    def _predicate(self, predicate: t.Predicate) -> str:
        match predicate:
            case t.Literal(value):
                return "true" if value else "false"
            case t.EventType(name):
                return f"({self.type} = {self.dialect.literal(name)})"
            case t.Condition(text):
                return f"({self.dialect.condition(parse(text), self.columns)})"
            case t.Named(_, inner):
                return self._predicate(inner)
            case t.Not(operand):
                return f"(not {self._predicate(operand)})"
            case t.And(parts):
                return f"({' and '.join(map(self._predicate, parts))})"
            case t.Or(parts):
                return f"({' or '.join(map(self._predicate, parts))})"
