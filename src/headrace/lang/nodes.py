"""Trees of frozen dataclasses, as both languages have them: the parts of a node, a walk, and the same node with changed parts.

A part is a field that holds a node, or a tuple of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

NodeT = TypeVar("NodeT")


class Part:
    """The base of all nodes: what makes a field of one a part of another."""

    __slots__ = ()


def parts_of(node: Any) -> tuple[Any, ...]:
    """The direct parts of a node, in the order of its fields, which is that of the text."""
    found: list[Any] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Part):
            found.append(value)
        elif isinstance(value, tuple):
            found += (item for item in value if isinstance(item, Part))
    return tuple(found)


def walk(node: Any) -> Iterator[tuple[Any, int]]:
    """Every node with its depth, parents first, in the order of the text, without recursion."""
    stack = [(node, 1)]
    while stack:
        current, depth = stack.pop()
        yield current, depth
        stack.extend((part, depth + 1) for part in reversed(parts_of(current)))


def with_parts(node: NodeT, change: Callable[[Any], Any]) -> NodeT:
    """The node with each of its parts changed."""
    changed: dict[str, object] = {}
    for field in fields(cast(Any, node)):
        value = getattr(node, field.name)
        if isinstance(value, Part):
            changed[field.name] = change(value)
        elif isinstance(value, tuple) and any(isinstance(item, Part) for item in value):
            changed[field.name] = tuple(map(change, value))
    return cast(NodeT, replace(cast(Any, node), **changed)) if changed else node
