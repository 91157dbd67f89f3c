"""Tree → a boolean SQL expression for PostgreSQL 15 to 18, over columns type, key, headers, payload and emitted_at.

Plain built-in SQL. Promises: it never raises. A cast is guarded by a CASE that knows it will succeed, and arithmetic is clamped:
`greatest(least(x, high), low)` and then `nullif` at both ends, which needs x only once. The guard and cast of a field belong
to its extraction, so that over extracted columns a rule is a bare comparison.

Every node is printed in parentheses or as a call, so that no precedence is left to chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from headrace.lang.condition import tree
from headrace.lang.condition.condition import Condition
from headrace.lang.condition.errors import (
    FACTOR_SCALE,
    INT_MAX,
    INT_MIN,
    INTEGER_MAX,
    NUMERIC_BOUND,
    NUMERIC_SCALE,
    PRODUCT_SCALE,
    QUOTIENT_SCALE,
    REGEX_SUBJECT_CHARS_MAX,
)
from headrace.lang.condition.subject import MOMENT_PATTERN, moment_text
from headrace.lang.condition.text_patterns import RegexDialect, ascii_lower, regex_text
from headrace.lang.condition.tree import Extraction, Field, KeyOrIndex, Node, Type

Bind = Callable[[str | int | Decimal, Type], str]
"""Stores a constant as a parameter and returns the SQL that reads it. A timestamptz is passed as text."""


INTEGER_TEXT = "^[+-]?[0-9]{1,38}$"
NUMERIC_TEXT = "^[+-]?[0-9]{1,38}([.][0-9]{1,38})?$"
TRUE_TEXTS = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
FALSE_TEXTS = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_ROOTS = {"object": "payload", "headers": "headers"}


def to_postgres(condition: Condition, columns: Mapping[Field, str] | None = None, bind: Bind | None = None) -> str:
    """The condition as SQL; a field in `columns` is read from that column.

    With `bind`, constants and patterns (not booleans) become parameters, each once, in the order of the text: conditions that
    differ in these only are then printed alike. A timestamptz is bound as RFC 3339."""
    return _PostgresPrinter(columns, bind).print(condition.tree)


def text_to_postgres(node: Node, columns: Mapping[Field, str] | None = None) -> str:
    """A node as SQL of type text, such as the key of a correlator or of an access predicate; null where it is unknown."""
    value = _PostgresPrinter(columns).print(node)
    return value if node.type is Type.TEXT else f"({value})::text"


def postgres_literal(text: str) -> str:
    """A text literal that means the same whatever standard_conforming_strings says."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def _clamp(sql: str, low: str, high: str) -> str:
    """The number, or null at and beyond low and high. Null itself becomes low, and then null."""
    return f"nullif(nullif(greatest(least({sql}, {high}), {low}), {low}), {high})"


def _to_int(sql: str) -> str:
    return f"{_clamp(f'round({sql})', str(INT_MIN - 1), str(INT_MAX + 1))}::int"


def _to_bigint(sql: str) -> str:
    return f"{_clamp(f'round({sql})', str(-INTEGER_MAX - 1), str(INTEGER_MAX + 1))}::bigint"


def _to_numeric(sql: str) -> str:
    return _clamp(sql, f"-{NUMERIC_BOUND}", f"{NUMERIC_BOUND}")


def _to_scaled(sql: str) -> str:
    return _to_numeric(f"round({sql}, {NUMERIC_SCALE})")


_CASTS: Final[Mapping[str, Callable[[str], str]]] = {"int": _to_int, "bigint": _to_bigint, "numeric": _to_scaled}


def field_to_postgres(field: Field) -> str:
    """The extraction of a field, guard and cast included."""
    extraction = field.extraction
    if extraction in (Extraction.COLUMN, Extraction.TEXT):
        return _path(field, as_text=True)
    if extraction.is_from_text:
        return _cast_text(_path(field, as_text=True), extraction.cast)
    json = _path(field, as_text=False)
    if extraction is Extraction.TYPEOF:
        return f"jsonb_typeof({json})"
    if extraction is Extraction.HAS_KEY:
        return f"({json} ? {postgres_literal(field.key or '')})"
    if extraction is Extraction.ARRAY_LENGTH:
        return f"case when jsonb_typeof({json}) = 'array' then jsonb_array_length({json}) end"
    if extraction is Extraction.BOOLEAN:
        return f"case when jsonb_typeof({json}) = 'boolean' then {json}::boolean end"
    return f"case when jsonb_typeof({json}) = 'number' then {_CASTS[extraction.cast](f'{json}::numeric')} end"


def _path(field: Field, *, as_text: bool) -> str:
    if field.root not in _ROOTS:
        return field.root
    sql = _ROOTS[field.root]
    if not field.path:
        return f"({sql} #>> '{{}}')" if as_text else sql
    for index, step in enumerate(field.path):
        arrow = ">>" if as_text and index == len(field.path) - 1 else ">"
        match step:
            case KeyOrIndex():
                sql += f" #{arrow} '{{{step.number}}}'"
            case str():
                sql += f" -{arrow} {postgres_literal(step)}"
            case int():
                sql = _element(sql, step) + (" #>> '{}'" if arrow == ">>" else "")
    return f"({sql})"


def _element(sql: str, index: int) -> str:
    """An element of an array. Not `->`: that takes a scalar for an array of one."""
    position = str(index) if index >= 0 else "last" if index == -1 else f"last - {-index - 1}"
    return f"jsonb_path_query_first({sql}, 'strict $[{position}]', '{{}}', true)"


def _cast_text(text: str, name: str) -> str:
    if name == "boolean":
        folded = f'lower({text} collate "C")'
        trues, falses = (", ".join(postgres_literal(t) for t in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
        return f"case when {folded} in ({trues}) then true when {folded} in ({falses}) then false end"
    if name == "timestamptz":
        cut = f"regexp_replace({text}, '([.][0-9]{{6}})[0-9]+', {postgres_literal(chr(92) + '1')})"
        return f"case when {text} ~ {postgres_literal(f'^{MOMENT_PATTERN}$')} then {cut}::timestamptz end"
    pattern = NUMERIC_TEXT if name == "numeric" else INTEGER_TEXT
    return f"case when {text} ~ {postgres_literal(pattern)} then {_CASTS[name](f'{text}::numeric')} end"


class _PostgresPrinter:
    """Prints a tree. A field in `columns` is read from that column; other fields are extracted in place."""

    def __init__(self, columns: Mapping[Field, str] | None = None, bind: Bind | None = None) -> None:
        self.columns = columns or {}
        self.bind = bind

    def print(self, node: Node) -> str:
        match node:
            case tree.Field():
                return self.columns.get(node) or self.field(node)
            case tree.Slot():
                raise AssertionError("slots are made for Python only")
            case tree.Constant(value=bool() as value):
                return str(value).lower()
            case tree.Constant():
                return self.constant(node)
            case tree.Not():
                return f"(not {self.print(node.operand)})"
            case tree.Junction():
                return "(" + f" {node.word} ".join(self.print(operand) for operand in node.operands) + ")"
            case tree.Compare():
                left, right = self.comparable((node.left, node.right), ordered=node.operator in ("<", "<=", ">", ">="))
                return f"({left} {node.operator} {right})"
            case tree.In():
                operand, *items = self.comparable((node.operand, *node.items), ordered=False)
                return f"({operand} in ({', '.join(items)}))"
            case tree.Between():
                operand, low, high = self.comparable((node.operand, node.low, node.high), ordered=True)
                return f"({operand} between {low} and {high})"
            case tree.Is():
                answer = "null" if node.answer is None else str(node.answer).lower()
                return f"({self.print(node.operand)} is {answer})"
            case tree.Like():
                return self.like(node)
            case tree.Match():
                return self.match(node)
            case tree.Arithmetic():
                return self.arithmetic(node)
            case tree.Negate():
                return f"(-{self.number(node.operand, node.type)})"
            case tree.Cast():
                return self.cast(node)
            case tree.Call():
                return self.call(node)

    def pattern(self, text: str) -> str:
        return self.bind(text, Type.TEXT) if self.bind else postgres_literal(text)

    def field(self, field: Field) -> str:
        sql = field_to_postgres(field)
        return sql if sql.startswith("(") or " " not in sql else f"({sql})"

    def constant(self, node: tree.Constant) -> str:
        value = node.value
        if node.type is Type.TIMESTAMPTZ and isinstance(value, int):
            moment = moment_text(value)
            return self.bind(moment, node.type) if self.bind else f"timestamptz {postgres_literal(moment)}"
        if self.bind:
            return self.bind(value, node.type)
        if isinstance(value, str):
            return f"{postgres_literal(value)}::text"
        text = format(value, "f") if isinstance(value, Decimal) else str(value)
        return f"({text})" if text.startswith("-") else text

    def comparable(self, nodes: Sequence[Node], *, ordered: bool) -> list[str]:
        """Text is ordered by code point; its equality needs no collation."""
        first, *others = (self.print(node) for node in nodes)
        return [f'({first} collate "C")' if ordered and nodes[0].type is Type.TEXT else first, *others]

    def number(self, node: Node, type: Type) -> str:
        return f"{self.print(node)}::{'bigint' if type is Type.INTEGER else 'numeric'}"

    def like(self, node: tree.Like) -> str:
        if node.fold:
            return f'(lower({self.print(node.operand)} collate "C") like {self.pattern(ascii_lower(node.pattern))})'
        return f"({self.print(node.operand)} like {self.pattern(node.pattern)})"

    def match(self, node: tree.Match) -> str:
        subject = self.print(node.operand)
        pattern = self.pattern(regex_text(node.pattern, RegexDialect.POSTGRES))
        bounded = f"length({subject}) <= {REGEX_SUBJECT_CHARS_MAX}"
        return f'(case when {bounded} then ({subject} collate "C") ~ {pattern} end)'

    def arithmetic(self, node: tree.Arithmetic) -> str:
        left, right = self.number(node.left, node.type), self.number(node.right, node.type)
        if node.operator == "%":
            return f"mod({left}, nullif({right}, 0))"
        if node.type is Type.INTEGER:
            if node.operator == "/":
                return f"({left} / nullif({right}, 0))"
            return f"({_to_bigint(f'{left}::numeric {node.operator} {right}::numeric')})"
        match node.operator:
            case "*":
                factors = " * ".join(f"round({factor}, {FACTOR_SCALE})" for factor in (left, right))
                return f"({_to_numeric(f'round({factors}, {PRODUCT_SCALE})')})"
            case "/":
                quotient = f"round({left}, {QUOTIENT_SCALE}) / nullif({right}, 0)"
                return f"({_to_numeric(f'round({quotient}, {PRODUCT_SCALE})')})"
        return f"({_to_numeric(f'{left} {node.operator} {right}')})"

    def cast(self, node: tree.Cast) -> str:
        return f"({_CASTS[node.to.cast](self.print(node.operand) + '::numeric')})"

    def call(self, node: tree.Call) -> str:
        first, *others = node.arguments
        match node.name:
            case "lower" | "upper":
                return f'{node.name}({self.print(first)} collate "C")'
            case "abs":
                return f"abs({self.number(first, node.type)})"
            case "div":
                return f"({self.number(first, Type.INTEGER)} / nullif({self.number(others[0], Type.INTEGER)}, 0))"
        return f"{node.name}({', '.join(self.print(argument) for argument in node.arguments)})"
