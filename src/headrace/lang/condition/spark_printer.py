"""Tree → a boolean Spark SQL expression (4.3, ANSI mode), over the columns of an event.

These are type, key, headers and payload (JSON text as PostgreSQL prints jsonb) and emitted_at (timestamp).

Promises: it never raises, since every cast and sum is its `try_` form, and gives what the PostgreSQL printer gives.

Fields: VARIANT gives JSON types, text, booleans and numbers of up to 38 digits, and all fields of a row share one parse. What it
loses comes from a second, slower read that runs only where needed: numbers are first marked in the text as strings
that begin with U+0000, which jsonb cannot hold, so that their digits survive every parser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import product

from headrace.lang.condition import tree
from headrace.lang.condition.condition import Condition
from headrace.lang.condition.errors import FACTOR_SCALE, NUMERIC_SCALE, REGEX_SUBJECT_CHARS_MAX
from headrace.lang.condition.postgres_printer import FALSE_TEXTS, INTEGER_TEXT, NUMERIC_TEXT, TRUE_TEXTS, SqlPrinter
from headrace.lang.condition.subject import MOMENT_PATTERN
from headrace.lang.condition.text_patterns import RegexDialect, ascii_lower, like_regex, regex_text
from headrace.lang.condition.tree import Extraction, Field, KeyOrIndex, Node, Step, Type

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


def field_to_spark(field: Field) -> str:
    """The field as a Spark SQL expression: text, bigint, decimal(37,18), boolean or timestamp."""
    if field.root not in _ROOTS:
        return field.root if not field.extraction.is_from_text else _cast_text(field.root, field.extraction)
    # A number in a #> path is a key or an index: at most one of the two finds a value.
    choices = [(str(step.number), step.number) if isinstance(step, KeyOrIndex) else (step,) for step in field.path]
    extractions = [_PathReader(_ROOTS[field.root], path).extract(field) for path in product(*choices)]
    return extractions[0] if len(extractions) == 1 else f"coalesce({', '.join(extractions)})"


def _cast_text(text: str, extraction: Extraction) -> str:
    """A cast of text, guarded by the pattern of what it accepts."""
    if extraction is Extraction.TEXT_BOOLEAN:
        folded = f"translate({text}, '{LETTERS[0]}', '{LETTERS[1]}')"
        trues, falses = (", ".join(literal(t) for t in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
        return f"case when {folded} in ({trues}) then true when {folded} in ({falses}) then false end"
    if extraction is Extraction.TEXT_TIMESTAMPTZ:
        return f"case when {text} rlike {_anchored(MOMENT_PATTERN)} then try_cast({text} as timestamp) end"
    pattern = NUMERIC_TEXT if extraction is Extraction.TEXT_NUMERIC else INTEGER_TEXT
    number = to_number(f"try_cast({text} as {_decimal(extraction)})", extraction)
    return f"case when {text} rlike {_anchored(pattern.strip('^$'))} then {number} end"


def _anchored(pattern: str) -> str:
    return literal(rf"^{pattern}\z")


def _decimal(extraction: Extraction) -> str:
    return NUMERIC if extraction in (Extraction.NUMERIC, Extraction.TEXT_NUMERIC) else "decimal(38,0)"


def to_number(sql: str, extraction: Extraction) -> str:
    """A decimal in the domain of the extraction; integers are bigint."""
    if extraction in (Extraction.NUMERIC, Extraction.TEXT_NUMERIC):
        return sql
    if extraction in (Extraction.INT, Extraction.TEXT_INT):
        return f"cast(try_cast({sql} as int) as bigint)"
    return in_domain(f"try_cast({sql} as bigint)")


def in_domain(sql: str) -> str:
    """A bigint without -2^63."""
    return f"nullif({sql}, {_BIGINT_MIN})"


class _PathReader:
    """Reads one path of one JSON column."""

    def __init__(self, column: str, path: tuple[Step, ...]) -> None:
        self.column = column
        self.path = path
        self.json_type = f"schema_of_variant({self.at('variant')})"

    def extract(self, field: Field) -> str:
        match field.extraction:
            case Extraction.TEXT:
                return self.text()
            case Extraction.BOOLEAN:
                return f"case when {self.json_type} = 'BOOLEAN' then {self.at('boolean')} end"
            case Extraction.TYPEOF:
                return self.typeof()
            case Extraction.ARRAY_LENGTH:
                return f"case when {self.json_type} like 'ARRAY%' then cast(size({self.at('array<variant>')}) as bigint) end"
            case Extraction.HAS_KEY:
                return self.has(literal(field.key or ""))
            case Extraction.INT | Extraction.BIGINT | Extraction.NUMERIC:
                return self.number(field.extraction)
        return _cast_text(self.scalar_text(), field.extraction)

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
            f"case when {self.json_type} in ('STRING', 'BIGINT', 'BOOLEAN') then {self.at('string')} "
            f"when {self.json_type} = 'DOUBLE' or {self.json_type} like 'DECIMAL%' then {self.exact_number()} end"
        )

    def text(self) -> str:
        container = self.column if not self.path else self.container_text()
        inner = self.scalar_text().removesuffix(" end")
        return f"{inner} when {self.json_type} like 'OBJECT%' or {self.json_type} like 'ARRAY%' then {container} end"

    def container_text(self) -> str:
        """An object or array as jsonb prints it: cut out as it stands, then spaced, unmarked, escapes in lower case."""
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

    def number(self, extraction: Extraction) -> str:
        decimal = _decimal(extraction)
        near = to_number(self.at(decimal), extraction)
        exact = to_number(f"try_cast({self.exact_number()} as {decimal})", extraction)
        short = f"{self.json_type} = 'BIGINT' or {self.json_type} like 'DECIMAL%'"
        return f"case when {short} then {near} when {self.json_type} = 'DOUBLE' then {exact} end"

    def typeof(self) -> str:
        json_type = self.json_type
        return (
            f"case when {json_type} = 'STRING' then 'string' "
            f"when {json_type} in ('BIGINT', 'DOUBLE') or {json_type} like 'DECIMAL%' then 'number' "
            f"when {json_type} = 'BOOLEAN' then 'boolean' when {json_type} = 'VOID' then 'null' "
            f"when {json_type} like 'ARRAY%' then 'array' when {json_type} like 'OBJECT%' then 'object' end"
        )

    def has(self, key: str) -> str:
        member = f"schema_of_variant(e) = 'STRING' and try_variant_get(e, '$', 'string') = {key}"
        return (
            f"case when {self.json_type} like 'OBJECT%' then map_contains_key({self.at('map<string,variant>')}, {key}) "
            f"when {self.json_type} like 'ARRAY%' then exists({self.at('array<variant>')}, e -> {member}) "
            f"when {self.json_type} is not null then {self.json_type} = 'STRING' and {self.at('string')} = {key} end"
        )


def _element(step: Step) -> str:
    """The argument of try_element_at: a key, or an index counted from 1, from the end where negative."""
    if isinstance(step, str):
        return literal(step)
    number = step.number if isinstance(step, KeyOrIndex) else step
    return str(number + 1 if number >= 0 else number)


# One digit more than a value before the point: rounding a factor may carry.
_FACTOR = f"decimal(30,{FACTOR_SCALE})"
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def to_spark(condition: Condition, columns: Mapping[Field, str] | None = None) -> str:
    """The condition as Spark SQL; see `SqlPrinter` for columns."""
    return _SparkPrinter(columns).print(condition.tree)


class _SparkPrinter(SqlPrinter):
    """Both sides of an operator are printed in one type."""

    def field(self, field: Field) -> str:
        return f"({field_to_spark(field)})"

    def constant(self, node: tree.Constant) -> str:
        value = node.value
        if isinstance(value, str):
            return literal(value)
        if isinstance(value, Decimal):
            return f"cast('{value:f}' as {NUMERIC})"
        number = f"({value}L)" if value < 0 else f"{value}L"
        return f"timestamp_micros({number})" if node.type is Type.TIMESTAMPTZ else number

    def comparable(self, nodes: Sequence[Node], *, ordered: bool) -> list[str]:
        if any(node.type is Type.NUMERIC for node in nodes):
            return [self.number(node, Type.NUMERIC) for node in nodes]
        return [self.print(node) for node in nodes]

    def number(self, node: Node, type: Type) -> str:
        return f"cast({self.print(node)} as {NUMERIC if type is Type.NUMERIC else 'bigint'})"

    def like(self, node: tree.Like) -> str:
        subject = self.print(node.operand)
        pattern = ascii_lower(node.pattern) if node.fold else node.pattern
        subject = _translate(subject, *LETTERS) if node.fold else subject
        return f"({subject} rlike {literal('(?s)' + like_regex(pattern, RegexDialect.JAVA))})"

    def match(self, node: tree.Match) -> str:
        subject = self.print(node.operand)
        pattern = literal("(?s)" + regex_text(node.pattern, RegexDialect.JAVA))
        return f"(case when length({subject}) <= {REGEX_SUBJECT_CHARS_MAX} then {subject} rlike {pattern} end)"

    def arithmetic(self, node: tree.Arithmetic) -> str:
        left, right = self.number(node.left, node.type), self.number(node.right, node.type)
        if node.type is Type.INTEGER and node.operator == "/":
            return f"({left} div nullif({right}, 0L))"
        if node.operator == "%":
            return f"try_mod({left}, {right})"
        if node.type is Type.INTEGER:
            return in_domain(f"{_TRY[node.operator]}({left}, {right})")
        if node.operator == "*":
            left, right = f"cast({left} as {_FACTOR})", f"cast({right} as {_FACTOR})"
        return f"try_cast({_TRY[node.operator]}({left}, {right}) as {NUMERIC})"

    def cast(self, node: tree.Cast) -> str:
        if node.to is Extraction.NUMERIC:
            return self.number(node.operand, Type.NUMERIC)
        return to_number(f"cast({self.print(node.operand)} as decimal(38,0))", node.to)

    def call(self, node: tree.Call) -> str:
        if node.name == "abs":
            return f"abs({self.number(node.arguments[0], node.type)})"
        if node.name == "div":
            left, right = (self.number(argument, Type.INTEGER) for argument in node.arguments)
            return f"({left} div nullif({right}, 0L))"
        first, *others = self.comparable(node.arguments, ordered=False)
        match node.name:
            case "lower":
                return _translate(first, *LETTERS)
            case "upper":
                return _translate(first, *reversed(LETTERS))
            case "length":
                return f"cast(length({first}) as bigint)"
            case "starts_with":
                return f"startswith({first}, {others[0]})"
        return f"coalesce({', '.join((first, *others))})"


def _translate(sql: str, source: str, target: str) -> str:
    return f"translate({sql}, '{source}', '{target}')"
