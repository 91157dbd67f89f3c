"""A value of the condition language, such as the key of a correlator: `object ->> 'account'`, `key`, `(object -> 'n')::int`.

Promises: one text per value on every engine. So text, integers and booleans are allowed; numerics and moments have no agreed
text form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from headrace.lang.condition.checker import node_of, type_name
from headrace.lang.condition.errors import Mistake, error_in
from headrace.lang.condition.parser import parse_value
from headrace.lang.condition.postgres_printer import node_to_postgres
from headrace.lang.condition.python_printer import compiled
from headrace.lang.condition.subject import Subject
from headrace.lang.condition.text import text_of
from headrace.lang.condition.tree import Field, Node, Type, fields_of

_ALLOWED = "text, an integer or a boolean, such as object ->> 'account', key, (object -> 'n')::int"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A checked value. Equal trees are equal values, whatever their spelling."""

    tree: Node

    @property
    def text(self) -> str:
        """Canonical text: `parse_scalar(scalar.text) == scalar`."""
        return text_of(self.tree)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The distinct fields the value reads."""
        return fields_of(self.tree)


@lru_cache(maxsize=1024)
def parse_scalar(text: str) -> Scalar:
    """The value a text means. Raises ConditionError with the place and what is allowed."""
    try:
        operand = parse_value(text)
        node = node_of(operand)
        if node.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
            raise Mistake(operand.at, f"the value is {type_name(node)}", _ALLOWED)
        return Scalar(node)
    except Mistake as mistake:
        raise error_in(text, mistake) from None


def scalar_to_postgres(scalar: Scalar) -> str:
    """The value as SQL of type text, over the columns type, key, headers, payload and emitted_at; null where it is unknown."""
    sql = node_to_postgres(scalar.tree)
    return sql if scalar.tree.type is Type.TEXT else f"({sql})::text"


def scalar_to_python(scalar: Scalar) -> Callable[[Subject], str | None]:
    """The value as a function of an event: its text, or None where it is unknown."""
    read = compiled(scalar.tree)

    def text(subject: Subject) -> str | None:
        value = read(subject)
        if value is None:
            return None
        return str(value).lower() if isinstance(value, bool) else str(value)

    return text
