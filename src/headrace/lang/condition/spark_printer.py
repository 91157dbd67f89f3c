"""Tree → a boolean Spark SQL expression (4.3, ANSI mode), over the columns of an event.

These are type, key, headers and payload (JSON text) and emitted_at (timestamp).

Promises: it never raises, since every cast and sum is its `try_` form, and gives what the PostgreSQL printer gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from headrace.lang.condition import tree
from headrace.lang.condition.condition import Condition
from headrace.lang.condition.like import ascii_lower, like_regex
from headrace.lang.condition.limits import FACTOR_SCALE, REGEX_SUBJECT_CHARS_MAX
from headrace.lang.condition.regex import RegexDialect, regex_text
from headrace.lang.condition.spark_fields import LETTERS, NUMERIC, field_to_spark, in_domain, literal, to_number
from headrace.lang.condition.sql_printer import Bind, SqlPrinter
from headrace.lang.condition.tree import Extraction, Field, Node, Type

# One digit more than a value before the point: rounding a factor may carry.
_FACTOR = f"decimal(30,{FACTOR_SCALE})"
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def to_spark(condition: Condition, columns: Mapping[Field, str] | None = None, bind: Bind | None = None) -> str:
    """The condition as Spark SQL; see `SqlPrinter` for columns and bind.

    A timestamptz is bound as the text of its microseconds since 1970."""
    return _SparkPrinter(columns, bind).print(condition.tree)


def text_to_spark(node: Node, columns: Mapping[Field, str] | None = None) -> str:
    """A node as Spark SQL of type string, such as the key of a correlator or of an access predicate."""
    value = _SparkPrinter(columns).print(node)
    return value if node.type is Type.TEXT else f"cast({value} as string)"


class _SparkPrinter(SqlPrinter):
    """Both sides of an operator are printed in one type."""

    def literal(self, text: str) -> str:
        return literal(text)

    def field(self, field: Field) -> str:
        return f"({field_to_spark(field)})"

    def constant(self, node: tree.Constant) -> str:
        value = node.value
        if self.bind:
            if node.type is Type.TIMESTAMPTZ:
                return f"timestamp_micros(cast({self.bind(str(value), node.type)} as bigint))"
            return self.bind(value, node.type)
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
        return f"({subject} rlike {self.pattern('(?s)' + like_regex(pattern, RegexDialect.JAVA))})"

    def match(self, node: tree.Match) -> str:
        subject = self.print(node.operand)
        pattern = self.pattern("(?s)" + regex_text(node.pattern, RegexDialect.JAVA))
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
