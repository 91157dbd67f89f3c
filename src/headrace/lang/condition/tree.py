"""The syntax tree of a condition: frozen, typed nodes that all printers read.

JSON itself is no type here. A `Field` says what is extracted from a path in the payload (its text, an integer, its JSON type,
whether it has a key), so that each engine extracts a field once and the rest is plain comparison. Values are text, integer
(64 bits), numeric, boolean and timestamptz (microseconds since 1970, UTC); each of them may be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from headrace.lang.nodes import Part, walk, with_parts

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


class Extraction(Enum):
    """What a field extracts at its path: the SQL type of the cast or the SQL function, and the type of the result."""

    TEXT = ("text", Type.TEXT)
    INT = ("int", Type.INTEGER)
    BIGINT = ("bigint", Type.INTEGER)
    NUMERIC = ("numeric", Type.NUMERIC)
    BOOLEAN = ("boolean", Type.BOOLEAN)
    TEXT_INT = ("text::int", Type.INTEGER)
    TEXT_BIGINT = ("text::bigint", Type.INTEGER)
    TEXT_NUMERIC = ("text::numeric", Type.NUMERIC)
    TEXT_BOOLEAN = ("text::boolean", Type.BOOLEAN)
    TEXT_TIMESTAMPTZ = ("text::timestamptz", Type.TIMESTAMPTZ)
    TYPEOF = ("jsonb_typeof", Type.TEXT)
    ARRAY_LENGTH = ("jsonb_array_length", Type.INTEGER)
    HAS_KEY = ("?", Type.BOOLEAN)
    COLUMN = ("timestamptz", Type.TIMESTAMPTZ)

    def __init__(self, sql: str, type: Type) -> None:
        self.sql = sql
        self.type = type

    @property
    def is_from_text(self) -> bool:
        """True for a cast of the text (`->>`), false for one of the JSON value (`->`)."""
        return self.sql.startswith("text::")

    @property
    def cast(self) -> str:
        """The SQL type of the cast."""
        return self.sql.removeprefix("text::")


@dataclass(frozen=True, slots=True)
class KeyOrIndex:
    """A number in a `#>` path: an index into an array, a key of an object, as in PostgreSQL."""

    number: int


Step = str | int | KeyOrIndex


@dataclass(frozen=True, slots=True)
class Field(Part):
    """A value extracted from the event: root (object, headers, type, key, emitted_at), path, and the extraction.

    The root `register` is no part of the event: its path names what a pattern has kept of earlier ones.

    `key` is the key that HAS_KEY looks for. `places` are the characters of the text where the steps begin, that of `key` last; they
    are for messages, and no part of what the field is."""

    root: str
    path: tuple[Step, ...]
    extraction: Extraction
    key: str | None = None
    places: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def type(self) -> Type:
        return self.extraction.type


@dataclass(frozen=True, slots=True)
class Slot(Part):
    """A value by its number among the values that a function is given; patterns read registers so."""

    number: int
    type: Type


@dataclass(frozen=True, slots=True)
class Constant(Part):
    """A literal. A timestamptz is held as microseconds since 1970, UTC. `place` is the character where it begins, for messages."""

    value: Value
    type: Type
    place: int = field(default=0, compare=False, repr=False)


class Predicate(Part):
    """A node whose value is true, false or unknown."""

    __slots__ = ()

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """Three-valued negation."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Junction(Predicate):
    """`and` or `or` over two or more operands, flattened."""

    word: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """`=`, `<>`, `<`, `<=`, `>`, `>=`, or `is distinct from`, which is never unknown."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`operand in (items)`."""

    operand: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between(Predicate):
    """`operand between low and high`, both ends included."""

    operand: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """`like` or `ilike` with a constant pattern; `ilike` folds the letters A to Z only."""

    operand: Node
    pattern: str
    fold: bool


@dataclass(frozen=True, slots=True)
class Match(Predicate):
    """`~` with a constant pattern of the common regex subset."""

    operand: Node
    pattern: str


@dataclass(frozen=True, slots=True)
class Is(Predicate):
    """`is null` (answer None), `is true`, `is false`: never unknown."""

    operand: Node
    answer: bool | None


@dataclass(frozen=True, slots=True)
class Arithmetic(Part):
    """`+ - * / %` over numbers; over two integers the result is an integer and `/` truncates."""

    operator: str
    left: Node
    right: Node

    @property
    def type(self) -> Type:
        are_integers = self.left.type is Type.INTEGER and self.right.type is Type.INTEGER
        return Type.INTEGER if are_integers else Type.NUMERIC


@dataclass(frozen=True, slots=True)
class Negate(Part):
    """Unary minus."""

    operand: Node

    @property
    def type(self) -> Type:
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Cast(Part):
    """A number to `int`, `bigint` (rounds half away from zero) or `numeric`."""

    operand: Node
    to: Extraction

    @property
    def type(self) -> Type:
        return self.to.type


@dataclass(frozen=True, slots=True)
class Call(Part):
    """A function of the allow-list, with checked arguments."""

    name: str
    arguments: tuple[Node, ...]
    type: Type


Node = Field | Slot | Constant | Not | Junction | Compare | In | Between | Like | Match | Is | Arithmetic | Negate | Cast | Call


def fields_of(node: Node) -> tuple[Field, ...]:
    """The distinct fields a node reads, in order of their first mention."""
    return tuple(dict.fromkeys(inner for inner, _ in walk(node) if isinstance(inner, Field)))


def with_slots(node: Node, slots: Mapping[Field, int]) -> Node:
    """The node with each field replaced by the slot that holds its value."""
    if isinstance(node, Field):
        return Slot(slots[node], node.type)
    return with_parts(node, lambda part: with_slots(part, slots))
