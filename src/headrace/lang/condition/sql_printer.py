"""What the printers of PostgreSQL and Spark SQL share: the walk over the tree, and the logic both dialects write alike.

Every node is printed in parentheses or as a call, so that no precedence is left to chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from headrace.lang.condition import tree
from headrace.lang.condition.tree import Field, Node, Type

Bind = Callable[[str | int | Decimal, Type], str]
"""Stores a constant as a parameter and returns the SQL that reads it. A timestamptz is passed as text."""


class SqlPrinter(ABC):
    """Prints a tree. A field in `columns` is read from that column; other fields are extracted in place.

    With `bind`, constants and patterns (not booleans) become parameters, each once, in the order of the text: conditions that
    differ in these only are then printed alike."""

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
        return self.bind(text, Type.TEXT) if self.bind else self.literal(text)

    @abstractmethod
    def literal(self, text: str) -> str: ...
    @abstractmethod
    def field(self, field: Field) -> str: ...
    @abstractmethod
    def constant(self, node: tree.Constant) -> str: ...
    @abstractmethod
    def comparable(self, nodes: Sequence[Node], *, ordered: bool) -> list[str]:
        """The operands of a comparison; `ordered` where it needs more than equality."""

    @abstractmethod
    def number(self, node: Node, type: Type) -> str:
        """The node as a number of the type that arithmetic needs."""

    @abstractmethod
    def like(self, node: tree.Like) -> str: ...
    @abstractmethod
    def match(self, node: tree.Match) -> str: ...
    @abstractmethod
    def arithmetic(self, node: tree.Arithmetic) -> str: ...
    @abstractmethod
    def cast(self, node: tree.Cast) -> str: ...
    @abstractmethod
    def call(self, node: tree.Call) -> str: ...
