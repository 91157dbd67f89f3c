"""A value of the condition language, such as the key of a correlator: `object ->> 'account'`, `key`, `(object -> 'n')::int`.

Promises: one text per value on every engine. So text, integers and booleans are allowed; numerics and timestamps have no
agreed text form."""

from __future__ import annotations

from functools import lru_cache

from headrace.lang.condition.checker import type_name, value_node
from headrace.lang.condition.errors import Diagnostic, locate_error
from headrace.lang.condition.parser import parse_operand
from headrace.lang.condition.tree import Node, Type

_ALLOWED = "text, an integer or a boolean, such as object ->> 'account', key, (object -> 'n')::int"


@lru_cache(maxsize=1024)
def parse_scalar(text: str) -> Node:
    """The tree of a value. Raises ConditionError with the place and what is allowed."""
    try:
        operand = parse_operand(text)
        node = value_node(operand)
        if node.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
            raise Diagnostic(operand.at, f"the value is {type_name(node)}", _ALLOWED)
        return node
    except Diagnostic as diagnostic:
        raise locate_error(text, diagnostic) from None
