"""Fields → Spark SQL over JSON text as PostgreSQL prints jsonb. Never raises under ANSI mode.

VARIANT gives kinds, text, booleans and numbers of up to 38 digits, and all fields of a row share one parse. What it
loses is taken from a second, slower reading that runs only where needed: numbers are first marked in the text as
strings that begin with U+0000, which jsonb cannot hold, so that their digits survive every parser.
"""

from __future__ import annotations

import re
from itertools import product

from headrace.lang.condition.limits import NUMERIC_SCALE
from headrace.lang.condition.moments import MOMENT_PATTERN
from headrace.lang.condition.postgres_printer import FALSE_TEXTS, INTEGER_TEXT, NUMERIC_TEXT, TRUE_TEXTS
from headrace.lang.condition.tree import Either, Field, Step, Take

NUMERIC = f"decimal(37,{NUMERIC_SCALE})"
LETTERS = ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_ROOTS = {"object": "payload", "headers": "headers"}
_PLAIN_TEXT = re.compile(r"[ !\"#%&(-\[\]-~]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BIGINT_MIN = "-9223372036854775808L"

# Possessive throughout: Java neither backtracks nor recurses over a long text.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SCALARS = rf'\G((?:[^"0-9tf-]++|{_STRING})*+)(-?[0-9][0-9.]*+|true|false)'
_MARKED = r'$1"\\u0000$2"'
_MARKS = r'"\\u0000([^"]*+)"'
_SEPARATORS = rf'\G((?:[^",:]++|{_STRING})*+)([,:])'


def literal(text: str) -> str:
    """A text literal that no parser setting (escapes, variable substitution) can change."""
    return f"'{text}'" if _PLAIN_TEXT.fullmatch(text) else f"cast(X'{text.encode().hex()}' as string)"


def extraction(field: Field) -> str:
    """The field as a Spark SQL expression: text, bigint, decimal(37,18), boolean or timestamp."""
    if field.root not in _ROOTS:
        return field.root if not field.take.from_text else from_text(field.root, field.take)
    # A number in a #> path is a key or an index: one of the two readings finds nothing.
    choices = [(str(step.number), step.number) if isinstance(step, Either) else (step,) for step in field.path]
    readings = [_Reading(_ROOTS[field.root], path).taken(field) for path in product(*choices)]
    return readings[0] if len(readings) == 1 else f"coalesce({', '.join(readings)})"


def from_text(text: str, take: Take) -> str:
    """A cast of text, behind the pattern of what it accepts."""
    if take is Take.TEXT_BOOLEAN:
        folded = f"translate({text}, '{LETTERS[0]}', '{LETTERS[1]}')"
        trues, falses = (", ".join(literal(t) for t in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
        return f"case when {folded} in ({trues}) then true when {folded} in ({falses}) then false end"
    if take is Take.TEXT_TIMESTAMPTZ:
        return f"case when {text} rlike {_whole(MOMENT_PATTERN)} then try_cast({text} as timestamp) end"
    pattern = NUMERIC_TEXT if take is Take.TEXT_NUMERIC else INTEGER_TEXT
    number = to_number(f"try_cast({text} as {_decimal(take)})", take)
    return f"case when {text} rlike {_whole(pattern.strip('^$'))} then {number} end"


def _whole(pattern: str) -> str:
    return literal(rf"^{pattern}\z")


def _decimal(take: Take) -> str:
    return NUMERIC if take in (Take.NUMERIC, Take.TEXT_NUMERIC) else "decimal(38,0)"


def to_number(sql: str, take: Take) -> str:
    """A decimal in the domain of the take; integers are bigint."""
    if take in (Take.NUMERIC, Take.TEXT_NUMERIC):
        return sql
    if take in (Take.INT, Take.TEXT_INT):
        return f"cast(try_cast({sql} as int) as bigint)"
    return in_domain(f"try_cast({sql} as bigint)")


def in_domain(sql: str) -> str:
    """A bigint without -2^63."""
    return f"nullif({sql}, {_BIGINT_MIN})"


class _Reading:
    """One path through one JSON column."""

    def __init__(self, column: str, path: tuple[Step, ...]) -> None:
        self.column = column
        self.path = path
        self.kind = f"schema_of_variant({self.at('variant')})"

    def taken(self, field: Field) -> str:
        match field.take:
            case Take.TEXT:
                return self.text()
            case Take.BOOLEAN:
                return f"case when {self.kind} = 'BOOLEAN' then {self.at('boolean')} end"
            case Take.TYPEOF:
                return self.typeof()
            case Take.ARRAY_LENGTH:
                return f"case when {self.kind} like 'ARRAY%' then cast(size({self.at('array<variant>')}) as bigint) end"
            case Take.HAS:
                return self.has(literal(field.key or ""))
            case Take.INT | Take.BIGINT | Take.NUMERIC:
                return self.number(field.take)
        return from_text(self.scalar_text(), field.take)

    def at(self, target: str, *, exact: bool = False) -> str:
        """The value at the path, as the target type, or null."""
        value = f"try_parse_json({self.marked() if exact else self.column})"
        path = "$"
        for step in self.path:
            if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
                path += f".{step}"
            elif isinstance(step, int) and step >= 0:
                path += f"[{step}]"
            else:
                container = "map<string,variant>" if isinstance(step, str) else "array<variant>"
                value = f"try_element_at(try_variant_get({value}, '{path}', '{container}'), {_element(step)})"
                path = "$"
        return f"try_variant_get({value}, '{path}', '{target}')"

    def marked(self) -> str:
        return f"regexp_replace({self.column}, {literal(_SCALARS)}, {literal(_MARKED)})"

    def exact_number(self) -> str:
        """The digits of a number, as written."""
        return f"substr({self.at('string', exact=True)}, 2)"

    def scalar_text(self) -> str:
        return (
            f"case when {self.kind} in ('STRING', 'BIGINT', 'BOOLEAN') then {self.at('string')} "
            f"when {self.kind} = 'DOUBLE' or {self.kind} like 'DECIMAL%' then {self.exact_number()} end"
        )

    def text(self) -> str:
        container = self.column if not self.path else self.container_text()
        inner = self.scalar_text().removesuffix(" end")
        return f"{inner} when {self.kind} like 'OBJECT%' or {self.kind} like 'ARRAY%' then {container} end"

    def container_text(self) -> str:
        """An object or array as jsonb prints it: cut out in its own order, then spaced, unmarked, escapes lower
        case."""
        sql = self.marked()
        for step in self.path:
            container = "map<string,string>" if isinstance(step, str) else "array<string>"
            sql = f"try_element_at(from_json({sql}, '{container}'), {_element(step)})"
        sql = f"regexp_replace({sql}, {literal(_SEPARATORS)}, {literal('$1$2 ')})"
        sql = f"regexp_replace({sql}, {literal(_MARKS)}, {literal('$1')})"
        for digit in "ABCDEF":
            escape = rf"(?<!\\)((?:\\\\)*+\\u00[01]){digit}"
            sql = f"regexp_replace({sql}, {literal(escape)}, {literal('$1' + digit.lower())})"
        return sql

    def number(self, take: Take) -> str:
        decimal = _decimal(take)
        near = to_number(self.at(decimal), take)
        exact = to_number(f"try_cast({self.exact_number()} as {decimal})", take)
        short = f"{self.kind} = 'BIGINT' or {self.kind} like 'DECIMAL%'"
        return f"case when {short} then {near} when {self.kind} = 'DOUBLE' then {exact} end"

    def typeof(self) -> str:
        kind = self.kind
        return (
            f"case when {kind} = 'STRING' then 'string' "
            f"when {kind} in ('BIGINT', 'DOUBLE') or {kind} like 'DECIMAL%' then 'number' "
            f"when {kind} = 'BOOLEAN' then 'boolean' when {kind} = 'VOID' then 'null' "
            f"when {kind} like 'ARRAY%' then 'array' when {kind} like 'OBJECT%' then 'object' end"
        )

    def has(self, key: str) -> str:
        member = f"schema_of_variant(e) = 'STRING' and try_variant_get(e, '$', 'string') = {key}"
        return (
            f"case when {self.kind} like 'OBJECT%' then map_contains_key({self.at('map<string,variant>')}, {key}) "
            f"when {self.kind} like 'ARRAY%' then exists({self.at('array<variant>')}, e -> {member}) "
            f"when {self.kind} is not null then {self.kind} = 'STRING' and {self.at('string')} = {key} end"
        )


def _element(step: Step) -> str:
    """The argument of try_element_at: a key, or a place counted from 1, from the end where negative."""
    if isinstance(step, str):
        return literal(step)
    number = step.number if isinstance(step, Either) else step
    return str(number + 1 if number >= 0 else number)
