"""Tree → a boolean Spark SQL expression (4.3, ANSI mode), over the columns of an event.

These are type, key, headers and payload (JSON text) and emitted_at (timestamp).

Promises: it never raises, since every cast and sum is its `try_` form, and gives what the PostgreSQL printer gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from headrace.lang.condition.condition import Condition
from headrace.lang.condition.like import ascii_lower, like_regex
from headrace.lang.condition.limits import FACTOR_SCALE, REGEX_SUBJECT_CHARS_MAX
from headrace.lang.condition.postgres_printer import Place
from headrace.lang.condition.regex import Dialect, regex_text
from headrace.lang.condition.spark_fields import LETTERS, NUMERIC, extraction, in_domain, literal, to_number
from headrace.lang.condition.tree import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Compare,
    Constant,
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

# One digit more than a value before the point: rounding a factor may carry.
_FACTOR = f"decimal(30,{FACTOR_SCALE})"
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def to_spark(condition: Condition, columns: Mapping[Field, str] | None = None, place: Place | None = None) -> str:
    """The condition as Spark SQL. A field in `columns` is read from that column, printed as given; others in place.

    With `place`, constants and patterns (not booleans) are handed to it, each once, in the order of the text, and what it
    returns stands in the SQL. A timestamptz comes as text: its microseconds since 1970."""
    return _Printer(columns or {}, place).sql(condition.tree)


def node_to_spark(node: Node, columns: Mapping[Field, str] | None = None) -> str:
    """Any node of a tree as Spark SQL, such as the value that a correlator takes as its key."""
    return _Printer(columns or {}).sql(node)


def field_to_spark(field: Field) -> str:
    """The extraction of a field: text, bigint, decimal(37,18), boolean or timestamp."""
    return extraction(field)


def equality_to_spark(field: Field, columns: Mapping[Field, str] | None = None) -> str:
    """The field in the text form of `Equality.text`."""
    value = (columns or {}).get(field) or extraction(field)
    return value if field.type is Type.TEXT else f"cast({value} as string)"


class _Printer:
    """Prints every node in parentheses or as a call, with both sides of an operator in one type."""

    def __init__(self, columns: Mapping[Field, str], place: Place | None = None) -> None:
        self.columns = columns
        self.place = place

    def sql(self, node: Node) -> str:
        match node:
            case Field():
                return self.columns.get(node) or f"({extraction(node)})"
            case Constant():
                return self.constant(node)
            case Not():
                return f"(not {self.sql(node.operand)})"
            case Junction():
                return "(" + f" {node.word} ".join(self.sql(operand) for operand in node.operands) + ")"
            case Compare():
                left, right = self.alike((node.left, node.right))
                return f"({left} {node.operator} {right})"
            case In():
                operand, *items = self.alike((node.operand, *node.items))
                return f"({operand} in ({', '.join(items)}))"
            case Between():
                operand, low, high = self.alike((node.operand, node.low, node.high))
                return f"({operand} between {low} and {high})"
            case Like() | Match():
                return self.pattern(node)
            case Is():
                answer = "null" if node.answer is None else str(node.answer).lower()
                return f"({self.sql(node.operand)} is {answer})"
            case Arithmetic():
                return self.arithmetic(node)
            case Negate():
                return f"(-{self.number(node.operand, node.type)})"
            case Cast():
                return self.cast(node)
            case Call():
                return self.call(node)

    def constant(self, node: Constant) -> str:
        value = node.value
        if self.place and not isinstance(value, bool):
            if node.type is Type.TIMESTAMPTZ:
                return f"timestamp_micros(cast({self.place(str(value), node.type)} as bigint))"
            return self.place(value, node.type)
        if node.type is Type.TIMESTAMPTZ:
            return f"timestamp_micros({value}L)" if int(value) >= 0 else f"timestamp_micros(({value}L))"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return literal(value)
        if isinstance(value, Decimal):
            return f"cast('{value:f}' as {NUMERIC})"
        return f"({value}L)" if value < 0 else f"{value}L"

    def number(self, node: Node, kind: Type) -> str:
        return f"cast({self.sql(node)} as {NUMERIC if kind is Type.NUMERIC else 'bigint'})"

    def alike(self, nodes: Sequence[Node]) -> list[str]:
        if any(node.type is Type.NUMERIC for node in nodes):
            return [self.number(node, Type.NUMERIC) for node in nodes]
        return [self.sql(node) for node in nodes]

    def pattern(self, node: Like | Match) -> str:
        subject = self.sql(node.operand)
        if isinstance(node, Match):
            regex = self.regex(regex_text(node.pattern, Dialect.JAVA))
            return f"(case when length({subject}) <= {REGEX_SUBJECT_CHARS_MAX} then {subject} rlike {regex} end)"
        pattern = ascii_lower(node.pattern) if node.fold else node.pattern
        subject = _folded(subject, *LETTERS) if node.fold else subject
        return f"({subject} rlike {self.regex(like_regex(pattern, Dialect.JAVA))})"

    def regex(self, text: str) -> str:
        return self.place("(?s)" + text, Type.TEXT) if self.place else literal("(?s)" + text)

    def arithmetic(self, node: Arithmetic) -> str:
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

    def cast(self, node: Cast) -> str:
        if node.to is Take.NUMERIC:
            return self.number(node.operand, Type.NUMERIC)
        return to_number(f"cast({self.sql(node.operand)} as decimal(38,0))", node.to)

    def call(self, node: Call) -> str:
        arguments = self.alike(node.arguments)
        match node.name:
            case "lower":
                return _folded(arguments[0], *LETTERS)
            case "upper":
                return _folded(arguments[0], *reversed(LETTERS))
            case "length":
                return f"cast(length({arguments[0]}) as bigint)"
            case "starts_with":
                return f"startswith({arguments[0]}, {arguments[1]})"
            case "div":
                left, right = (self.number(argument, Type.INTEGER) for argument in node.arguments)
                return f"({left} div nullif({right}, 0L))"
            case "abs":
                return f"abs({self.number(node.arguments[0], node.type)})"
        return f"coalesce({', '.join(arguments)})"


def _folded(sql: str, source: str, target: str) -> str:
    return f"translate({sql}, '{source}', '{target}')"
