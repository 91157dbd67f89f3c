"""A limit on everything a pattern's author can make large: generous for people, small for machines."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.ecl.errors import PatternError
from headrace.lang.ecl.tree import After, Expr, Modes, Pattern, Predicate, Within, children, operands, predicates_of

DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What `parse` accepts at most."""

    text_chars_max: int = 65_536
    # Engines recurse over the tree; 64 levels stay far below Python's own limit.
    depth_max: int = 64
    nodes_max: int = 2_000
    list_length_max: int = 256
    times_max: int = 1_000_000
    # Timers due together are a 63-bit mask in the table.
    timers_max: int = 60
    definitions_max: int = 100
    # A state keeps a few values per label and capture, and the times of a count.
    captures_max: int = 20
    labels_max: int = 20
    count_times_max: int = 1_000
    # A chain has a state for every set of its beginnings.
    chain_length_max: int = 8
    instances_max: int = 1_000
    name_chars_max: int = 255
    # A shorter timer in a `repeat` would fire millions of times in one quiet hour.
    duration_us_min: int = 1_000
    duration_us_max: int = 36_500 * DAY_US


LIMITS = Limits()


def check_size(pattern: Pattern, limits: Limits) -> None:
    """Depth, nodes and timers of a parsed pattern; iterative, so that it can reject what nothing else could walk."""
    nodes = timers = 0
    stack: list[tuple[Expr | Predicate, int]] = [(pattern.expr, 1)]
    stack += [(definition.predicate, 1) for definition in pattern.definitions]
    while stack:
        node, depth = stack.pop()
        nodes += 1
        timers += isinstance(node, After | Within)
        if depth > limits.depth_max:
            raise PatternError(f"nested deeper than allowed: over {depth - 1} levels, allowed are {limits.depth_max}")
        stack.extend((part, depth + 1) for part in _parts(node))
    if nodes > limits.nodes_max:
        raise PatternError(f"the pattern has {nodes} nodes, allowed are {limits.nodes_max}")
    if timers > limits.timers_max:
        raise PatternError(f"the pattern has {timers} timers (after, within), allowed are {limits.timers_max}")


def _parts(node: Expr | Predicate) -> tuple[Expr | Predicate, ...]:
    if isinstance(node, Modes):
        return tuple(part for mode in node.modes for part in (mode.guard, mode.body))
    if isinstance(node, Predicate):
        return operands(node)
    return (*predicates_of(node), *children(node))
