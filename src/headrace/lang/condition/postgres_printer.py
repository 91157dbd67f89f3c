"""Tree → a boolean SQL expression for PostgreSQL 15 to 18, over columns type, key, headers, payload and emitted_at.

Plain built-in SQL. Promises: it never raises. A cast stands behind a CASE that knows it will succeed, and arithmetic is clamped:
`greatest(least(x, high), low)` and then `nullif` at both ends, which needs x only once. A field's guard and cast
belong to the extraction, so that over extracted columns a rule is a bare comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.like import ascii_lower
from headrace.lang.condition.limits import (
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
from headrace.lang.condition.moments import MOMENT_PATTERN, moment_text
from headrace.lang.condition.regex import Dialect, regex_text
from headrace.lang.condition.tree import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Compare,
    Constant,
    Either,
    Field,
    In,
    Is,
    Junction,
    Like,
    Match,
    Negate,
    Node,
    Not,
    Take,
    Type,
)

INTEGER_TEXT = "^[+-]?[0-9]{1,38}$"
NUMERIC_TEXT = "^[+-]?[0-9]{1,38}([.][0-9]{1,38})?$"
TRUE_TEXTS = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
FALSE_TEXTS = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_ROOTS = {"object": "payload", "headers": "headers"}


Place = Callable[[str | int | Decimal, Type], str]
"""Keeps a constant somewhere and gives the SQL that reads it from there; a timestamptz comes as its text."""


def to_postgres(condition: Condition, columns: Mapping[Field, str] | None = None, place: Place | None = None) -> str:
    """The condition as SQL. A field in `columns` is read from that column, printed as given; others in place.

    With `place`, constants and patterns (not booleans) are handed to it, each once, in the order of the text, and what
    it returns stands in the SQL: conditions that differ in these only are then printed alike."""
    return _Printer(columns or {}, place).sql(condition.tree)


def node_to_postgres(node: Node) -> str:
    """Any node as SQL, with its fields in place."""
    return _Printer({}, None).sql(node)


def field_to_postgres(field: Field) -> str:
    """The extraction of a field, guard and cast included."""
    return _extraction(field)


def equality_to_postgres(field: Field, columns: Mapping[Field, str] | None = None) -> str:
    """The field in the text form of `Equality.text`."""
    value = (columns or {}).get(field) or _extraction(field)
    return value if field.type is Type.TEXT else f"({value})::text"


def literal(text: str) -> str:
    """A text literal that means the same whatever standard_conforming_strings says."""
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def _clamped(sql: str, low: str, high: str) -> str:
    """The number, or null at and beyond low and high. Null itself becomes low, and then null."""
    return f"nullif(nullif(greatest(least({sql}, {high}), {low}), {low}), {high})"


def _to_int(sql: str) -> str:
    return f"{_clamped(f'round({sql})', str(INT_MIN - 1), str(INT_MAX + 1))}::int"


def _to_bigint(sql: str) -> str:
    return f"{_clamped(f'round({sql})', str(-INTEGER_MAX - 1), str(INTEGER_MAX + 1))}::bigint"


def _to_numeric(sql: str) -> str:
    return _clamped(sql, f"-{NUMERIC_BOUND}", f"{NUMERIC_BOUND}")


def _to_scaled(sql: str) -> str:
    return _to_numeric(f"round({sql}, {NUMERIC_SCALE})")


_CASTS: Final[Mapping[str, Callable[[str], str]]] = {"int": _to_int, "bigint": _to_bigint, "numeric": _to_scaled}


def _place(field: Field, *, scalar: bool) -> str:
    if field.root not in _ROOTS:
        return field.root
    sql = _ROOTS[field.root]
    if not field.path:
        return f"({sql} #>> '{{}}')" if scalar else sql
    for index, step in enumerate(field.path):
        arrow = ">>" if scalar and index == len(field.path) - 1 else ">"
        match step:
            case Either():
                sql += f" #{arrow} '{{{step.number}}}'"
            case str():
                sql += f" -{arrow} {literal(step)}"
            case int():
                sql = _element(sql, step) + (" #>> '{}'" if arrow == ">>" else "")
    return f"({sql})"


def _element(sql: str, index: int) -> str:
    """An element of an array. Not `->`: that takes a scalar for an array of one."""
    place = str(index) if index >= 0 else "last" if index == -1 else f"last - {-index - 1}"
    return f"jsonb_path_query_first({sql}, 'strict $[{place}]', '{{}}', true)"


def _extraction(field: Field) -> str:
    take = field.take
    if take is Take.MOMENT or take is Take.TEXT:
        return _place(field, scalar=True)
    if take.from_text:
        return _from_text(_place(field, scalar=True), take.value.removeprefix("text::"))
    json = _place(field, scalar=False)
    if take is Take.TYPEOF:
        return f"jsonb_typeof({json})"
    if take is Take.HAS:
        return f"({json} ? {literal(field.key or '')})"
    if take is Take.ARRAY_LENGTH:
        return f"case when jsonb_typeof({json}) = 'array' then jsonb_array_length({json}) end"
    if take is Take.BOOLEAN:
        return f"case when jsonb_typeof({json}) = 'boolean' then {json}::boolean end"
    return f"case when jsonb_typeof({json}) = 'number' then {_CASTS[take.value](f'{json}::numeric')} end"


def _from_text(text: str, name: str) -> str:
    if name == "boolean":
        folded = f'lower({text} collate "C")'
        trues, falses = (", ".join(literal(t) for t in texts) for texts in (TRUE_TEXTS, FALSE_TEXTS))
        return f"case when {folded} in ({trues}) then true when {folded} in ({falses}) then false end"
    if name == "timestamptz":
        cut = f"regexp_replace({text}, '([.][0-9]{{6}})[0-9]+', {literal(chr(92) + '1')})"
        return f"case when {text} ~ {literal(f'^{MOMENT_PATTERN}$')} then {cut}::timestamptz end"
    pattern = NUMERIC_TEXT if name == "numeric" else INTEGER_TEXT
    return f"case when {text} ~ {literal(pattern)} then {_CASTS[name](f'{text}::numeric')} end"


class _Printer:
    """Prints every node in parentheses or as a call, so that no precedence is left to chance."""

    def __init__(self, columns: Mapping[Field, str], place: Place | None = None) -> None:
        self.columns = columns
        self.place = place

    def sql(self, node: Node) -> str:
        match node:
            case Field():
                return self.field(node)
            case Constant():
                return self.constant(node)
            case Not():
                return f"(not {self.sql(node.operand)})"
            case Junction():
                return "(" + f" {node.word} ".join(self.sql(operand) for operand in node.operands) + ")"
            case Compare():
                return f"({self.ordered(node.left, node.operator)} {node.operator} {self.sql(node.right)})"
            case In():
                return f"({self.sql(node.operand)} in ({', '.join(self.sql(item) for item in node.items)}))"
            case Between():
                return f"({self.ordered(node.operand, '<')} between {self.sql(node.low)} and {self.sql(node.high)})"
            case Like():
                return self.like(node)
            case Match():
                return self.match(node)
            case Is():
                answer = "null" if node.answer is None else str(node.answer).lower()
                return f"({self.sql(node.operand)} is {answer})"
            case Arithmetic():
                return self.arithmetic(node)
            case Negate():
                return f"(-{self.number(node.operand)})"
            case Cast():
                return f"({_CASTS[node.to.value](self.sql(node.operand) + '::numeric')})"
            case Call():
                return self.call(node)

    def field(self, field: Field) -> str:
        column = self.columns.get(field)
        if column is not None:
            return column
        sql = _extraction(field)
        return sql if sql.startswith("(") or " " not in sql else f"({sql})"

    def constant(self, node: Constant) -> str:
        value = node.value
        if isinstance(value, bool):
            return str(value).lower()
        if node.type is Type.TIMESTAMPTZ and isinstance(value, int):
            moment = moment_text(value)
            return self.place(moment, node.type) if self.place else f"timestamptz {literal(moment)}"
        if self.place:
            return self.place(value, node.type)
        if isinstance(value, str):
            return f"{literal(value)}::text"
        text = format(value, "f") if isinstance(value, Decimal) else str(value)
        return f"({text})" if text.startswith("-") else text

    def ordered(self, node: Node, operator: str) -> str:
        """The left side of a comparison; text is ordered by code point, and its equality needs no collation."""
        sql = self.sql(node)
        return f'({sql} collate "C")' if node.type is Type.TEXT and operator[0] in "<>" and operator != "<>" else sql

    def number(self, node: Node) -> str:
        return f"{self.sql(node)}::{'bigint' if node.type is Type.INTEGER else 'numeric'}"

    def like(self, node: Like) -> str:
        if node.fold:
            return f'(lower({self.sql(node.operand)} collate "C") like {self.pattern(ascii_lower(node.pattern))})'
        return f"({self.sql(node.operand)} like {self.pattern(node.pattern)})"

    def match(self, node: Match) -> str:
        subject = self.sql(node.operand)
        pattern = self.pattern(regex_text(node.pattern, Dialect.POSTGRES))
        return f'(case when length({subject}) <= {REGEX_SUBJECT_CHARS_MAX} then ({subject} collate "C") ~ {pattern} end)'

    def pattern(self, text: str) -> str:
        return self.place(text, Type.TEXT) if self.place else literal(text)

    def arithmetic(self, node: Arithmetic) -> str:
        if node.type is Type.INTEGER:
            return self.whole(node)
        left, right = (f"{self.sql(side)}::numeric" for side in (node.left, node.right))
        match node.operator:
            case "*":
                inner = f"round(round({left}, {FACTOR_SCALE}) * round({right}, {FACTOR_SCALE}), {PRODUCT_SCALE})"
            case "/":
                inner = f"round(round({left}, {QUOTIENT_SCALE}) / nullif({right}, 0), {PRODUCT_SCALE})"
            case "%":
                return f"mod({left}, nullif({right}, 0))"
            case _:
                inner = f"{left} {node.operator} {right}"
        return f"({_to_numeric(inner)})"

    def whole(self, node: Arithmetic) -> str:
        left, right = self.number(node.left), self.number(node.right)
        if node.operator == "/":
            return f"({left} / nullif({right}, 0))"
        if node.operator == "%":
            return f"mod({left}, nullif({right}, 0))"
        return f"({_to_bigint(f'{left}::numeric {node.operator} {right}::numeric')})"

    def call(self, node: Call) -> str:
        first, *others = node.arguments
        match node.name:
            case "lower" | "upper":
                return f'{node.name}({self.sql(first)} collate "C")'
            case "abs":
                return f"abs({self.number(first)})"
            case "div":
                return f"({self.number(first)} / nullif({self.number(others[0])}, 0))"
        return f"{node.name}({', '.join(self.sql(argument) for argument in node.arguments)})"
