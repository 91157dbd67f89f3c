"""The tree of a condition: frozen nodes that three printers and one compiler read.

Every node knows its type. JSON itself is no type here: a `Field` says what is taken from a place in the payload (its
text, an integer, its kind, whether a key is there), so that each engine extracts a field once and the rest is plain
comparison. Values are text, integer (64 bits), numeric, boolean and timestamptz (microseconds since 1970, UTC); every
one may be unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

Value = str | int | Decimal | bool


class Type(Enum):
    """The type of an expression, by its name in messages."""

    TEXT = "text"
    INTEGER = "integer"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    TIMESTAMPTZ = "timestamptz"

    @property
    def is_number(self) -> bool:
        return self in (Type.INTEGER, Type.NUMERIC)


class Take(Enum):
    """What is taken from the place a path leads to. The value is the SQL type of the cast, or the function."""

    TEXT = "text"
    INT = "int"
    BIGINT = "bigint"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    TEXT_INT = "text::int"
    TEXT_BIGINT = "text::bigint"
    TEXT_NUMERIC = "text::numeric"
    TEXT_BOOLEAN = "text::boolean"
    TEXT_TIMESTAMPTZ = "text::timestamptz"
    TYPEOF = "jsonb_typeof"
    ARRAY_LENGTH = "jsonb_array_length"
    HAS = "?"
    MOMENT = "timestamptz"

    @property
    def type(self) -> Type:
        return _TAKE_TYPES.get(self, Type.TEXT)

    @property
    def from_text(self) -> bool:
        """Whether the value is a cast of the text (`->>`), not of the JSON value (`->`)."""
        return self.value.startswith("text::")


_TAKE_TYPES = {
    Take.INT: Type.INTEGER,
    Take.BIGINT: Type.INTEGER,
    Take.NUMERIC: Type.NUMERIC,
    Take.BOOLEAN: Type.BOOLEAN,
    Take.TEXT_INT: Type.INTEGER,
    Take.TEXT_BIGINT: Type.INTEGER,
    Take.TEXT_NUMERIC: Type.NUMERIC,
    Take.TEXT_BOOLEAN: Type.BOOLEAN,
    Take.TEXT_TIMESTAMPTZ: Type.TIMESTAMPTZ,
    Take.ARRAY_LENGTH: Type.INTEGER,
    Take.HAS: Type.BOOLEAN,
    Take.MOMENT: Type.TIMESTAMPTZ,
}


@dataclass(frozen=True, slots=True)
class Either:
    """A number in a `#>` path: an index where an array stands, a key where an object stands, as in PostgreSQL."""

    number: int


Step = str | int | Either


@dataclass(frozen=True, slots=True)
class Field:
    """A value taken from the event: root (object, headers, type, key, emitted_at), path, and what is taken there."""

    root: str
    path: tuple[Step, ...]
    take: Take
    key: str | None = None

    @property
    def type(self) -> Type:
        return self.take.type


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. A timestamptz is held as microseconds since 1970, UTC."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    operand: Node

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Junction:
    """`and` or `or` over two or more operands, flattened."""

    word: str
    operands: tuple[Node, ...]

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Compare:
    """`=`, `<>`, `<`, `<=`, `>`, `>=`, or `is distinct from`, which is never unknown."""

    operator: str
    left: Node
    right: Node

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """`operand in (items)`."""

    operand: Node
    items: tuple[Node, ...]

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Between:
    """`operand between low and high`, both ends included."""

    operand: Node
    low: Node
    high: Node

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """`like` or `ilike` with a constant pattern; `ilike` folds the letters A to Z only."""

    operand: Node
    pattern: str
    fold: bool

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Match:
    """`~` with a constant pattern of the common regex subset."""

    operand: Node
    pattern: str

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Is:
    """`is null` (answer None), `is true`, `is false`: never unknown."""

    operand: Node
    answer: bool | None

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %` over numbers; over two integers the result is an integer and `/` truncates."""

    operator: str
    left: Node
    right: Node

    @property
    def type(self) -> Type:
        whole = self.left.type is Type.INTEGER and self.right.type is Type.INTEGER
        return Type.INTEGER if whole else Type.NUMERIC


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus."""

    operand: Node

    @property
    def type(self) -> Type:
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Cast:
    """A number to `int`, `bigint` (rounds half away from zero) or `numeric`."""

    operand: Node
    to: Take

    @property
    def type(self) -> Type:
        return self.to.type


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the list, with checked arguments."""

    name: str
    arguments: tuple[Node, ...]
    type: Type


Node = Field | Constant | Not | Junction | Compare | In | Between | Like | Match | Is | Arithmetic | Negate | Cast | Call


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node, in the order they are written."""
    match node:
        case Field() | Constant():
            return ()
        case Junction():
            return node.operands
        case In():
            return (node.operand, *node.items)
        case Between():
            return (node.operand, node.low, node.high)
        case Compare() | Arithmetic():
            return (node.left, node.right)
        case Call():
            return node.arguments
        case Not() | Like() | Match() | Is() | Negate() | Cast():
            return (node.operand,)


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """Every node with its depth, parents first, without recursion."""
    waiting = [(node, 1)]
    while waiting:
        current, depth = waiting.pop()
        yield current, depth
        waiting.extend((child, depth + 1) for child in reversed(children(current)))


def fields_of(node: Node) -> tuple[Field, ...]:
    """The distinct fields a node reads, in order of their first mention."""
    return tuple(dict.fromkeys(found for found, _ in walk(node) if isinstance(found, Field)))
